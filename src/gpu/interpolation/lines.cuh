// Where the walk comes first: threads walk, each with vectors of a row of diff_dst, and share
// the rows of sums in shared memory, from where the columns and the middle axis take them.
#pragma once

#include "gpu/interpolation/tiles.cuh"

namespace gradnn::gpu::resample {

/// The sums of a thread's words, of the two positions of the walk that are open.
template <const specification_of_kernel &s>
struct kernel_of<s>::words {
    /// What is left when rows of sums are there.
    static constexpr specification_of_kernel without_walk {
            rest_of_walk(p), rest_of_walk(c)};
    static constexpr int vector = c.line_vector;
    using unit = jit::elements<p.type, vector>;
    static constexpr int all_pieces = c.planes * g.line_pieces;
    static constexpr int turns = ceil_div(all_pieces, c.threads);
    static constexpr int to_next = g.line_threads * vector; ///< word
    static constexpr long long row_bytes = p.walk.read_pitch * sizeof(type);

    /// With a piece's number, where its row begins that is copied next.
    const char *next[turns];
    bool wanted[turns];
    /// What that row adds to, and of the warp those of the rows that are on their way.
    const step<sum_type> *next_step;
    step<sum_type> *steps;
    /// Of the row that is taken next: its place in its first piece, in bytes.
    uint32_t past;
    /// Of the first word: in a row, in what was copied, in bytes, and in a line.
    int first_element, place_in_copy, place_in_line;
    open_sums<sum_type, c.words, vector, p.walk.two> sums;

    /// Of a block with so many planes whose rows begin at `read`.
    __device__ __forceinline__ void find(
            const type *read, int planes, const step<sum_type> *of_read) {
        const int thread = static_cast<int>(threadIdx.x);
        const int plane = c.planes == 1 ? 0 : thread / g.line_threads;
        const int number = thread - plane * g.line_threads;
        const auto row_of = [&](int of) {
            return reinterpret_cast<const char *>(
                    read + of * static_cast<int>(p.outer_read[0]));
        };
#pragma unroll
        for (int i = 0; i < turns; ++i) {
            const int piece = thread + i * c.threads;
            const int of = c.planes == 1 ? 0 : piece / g.line_pieces;
            next[i] = row_of(of)
                    + (piece - of * g.line_pieces) * bytes_of_piece;
            wanted[i] = piece < all_pieces && of < planes;
        }
        next_step = of_read;
        steps = reinterpret_cast<step<sum_type> *>(
                        jit::dynamic_shared() + g.shared_bytes - g.step_bytes)
                + thread / 32 * c.ahead;
        past = static_cast<uint32_t>(
                reinterpret_cast<uintptr_t>(row_of(plane)));
        first_element = number * vector;
        // Threads without a row take, but do not keep, what others do.
        place_in_copy = (plane < c.planes ? plane : 0) * g.line_pieces
                        * bytes_of_piece
                + number * static_cast<int>(vector * sizeof(type));
        place_in_line = plane * g.line_pitch + number * vector;
        sums.clear();
    }
    /// Submits copies of the next row. Pieces may have more than the row, `at_end` of the tensor
    /// also more than that.
    __device__ __forceinline__ void copy(
            int slot, const type *tensor, bool at_end) {
        constexpr int in_piece = bytes_of_piece / sizeof(type);
        char *const to = jit::dynamic_shared() + 2 * g.line_bytes
                + slot * g.piece_bytes + threadIdx.x * bytes_of_piece;
#pragma unroll
        for (int i = 0; i < turns; ++i) {
            char *const place = to + i * (c.threads * bytes_of_piece);
            const auto *const piece = reinterpret_cast<const type *>(
                    reinterpret_cast<uintptr_t>(next[i])
                    & ~static_cast<uintptr_t>(bytes_of_piece - 1));
            copy_async_past_l1_if(wanted[i] && !at_end, place, piece);
#pragma unroll 1
            for (int e = 0; at_end && wanted[i] && e < in_piece; ++e)
                if (piece + e >= tensor
                        && piece + e < tensor + tensor_extent(p))
                    reinterpret_cast<type *>(place)[e] = piece[e];
            next[i] += row_bytes;
        }
        // Through the L1 cache: all blocks read these.
        constexpr int halves = sizeof(*steps) / bytes_of_piece;
        const int half = static_cast<int>(threadIdx.x) % 32;
        copy_async_if<bytes_of_piece>(half < halves,
                reinterpret_cast<char *>(steps + slot) + half * bytes_of_piece,
                reinterpret_cast<const char *>(next_step)
                        + half * bytes_of_piece);
        ++next_step;
    }
    /// Whether a word is the row's: what lies behind it may be on its way.
    __device__ __forceinline__ bool has(int word) const {
        return (word + 1) * to_next <= g.line_read
                || first_element + word * to_next < g.line_read;
    }
    /// Of the row after the last that was taken.
    __device__ __forceinline__ void take(int slot, unit (&to)[c.words]) {
        const auto *const from = reinterpret_cast<const type *>(
                jit::dynamic_shared() + 2 * g.line_bytes + slot * g.piece_bytes
                + (place_in_copy + static_cast<int>(past % bytes_of_piece)));
        past += static_cast<uint32_t>(row_bytes);
#pragma unroll
        for (int w = 0; w < c.words; ++w)
            to[w] = has(w) ? unit::load(from + w * to_next) : unit::zeros();
    }
    /// Words beyond the row too, which a line has places for.
    __device__ __forceinline__ void keep(sum_type *line) const {
        constexpr element of
                = p.type == element::f64 ? element::f64 : element::f32;
        constexpr int wide
                = least(vector, 16 / static_cast<int>(sizeof(sum_type)));
        if (static_cast<int>(threadIdx.x) >= c.planes * g.line_threads) return;
#pragma unroll
        for (int w = 0; w < c.words; ++w)
#pragma unroll
            for (int v = 0; v < vector; v += wide) {
                sum_type together[wide];
#pragma unroll
                for (int i = 0; i < wide; ++i)
                    together[i] = sums.low[w][v + i];
                jit::elements<of, wide>::of(together).store(
                        line + place_in_line + w * to_next + v);
            }
    }

    __device__ static void resample(
            const type *read, type *written, const tables<sum_type> &map) {
        const auto *const tensor = read;
        unsigned rest = blockIdx.x;
        const int part = take_part(rest, g.column_parts);
        const int middle = take_part(rest, g.middle_strips);
        const int begin = take_part(rest, g.tile_strips) * c.strip;
        const int end = least(begin + c.strip, p.walk.written);
        const int outer = rest * c.planes;
        const int planes = least(c.planes, g.outers - outer);
        move_to_outer<p>(static_cast<unsigned>(outer), read, written);
        int from = 0;
        if constexpr (g.middle_strips > 1)
            from = map.middle.places[middle * c.middle_part].first
                    * static_cast<int>(p.column.read * p.inner);
        else if constexpr (g.column_parts > 1)
            from = map.column.places[part * c.parts * c.columns].first
                    * p.inner;
        from -= from % most(c.line_vector, line_margin);

        // What is read first is what copies wait for.
        const place last = map.walk.places[end - 1];
        int row = map.walk.places[begin].first;
        const int end_row = last.first + last.count;
        words of;
        of.find(read + row * p.walk.read_pitch + from, planes, map.steps + row);
        int next = row;
        constexpr int end_rows = static_cast<int>(
                (2 * bytes_of_piece + row_bytes - 1) / row_bytes);
        const auto submit = [&](int to) {
            if (next < end_row)
                of.copy(to, tensor,
                        next >= p.walk.read - end_rows
                                || (p.alignment < bytes_of_piece
                                        && next < end_rows));
            ++next;
            commit_copies();
        };
        // A slot is free when all threads have taken its row.
        constexpr int rows_ahead = c.ahead - 1;
#pragma unroll 1
        for (int to = 0; to < rows_ahead; ++to)
            submit(to);
        // The columns and positions of the middle axis that a thread takes from rows of sums.
        lanes_of_thread<s, without_walk> lanes;
        lanes.find(part * c.parts, map.column);
        constexpr int items = ceil_div(g.lane_items, g.groups);
        constexpr int together = items <= 6 ? items : 1;
        const auto write = [&](const sum_type *line) {
            lanes.template each_item<together>([&](auto &of, int inner,
                                                       int number) {
                const int plane = number / c.middle_part;
                const int at = middle * c.middle_part + number % c.middle_part;
                if ((g.outers % c.planes != 0 && plane >= planes)
                        || (g.middle_strips * c.middle_part != p.middle.written
                                && at >= p.middle.written))
                    return;
                of.run({at, 0, 0}, map, line + plane * g.line_pitch + inner, 0,
                        written + plane * p.outer_write[0] + inner);
            });
        };
        int slot = 0;
        int current = row < end_row ? least(map.steps[row].low, begin) : begin;
        written += current * p.walk.write_pitch;
        // The position `current`, by all threads alike.
        const auto finish = [&] {
            if (current >= begin) {
                sum_type *const line
                        = reinterpret_cast<sum_type *>(
                                  jit::dynamic_shared() + slot * g.line_bytes)
                        + line_margin;
                of.keep(line);
                __syncthreads();
                write(line - from);
                slot ^= 1;
            }
            ++current;
            written += p.walk.write_pitch;
        };
        int from_slot = 0, free_slot = rows_ahead;
#pragma unroll 1
        for (; row < end_row; ++row) {
            wait_for_copies<rows_ahead - 1>();
            __syncthreads();
            submit(free_slot);
            unit raw[c.words];
            of.take(from_slot, raw);
            const step<sum_type> now = of.steps[from_slot];
            from_slot = from_slot + 1 == c.ahead ? 0 : from_slot + 1;
            free_slot = free_slot + 1 == c.ahead ? 0 : free_slot + 1;
            if (current == now.low) {
                of.sums.add(now, raw);
                continue;
            }
            finish();
            if constexpr (p.walk.jumps) {
                while (current < now.low) {
                    of.sums.shift();
                    finish();
                }
            }
            of.sums.shift();
            of.sums.add(now, raw);
        }
        while (current < end) {
            finish();
            of.sums.shift();
        }
    }
};

/// By the form that the specification says.
template <const specification_of_kernel &s>
__device__ void resample(const jit::stored_of<s.of.type> *read,
        jit::stored_of<s.of.type> *written,
        const tables<jit::sum_of<s.of.type>> &map) {
    wait_and_let_later_work_start();
    if constexpr (s.of.walk_first)
        kernel_of<s>::words::resample(read, written, map);
    else if constexpr (s.cut_by.stages > 0)
        kernel_of<s>::tile::resample(read, written, map);
    else
        kernel_of<s>::walk::resample(read, written, map);
}

} // namespace gradnn::gpu::resample
