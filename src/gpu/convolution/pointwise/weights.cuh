// Windows of one point, gradient of the weights: the sum over all positions of the
// products of two channels.
#pragma once

#include "gpu/convolution/pointwise/stage.cuh"
#include "gpu/device/early_start.cuh"
#include "gpu/device/tensor_cores.cuh"

namespace gradnn::gpu::pointwise {

/// Zeros behind a tile's last position.
template <bool planes, typename Type>
__device__ void end_with_zeros(Type *tile,
        const tile_view<planes, weights_positions> &view, int count,
        copier by) {
    const int missing = weights_positions - count;
    for (int i = by.thread; i < missing * view.channels; i += by.threads)
        tile[view.at(view.row(i / missing), count + i % missing)]
                = narrow<Type>(0.0F);
}

/// partials[part][channel of src][channel of dst]. A block adds up one part: every
/// gridDim.x-th tile. Its warps share the columns (channels of the tensor that has
/// more), and, where there are fewer columns, the positions of a tile.
template <typename Type, bool planes, int row_tiles>
__global__ void __launch_bounds__(32 * warps)
        weights_kernel(const Type *first, const Type *second, float *partials,
                const __grid_constant__ problem_shape shape) {
    constexpr int positions = weights_positions;
    constexpr int steps = positions / product_terms;
    constexpr int of_warp = weights_columns(row_tiles);
    constexpr int column_tiles = of_warp / product_columns;
    extern __shared__ uint4 pointwise_shared[];
    const copier block {static_cast<int>(threadIdx.x), 32 * warps};
    const int g = block.thread % 32 / 4;
    const int t = block.thread % 4;
    const int rows = shape.first.channels;
    const int columns = shape.second.channels;
    const int shares = column_shares_of(columns, row_tiles);
    const int first_column = block.thread / 32 % shares * of_warp;
    const int first_step = block.thread / 32 / shares;
    const int step_shares = warps / shares;
    const int first_elements = staged_elements(planes, rows, positions);
    const int tile_elements
            = first_elements + staged_elements(planes, columns, positions);
    auto *const tiles = reinterpret_cast<Type *>(pointwise_shared);
    wait_and_let_later_work_start();

    const auto bring_tile = [&](int64_t number, int buffer) {
        if (number < shape.tiles) {
            const tile_place place = place_of(shape, number, positions);
            Type *const to = tiles + buffer * tile_elements;
            bring<planes, positions>(to, first, shape.first, place, block);
            bring<planes, positions>(
                    to + first_elements, second, shape.second, place, block);
        }
        commit_copies();
    };
    float sums[row_tiles][column_tiles][4] = {};
    int64_t tile = blockIdx.x;
    bring_tile(tile, 0);
    for (int buffer = 0; tile < shape.tiles; tile += gridDim.x, buffer ^= 1) {
        bring_tile(tile + gridDim.x, buffer ^ 1);
        wait_for_copies<1>();
        __syncthreads();
        Type *const of_rows = tiles + buffer * tile_elements;
        Type *const of_columns = of_rows + first_elements;
        const tile_place place = place_of(shape, tile, positions);
        const auto row_view
                = view_of<planes, positions>(first, shape.first, place);
        const auto column_view
                = view_of<planes, positions>(second, shape.second, place);
        if (place.count < positions) {
            end_with_zeros(of_rows, row_view, place.count, block);
            end_with_zeros(of_columns, column_view, place.count, block);
            __syncthreads();
        }
        // In place of those beyond the last one, whose sums nobody takes, that one.
        int left_rows[row_tiles][2];
#pragma unroll
        for (int m = 0; m < row_tiles; ++m)
#pragma unroll
            for (int half = 0; half < 2; ++half)
                left_rows[m][half] = row_view.row(
                        min(m * product_rows + half * 8 + g, rows - 1));
        int right_rows[column_tiles];
#pragma unroll
        for (int n = 0; n < column_tiles; ++n)
            right_rows[n] = column_view.row(
                    min(first_column + n * product_columns + g, columns - 1));
        const auto pair = [](const Type *elements, const auto &view, int row,
                                  int position) {
            return pair_of(elements, view.at(row, position),
                    view.at(row, position + 1));
        };
#pragma unroll 1
        for (int step = first_step; step < steps; step += step_shares) {
            const int position = step * product_terms + 2 * t;
            uint32_t left[row_tiles][4];
#pragma unroll
            for (int m = 0; m < row_tiles; ++m)
#pragma unroll
                for (int word = 0; word < 4; ++word)
                    left[m][word] = pair(of_rows, row_view,
                            left_rows[m][word % 2], position + word / 2 * 8);
#pragma unroll
            for (int n = 0; n < column_tiles; ++n) {
                if (first_column + n * product_columns >= columns) break;
                const uint32_t right[2] = {
                        pair(of_columns, column_view, right_rows[n], position),
                        pair(of_columns, column_view, right_rows[n],
                                position + 8)};
#pragma unroll
                for (int m = 0; m < row_tiles; ++m)
                    multiply_matrices<Type>(sums[m][n],
                            {left[m][0], left[m][1]}, {left[m][2], left[m][3]},
                            right[0], right[1]);
            }
        }
        __syncthreads();
    }
    wait_for_copies<0>();
    __syncthreads();

    // The warps that share positions add up, one after the other.
    auto *const total = reinterpret_cast<float *>(pointwise_shared);
    const int row_stride = shape.first_is_dst ? 1 : columns;
    const int column_stride = shape.first_is_dst ? rows : 1;
    for (int turn = 0; turn < step_shares; ++turn) {
        if (turn == first_step) {
#pragma unroll
            for (int m = 0; m < row_tiles; ++m)
#pragma unroll
                for (int n = 0; n < column_tiles; ++n)
#pragma unroll
                    for (int i = 0; i < 4; ++i) {
                        const int row = m * product_rows + i / 2 * 8 + g;
                        const int column = first_column + n * product_columns
                                + 2 * t + i % 2;
                        if (row >= rows || column >= columns) continue;
                        float &sum = total[row * row_stride
                                + column * column_stride];
                        sum = turn == 0 ? sums[m][n][i] : sum + sums[m][n][i];
                    }
        }
        __syncthreads();
    }
    const int count = rows * columns;
    for (int i = block.thread; i < count; i += block.threads)
        partials[int64_t {blockIdx.x} * count + i] = total[i];
}

} // namespace gradnn::gpu::pointwise
