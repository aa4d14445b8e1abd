// The parts of the float64 reference: a function an op family, and what they
// share.
#pragma once

#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "reference/reference.hpp"

namespace gradnn::detail {

using reference_tensors = std::vector<reference_tensor>;

/// sum += addend, and low += what that rounds off: sum + low is as exact as if
/// sums had twice the digits, however many are added.
inline void add_compensated(double &sum, double &low, double addend) {
    const double total = sum + addend;
    const double taken = total - sum;
    const double rest = (sum - (total - taken)) + (addend - taken);
    // An infinity has no rest.
    if (std::isfinite(total)) low += rest;
    sum = total;
}

/// A string attribute in lower case; `fallback` where absent.
std::string reference_word(
        const op &the_op, op::attr name, const char *fallback);
/// A list attribute; empty where absent.
std::vector<int64_t> reference_list(const op &the_op, op::attr name);

/// A tensor of zeros with the dims of an output; empty where it is absent.
reference_tensor reference_output(const op &the_op, size_t index);

/// The values of a data tensor as N, C, D, H, W, absent axes of size 1 before
/// the others, and back.
struct planes {
    std::array<int64_t, 5> dims {1, 1, 1, 1, 1};
    std::vector<double> values;
};
planes to_planes(const reference_tensor &tensor, bool channels_last);
void from_planes(
        const planes &from, bool channels_last, reference_tensor &tensor);

/// With the magnitudes of its weights: what bounds its sums.
reference_tensors reference_interpolation(const op &the_op,
        const reference_tensors &inputs, bool magnitudes_of_weights = false);
reference_tensors reference_convolution(
        const op &the_op, const reference_tensors &inputs);
/// diff_bias as a sum over all but the channels of diff_dst.
void reference_bias(const planes &diff_dst, reference_tensor &diff_bias);

} // namespace gradnn::detail
