// Depthwise convolution on tensor cores: which problems, and how their work is cut.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include <cuda_runtime.h>

#include "gpu/device/rounding.hpp"

namespace gradnn::detail {
struct convolution_problem;
}

namespace gradnn::gpu::depthwise {

/// One axis of a plane: written position x meets `kernel` positions of read, from
/// x - before on.
struct window_axis {
    int read = 1;
    int written = 1;
    int kernel = 1;
    int before = 0;
};

/// `read` and `written` are src and dst, with `to_src` dst and src, and the window then is
/// turned around. Kernels of weights read both. Tensors are NCX without gaps.
struct problem_shape {
    window_axis down; ///< H
    window_axis along; ///< W
    int64_t images = 1;
    int64_t channels = 1;
    int64_t weights_strides[3] = {}; ///< C, H, W
    bool to_src = false; ///< backward_data
};

constexpr int window_size = 7; ///< of planes
constexpr int usual_pad = window_size / 2;

/// Zeros before the first tap, so that read begins at a multiple of so many columns where
/// written does.
__host__ __device__ constexpr int zeros_before(int taps, int multiple) {
    return (multiple - taps % multiple) % multiple;
}

/// Of a product of matrices, 16x8.
constexpr int matrix_sums = 128;
constexpr int plane_warps = 4; ///< of a block
constexpr int line_warps = 8;
/// Columns of written that a warp of lines takes at a time.
constexpr int piece_columns = 512;
/// A tile of planes has so many rows and columns of written, which meet `tile_span`
/// columns of read; one of weights has as many rows of src, those of dst, and
/// `tile_span` columns.
constexpr int tile_rows = 16;
constexpr int dst_tile_rows = 8;
constexpr int tile_columns = 8;
constexpr int tile_span = 16;

/// A row of the window lies in shared memory twice, the second time a tap further on, each
/// time behind so many zeros and followed by some.
constexpr int window_row_zeros = 8;
template <int steps>
constexpr int window_row_elements = window_row_zeros + 16 * steps;

/// Threads may load so many bytes before and after what a block holds of an image;
/// what they load there has no effect.
constexpr int slack_bytes = 64;
/// The weights' kernel of planes: bytes of zeros, for rows of dst that are none.
constexpr int zeros_bytes = 64;

/// Where the planes of a tensor lie in a block's shared memory, in bytes.
struct plane_layout {
    int at = 0; ///< the first plane of the first image
    int distance = 0; ///< from one plane to the next
    /// Between rows, where rows without would meet in the same banks; rows then are whole
    /// vectors at multiples of 16 bytes.
    int gap = 0;
    exact_divider by_vectors; ///< of a row
};

/// Of lines a block has one channel, and of its rows' pieces, in all images, every
/// image_parts-th of a warp. Of planes it has whole ones of neighbouring channels, or bands
/// of the rows of one, in every image_parts-th stage, which is some images: they lie in
/// shared memory as they do in the tensors, while the next stage is being copied.
struct work_cut {
    /// Matrices for a row of the window: 1 of planes, more of lines.
    int steps = 1;
    int pieces = 1; ///< of a row, of lines
    int planes = 1; ///< of an image that a block has: a power of two
    int images = 1; ///< of a stage
    int bands = 1; ///< of the rows of written, a block's each
    int band_rows = 1;
    int64_t tiles = 1; ///< groups of channels
    int image_parts = 1;
    /// Before, between and after planes there are zeros for the rows that windows reach
    /// beyond.
    plane_layout read;
    plane_layout written; ///< of data results, which follow closely
    int image_bytes = 0; ///< of what is copied
    int result_bytes = 0; ///< of an image, of data
    size_t shared_bytes = 0;

    constexpr bool of_lines() const { return steps > 1; }
    constexpr int threads() const {
        return (of_lines() ? line_warps : plane_warps) * 32;
    }
    constexpr int64_t parts() const { return int64_t {image_parts} * bands; }
    constexpr int64_t blocks() const { return tiles * parts(); }
    /// For tensors at multiples of so many bytes.
    work_cut at(int alignment) const {
        work_cut cut = *this;
        if (alignment < 16) cut.read.gap = cut.written.gap = 0;
        return cut;
    }
};

/// What kernels are told of a problem, and whether it is a gradient of the weights.
struct cut_problem {
    problem_shape shape;
    work_cut cut;
    bool of_weights;
};

/// Nothing for problems that the kernels do not take, and where neither planes nor bands of
/// at least 16 rows fit in shared memory, or where there would be too many blocks.
std::optional<cut_problem> cut_of(
        const detail::convolution_problem &, int64_t multiprocessors);

} // namespace gradnn::gpu::depthwise
