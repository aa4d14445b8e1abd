// Windows of one point, forward and gradient of src: written = weights * read.
#pragma once

#include "gpu/convolution/pointwise/stage.cuh"
#include "gpu/device/early_start.cuh"
#include "gpu/device/tensor_cores.cuh"

namespace gradnn::gpu::pointwise {

/// The weights in the order in which lanes take them, a product's words side by side:
/// [tile of rows][step][lane]. Zeros fill up the channels.
template <typename Type>
__device__ void gather_factors(uint4 *factors, const Type *weights,
        const problem_shape &shape, int steps) {
    const int row_tiles = ceil_div(shape.second.channels, product_rows);
    const auto bits = [&](int row, int column) -> uint32_t {
        if (row >= shape.second.channels || column >= shape.first.channels)
            return 0;
        return reinterpret_cast<const unsigned short *>(
                weights)[row * shape.weights_strides[0]
                + column * shape.weights_strides[1]];
    };
    for (int i = static_cast<int>(threadIdx.x); i < row_tiles * steps * 32;
            i += 32 * warps) {
        const int lane = i % 32;
        const int row = i / 32 / steps * product_rows + lane / 4;
        const int column = i / 32 % steps * product_terms + lane % 4 * 2;
        const auto pair = [&](int r, int c) {
            return bits(r, c) | bits(r, c + 1) << 16;
        };
        factors[i] = {pair(row, column), pair(row + 8, column),
                pair(row, column + 8), pair(row + 8, column + 8)};
    }
}

/// A warp goes from tile to tile of positions: it has the read tile's elements in
/// registers while the next tile is on its way, and multiplies the weights' rows by
/// them, 16 at a time.
template <typename Type, bool planes, int steps>
__global__ void __launch_bounds__(32 * warps)
        data_kernel(const Type *read, const Type *weights, Type *written,
                const __grid_constant__ problem_shape shape) {
    constexpr int positions = data_positions(planes, steps);
    constexpr int columns = positions / product_columns;
    extern __shared__ uint4 pointwise_shared[];
    const auto thread = static_cast<int>(threadIdx.x);
    const copier warp {thread % 32, 32};
    const int g = warp.thread / 4;
    const int t = warp.thread % 4;
    const int row_tiles = ceil_div(shape.second.channels, product_rows);
    const int read_elements
            = staged_elements(planes, shape.first.channels, positions);
    const int written_elements = staged_elements(
            planes, planes ? product_rows : shape.second.channels, positions);
    Type *const own = reinterpret_cast<Type *>(
                              pointwise_shared + row_tiles * steps * 32)
            + thread / 32 * (2 * read_elements + written_elements);
    Type *const out = own + 2 * read_elements;
    wait_and_let_later_work_start();
    gather_factors(pointwise_shared, weights, shape, steps);
    __syncthreads();

    const int64_t apart = int64_t {gridDim.x} * warps;
    int64_t tile = int64_t {blockIdx.x} * warps + thread / 32;
    const auto bring_tile = [&](int64_t number, int buffer) {
        if (number < shape.tiles)
            bring<planes, positions>(own + buffer * read_elements, read,
                    shape.first, place_of(shape, number, positions), warp);
        commit_copies();
    };
    const auto put = [&]<int width>(const Type *shared, Type *global) {
        pack<Type, width>::load(shared).stream(global);
    };
    bring_tile(tile, 0);
    for (int buffer = 0; tile < shape.tiles; tile += apart, buffer ^= 1) {
        bring_tile(tile + apart, buffer ^ 1);
        wait_for_copies<1>();
        __syncwarp();
        const Type *const in = own + buffer * read_elements;
        const tile_place place = place_of(shape, tile, positions);
        const auto view = view_of<planes, positions>(read, shape.first, place);
        uint32_t of_read[steps][columns][2] = {};
#pragma unroll
        for (int s = 0; s < steps; ++s)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                // Beyond the last channel zeros, which meet weights of zero.
                const int channel = s * product_terms + half * 8 + 2 * t;
                if (channel >= shape.first.channels) continue;
                const bool is_last = channel + 1 == shape.first.channels;
                const int rows[2] = {view.row(channel),
                        view.row(is_last ? channel : channel + 1)};
#pragma unroll
                for (int j = 0; j < columns; ++j) {
                    const int position = j * product_columns + g;
                    const uint32_t word
                            = pair_of(in, view.at(rows[0], position),
                                    view.at(rows[1], position));
                    of_read[s][j][half] = is_last ? word & 0xffff : word;
                }
            }
#pragma unroll 1
        for (int m = 0; m < row_tiles; ++m) {
            float sums[columns][4] = {};
#pragma unroll
            for (int s = 0; s < steps; ++s) {
                if (s * product_terms >= shape.first.channels) break;
                const uint4 factor
                        = pointwise_shared[(m * steps + s) * 32 + warp.thread];
#pragma unroll
                for (int j = 0; j < columns; ++j)
                    multiply_matrices<Type>(sums[j], {factor.x, factor.y},
                            {factor.z, factor.w}, of_read[s][j][0],
                            of_read[s][j][1]);
            }
            const int channels = min(
                    product_rows, shape.second.channels - m * product_rows);
            const operand &to = shape.second;
            Type *const first = written + place.image * to.image
                    + m * product_rows * to.channel + place.first;
            const auto out_view = view_of<planes, positions>(
                    written + m * product_rows * to.channel, to, place);
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const int channel = g + 8 * half;
                if (!planes && channel >= channels) continue;
                const int row = out_view.row(channel)
                        + (planes ? 0 : m * product_rows);
#pragma unroll
                for (int j = 0; j < columns; ++j)
#pragma unroll
                    for (int e = 0; e < 2; ++e)
                        out[out_view.at(row, j * product_columns + 2 * t + e)]
                                = narrow<Type>(sums[j][2 * half + e]);
            }
            if constexpr (planes) {
                __syncwarp();
                move_rows<positions>(
                        static_cast<const Type *>(out), first, to.channel,
                        channels, place.count, warp,
                        [&](int at, const Type *) {
                            return at >= 0 && at + word_elements <= place.count;
                        },
                        put);
                __syncwarp();
            }
        }
        if constexpr (!planes) {
            __syncwarp();
            move_flat(static_cast<const Type *>(out),
                    written + place.first * shape.second.channels,
                    place.count * shape.second.channels, shape.second.vector,
                    warp, put);
        }
        __syncwarp();
    }
}

} // namespace gradnn::gpu::pointwise
