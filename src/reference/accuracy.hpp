// What gradnn promises of every output of every op (doc/numerics.md, Accuracy),
// for the driver and the tests that hold it to that.
#pragma once

#include <span>
#include <vector>

#include <gradnn/engine.hpp>

#include "reference/reference.hpp"

namespace gradnn::detail {

/// c of the promise: an element is off by at most half an ulp of its type and
/// c * u * S. No kernel adds up more terms than that one after the other
/// without more bits.
constexpr double longest_chain = 16384;

/// u: the unit roundoff of the type in which sums for an output are made.
double unit_roundoff(logical_tensor::data_type output);

/// What ||output - exact|| may be of ||exact|| where terms are of random sign.
double norm_tolerance(logical_tensor::data_type output);

/// What an output of an op is held to under a fpmath_mode.
struct promise {
    logical_tensor::data_type type = logical_tensor::data_type::undef;
    /// A kernel may multiply in a type of fewer digits, or by a transform.
    bool relaxed = false;
    /// By element: off by at most half an ulp and so many u * S, ...
    double chain = longest_chain;
    /// ... where S has this share of the output's largest S added to it, since
    /// transforms mix elements.
    double share = 0;
    /// What ||output - exact|| may be of ||exact||.
    double norm = 0;
};

/// Only products of convolutions with outputs in f32 are ever relaxed. Ops
/// element by element have no sums: half an ulp is all that they may be off.
promise promise_of(const op &the_op, size_t port, fpmath_mode mode);

/// The same of sums of products, such as a convolution's, in an output type.
promise promise_of_products(logical_tensor::data_type output, fpmath_mode mode);

/// Every S with that share of the largest finite one, for largest_sum_error.
std::vector<double> held_to(
        const promise &of, std::span<const double> magnitudes);

/// S: for every element of every output the sum of the magnitudes of its terms.
std::vector<reference_tensor> sum_magnitudes(
        const op &the_op, std::vector<reference_tensor> inputs);

/// What each element may be off by, S being `magnitudes`.
std::vector<double> allowed_errors(const promise &of,
        std::span<const double> exact, std::span<const double> magnitudes);

/// Makes c and S allow each element `errors` more, which come from inputs that are
/// off themselves.
void allow_more(promise &of, std::vector<double> &magnitudes,
        std::span<const double> errors);

/// R: for every element of every output the root of the sum of the squares of
/// its terms, which is what their sum comes to where their signs are random.
/// (An upper bound for interpolation, whose weights are hardly more than 1.)
std::vector<reference_tensor> sum_deviations(
        const op &the_op, std::vector<reference_tensor> inputs);

/// What the norm may be more where elements of every factor are the same (constant
/// rows, strides of 0 and others that let elements share memory): where m terms are,
/// what one addition rounds off all of them do, and the norm of the sums' error
/// is the root of m times as large.
double norm_of_equal_terms(const op &the_op, size_t port,
        std::span<const reference_tensor> inputs);

/// The exact values for a norm: where these or the given ones lie outside the
/// normal numbers of the type (f16 overflows, and has few digits below 2^-14) the
/// given ones stand, since only the promise by element holds there.
std::vector<double> exact_in_normal_range(logical_tensor::data_type type,
        std::span<const double> given, std::span<const double> exact);

/// What a convolution's output is held to: the exact values, but with an Inf or
/// NaN among its inputs a NaN is right everywhere, since kernels of libraries
/// multiply the zeros of the padding (doc/numerics.md, Inf and NaN).
std::vector<double> exact_beside_padding(const op &the_op, size_t port,
        std::span<const reference_tensor> inputs, std::span<const double> given,
        std::span<const double> exact);

/// The error of an element beyond half an ulp, in units of u * magnitude. An
/// infinity where one of the two is not finite and the other differs, but 0 for
/// sums of which a part may be beyond the range of their type. Magnitudes below
/// 2^-100 (f64: 2^-960) count as that: products may underflow.
double sum_error(logical_tensor::data_type type, double given, double exact,
        double magnitude);

/// The largest of all elements.
double largest_sum_error(logical_tensor::data_type type,
        std::span<const double> given, std::span<const double> exact,
        std::span<const double> magnitudes);

} // namespace gradnn::detail
