// Depthwise convolution, gradient of the weights, on tensor cores.
//
//     diff_weights[c,r,s] = sum over n, y, x of
//                           src[n,c,y - pad + r,x - pad + s] * dst[n,c,y,x]
//
// Sixteen rows of src times eight of dst, both of 16 columns, those of dst moved
// against the others by a tap s, are a matrix of 16x8 sums, of which those that lie
// r off the diagonal belong to the tap (r, s). All columns and tiles of rows are
// added up in the same matrices, one for each s; dst is loaded once for all.
//
// A block has the planes of some neighbouring channels, or a band of the rows of
// dst of one, in every `image_parts`-th group of images. They come to shared memory as
// they lie, 16 bytes at a time, while the block computes those before. A warp has
// one plane, or a part of its rows. In the end a block adds up the diagonals, in a
// fixed order, and writes one partial sum a weight, which a second launch adds up
// (convolution/weights_sum.cu). Columns and rows outside are zeros; what comes
// out infinite or NaN is taken again there.
#include "gpu/convolution/depthwise/matrices/device.cuh"
#include "gpu/convolution/depthwise/plan.hpp"
#include "gpu/runtime/with_type.hpp"

namespace gradnn::gpu::depthwise::matrices {

namespace {

template <typename Type, int wide>
__global__ void __launch_bounds__(block_warps * 32, 5)
        depthwise_matrices_weights_kernel(const Type *src, const Type *dst,
                float *partials, const __grid_constant__ problem_shape shape,
                const __grid_constant__ work_cut cut) {
    // Pairs of columns of dst begin an even distance from its usual columns: those
    // at an odd distance are put together from two.
    constexpr int size = window_size;
    constexpr int odd = usual_pad(size) % 2;
    constexpr int words = (size - 1) / 2 + 1 + odd;
    constexpr int sums_elements = tile_rows * dst_tile_rows;
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
    const int plane = warp.first_plane;

    const int64_t planes = shape.images * shape.channels;
    const int64_t src_plane = int64_t {down.read} * along.read;
    const int64_t dst_plane = int64_t {down.written} * along.written;
    const held_planes<Type> src_held {src, src + planes * src_plane, src_plane,
            along.read, block.read, cut.read_gap, cut.by_read_vectors};
    const held_planes<Type> dst_held {dst, dst + planes * dst_plane, dst_plane,
            along.written, block.written, cut.written_gap,
            cut.by_written_vectors};
    const int image_bytes = cut.read_bytes + cut.written_bytes;
    const auto place_of_src = [&](int buffer, int i, int of_plane) {
        return zeros_bytes + (buffer * cut.images + i) * image_bytes
                + cut.read_lead + of_plane * cut.read_distance;
    };
    const auto place_of_dst = [&](int buffer, int i, int of_plane) {
        return zeros_bytes + (buffer * cut.images + i) * image_bytes
                + cut.read_bytes + slack_bytes
                + of_plane * cut.written_distance;
    };
    const auto fetch = [&](int stage, int buffer) {
        const int images = block.images(stage);
        if (plane < block.planes)
            for (int i = 0; i < images; ++i) {
                const int64_t number = block.first_plane(stage, i) + plane;
                src_held.fetch(memory + place_of_src(buffer, i, plane), number,
                        warp.share * 32 + lane, warp.shares * 32);
                dst_held.fetch(memory + place_of_dst(buffer, i, plane), number,
                        warp.share * 32 + lane, warp.shares * 32);
            }
        commit_copies();
    };

    clear_shared(shared, cut.shared_bytes);
    wait_and_let_later_work_start();
    fetch(block.image_part, 0);

    // Of dst, of the first tap that is met.
    const int first_column = along.pad - (size - 1) - odd;
    const int src_pitch = src_held.pitch();
    const int dst_pitch = dst_held.pitch();
    float total[size][4] = {};
    int buffer = 0;
#pragma unroll 1
    for (int stage = block.image_part; stage < block.stages;
            stage += cut.image_parts, buffer ^= 1) {
        const int images = block.images(stage);
        wait_for_copies<0>();
        __syncthreads();
        if (clear_before_planes(
                    src_held, block, stage, [&](int i, int of_plane) {
                        return base + place_of_src(buffer, i, of_plane);
                    }))
            __syncthreads();
        if (stage + cut.image_parts < block.stages)
            fetch(stage + cut.image_parts, buffer ^ 1);
        if (plane >= block.planes) continue;
#pragma unroll 1
        for (int column = warp.share * tile_span; column < src_held.columns;
                column += warp.shares * tile_span) {
            // Whether all of the columns are inside.
            const bool whole = column + tile_span <= src_held.columns
                    && column + first_column >= 0
                    && column + first_column + tile_span + 2 * words - 2
                            <= dst_held.columns;
            uint32_t src_masks[2];
            uint32_t dst_masks[2][words];
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const int from = column + 2 * t + 8 * half;
                src_masks[half] = pair_mask<wide>(from, src_held.columns);
#pragma unroll
                for (int i = 0; i < words; ++i)
                    dst_masks[half][i] = pair_mask<wide>(
                            from + first_column + 2 * i, dst_held.columns);
            }
#pragma unroll 1
            for (int i = 0; i < images; ++i) {
                const int64_t number = block.first_plane(stage, i) + plane;
                const uint32_t src_place = base + place_of_src(buffer, i, plane)
                        + src_held.past(number)
                        + (dst_held.held.begin - down.pad - src_held.held.begin)
                                * src_pitch
                        + (column + 2 * t) * 2;
                const uint32_t dst_place = base + place_of_dst(buffer, i, plane)
                        + dst_held.past(number) + g * dst_pitch
                        + (column + 2 * t + first_column) * 2;
                const int last_row = dst_held.rows() + size - 2; // of src
                const auto rows_from = [&]<bool masked>(int row) {
                    uint32_t left[2]; // of src: rows g and g + 8
                    uint32_t right[2]; // 8 columns further on
#pragma unroll
                    for (int half = 0; half < 2; ++half) {
                        const uint32_t at = src_place
                                + min(row + g + 8 * half, last_row) * src_pitch;
                        uint32_t one[1];
                        load_pairs<wide>(at, one);
                        left[half] = one[0];
                        load_pairs<wide>(at + 16, one);
                        right[half] = one[0];
                        if constexpr (masked) {
                            left[half] &= src_masks[0];
                            right[half] &= src_masks[1];
                        }
                    }
                    uint32_t at = dst_place + row * dst_pitch;
                    if (row + g >= dst_held.rows()) at = base;
                    uint32_t pairs[2][words];
#pragma unroll
                    for (int half = 0; half < 2; ++half) {
                        load_pairs<wide>(at + 16 * half, pairs[half]);
#pragma unroll
                        for (int w = 0; w < words; ++w)
                            if constexpr (masked)
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
                                    : __byte_perm(pairs[half][w],
                                            pairs[half][w + 1], 0x5432);
                        }
                        multiply_matrices<Type>(
                                total[e], left, right, moved[0], moved[1]);
                    }
                };
                if (whole) {
#pragma unroll 1
                    for (int row = 0; row < dst_held.rows();
                            row += dst_tile_rows)
                        rows_from.template operator()<false>(row);
                } else {
#pragma unroll 1
                    for (int row = 0; row < dst_held.rows();
                            row += dst_tile_rows)
                        rows_from.template operator()<true>(row);
                }
            }
        }
    }

    // Element e is that of tap size - 1 - e along W.
    auto *const sums = reinterpret_cast<float *>(shared);
    __syncthreads();
#pragma unroll
    for (int e = 0; e < size; ++e)
#pragma unroll
        for (int i = 0; i < 4; ++i)
            sums[(thread / 32 * size + e) * sums_elements
                    + (g + i / 2 * 8) * dst_tile_rows + 2 * t + i % 2]
                    = total[e][i];
    __syncthreads();
    const int64_t part = int64_t {block.image_part} * cut.bands + block.band;
    for (int i = thread; i < block.planes * size * size; i += threads) {
        const int of_plane = i / (size * size);
        const int k = i - of_plane * size * size;
        const int r = k / size;
        const int e = size - 1 - k % size;
        float sum = 0;
        for (int from = of_plane; from < block_warps; from += cut.planes)
            for (int y = 0; y < dst_tile_rows; ++y)
                sum += sums[(from * size + e) * sums_elements
                        + (y + r) * dst_tile_rows + y];
        partials[(part * size * size + k) * shape.channels + block.first_channel
                + of_plane]
                = sum;
    }
}

} // namespace

launcher weights_launcher(
        const problem_facts &facts, const work_cut &cut, bool pairs) {
    const bool wide = pairs && rows_are_wide(facts.shape, 2);
    return with_half_precision_type(
            facts.problem.src.type, [&]<typename Type>() {
                return launch_of(facts,
                        "convolution.gpu_depthwise_matrices (weights)",
                        wide ? depthwise_matrices_weights_kernel<Type, 2>
                             : depthwise_matrices_weights_kernel<Type, 1>,
                        cut.blocks(), block_warps * 32, cut.shared_bytes, cut);
            });
}

} // namespace gradnn::gpu::depthwise::matrices
