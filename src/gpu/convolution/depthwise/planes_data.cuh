// Depthwise windows of 7x7, forward and gradient of src, on tensor cores.
//
//     written[n,c,h,w] = sum over r, s of
//                        window[c,r,s] * read[n,c,h - before + r,w - before + s]
//
// where the window of the gradient of src is turned around. A tile of 16x8 of written takes
// a product of matrices for each row of the window (README.md), each of rows of read one
// further down. Results are collected in shared memory and leave as they came. Products with
// the matrices' zeros are NaN where read or the window is infinite or NaN: what comes out NaN
// is taken again from the definition.
#pragma once

#include "gpu/convolution/depthwise/planes.cuh"

namespace gradnn::gpu::depthwise {

/// Copies `count` elements by all threads of a block: vectors of 16 bytes, but single ones
/// where `to` begins or ends within one.
template <typename Type>
__device__ __forceinline__ void copy_out(
        Type *to, const Type *from, int count) {
    constexpr int each = elements_of_16_bytes<Type>;
    const int past = bytes_past(to) / static_cast<int>(sizeof(Type));
    for (int i = static_cast<int>(threadIdx.x) * each - past; i < count;
            i += static_cast<int>(blockDim.x) * each)
        if (i >= 0 && i + each <= count)
            pack<Type, each>::load(from + i).stream(to + i);
        else
            for (int e = max(0, i); e < min(i + each, count); ++e)
                to[e] = from[e];
}

template <typename Type, int wide>
__global__ void __launch_bounds__(plane_warps * 32, wide == 2 ? 5 : 4)
        depthwise_planes_data_kernel(const Type *read, const Type *weights,
                Type *written, const __grid_constant__ problem_shape shape,
                const __grid_constant__ work_cut cut) {
    extern __shared__ uint4 shared[];
    auto *const memory = reinterpret_cast<std::byte *>(shared);
    const window_axis &down = shape.down;
    const window_axis &along = shape.along;
    const auto thread = static_cast<int>(threadIdx.x);
    const int g = thread % 32 / 4;
    const int t = thread % 4;
    const plane_share share(shape, cut, shared);
    const uint32_t base = share.base;
    // Tiles meet read columns from an even distance before their own on.
    const int lead = zeros_before(along.before, 2);
    const int start = along.before + lead;
    const auto in = share.of_read(read);
    const auto out = share.of_written(written);

    constexpr int size = window_size;
    const held_windows<size, 1> held_window {base};
    const int results = cut.written.at;

    clear_shared(shared, cut.shared_bytes);
    // Later work is not let start: its blocks would gather where the first of
    // these end, and be slower for that (dW of 3x3 by half).
    wait_for_earlier_work();
    share.fetch(share.image_part, 0, in);
    held_window.fill(weights, shape, share.first_channel, share.planes);

    const int tiles = (along.written + tile_columns - 1) / tile_columns;
    // A pair of tiles that begins below this one has its chunks inside, except
    // perhaps the row's first, which is checked in any case.
    const int whole_tiles
            = min(along.read + start, along.written + tile_columns)
                    / tile_columns
            - 2;
    const int pitch = in.pitch();
    uint32_t window[size][2];
    // A warp that has one plane keeps its window.
    const bool one_plane = cut.planes <= plane_warps;
    __syncthreads();
    if (one_plane) held_window.load(share.plane, lead, window);
    int buffer = 0;
#pragma unroll 1
    for (int stage = share.image_part; stage < share.stages;
            stage += cut.image_parts, buffer ^= 1) {
        const int images = share.images(stage);
        share.begin_stage(stage, buffer, in);
        uint32_t products = 0; // of results and zero: NaN if one is not finite
#pragma unroll 1
        for (int first_row = share.part * tile_rows; first_row < out.rows();
                first_row += share.parts * tile_rows) {
            // Rows g and g + 8 of the tile, or the last one.
            int lane_at[2];
            bool inside[2];
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const int row = first_row + g + 8 * half;
                inside[half] = row < out.rows();
                lane_at[half] = (out.held.begin - down.before - in.held.begin
                                        + min(row, out.rows() - 1))
                                * pitch
                        + (2 * t - start) * 2;
            }
            const int lane_result
                    = ((first_row + g) * along.written + 2 * t) * 2;
#pragma unroll 1
            for (int plane = share.plane; plane < share.planes;
                    plane += plane_warps) {
                if (!one_plane) held_window.load(plane, lead, window);
                const int64_t number = share.first_plane(stage, 0) + plane;
#pragma unroll 1
                for (int i = 0; i < images; ++i) {
                    const uint32_t place = share.place(in, buffer, i, plane)
                            + in.past(number + i * shape.channels);
                    uint32_t result = base + results + i * cut.result_bytes
                            + out.past(share.first_plane(stage, i))
                            + plane * out.elements() * 2 + lane_result;
                    // Of rows an even and an odd distance down, whose pairs may
                    // begin in the middle of a word.
                    pairs_at<wide> at[2][2];
#pragma unroll
                    for (int odd = 0; odd < 2; ++odd)
#pragma unroll
                        for (int half = 0; half < 2; ++half)
                            at[odd][half] = pairs_at<wide>(
                                    place + lane_at[half] + odd * pitch);
                    // Columns 8 * chunk - start and on, `ahead` chunks after `at`.
                    using chunk_pairs = uint32_t[size][2];
                    const auto load = [&](auto masked, int chunk, int ahead,
                                              chunk_pairs &pairs) {
                        constexpr int kinds = wide == 2 ? 1 : 2;
                        const uint32_t mask = masked.value
                                ? pair_mask<wide>(
                                        chunk * tile_columns - start + 2 * t,
                                        along.read)
                                : ~0U;
#pragma unroll
                        for (int r = 0; r < size; ++r)
#pragma unroll
                            for (int half = 0; half < 2; ++half)
                                pairs[r][half] = at[r % kinds][half].load(
                                                         (r - r % kinds) * pitch
                                                         + ahead * 16)
                                        & mask;
                    };
                    const auto store = [&](auto masked, int tile, int ahead,
                                               const float(&sums)[4]) {
#pragma unroll
                        for (int half = 0; half < 2; ++half) {
                            const float pair[2]
                                    = {sums[2 * half], sums[2 * half + 1]};
                            const uint32_t bits = pack<Type, 2>::of(pair).bits;
                            products = add_zero_times<Type>(bits, products);
                            const int left = along.written - tile * tile_columns
                                    - 2 * t;
                            if (!inside[half] || (masked.value && left <= 0))
                                continue;
                            const uint32_t to = result + ahead * 16
                                    + half * 16 * along.written;
                            if constexpr (wide == 2) {
                                store_shared(to, bits);
                                continue;
                            }
                            store_shared_half(
                                    to, static_cast<unsigned short>(bits));
                            if (!masked.value || left > 1)
                                store_shared_half(to + 2,
                                        static_cast<unsigned short>(
                                                bits >> 16));
                        }
                    };
                    // Tiles `tile` and the next one, whose chunks begin with
                    // `first`; `last` is that of the tile after them.
                    const auto multiply = [&](auto masked, int tile,
                                                  const chunk_pairs &first,
                                                  chunk_pairs &second,
                                                  chunk_pairs &last) {
                        load(masked, tile + 1, 1, second);
                        load(masked, tile + 2, 2, last);
                        float sums[2][4] = {};
#pragma unroll
                        for (int r = 0; r < size; ++r) {
                            multiply_matrices<Type>(sums[0], first[r],
                                    second[r], window[r][0], window[r][1]);
                            multiply_matrices<Type>(sums[1], second[r], last[r],
                                    window[r][0], window[r][1]);
                        }
                        store(masked, tile, 0, sums[0]);
                        store(masked, tile + 1, 1, sums[1]);
#pragma unroll
                        for (int half = 0; half < 2; ++half) {
                            at[0][half].advance(32);
                            at[1][half].advance(32);
                        }
                        result += 32;
                    };
                    const auto multiply_any = [&](int tile, auto &...chunks) {
                        if (tile < whole_tiles)
                            multiply(std::false_type(), tile, chunks...);
                        else
                            multiply(std::true_type(), tile, chunks...);
                    };
                    chunk_pairs chunks[3];
                    load(std::true_type(), 0, 0, chunks[0]);
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
        const int count = share.planes * out.elements();
        const auto results_of = [&](int i) {
            return reinterpret_cast<Type *>(memory + results
                    + i * cut.result_bytes
                    + out.past(share.first_plane(stage, i)));
        };
        if (again) {
#pragma unroll 1
            for (int e = thread; e < images * count; e += plane_warps * 32) {
                const int i = e / count;
                const int row = (e - i * count) / along.written;
                Type &result = results_of(i)[e - i * count];
                take_again(result, read, weights, shape,
                        int64_t {stage} * cut.images + i,
                        share.first_channel + row / out.rows(),
                        out.held.begin + row % out.rows(), e % along.written);
            }
            __syncthreads();
        }
#pragma unroll 1
        for (int i = 0; i < images; ++i)
            copy_out(written + out.first(share.first_plane(stage, i)),
                    results_of(i), count);
    }
}

} // namespace gradnn::gpu::depthwise
