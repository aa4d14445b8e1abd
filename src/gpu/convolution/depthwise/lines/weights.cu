// Depthwise windows along W alone, gradient of the weights, on tensor cores.
//
//     diff_weights[s] = sum over n, rows, x of src[x - pad + s] * dst[x]
//
// A row in lines of eight columns: those of dst, one below the other, are a
// matrix of eight columns; those of src, and beside them the lines that follow,
// one of some more. Sixteen lines of one, turned around, times those of the
// other are a part of the sums of all pairs of columns, of which those that lie
// s apart, on a diagonal, belong to the tap s (less the zeros before the first,
// by which src begins at a multiple of eight columns where dst does).
//
// A block has a channel, each of n warps every n-th piece of its rows. Both
// tensors come to shared memory a piece ahead, 16 bytes at a time wherever rows
// begin, and are moved there to where lines are vectors of 16 bytes if they are
// not. In the end a block adds up its warps' diagonals, in a fixed order, and
// writes one partial sum a weight, which a second launch adds up
// (convolution/weights_sum.cuh). Columns outside are zeros; what comes out
// infinite or NaN is taken again there.
#include "gpu/convolution/depthwise/lines/device.cuh"
#include "gpu/convolution/depthwise/plan.hpp"
#include "gpu/runtime/with_type.hpp"

namespace gradnn::gpu::depthwise::lines {

namespace {

constexpr int stages = 2;
constexpr int line = 8; ///< columns, 16 bytes

/// Columns of src that a piece meets.
template <int steps>
constexpr int src_columns = warp_columns + 16 * steps;
/// Bytes that a warp holds of a piece's dst, and of both tensors.
constexpr int dst_bytes = (warp_columns + 16) * 2;
template <int steps>
constexpr int stage_bytes = (src_columns<steps> + 16) * 2 + dst_bytes;

/// What a warp holds of a row, ready: zeros outside, from `place` on.
template <int count, typename Type>
__device__ __forceinline__ void make_ready(
        const held_columns<Type> &held, uint32_t place) {
    if (held.clear_outside(place)) __syncwarp();
    if (held.past() == 0) return;
    constexpr int words = (count / 2 + 31) / 32;
    const auto lane = static_cast<int>(threadIdx.x % 32);
    const pairs_at<1> from(place + held.past() + lane * 4);
    uint32_t moved[words];
#pragma unroll
    for (int i = 0; i < words; ++i)
        if (lane + i * 32 < count / 2) moved[i] = from.load(i * 128);
    __syncwarp();
#pragma unroll
    for (int i = 0; i < words; ++i)
        if (lane + i * 32 < count / 2)
            store_shared(place + lane * 4 + i * 128, moved[i]);
    __syncwarp();
}

template <typename Type, int steps>
__global__ void __launch_bounds__(block_warps * 32, 4)
        depthwise_lines_weights_kernel(const Type *src, const Type *dst,
                float *partials, const __grid_constant__ problem_shape shape,
                const __grid_constant__ work_cut cut) {
    constexpr int sums_rows = 16 * steps;
    constexpr int held_bytes = block_warps * stages * stage_bytes<steps>;
    constexpr int sums_bytes
            = block_warps * sums_rows * line * static_cast<int>(sizeof(float));
    __shared__ uint4
            shared[(held_bytes > sums_bytes ? held_bytes : sums_bytes) / 16];
    const window_axis &along = shape.axes[2];
    const auto thread = static_cast<int>(threadIdx.x);
    const int lane = thread % 32;
    const int warp = __shfl_sync(0xffffffffU, thread / 32, 0);
    const int64_t channel = blockIdx.x / cut.parts;
    const auto part = static_cast<int>(blockIdx.x % cut.parts);
    const int64_t rows = shape.images * shape.channels * shape.axes[1].read;
    const int pieces
            = static_cast<int>(shape.images) * shape.axes[1].read * cut.pieces;
    const int apart = cut.parts * block_warps;
    const uint32_t places
            = shared_address(shared) + warp * stages * stage_bytes<steps>;
    const auto src_of = [&](const warp_piece &of) {
        return held_columns<Type> {src, src + rows * along.read,
                src + of.first(shape, channel, along.read), along.read,
                of.column - along.pad - cut.lead, src_columns<steps>};
    };
    const auto dst_of = [&](const warp_piece &of) {
        return held_columns<Type> {dst, dst + rows * along.written,
                dst + of.first(shape, channel, along.written), along.written,
                of.column, warp_columns};
    };
    const auto fetch = [&](const warp_piece &of, int buffer) {
        const uint32_t place = places + buffer * stage_bytes<steps>;
        dst_of(of).fetch(place);
        src_of(of).fetch(place + dst_bytes);
        commit_copies();
    };

    wait_and_let_later_work_start();
    const int first_piece = part * block_warps + warp;
    warp_piece next(shape, cut, first_piece);
    if (first_piece < pieces) fetch(next, 0);
    float total[steps][4] = {};
    int buffer = 0;
#pragma unroll 1
    for (int piece = first_piece; piece < pieces; piece += apart) {
        const warp_piece of = next;
        wait_for_copies<0>();
        __syncwarp();
        if (piece + apart < pieces) {
            next = warp_piece(shape, cut, piece + apart);
            fetch(next, buffer ^ 1);
        }
        const uint32_t dst_place = places + buffer * stage_bytes<steps>;
        const uint32_t src_place = dst_place + dst_bytes;
        buffer ^= 1;
        make_ready<warp_columns>(dst_of(of), dst_place);
        make_ready<src_columns<steps>>(src_of(of), src_place);
        // Of sixteen lines the second eight are those of words 2 and 3; of src
        // words 1 and 3 are of the lines that follow.
        const uint32_t dst_lane = dst_place + lane * 16;
        const uint32_t src_lane
                = src_place + (lane % 8 + lane / 8 % 2 + lane / 16 * 8) * 16;
        float sums[steps][4] = {};
        const int columns = min(warp_columns, along.written - of.column);
#pragma unroll 1
        for (int from = 0; from < columns; from += 32 * line) {
            uint32_t right[4];
            load_turned_matrices(right, dst_lane + from * 2);
#pragma unroll
            for (int half = 0; half < 2; ++half)
#pragma unroll
                for (int i = 0; i < steps; ++i) {
                    uint32_t left[4];
                    load_turned_matrices(left,
                            src_lane + from * 2 + (half * 16 + i * 2) * 16);
                    multiply_matrices<Type>(sums[i], {left[0], left[1]},
                            {left[2], left[3]}, right[2 * half],
                            right[2 * half + 1]);
                }
        }
#pragma unroll
        for (int i = 0; i < steps; ++i)
#pragma unroll
            for (int e = 0; e < 4; ++e)
                total[i][e] += sums[i][e];
    }

    auto *const sums = reinterpret_cast<float *>(shared);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < steps; ++i)
#pragma unroll
        for (int e = 0; e < 4; ++e)
            sums[(warp * sums_rows + 16 * i + lane / 4 + e / 2 * 8) * line
                    + lane % 4 * 2 + e % 2]
                    = total[i][e];
    __syncthreads();
    if (thread >= along.kernel) return;
    float sum = 0;
    for (int of_warp = 0; of_warp < block_warps; ++of_warp)
        for (int column = 0; column < line; ++column)
            sum += sums[(of_warp * sums_rows + cut.lead + thread + column)
                            * line
                    + column];
    partials[(int64_t {part} * along.kernel + thread) * shape.channels
            + channel]
            = sum;
}

} // namespace

launcher weights_launcher(
        const problem_facts &facts, const work_cut &cut, bool /*pairs*/) {
    return with_half_precision_type(
            facts.problem.src.type, [&]<typename Type>() {
                return with_chosen(
                        [&]<int steps>() {
                            return launch_of(facts,
                                    "convolution.gpu_depthwise_lines (weights)",
                                    depthwise_lines_weights_kernel<Type, steps>,
                                    facts.shape.channels * cut.parts,
                                    block_warps * 32, 0, cut);
                        },
                        steps_of(facts.shape, cut));
            });
}

} // namespace gradnn::gpu::depthwise::lines
