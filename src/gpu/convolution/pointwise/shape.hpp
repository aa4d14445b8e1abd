// Convolutions with windows of one point: what the kernels are told, and how the work
// is cut. Plain host arithmetic.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <cuda_runtime_api.h>

#include "gpu/device/rounding.hpp"

namespace gradnn::detail {
struct convolution_problem;
}

namespace gradnn::gpu::pointwise {

/// Rows and columns of the products of tensor cores, and the terms that one adds.
constexpr int product_rows = 16;
constexpr int product_columns = 8;
constexpr int product_terms = 16;

constexpr int warps = 4; ///< of a block
constexpr int word_elements = 8; ///< of 16 bytes

/// Positions of a warp's tile, of data.
__host__ __device__ constexpr int data_positions(bool planes, int steps) {
    return planes && steps <= 4 ? 64 : 32;
}
/// Of a block's tile, of weights.
constexpr int weights_positions = 64;
/// Columns of a warp, of weights: as many as leave its sums in registers.
__host__ __device__ constexpr int weights_columns(int row_tiles) {
    return row_tiles == 4 ? 32 : 64;
}

/// From a channel to the next one in shared memory, of planes: a row begins in its first
/// word of 16 bytes.
__host__ __device__ constexpr int pitch_of(int positions) {
    return positions + word_elements;
}

/// A tensor: channels at positions, these one after the other in memory (planes), or
/// positions of channels without gaps.
struct operand {
    int channels = 1;
    int64_t image = 0; ///< from one image to the next, of planes
    int64_t channel = 0; ///< from one channel to the next, of planes
    int64_t elements = 0; ///< from its begin to its end, of planes
    int vector = word_elements; ///< elements of an access, of pixels
};

/// Of data `first` is the tensor that is read, and `second` the one that is written. The
/// gradient of the weights reads both: `first` is the one of fewer channels.
struct problem_shape {
    operand first, second;
    bool planes = false;
    int64_t positions = 1; ///< of an image of planes, else of all images
    int64_t tiles_of_image = 1;
    int64_t tiles = 1;
    /// Of data: from a channel of `second`, and of `first`, to the next one.
    int64_t weights_strides[2] = {};
    /// Whether `first` is dst, and `second` src.
    bool first_is_dst = false;
};

/// Products for the channels of `first`, a power of two: of data by their terms (steps), of
/// weights by their rows (row_tiles, 4 at most).
int products_of(const problem_shape &);
static_assert(product_terms == product_rows);

/// Warps of a block that have other columns of the weights: 1, 2 or 4.
__host__ __device__ constexpr int column_shares_of(int columns, int row_tiles) {
    int shares = 1;
    while (shares * weights_columns(row_tiles) < columns)
        shares *= 2;
    return shares;
}

/// Of a tile in shared memory: the next one begins at 16 bytes.
__host__ __device__ constexpr int staged_elements(
        bool planes, int channels, int positions) {
    return planes ? channels * pitch_of(positions)
                  : round_up(channels * positions, word_elements);
}

int64_t shared_bytes_of(const problem_shape &, bool of_weights);

/// Partial sums of each weight, for so many blocks that run at a time.
int64_t parts_of(const problem_shape &, int64_t blocks);

/// Nothing, with the reason, if the kernels do not take the problem.
std::optional<problem_shape> describe(
        const detail::convolution_problem &, std::string &why);

} // namespace gradnn::gpu::pointwise
