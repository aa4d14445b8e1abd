// Depthwise windows of 7x7, gradient of the weights, on tensor cores.
//
//     diff_weights[c,r,s] = sum over n, y, x of
//                           src[n,c,y - pad + r,x - pad + s] * dst[n,c,y,x]
//
// All columns and tiles of rows are added up in the same matrices, one for each s
// (README.md); dst is loaded once for all. A warp has one plane, or a part of its columns. In
// the end a block adds up the diagonals, in a fixed order, and writes one partial sum a weight,
// which a second launch adds up (convolution/weights_sum.cuh). Columns and rows outside are
// zeros; what comes out infinite or NaN is taken again there.
#pragma once

#include "gpu/convolution/depthwise/planes.cuh"

namespace gradnn::gpu::depthwise {

template <typename Type, int wide>
__global__ void __launch_bounds__(plane_warps * 32, 5)
        depthwise_planes_weights_kernel(const Type *src, const Type *dst,
                float *partials, const __grid_constant__ problem_shape shape,
                const __grid_constant__ work_cut cut) {
    // Pairs of columns of dst begin an even distance from its usual columns: those
    // at an odd distance are put together from two.
    constexpr int size = window_size;
    constexpr int odd = usual_pad % 2;
    constexpr int words = size / 2 + 1 + odd;
    extern __shared__ uint4 shared[];
    const window_axis &along = shape.along;
    const auto thread = static_cast<int>(threadIdx.x);
    const int g = thread % 32 / 4;
    const int t = thread % 4;
    const plane_share share(shape, cut, shared);
    const int plane = share.plane;
    const auto src_held = share.of_read(src);
    const auto dst_held = share.of_written(dst);

    clear_shared(shared, cut.shared_bytes);
    wait_and_let_later_work_start();
    share.fetch(share.image_part, 0, src_held, dst_held);

    // Of dst, of the first tap that is met.
    const int first_column = along.before - (size - 1) - odd;
    const int src_pitch = src_held.pitch();
    const int dst_pitch = dst_held.pitch();
    const int last_row = dst_held.rows() + size - 2; // of src
    float total[size][4] = {};
    uint32_t src_masks[2];
    uint32_t dst_masks[2][words];
    // All rows of 16 columns, from these of row 0 of src and row g of dst on.
    const auto add_rows = [&](auto masked, uint32_t src_place,
                                  uint32_t dst_place) {
#pragma unroll 1
        for (int row = 0; row < dst_held.rows(); row += dst_tile_rows) {
            uint32_t left[2]; // of src: rows g and g + 8
            uint32_t right[2]; // 8 columns further on
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const pairs_at<wide> at(src_place
                        + min(row + g + 8 * half, last_row) * src_pitch);
                left[half] = at.load(0);
                right[half] = at.load(16);
                if constexpr (masked.value) {
                    left[half] &= src_masks[0];
                    right[half] &= src_masks[1];
                }
            }
            // Of rows that are none zeros.
            const pairs_at<wide> at(row + g < dst_held.rows()
                            ? dst_place + row * dst_pitch
                            : share.base);
            uint32_t pairs[2][words];
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                at.load(16 * half, pairs[half]);
#pragma unroll
                for (int w = 0; w < words; ++w)
                    if constexpr (masked.value)
                        pairs[half][w] &= dst_masks[half][w];
            }
#pragma unroll
            for (int e = 0; e < size; ++e) {
                uint32_t moved[2];
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    const int w = (e + odd) / 2;
                    moved[half] = (e + odd) % 2 == 0
                            ? pairs[half][w]
                            : __byte_perm(
                                    pairs[half][w], pairs[half][w + 1], 0x5432);
                }
                multiply_matrices<Type>(
                        total[e], left, right, moved[0], moved[1]);
            }
        }
    };
    int buffer = 0;
#pragma unroll 1
    for (int stage = share.image_part; stage < share.stages;
            stage += cut.image_parts, buffer ^= 1) {
        const int images = share.images(stage);
        share.begin_stage(stage, buffer, src_held, dst_held);
        if (plane >= share.planes) continue;
#pragma unroll 1
        for (int column = share.part * tile_span; column < along.read;
                column += share.parts * tile_span) {
            // Whether all of the columns are inside.
            const bool whole = column + tile_span <= along.read
                    && column + first_column >= 0
                    && column + first_column + tile_span + 2 * words - 2
                            <= along.written;
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const int from = column + 2 * t + 8 * half;
                src_masks[half] = pair_mask<wide>(from, along.read);
#pragma unroll
                for (int i = 0; i < words; ++i)
                    dst_masks[half][i] = pair_mask<wide>(
                            from + first_column + 2 * i, along.written);
            }
#pragma unroll 1
            for (int i = 0; i < images; ++i) {
                const int64_t number = share.first_plane(stage, i) + plane;
                const uint32_t src_place
                        = share.place(src_held, buffer, i, plane)
                        + src_held.past(number)
                        + (dst_held.held.begin - shape.down.before
                                  - src_held.held.begin)
                                * src_pitch
                        + (column + 2 * t) * 2;
                const uint32_t dst_place
                        = share.place(dst_held, buffer, i, plane)
                        + dst_held.past(number) + g * dst_pitch
                        + (column + 2 * t + first_column) * 2;
                if (whole)
                    add_rows(std::false_type(), src_place, dst_place);
                else
                    add_rows(std::true_type(), src_place, dst_place);
            }
        }
    }

    // Element e is that of tap size - 1 - e along W.
    const held_sums<size> sums {reinterpret_cast<float *>(shared)};
    sums.store(total);
    const int64_t part = int64_t {share.image_part} * cut.bands + share.band;
    for (int i = thread; i < share.planes * size * size;
            i += plane_warps * 32) {
        const int of_plane = i / (size * size);
        const int k = i - of_plane * size * size;
        const int r = k / size;
        const int e = size - 1 - k % size;
        float sum = 0;
        for (int from = of_plane; from < plane_warps; from += cut.planes)
            sum = sums.add_diagonal(sum, from, 16 * e + r);
        partials[(part * size * size + k) * shape.channels + share.first_channel
                + of_plane]
                = sum;
    }
}

} // namespace gradnn::gpu::depthwise
