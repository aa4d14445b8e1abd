// Which of oneDNN's implementations, in which layouts, a convolution runs on.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <gradnn/engine.hpp>

#include "cpu/convolution/onednn/geometry.hpp"
#include "cpu/convolution/onednn/implementation.hpp"

namespace gradnn::cpu::onednn {

/// What a choice depends on besides the problem.
struct choice_options {
    int64_t images = 1; ///< N of the blocks in which the batch is worked off
    bool partial_sums = false; ///< diff_weights in f32 whatever the types
    fpmath_mode fpmath = fpmath_mode::strict;
    /// What convolution.planes is estimated to take for the whole batch.
    double planes_nanoseconds = std::numeric_limits<double>::infinity();
};

/// How many products may add up in one pass of an implementation for the
/// gradient of the weights, so that the promises of doc/numerics.md hold: partial
/// sums of more are added up afterwards.
int64_t exact_products(const implementation &chosen);

/// What oneDNN offers: its implementation for each of the types and layouts worth
/// trying, the slow reference code and the faulty ones included.
std::vector<implementation> list_implementations(
        const geometry &problem, const choice_options &options);

/// The cheapest by the cost rule among oneDNN's implementations, each in the
/// layouts worth trying; empty where there is none or a rule is against it. Then
/// `refusal` is what is taken, to follow "takes".
implementation choose_implementation(const geometry &problem,
        const choice_options &options, std::string &refusal);

/// The same implementation in the same layouts for another number of images;
/// empty where oneDNN has no such thing.
implementation with_images(const geometry &problem,
        const choice_options &options, const implementation &other);

} // namespace gradnn::cpu::onednn
