// Depthwise windows along W alone, gradient of the weights, on tensor cores.
//
//     diff_weights[s] = sum over n, rows, x of src[x - pad + s] * dst[x]
//
// Eight rows of a matrix are the columns of src from 0, 8, 16 ... on, eight columns
// of another those of dst, moved by 0, 1, 2 ... to the left: sixteen columns of both
// at a time make a part of the sums for all taps s = 8 * row + column (less the zero
// before the first).
//
// A block has a channel, a warp every so manyeth piece of its rows. Both tensors come
// to shared memory a piece ahead, 16 bytes at a time wherever rows begin. In the end
// a block adds up its warps' sums, in a fixed order, and writes one partial sum a
// weight, which a second launch adds up (convolution_depthwise_parts.cu). Columns
// outside are zeros; what comes out infinite or NaN is taken again there.
#include <cstddef>

#include "gpu/convolution_depthwise_lines.cuh"
#include "gpu/launch.hpp"

namespace gradnn::gpu {

namespace {

constexpr int buffers = 2;
/// Columns of dst before a piece that are moved into it, as many as leave addresses
/// as they are.
constexpr int moved = 8;
// Bytes that a warp holds of a piece, with what shifted loads reach beyond.
constexpr int src_bytes = (lines_columns + lines_most_taps + 16) * 2;
constexpr int dst_bytes = (lines_columns + moved + 16) * 2;
constexpr int piece_bytes = src_bytes + dst_bytes;

template <typename Type, int wide>
__global__ void __launch_bounds__(lines_warps * 32, 4)
        depthwise_lines_weights_kernel(const Type *src, const Type *dst,
                float *partials, const __grid_constant__ depthwise_shape shape,
                const __grid_constant__ depthwise_lines cut) {
    __shared__ uint4 shared[lines_warps * buffers * piece_bytes / 16];
    const depthwise_axis &along = shape.axes[2];
    const auto thread = static_cast<int>(threadIdx.x);
    const int lane = thread % 32;
    const int warp = __shfl_sync(0xffffffffU, thread / 32, 0);
    const int64_t channel = blockIdx.x / cut.parts;
    const auto part = static_cast<int>(blockIdx.x % cut.parts);
    const int64_t rows = shape.images * shape.channels * shape.axes[1].read;
    const int pieces = static_cast<int>(shape.images) * shape.axes[1].read
            * cut.pieces;
    const int apart = cut.parts * lines_warps;
    const uint32_t places
            = shared_address(shared) + warp * buffers * piece_bytes;
    const auto src_of = [&](int piece) {
        const lines_piece of(shape, cut, piece);
        return held_columns<Type> {src, src + rows * along.read,
                src + of.first(shape, channel, along.read), along.read,
                of.column - along.pad - cut.lead,
                lines_columns + lines_most_taps};
    };
    const auto dst_of = [&](int piece) {
        const lines_piece of(shape, cut, piece);
        return held_columns<Type> {dst, dst + rows * along.written,
                dst + of.first(shape, channel, along.written), along.written,
                of.column - moved, lines_columns + moved};
    };
    const auto fetch = [&](int piece, int buffer) {
        if (piece < pieces) {
            const uint32_t place = places + buffer * piece_bytes;
            src_of(piece).fetch(place);
            dst_of(piece).fetch(place + src_bytes);
        }
        commit_copies();
    };

    wait_for_earlier_work();
    let_later_work_start();
    const int first_piece = part * lines_warps + warp;
    fetch(first_piece, 0);
    float total[2] = {};
    int buffer = 0;
#pragma unroll 1
    for (int piece = first_piece; piece < pieces; piece += apart) {
        wait_for_copies<0>();
        __syncwarp();
        fetch(piece + apart, buffer ^ 1);
        const uint32_t place = places + buffer * piece_bytes;
        buffer ^= 1;
        const held_columns<Type> src_held = src_of(piece);
        const held_columns<Type> dst_held = dst_of(piece);
        const bool outside = src_held.clear_outside(place);
        if (dst_held.clear_outside(place + src_bytes) || outside) __syncwarp();
        // Row g, from column 2t on; column g, from row 2t on.
        uint32_t src_at = place + src_held.past() + lane * 4;
        uint32_t dst_at = place + src_bytes + dst_held.past()
                + (moved + lane % 4 * 2 - lane / 4) * 2;
        const int steps = ceil_div(
                min(lines_columns, along.written + 7 - (dst_held.first + moved)),
                16);
        // Two sums that take turns, so that one need not wait for itself.
        float sums[2][4] = {};
        const auto multiply = [&](int i) {
            uint32_t left[2][1];
            uint32_t right[2][1];
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                load_pairs<wide>(src_at + i * 32 + half * 16, left[half]);
                load_pairs<1>(dst_at + i * 32 + half * 16, right[half]);
            }
            multiply_matrices<Type>(sums[i % 2], {left[0][0], 0U},
                    {left[1][0], 0U}, right[0][0], right[1][0]);
        };
        constexpr int at_once = 4;
        int step = 0;
#pragma unroll 1
        for (; step + at_once <= steps; step += at_once) {
#pragma unroll
            for (int i = 0; i < at_once; ++i)
                multiply(i);
            src_at += at_once * 32;
            dst_at += at_once * 32;
        }
#pragma unroll
        for (int i = 0; i < at_once - 1; ++i)
            if (step + i < steps) multiply(i);
#pragma unroll
        for (int e = 0; e < 2; ++e)
            total[e] += sums[0][e] + sums[1][e];
    }

    __shared__ float of_warps[lines_warps][lines_most_taps];
#pragma unroll
    for (int e = 0; e < 2; ++e)
        of_warps[warp][lane * 2 + e] = total[e];
    __syncthreads();
    if (thread >= along.kernel) return;
    float sum = 0;
    for (const auto &of_warp : of_warps)
        sum += of_warp[thread + cut.lead];
    partials[(channel * along.kernel + thread) * cut.parts + part] = sum;
}

} // namespace

void launch_depthwise_lines_weights(detail::data_type type,
        const depthwise_shape &shape, const depthwise_lines &cut, bool wide,
        const depthwise_pointers &pointers, const launch_stream &stream) {
    const auto with = [&]<typename Type, int width>() {
        launch_early("convolution.gpu_depthwise (lines, weights)",
                depthwise_lines_weights_kernel<Type, width>,
                static_cast<unsigned>(shape.channels * cut.parts),
                lines_warps * 32, 0, stream,
                static_cast<const Type *>(pointers.read),
                static_cast<const Type *>(pointers.written),
                static_cast<float *>(pointers.workspace), shape, cut);
    };
    with_float_type(type, [&]<typename Type>() {
        if constexpr (sizeof(Type) == 2) {
            if (wide)
                with.template operator()<Type, 2>();
            else
                with.template operator()<Type, 1>();
        }
    });
}

} // namespace gradnn::gpu
