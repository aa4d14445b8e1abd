// Convolutions in f64 on the GPU, one thread for an output element, and what a
// result is off by. Everything runs on the legacy default stream.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "kernel/problem.hpp"

namespace gradnn::sweep {

/// Plain arrays, which device code can read. Dense tensors N, C, D, H, W and O, I/groups, D, H, W, in any order of axes.
struct reference_tensor_shape {
    int32_t dims[5] {};
    int32_t strides[5] {}; ///< in elements
};

struct reference_shape {
    detail::convolution_direction direction
            = detail::convolution_direction::forward;
    reference_tensor_shape tensors[3]; ///< src, weights, dst
    int32_t strides[3] {1, 1, 1};
    int32_t dilations[3] {1, 1, 1};
    int32_t pads_begin[3] {};
};

/// The distribution of the inputs: uniform in [-1, 1], or in [0, 1].
enum class sign { any, positive };

/// Fills `data` (of type `stored`) with random values that `rounded` can hold,
/// and `wide` with the same in f64.
void fill_random(detail::data_type stored, detail::data_type rounded,
        void *data, double *wide, size_t count, uint64_t seed, sign signs);

/// Of the whole output.
struct reference_totals {
    double largest_magnitude = 0; ///< the largest S
    double squares = 0; ///< of the elements
    double term_squares = 0; ///< of all terms of all elements
};

/// Each output element, exact to f64, and S, the sum of the magnitudes of its
/// terms, from the other two tensors (`tensors` are of src, weights, dst; the
/// output's is written), at the offsets that the output's strides give.
reference_totals compute_reference(const reference_shape &shape,
        const std::array<double *, 3> &tensors, double *magnitudes);

/// How results differ from the reference.
struct comparison {
    /// The largest error of an element beyond half an ulp, in u * (S + added).
    double error = 0;
    double error_squares = 0; ///< of what is finite
    uint64_t not_finite = 0; ///< or not written
    uint64_t changed = 0; ///< elements that differ between the two results
    size_t index = 0; ///< of the element with that error, in memory
};

/// `again` is what a second run gave.
comparison compare_to_reference(detail::data_type type, const void *result,
        const void *again, const double *exact, const double *magnitudes,
        size_t count, double added_magnitude);

/// Bytes of a range of memory that are no longer 0xFF.
uint64_t bytes_written(const void *data, size_t bytes);

} // namespace gradnn::sweep
