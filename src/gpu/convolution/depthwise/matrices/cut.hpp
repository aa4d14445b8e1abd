// Depthwise on tensor cores, NCX: how the work of the two kernels is cut. See
// data.cu and weights.cu.
#pragma once

#include "gpu/convolution/depthwise/shape.hpp"
#include "gpu/device/divider.hpp"

namespace gradnn::gpu::depthwise::matrices {

/// NCX without gaps of 16-bit types, windows of 7x7 with strides and dilations of 1,
/// on tensor cores. Whole planes of neighbouring channels, or bands
/// of the rows of one, lie in shared memory as they do in the tensors: those of a
/// few images (a stage), while the next stage is being copied.
struct work_cut {
    static constexpr const char *takes
            = "groups of one channel, bf16 and f16 in NCX without gaps, "
              "weights alike, windows of 7x7 on planes of at least 12x12 with "
              "strides and dilations of 1 and pads smaller than the window";
    int planes = 1; ///< of an image that a block has: a power of two
    int images = 1; ///< of a stage
    int bands = 1; ///< of the rows of written, a block's each
    int band_rows = 1;
    int64_t tiles = 1; ///< groups of channels
    int image_parts = 1; ///< a block has every image_parts-th stage
    // Bytes of shared memory: before the first plane of an image, from one plane
    // to the next, of an image, in all. Before, between and after planes of read
    // there are zeros for the rows that windows reach beyond.
    int read_lead = 0;
    int read_distance = 0;
    int read_bytes = 0;
    int written_distance = 0; ///< of weights; the data kernel's follow closely
    int written_bytes = 0;
    size_t shared_bytes = 0;
    // Bytes between rows, where rows without them would meet in the same banks;
    // rows then are whole vectors at multiples of 16 bytes. And the vectors of a
    // row.
    int read_gap = 0;
    int written_gap = 0; ///< of weights
    exact_divider by_read_vectors, by_written_vectors;

    __host__ __device__ constexpr int64_t parts() const {
        return int64_t {image_parts} * bands;
    }
    __host__ __device__ constexpr int64_t blocks() const {
        return tiles * parts();
    }
};

constexpr int block_warps = 4; ///< of a block
constexpr int window_size = 7; ///< along either axis
/// A tile of data has so many rows and columns of written, which meet `tile_span`
/// columns of read; one of weights has as many rows of src, those of dst, and
/// `tile_span` columns.
constexpr int tile_rows = 16;
constexpr int dst_tile_rows = 8;
constexpr int tile_columns = 8;
constexpr int tile_span = 16;
/// A row of the window lies in shared memory twice, the second time a tap further
/// on, each time between so many zeros on either side.
constexpr int window_row_elements = 24;
constexpr int window_row_zeros = 8;

/// Threads may load so many bytes before and after what a block holds of an image;
/// what they load there has no effect.
constexpr int slack_bytes = 64;

/// The weights' kernel: bytes of zeros, for rows of dst that are none.
constexpr int zeros_bytes = 64;

} // namespace gradnn::gpu::depthwise::matrices
