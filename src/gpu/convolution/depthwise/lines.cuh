// Depthwise windows along W alone, on tensor cores.
//
// Data:     written[w] = sum over s of window[s] * read[w - before + s]
// Weights:  diff_weights[s] = sum over n, rows, x of src[x - pad + s] * dst[x]
//
// in every row, where the window of the gradient of src is turned around (README.md shows the
// matrices). Sixteen columns of read at a time make a part of 128 columns of written; results
// leave as they are in registers, which is how they lie in memory. Sums for weights begin with
// those for the zeros before the first tap, by which src begins at a multiple of eight columns
// where dst does.
//
// A block has a channel, each of n warps every n-th piece of its rows. They come
// to shared memory ahead, 16 bytes at a time wherever rows begin.
#pragma once

#include "gpu/convolution/depthwise/device.cuh"

namespace gradnn::gpu::depthwise {

/// A piece of a row.
struct line_piece {
    int image;
    int row; ///< of a plane
    int64_t number; ///< of the row, of all rows of the tensors
    int column; ///< of written
};

/// What a warp takes of its block's channel: a piece, and others that lie `apart`.
struct line_share {
    const problem_shape &shape;
    const work_cut &cut;
    int64_t channel;
    int warp; ///< of the block
    int first;
    int apart;
    int pieces; ///< of the channel

    __device__ line_share(const problem_shape &of_shape, const work_cut &of_cut)
        : shape(of_shape),
          cut(of_cut),
          channel(blockIdx.x / cut.image_parts),
          warp(__shfl_sync(0xffffffffU, static_cast<int>(threadIdx.x / 32), 0)),
          first(static_cast<int>(blockIdx.x % cut.image_parts) * line_warps
                  + warp),
          apart(cut.image_parts * line_warps),
          pieces(static_cast<int>(shape.images) * shape.down.read
                  * cut.pieces) {}

    __device__ line_piece piece(int number) const {
        const int rows = shape.down.read;
        const int line = cut.pieces == 1 ? number : number / cut.pieces;
        const int image = rows == 1 ? line : line / rows;
        const int row = line - image * rows;
        return {image, row, (image * shape.channels + channel) * rows + row,
                (number - line * cut.pieces) * piece_columns};
    }
};

/// Columns of a piece's row as a warp holds them in shared memory, from so many before those
/// of written on: zeros in place of those outside. They begin as far past a multiple of 16
/// bytes as they do in the tensor.
template <int count, typename Type>
struct held_columns {
    const problem_shape &shape;
    const Type *tensor;
    int columns; ///< of a row
    int before;

    __device__ int first(const line_piece &of) const {
        return of.column - before;
    }
    __device__ int past(const line_piece &of) const {
        return bytes_past(tensor + of.number * columns + first(of));
    }
    /// Submits copies to what follows `to`, a multiple of 16 bytes, by a warp.
    __device__ __forceinline__ void fetch(
            uint32_t to, const line_piece &of) const {
        const int begin = max(0, first(of));
        const int stop = min(columns, first(of) + count);
        if (begin >= stop) return;
        const uint32_t from = to
                + (past(of)
                          + (begin - first(of))
                                  * static_cast<int>(sizeof(Type)))
                        / 16 * 16;
        fetch_elements(tensor + of.number * columns + begin, stop - begin,
                tensor,
                shape.images * shape.channels * shape.down.read * columns,
                static_cast<int>(threadIdx.x % 32), 32,
                [&](int at) { return from + at; });
    }
    /// Once the copies are there: zeros for the columns outside, by a warp.
    __device__ __forceinline__ void clear_outside(
            uint32_t to, const line_piece &of) const {
        const int outside = -first(of); // before the row
        const int inside = columns + outside;
        if (outside <= 0 && count <= inside) return;
        const auto lane = static_cast<int>(threadIdx.x % 32);
        const uint32_t place = to + past(of);
#pragma unroll 1
        for (int i = lane; i < min(count, outside); i += 32)
            store_shared_half(place + i * 2, 0);
#pragma unroll 1
        for (int i = max(0, inside) + lane; i < count; i += 32)
            store_shared_half(place + i * 2, 0);
        __syncwarp();
    }
};

template <typename Type, int steps, int wide>
__global__ void __launch_bounds__(line_warps * 32, 4)
        depthwise_lines_data_kernel(const Type *read, const Type *weights,
                Type *written, const __grid_constant__ problem_shape shape,
                const __grid_constant__ work_cut cut) {
    constexpr int buffers = 3;
    constexpr int tile = 128; // columns
    constexpr int read_columns = piece_columns + 16 * steps;
    // Also those that shifted loads reach.
    constexpr int piece_bytes = (read_columns + 16) * 2;
    using windows = held_windows<1, steps>;
    constexpr int window_words = windows::channel_bytes / 16;
    __shared__ uint4
            shared[window_words + line_warps * buffers * piece_bytes / 16];
    const window_axis &along = shape.along;
    const auto lane = static_cast<int>(threadIdx.x % 32);
    const line_share share(shape, cut);
    const windows held_window {shared_address(shared)};
    const uint32_t places = held_window.address + windows::channel_bytes
            + share.warp * buffers * piece_bytes;
    const int lead = zeros_before(along.before, 2);
    const held_columns<read_columns, Type> held {
            shape, read, along.read, along.before + lead};
    const auto fetch = [&](int piece, int buffer) {
        if (piece < share.pieces)
            held.fetch(places + buffer * piece_bytes, share.piece(piece));
        commit_copies();
    };

    clear_shared(shared, windows::channel_bytes);
    wait_for_earlier_work();
#pragma unroll 1
    for (int ahead = 0; ahead + 1 < buffers; ++ahead)
        fetch(share.first + ahead * share.apart, ahead);
    held_window.fill(weights, shape, share.channel, 1);
    __syncthreads();
    uint32_t window[steps][2];
    held_window.load(0, lead, window);

    int buffer = 0;
#pragma unroll 1
    for (int piece = share.first; piece < share.pieces; piece += share.apart) {
        wait_for_copies<1>();
        __syncwarp();
        const uint32_t place = places + buffer * piece_bytes;
        const line_piece of = share.piece(piece);
        held.clear_outside(place, of);
        const int ahead = buffer == 0 ? buffers - 1 : buffer - 1;
        fetch(piece + 2 * share.apart, ahead);
        buffer = buffer + 1 == buffers ? 0 : buffer + 1;
        Type *const to = written + of.number * along.written + of.column;
        const int columns = min(along.written - of.column, piece_columns);
        pairs_at<wide> from(place + held.past(of) + lane * 4);
        uint32_t products = 0; // of results and zero: NaN if one is not finite
#pragma unroll 1
        for (int first = 0; first < columns; first += tile) {
            // Of rows g and g + 8, which begin 64 columns further on, every
            // eight columns.
            uint32_t words[2][2 * steps];
#pragma unroll
            for (int row = 0; row < 2; ++row)
#pragma unroll
                for (int i = 0; i < 2 * steps; ++i)
                    words[row][i] = from.load(row * 128 + i * 16);
            from.advance(tile * 2);
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
        if (products == 0) continue;
#pragma unroll 1
        for (int first = lane * 2; first < columns; first += 64)
#pragma unroll 1
            for (int w = first; w < min(first + 2, columns); ++w)
                take_again(to[w], read, weights, shape, of.image, share.channel,
                        of.row, of.column + w);
    }
}

/// What a warp holds of a row, ready: zeros outside, from `place` on, where lines are
/// vectors of 16 bytes.
template <int count, typename Type>
__device__ __forceinline__ void make_ready(
        const held_columns<count, Type> &held, uint32_t place,
        const line_piece &of) {
    held.clear_outside(place, of);
    if (held.past(of) == 0) return;
    constexpr int words = (count / 2 + 31) / 32;
    const auto lane = static_cast<int>(threadIdx.x % 32);
    const pairs_at<1> from(place + held.past(of) + lane * 4);
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

/// A block writes one partial sum for each of its weights, which a second launch adds up
/// (convolution/weights_sum.cuh). Columns outside are zeros; what comes out infinite or NaN
/// is taken again there.
template <typename Type, int steps>
__global__ void __launch_bounds__(line_warps * 32, 4)
        depthwise_lines_weights_kernel(const Type *src, const Type *dst,
                float *partials, const __grid_constant__ problem_shape shape,
                const __grid_constant__ work_cut cut) {
    constexpr int stages = 2;
    constexpr int line = 8; // columns, 16 bytes
    constexpr int src_columns = piece_columns + 16 * steps;
    // That a warp holds of a piece's dst, and of both tensors.
    constexpr int dst_bytes = (piece_columns + 16) * 2;
    constexpr int stage_bytes = (src_columns + 16) * 2 + dst_bytes;
    constexpr int held_bytes = line_warps * stages * stage_bytes;
    constexpr int sums_bytes = line_warps * steps * matrix_sums * 4;
    __shared__ uint4
            shared[(held_bytes > sums_bytes ? held_bytes : sums_bytes) / 16];
    const window_axis &along = shape.along;
    const auto thread = static_cast<int>(threadIdx.x);
    const int lane = thread % 32;
    const line_share share(shape, cut);
    const uint32_t places
            = shared_address(shared) + share.warp * stages * stage_bytes;
    const int lead = zeros_before(along.before, line);
    const held_columns<src_columns, Type> src_held {
            shape, src, along.read, along.before + lead};
    const held_columns<piece_columns, Type> dst_held {
            shape, dst, along.written, 0};
    const auto fetch = [&](const line_piece &of, int buffer) {
        const uint32_t place = places + buffer * stage_bytes;
        dst_held.fetch(place, of);
        src_held.fetch(place + dst_bytes, of);
        commit_copies();
    };

    wait_and_let_later_work_start();
    float total[steps][4] = {};
    int buffer = 1;
    // The first turn does no more than to begin.
#pragma unroll 1
    for (int piece = share.first - share.apart; piece < share.pieces;
            piece += share.apart) {
        const uint32_t dst_place = places + buffer * stage_bytes;
        const uint32_t src_place = dst_place + dst_bytes;
        buffer ^= 1;
        wait_for_copies<0>();
        __syncwarp();
        if (piece + share.apart < share.pieces)
            fetch(share.piece(piece + share.apart), buffer);
        if (piece < share.first) continue;
        const line_piece of = share.piece(piece);
        make_ready(dst_held, dst_place, of);
        make_ready(src_held, src_place, of);
        // Of sixteen lines the second eight are those of words 2 and 3; of src
        // words 1 and 3 are of the lines that follow.
        const uint32_t dst_lane = dst_place + lane * 16;
        const uint32_t src_lane
                = src_place + (lane % 8 + lane / 8 % 2 + lane / 16 * 8) * 16;
        float sums[steps][4] = {};
        const int columns = min(piece_columns, along.written - of.column);
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

    const held_sums<steps> sums {reinterpret_cast<float *>(shared)};
    sums.store(total);
    if (thread >= along.kernel) return;
    float sum = 0;
    for (int warp = 0; warp < line_warps; ++warp)
        sum = sums.add_diagonal(sum, warp, lead + thread);
    partials[(int64_t {blockIdx.x % cut.image_parts} * along.kernel + thread)
                    * shape.channels
            + share.channel]
            = sum;
}

} // namespace gradnn::gpu::depthwise
