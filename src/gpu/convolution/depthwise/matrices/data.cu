// Depthwise convolution, forward and gradient of src, on tensor cores.
//
//     written[n,c,h,w] = sum over r, s of
//                        window[c,r,s] * read[n,c,h - before + r,w - before + s]
//
// where the window of the gradient of src is turned around. A row r of the window
// is a matrix of 16x8 elements, window[r, k - column] in row k: 16 rows of read, 16
// columns of each, times that matrix are a part of 8 neighbouring columns of 16 rows
// of written. So a tile of 16x8 takes a product of matrices for each row of the
// window, each of rows of read one further down.
//
// A block has the planes of some neighbouring channels, or a band of the rows of
// one, in every `image_parts`-th group of images. They come to shared memory
// as they lie, 16 bytes at a time, while the block computes those before. A
// warp has one plane at a time, the window's matrices in registers, and walks
// along the columns, of which it loads each once a row of the window. Results
// are collected in shared memory and leave as they came. Products with the
// matrices' zeros are NaN where read or the window is infinite or NaN: what
// comes out NaN is taken again from the definition.
#include "gpu/convolution/depthwise/matrices/device.cuh"
#include "gpu/convolution/depthwise/plan.hpp"
#include "gpu/runtime/with_type.hpp"

namespace gradnn::gpu::depthwise::matrices {

namespace {

template <typename Type, int wide>
__global__ void __launch_bounds__(block_warps * 32, wide == 2 ? 5 : 4)
        depthwise_matrices_data_kernel(const Type *read, const Type *weights,
                Type *written, const __grid_constant__ problem_shape shape,
                const __grid_constant__ work_cut cut) {
    extern __shared__ uint4 shared[];
    auto *const memory = reinterpret_cast<std::byte *>(shared);
    const uint32_t base = shared_address(memory);
    const auto &[deep, down, along] = shape.axes;
    const auto thread = static_cast<int>(threadIdx.x);
    const auto threads = static_cast<int>(blockDim.x);
    const int lane = thread % 32;
    const int g = lane / 4;
    const int t = lane % 4;
    const block_share block(shape, cut);
    const warp_share warp(thread / 32, cut.planes);

    const int rows_before = taps_before(down, shape.to_src);
    const int columns_before = taps_before(along, shape.to_src);
    // Tiles meet read columns from an even distance before their own on.
    const int lead = columns_before % 2;
    const int start = columns_before + lead;
    const int64_t planes = shape.images * shape.channels;
    const int64_t read_plane = int64_t {down.read} * along.read;
    const int64_t written_plane = int64_t {down.written} * along.written;
    const held_planes<Type> in {read, read + planes * read_plane, read_plane,
            along.read, block.read, cut.read_gap, cut.by_read_vectors};
    const held_planes<Type> out {written, written + planes * written_plane,
            written_plane, along.written, block.written, 0, {}};

    constexpr int size = window_size;
    constexpr int row_bytes = 2 * window_row_elements * 2;
    const int buffers = cut.planes * size * row_bytes;
    const int results = buffers + 2 * cut.images * cut.read_bytes;
    const auto place_of = [&](int buffer, int i, int plane) {
        return buffers + (buffer * cut.images + i) * cut.read_bytes
                + cut.read_lead + plane * cut.read_distance;
    };
    const auto fetch = [&](int stage, int buffer) {
        const int images = block.images(stage);
        for (int i = 0; i < images; ++i)
            for (int plane = warp.first_plane; plane < block.planes;
                    plane += block_warps)
                in.fetch(memory + place_of(buffer, i, plane),
                        block.first_plane(stage, i) + plane,
                        warp.share * 32 + lane, warp.shares * 32);
        commit_copies();
    };

    clear_shared(shared, cut.shared_bytes);
    // Later work is not let start: its blocks would gather where the first of
    // these end, and be slower for that (dW of 3x3 by half).
    wait_for_earlier_work();
    fetch(block.image_part, 0);
    for (int i = thread; i < block.planes * size * size; i += threads) {
        const int plane = i / (size * size);
        const int r = i / size % size;
        const int s = i % size;
        const Type value = weights[(block.first_channel + plane)
                        * shape.weights_strides[0]
                + (shape.to_src ? size - 1 - r : r) * shape.weights_strides[2]
                + (shape.to_src ? size - 1 - s : s) * shape.weights_strides[3]];
        auto *const row = reinterpret_cast<Type *>(
                memory + (plane * size + r) * row_bytes);
        row[window_row_zeros + s] = value;
        row[window_row_elements + window_row_zeros + s - 1] = value;
    }

    const int tiles = (along.written + tile_columns - 1) / tile_columns;
    // A pair of tiles that begins below this one has its chunks inside, except
    // perhaps the row's first, which is checked in any case.
    const int whole_tiles
            = min(along.read + start, along.written + tile_columns)
                    / tile_columns
            - 2;
    const int pitch = in.pitch();
    const int tap = window_row_zeros + 2 * t - g - lead;
    const int lane_window = tap % 2 * (row_bytes / 2) + tap / 2 * 4;
    uint32_t window[size][2];
    const auto load_window = [&](int plane) {
#pragma unroll
        for (int r = 0; r < size; ++r)
#pragma unroll
            for (int half = 0; half < 2; ++half)
                window[r][half] = load_shared(base + lane_window
                        + (plane * size + r) * row_bytes + half * 16);
    };
    // A warp that has one plane keeps its window.
    const bool one_plane = cut.planes <= block_warps;
    __syncthreads();
    if (one_plane) load_window(warp.first_plane);
    int buffer = 0;
#pragma unroll 1
    for (int stage = block.image_part; stage < block.stages;
            stage += cut.image_parts, buffer ^= 1) {
        const int images = block.images(stage);
        wait_for_copies<0>();
        __syncthreads();
        if (clear_before_planes(in, block, stage, [&](int i, int plane) {
                return base + place_of(buffer, i, plane);
            }))
            __syncthreads();
        if (stage + cut.image_parts < block.stages)
            fetch(stage + cut.image_parts, buffer ^ 1);
        uint32_t products = 0; // of results and zero: NaN if one is not finite
#pragma unroll 1
        for (int first_row = warp.share * tile_rows; first_row < out.rows();
                first_row += warp.shares * tile_rows) {
            // Rows g and g + 8 of the tile, or the last one.
            int lane_at[2];
            bool inside[2];
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const int row = first_row + g + 8 * half;
                inside[half] = row < out.rows();
                lane_at[half] = (out.held.begin - rows_before - in.held.begin
                                        + min(row, out.rows() - 1))
                                * pitch
                        + (2 * t - start) * 2;
            }
            const int lane_result
                    = ((first_row + g) * along.written + 2 * t) * 2;
#pragma unroll 1
            for (int plane = warp.first_plane; plane < block.planes;
                    plane += block_warps) {
                if (!one_plane) load_window(plane);
                const int64_t number = block.first_plane(stage, 0) + plane;
#pragma unroll 1
                for (int i = 0; i < images; ++i) {
                    const uint32_t place = base + place_of(buffer, i, plane)
                            + in.past(number + i * shape.channels);
                    uint32_t result = base + results + i * cut.written_bytes
                            + out.past(block.first_plane(stage, i))
                            + plane * out.elements() * 2 + lane_result;
                    // Where pairs of rows an even and an odd distance down begin.
                    uint32_t at[2][2];
                    uint32_t shift[2][2];
#pragma unroll
                    for (int odd = 0; odd < 2; ++odd)
#pragma unroll
                        for (int half = 0; half < 2; ++half) {
                            const uint32_t address
                                    = place + lane_at[half] + odd * pitch;
                            at[odd][half] = wide == 2
                                    ? place + lane_at[half]
                                    : (address & ~3U) - odd * pitch;
                            shift[odd][half] = (address & 2U) * 8;
                        }
                    // Columns 8 * chunk - start and on, `ahead` chunks after `at`.
                    const auto load = [&]<bool masked>(int chunk, int ahead,
                                              uint32_t(&pairs)[size][2]) {
#pragma unroll
                        for (int r = 0; r < size; ++r)
#pragma unroll
                            for (int half = 0; half < 2; ++half) {
                                const uint32_t address = at[r % 2][half]
                                        + r * pitch + ahead * 16;
                                pairs[r][half] = load_shared(address);
                                if constexpr (wide == 1)
                                    pairs[r][half]
                                            = __funnelshift_r(pairs[r][half],
                                                    load_shared(address + 4),
                                                    shift[r % 2][half]);
                            }
                        if constexpr (masked) {
                            const uint32_t mask = pair_mask<wide>(
                                    chunk * tile_columns - start + 2 * t,
                                    along.read);
#pragma unroll
                            for (int r = 0; r < size; ++r)
#pragma unroll
                                for (int half = 0; half < 2; ++half)
                                    pairs[r][half] &= mask;
                        }
                    };
                    const auto store = [&]<bool masked>(int tile, int ahead,
                                               const float(&sums)[4]) {
#pragma unroll
                        for (int half = 0; half < 2; ++half) {
                            const float pair[2]
                                    = {sums[2 * half], sums[2 * half + 1]};
                            const uint32_t bits = pack<Type, 2>::of(pair).bits;
                            products = add_zero_times<Type>(bits, products);
                            const int left = along.written - tile * tile_columns
                                    - 2 * t;
                            if (!inside[half] || (masked && left <= 0))
                                continue;
                            const uint32_t to = result + ahead * 16
                                    + half * 16 * along.written;
                            if constexpr (wide == 2) {
                                store_shared(to, bits);
                            } else {
                                store_shared_half(
                                        to, static_cast<unsigned short>(bits));
                                if (!masked || left > 1)
                                    store_shared_half(to + 2,
                                            static_cast<unsigned short>(
                                                    bits >> 16));
                            }
                        }
                    };
                    // Tiles `tile` and the next one, whose chunks begin with
                    // `first`; `last` is that of the tile after them.
                    const auto multiply = [&]<bool masked>(int tile,
                                                  const uint32_t(
                                                          &first)[size][2],
                                                  uint32_t(&second)[size][2],
                                                  uint32_t(&last)[size][2]) {
                        load.template operator()<masked>(tile + 1, 1, second);
                        load.template operator()<masked>(tile + 2, 2, last);
                        float sums[2][4] = {};
#pragma unroll
                        for (int r = 0; r < size; ++r) {
                            multiply_matrices<Type>(sums[0], first[r],
                                    second[r], window[r][0], window[r][1]);
                            multiply_matrices<Type>(sums[1], second[r], last[r],
                                    window[r][0], window[r][1]);
                        }
                        store.template operator()<masked>(tile, 0, sums[0]);
                        store.template operator()<masked>(tile + 1, 1, sums[1]);
#pragma unroll
                        for (int half = 0; half < 2; ++half) {
                            at[0][half] += 32;
                            at[1][half] += 32;
                        }
                        result += 32;
                    };
                    const auto multiply_any
                            = [&](int tile, const uint32_t(&first)[size][2],
                                      uint32_t(&second)[size][2],
                                      uint32_t(&last)[size][2]) {
                                  if (tile < whole_tiles)
                                      multiply.template operator()<false>(
                                              tile, first, second, last);
                                  else
                                      multiply.template operator()<true>(
                                              tile, first, second, last);
                              };
                    uint32_t chunks[3][size][2];
                    load.template operator()<true>(0, 0, chunks[0]);
#pragma unroll 1
                    for (int tile = 0; tile < tiles; tile += 4) {
                        multiply_any(tile, chunks[0], chunks[1], chunks[2]);
                        if (tile + 2 >= tiles) break;
                        multiply_any(tile + 2, chunks[2], chunks[1], chunks[0]);
                    }
                }
            }
        }
        const bool again = __syncthreads_or(products != 0) != 0;
        const int count = block.planes * out.elements();
        const auto results_of = [&](int i) {
            return reinterpret_cast<Type *>(memory + results
                    + i * cut.written_bytes
                    + out.past(block.first_plane(stage, i)));
        };
        if (again) {
#pragma unroll 1
            for (int e = thread; e < images * count; e += threads) {
                const int i = e / count;
                const int row = (e - i * count) / along.written;
                Type &result = results_of(i)[e - i * count];
                take_again(result, read, weights, shape, block.image(stage, i),
                        block.first_channel + row / out.rows(),
                        out.held.begin + row % out.rows(), e % along.written);
            }
            __syncthreads();
        }
#pragma unroll 1
        for (int i = 0; i < images; ++i)
            copy_out(written + out.first(block.first_plane(stage, i)),
                    results_of(i), count);
    }
}

} // namespace

launcher data_launcher(
        const problem_facts &facts, const work_cut &cut, bool pairs) {
    const bool wide = pairs && rows_are_wide(facts.shape);
    return with_half_precision_type(
            facts.problem.src.type, [&]<typename Type>() {
                return launch_of(facts, "convolution.gpu_depthwise_matrices",
                        wide ? depthwise_matrices_data_kernel<Type, 2>
                             : depthwise_matrices_data_kernel<Type, 1>,
                        cut.blocks(), block_warps * 32, cut.shared_bytes, cut);
            });
}

} // namespace gradnn::gpu::depthwise::matrices
