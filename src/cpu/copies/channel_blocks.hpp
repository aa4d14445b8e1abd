// Copies activations into and out of the layouts in which oneDNN's convolutions
// like them: channels in blocks of 16 (its nCw16c, nChw16c, nCdhw16c) or of 8,
// the last block filled up with zeros.
#pragma once

#include <cstdint>

#include "kernel/problem.hpp"

namespace gradnn::cpu {

/// The blocked side is dense: images, blocks of channels, points, the
/// channels of a block.
/// The plain side has strides of elements, of which that of the channels or
/// that of the points is 1.
struct channel_blocking {
    int64_t block = 16; ///< or 8
    detail::data_type plain_type = detail::data_type::undef; ///< f32, bf16, f16
    detail::data_type blocked_type = detail::data_type::undef; ///< that, or f32
    int64_t images = 1;
    int64_t channels = 1;
    int64_t points = 1;
    int64_t image_stride = 0;
    int64_t channel_stride = 0;
    int64_t point_stride = 0;
};

/// blocked = plain, on all threads; widening is exact.
void block_channels(
        const channel_blocking &problem, const void *plain, void *blocked);

/// plain = blocked, on all threads; narrowing rounds to nearest even.
void unblock_channels(
        const channel_blocking &problem, const void *blocked, void *plain);

} // namespace gradnn::cpu
