// Depthwise windows along W alone, forward and gradient of src, on tensor
// cores.
//
//     written[w] = sum over s of window[s] * read[w - before + s]
//
// in every row, where the window of the gradient of src is turned around.
// Sixteen rows of a matrix are the columns of read from 0, 8, 16 ... on, so
// that they overlap; that of 16x8 elements with window[k - column] in row k is
// the same for all: sixteen columns of read at a time make a part of 128
// columns of written.
//
// A block has a channel, each of n warps every n-th piece of its rows, the
// window's matrices in registers. Read comes to shared memory two pieces ahead,
// 16 bytes at a time wherever rows begin; results leave as they are in
// registers, which is how they lie in memory. Products with the matrices' zeros
// are NaN where read or the window is infinite or NaN: what came out NaN is in
// the end taken again from the definition.
#include "gpu/convolution/depthwise/lines/device.cuh"
#include "gpu/convolution/depthwise/plan.hpp"
#include "gpu/runtime/with_type.hpp"

namespace gradnn::gpu::depthwise::lines {

namespace {

constexpr int buffers = 3;

/// Bytes that a warp holds of a piece: its columns, those that windows reach
/// beyond and those that shifted loads do.
template <int steps>
constexpr int piece_bytes = (warp_columns + 16 * steps + 16) * 2;

template <typename Type, int steps, int wide>
__global__ void __launch_bounds__(block_warps * 32, 4)
        depthwise_lines_data_kernel(const Type *read, const Type *weights,
                Type *written, const __grid_constant__ problem_shape shape,
                const __grid_constant__ work_cut cut) {
    __shared__ uint4 shared[block_warps * buffers * piece_bytes<steps> / 16];
    const window_axis &along = shape.axes[2];
    const auto lane = static_cast<int>(threadIdx.x % 32);
    const int warp
            = __shfl_sync(0xffffffffU, static_cast<int>(threadIdx.x / 32), 0);
    const int64_t channel = blockIdx.x / cut.parts;
    const auto part = static_cast<int>(blockIdx.x % cut.parts);
    const int pieces
            = static_cast<int>(shape.images) * shape.axes[1].read * cut.pieces;
    const int apart = cut.parts * block_warps;
    const uint32_t places
            = shared_address(shared) + warp * buffers * piece_bytes<steps>;
    const int64_t elements
            = shape.images * shape.channels * shape.axes[1].read * along.read;
    const int start = taps_before(along, shape.to_src) + cut.lead;
    const auto held_of = [&](const warp_piece &of) {
        return held_columns<Type> {read, read + elements,
                read + of.first(shape, channel, along.read), along.read,
                of.column - start, warp_columns + 16 * steps};
    };
    const auto fetch = [&](int piece, int buffer) {
        if (piece < pieces)
            held_of(warp_piece(shape, cut, piece))
                    .fetch(places + buffer * piece_bytes<steps>);
        commit_copies();
    };

    wait_for_earlier_work();
    const int first_piece = part * block_warps + warp;
    fetch(first_piece, 0);
    fetch(first_piece + apart, 1);
    // Rows 2t, 2t + 1 and 8 further on of column g.
    uint32_t window[steps][2];
    const Type *const taps = weights + channel * shape.weights_strides[0];
#pragma unroll
    for (int s = 0; s < steps; ++s)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            uint32_t pair = 0;
#pragma unroll
            for (int e = 0; e < 2; ++e) {
                const int tap = 16 * s + 8 * half + lane % 4 * 2 + e - lane / 4
                        - cut.lead;
                if (tap < 0 || tap >= along.kernel) continue;
                const Type &weight
                        = taps[(shape.to_src ? along.kernel - 1 - tap : tap)
                                * shape.weights_strides[3]];
                pair |= static_cast<uint32_t>(
                                reinterpret_cast<const unsigned short &>(
                                        weight))
                        << (16 * e);
            }
            window[s][half] = pair;
        }

    uint32_t products = 0;
    int buffer = 0;
#pragma unroll 1
    for (int piece = first_piece; piece < pieces; piece += apart) {
        wait_for_copies<1>();
        __syncwarp();
        const uint32_t place = places + buffer * piece_bytes<steps>;
        const warp_piece of(shape, cut, piece);
        const held_columns<Type> held = held_of(of);
        if (held.clear_outside(place)) __syncwarp();
        const int ahead = buffer == 0 ? buffers - 1 : buffer - 1;
        fetch(piece + 2 * apart, ahead);
        buffer = buffer + 1 == buffers ? 0 : buffer + 1;
        Type *const to
                = written + of.first(shape, channel, along.written) + of.column;
        const int columns = min(along.written - of.column, warp_columns);
        pairs_at<wide> from(place + held.past() + lane * 4);
#pragma unroll 1
        for (int first = 0; first < columns; first += tile_columns) {
            // Of rows g and g + 8, which begin 64 columns further on, every
            // eight columns.
            uint32_t words[2][2 * steps];
#pragma unroll
            for (int row = 0; row < 2; ++row)
#pragma unroll
                for (int i = 0; i < 2 * steps; ++i)
                    words[row][i] = from.load(row * 128 + i * 16);
            from.advance(tile_columns * 2);
            float sums[4] = {};
#pragma unroll
            for (int s = 0; s < steps; ++s)
                multiply_matrices<Type>(sums,
                        {words[0][2 * s], words[1][2 * s]},
                        {words[0][2 * s + 1], words[1][2 * s + 1]},
                        window[s][0], window[s][1]);
#pragma unroll
            for (int row = 0; row < 2; ++row) {
                const int column = first + row * 64 + lane * 2;
                const float two[2] = {sums[2 * row], sums[2 * row + 1]};
                const auto pair = pack<Type, 2>::of(two);
                products = add_zero_times<Type>(pair.bits, products);
                if constexpr (wide == 2) {
                    if (column < columns) pair.store(to + column);
                } else {
                    const auto *const each
                            = reinterpret_cast<const Type *>(&pair);
                    if (column < columns) to[column] = each[0];
                    if (column + 1 < columns) to[column + 1] = each[1];
                }
            }
        }
    }
    if (!__any_sync(0xffffffffU, products != 0)) return;
#pragma unroll 1
    for (int piece = first_piece; piece < pieces; piece += apart) {
        const warp_piece of(shape, cut, piece);
        Type *const to
                = written + of.first(shape, channel, along.written) + of.column;
        const int columns = min(along.written - of.column, warp_columns);
        // Each lane those that it wrote.
#pragma unroll 1
        for (int column = lane * 2; column < columns; column += 64)
#pragma unroll 1
            for (int w = column; w < min(column + 2, columns); ++w)
                take_again(to[w], read, weights, shape, of.image, channel,
                        of.row, of.column + w);
    }
}

} // namespace

launcher data_launcher(
        const problem_facts &facts, const work_cut &cut, bool pairs) {
    const bool wide = pairs && rows_are_wide(facts.shape);
    return with_half_precision_type(
            facts.problem.src.type, [&]<typename Type>() {
                return with_chosen(
                        [&]<int steps, int width>() {
                            return launch_of(facts,
                                    "convolution.gpu_depthwise_lines",
                                    depthwise_lines_data_kernel<Type, steps,
                                            width>,
                                    facts.shape.channels * cut.parts,
                                    block_warps * 32, 0, cut);
                        },
                        steps_of(facts.shape, cut),
                        one_of<1, 2> {wide ? 2 : 1});
            });
}

} // namespace gradnn::gpu::depthwise::lines
