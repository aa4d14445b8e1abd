// The inner loops of planes.cpp, on staged planes: sums over
// terms, each an element at a fixed distance, for all positions of a plane.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernel/problem.hpp"

namespace gradnn::cpu {

/// Compiled for one SIMD target and one type of tensors. Elements of staged
/// planes, weights and sums ("wide" ones) are double for f64, else float;
/// pointers to them are multiples of 64 bytes, to which terms add offsets, and
/// lengths are counted in vectors.
struct plane_kernels {
    const char *target = nullptr; ///< Highway's name, as "AVX3"
    int64_t lanes = 0;
    int64_t wide_bytes = 0;

    /// Outputs that one call may compute.
    static constexpr int64_t most_outputs = 4;

    /// to[r * to_row + c * to_column] = from[r * from_row + c * from_column],
    /// tensor elements to wide ones.
    void (*widen)(const void *from, int64_t from_row, int64_t from_column,
            void *to, int64_t to_row, int64_t to_column, int64_t rows,
            int64_t columns)
            = nullptr;
    /// The reverse, rounding; to elements of the result's type.
    void (*narrow)(const void *from, int64_t from_row, int64_t from_column,
            void *to, int64_t to_row, int64_t to_column, int64_t rows,
            int64_t columns)
            = nullptr;
    /// Whether Inf or NaN is among wide elements.
    bool (*has_non_finite)(const void *values, int64_t count) = nullptr;

    /// out[o][f] (+)= sum over terms t of weights[t][o] * in[offsets[t] + f],
    /// planes of out being `pitch` elements apart.
    void (*multiply)(int64_t terms, const int64_t *offsets, const void *weights,
            int64_t outputs, const void *in, void *out, int64_t pitch,
            int64_t vectors, bool add)
            = nullptr;
    /// The same over those terms alone that have mask[offsets[t % taps]
    /// + f] != 0.
    void (*multiply_masked)(int64_t terms, const int64_t *offsets,
            const void *weights, int64_t outputs, const void *in,
            const void *mask, int64_t taps, void *out, int64_t pitch,
            int64_t vectors, bool add)
            = nullptr;

    /// totals[o][t][lane] += sum over f of that lane of out[o][f]
    /// * in[offsets[t] + f].
    void (*correlate)(int64_t terms, const int64_t *offsets, int64_t outputs,
            const void *in, const void *out, int64_t pitch, int64_t vectors,
            void *totals)
            = nullptr;
    /// The same over those f alone where both masks are not 0.
    void (*correlate_masked)(int64_t terms, const int64_t *offsets,
            int64_t outputs, const void *in, const void *out, int64_t pitch,
            const void *in_mask, int64_t taps, const void *out_mask,
            int64_t vectors, void *totals)
            = nullptr;

    /// sums[i] += the sum over the lanes of totals[i][lane], and lows[i] += what
    /// that rounds off.
    void (*sum_lanes)(const void *totals, int64_t count, void *sums, void *lows)
            = nullptr;
    /// sums[i] += addends[i].
    void (*accumulate)(const void *addends, int64_t count, void *sums)
            = nullptr;
};

plane_kernels plane_kernels_for(
        detail::data_type type, detail::data_type result_type);

} // namespace gradnn::cpu
