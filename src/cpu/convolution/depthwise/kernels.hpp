// The inner loops of depthwise.cpp: one line of pixels whose
// channels are contiguous.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernel/problem.hpp"

namespace gradnn::cpu {

/// A tap that reaches a line. Offsets are in elements.
struct line_tap {
    int64_t read = 0; ///< of channel 0 at position 0
    int64_t index = 0; ///< row of the weights, or of the totals
    int64_t begin = 0; ///< positions whose element is inside
    int64_t end = 0;
};

/// Compiled for one SIMD target and one type of tensors; "wide" elements are
/// double for f64, else float. There are at least `lanes` channels: the last
/// vector of channels may overlap the one before.
struct depthwise_kernels {
    const char *target = nullptr; ///< Highway's name, as "AVX3"
    int64_t lanes = 0;
    int64_t wide_bytes = 0;

    /// written[x * written_step + c] = sum over taps t inside at x of
    /// weights[t.index * channels + c] * read[t.read + x * read_step + c],
    /// first <= x < last.
    void (*multiply)(const line_tap *taps, int64_t tap_count, const void *read,
            int64_t read_step, const void *weights, void *written,
            int64_t written_step, int64_t first, int64_t last, int64_t channels)
            = nullptr;

    /// totals[t.index * pitch + slot(c)] += sum over x inside, first <= x <
    /// last, of dst[x * dst_step + c] * read[t.read + x * read_step + c], where
    /// pitch is channels rounded up to whole vectors and slot(c) is c, except
    /// for the channels of an overlapping last vector, which has slots of its own.
    void (*correlate)(const line_tap *taps, int64_t tap_count, const void *read,
            int64_t read_step, const void *dst, int64_t dst_step, int64_t first,
            int64_t last, int64_t channels, void *totals)
            = nullptr;

    /// to[i] = from[i * from_step], tensor elements to wide ones.
    void (*widen)(const void *from, int64_t from_step, void *to, int64_t count)
            = nullptr;
    /// to[i * to_step] = from[i], rounded to elements of the result's type.
    void (*narrow)(const void *from, void *to, int64_t to_step, int64_t count)
            = nullptr;
    /// sums[i] += addends[i], and lows[i] += what that rounds off.
    void (*accumulate_compensated)(
            const void *addends, int64_t count, void *sums, void *lows)
            = nullptr;
    /// sums[i] += addends[i].
    void (*accumulate)(const void *addends, int64_t count, void *sums)
            = nullptr;
};

depthwise_kernels depthwise_kernels_for(
        detail::data_type type, detail::data_type result_type);

} // namespace gradnn::cpu
