// Where the walk comes first: threads walk, each with vectors of a row of diff_dst, and share
// the rows of sums in shared memory. From there they add up the rows of the middle axis, whose
// sums they share too, and of these the columns.
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
    static constexpr element sum_element
            = p.type == element::f64 ? element::f64 : element::f32;
    using unit = jit::elements<p.type, vector>;
    static constexpr int of_middle = static_cast<int>(row_of_middle(p));
    static constexpr int all_pieces = g.ranges * g.line_pieces;
    static constexpr int turns = ceil_div(all_pieces, c.threads);
    static constexpr int turn_bytes = c.threads * bytes_of_piece;
    static constexpr int places = g.ranges == 1 ? 1 : turns; ///< that are kept
    static constexpr int to_next = g.line_threads * vector; ///< word
    static constexpr long long row_bytes = p.walk.read_pitch * sizeof(type);
    /// Rows lie alike between multiples of the copies' alignment.
    static constexpr bool rows_are_alike = row_bytes % g.copy_alignment == 0;

    /// Where pieces were if the row that is copied next began with one; their offset there. Of one
    /// range the pieces of all turns lie alike, `turn_bytes` apart.
    const char *next[places];
    uint32_t offset[places];
    bool wanted[turns];
    /// The first row all of whose pieces are the tensor's, and how many there are.
    int begin_inside;
    unsigned rows_inside;
    /// Of the row that is taken next: its place in its first piece, in bytes.
    uint32_t past;
    /// Of the first word: in a range, and in what was copied, in bytes; of its range in a line.
    int first_element, place_in_copy, range_in_line;
    open_sums<sum_type, c.words, vector, p.walk.two> sums;

    /// Of a block with so many planes, and segments that exist, whose `row` begins at `read`.
    __device__ __forceinline__ void find(const type *read, const type *tensor,
            int row, int planes, int segments) {
        const int thread = static_cast<int>(threadIdx.x);
        const int range = g.ranges == 1 ? 0 : thread / g.line_threads;
        const int number = thread - range * g.line_threads;
        const auto begin_of = [&](int of) {
            const int plane = of / g.segments, segment = of % g.segments;
            return reinterpret_cast<const char *>(read
                    + plane * static_cast<int>(p.outer_read[0])
                    + least(segment, segments - 1)
                            * static_cast<int>(p.middle.read_pitch));
        };
#pragma unroll
        for (int i = 0; i < turns; ++i) {
            const int piece = thread + i * c.threads;
            const int of = g.ranges == 1 ? 0 : piece / g.line_pieces;
            wanted[i] = (i + 1) * c.threads <= all_pieces || piece < all_pieces;
            if constexpr (g.ranges > 1)
                wanted[i] = wanted[i] && of < planes * g.segments;
            if (i >= places) continue;
            const int bytes = (piece - of * g.line_pieces) * bytes_of_piece;
            next[i] = begin_of(of) + bytes;
            offset[i] = static_cast<uint32_t>(bytes % g.copy_alignment);
            if constexpr (rows_are_alike) next[i] -= before_piece(i);
        }
        const long long ahead = begin_of(0) - g.copy_alignment + 1
                - reinterpret_cast<const char *>(tensor),
                        left
                = reinterpret_cast<const char *>(tensor + tensor_extent(p))
                - begin_of(planes * g.segments - 1)
                - g.line_pieces * bytes_of_piece;
        begin_inside = row
                + static_cast<int>(
                        ahead < 0 ? (row_bytes - 1 - ahead) / row_bytes : 0);
        const long long rows = left < 0 ? 0 : left / row_bytes + 1;
        rows_inside = static_cast<unsigned>(most(0,
                row
                        + (rows < p.walk.read ? static_cast<int>(rows)
                                              : p.walk.read)
                        - begin_inside));
        past = static_cast<uint32_t>(
                reinterpret_cast<uintptr_t>(begin_of(range)));
        first_element = number * vector;
        // Threads without a range take, but do not keep, what others do.
        place_in_copy = (range < g.ranges ? range : 0) * g.line_pieces
                        * bytes_of_piece
                + number * static_cast<int>(vector * sizeof(type));
        if constexpr (rows_are_alike)
            place_in_copy += static_cast<int>(past % g.copy_alignment);
        range_in_line = range * g.line_pitch;
        sums.clear();
    }
    /// Bytes from where a piece begins, whose range's first one lies ahead of the row, to `next`.
    __device__ __forceinline__ uint32_t before_piece(int i) const {
        const auto low
                = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(next[i]))
                - offset[i];
        return low % g.copy_alignment;
    }
    /// Submits copies of the next row. Pieces may have more than the row.
    __device__ __forceinline__ void copy(
            int slot, const type *tensor, int row) {
        char *const to = jit::dynamic_shared() + g.sums_bytes
                + slot * g.piece_bytes + threadIdx.x * bytes_of_piece;
        const bool inside
                = static_cast<unsigned>(row - begin_inside) < rows_inside;
        const char *pieces[places];
#pragma unroll
        for (int i = 0; i < places; ++i)
            pieces[i] = jit::not_kept(
                    next[i] - (rows_are_alike ? 0 : before_piece(i)));
        const auto piece = [&](int i) {
            return reinterpret_cast<const type *>(
                    places == turns ? pieces[i] : pieces[0] + i * turn_bytes);
        };
        // Without a branch between them.
#pragma unroll
        for (int i = 0; i < turns; ++i)
            copy_async_past_l1_if(
                    wanted[i] && inside, to + i * turn_bytes, piece(i));
        // Else of the tensor alone.
        if (!inside) {
            constexpr int in_piece = bytes_of_piece / sizeof(type);
            const auto *const end = tensor + tensor_extent(p);
#pragma unroll
            for (int i = 0; i < turns; ++i) {
                char *const place = to + i * turn_bytes;
                const auto *const from = piece(i);
                const bool whole = from >= tensor && from + in_piece <= end;
                copy_async_past_l1_if(wanted[i] && whole, place, from);
#pragma unroll 1
                for (int e = 0; wanted[i] && !whole && e < in_piece; ++e)
                    if (from + e >= tensor && from + e < end)
                        reinterpret_cast<type *>(place)[e] = from[e];
            }
        }
#pragma unroll
        for (int i = 0; i < places; ++i)
            next[i] += row_bytes;
    }
    /// Whether a word is the row's: what lies behind it may be on its way.
    __device__ __forceinline__ bool has(int word) const {
        return (word + 1) * to_next <= g.line_read
                || first_element + word * to_next < g.line_read;
    }
    /// Of the row after the last that was taken.
    __device__ __forceinline__ void take(int slot, unit (&to)[c.words]) {
        int place = place_in_copy;
        if constexpr (!rows_are_alike) {
            place += static_cast<int>(past % g.copy_alignment);
            past += static_cast<uint32_t>(row_bytes);
        }
        const auto *const from
                = reinterpret_cast<const type *>(jit::dynamic_shared()
                        + g.sums_bytes + slot * g.piece_bytes + place);
#pragma unroll
        for (int w = 0; w < c.words; ++w)
            to[w] = has(w) ? unit::load(from + w * to_next) : unit::zeros();
    }
    /// Words beyond the row too, which a line has places for.
    __device__ __forceinline__ void keep(sum_type *line) const {
        constexpr int wide
                = least(vector, 16 / static_cast<int>(sizeof(sum_type)));
        if (g.ranges * g.line_threads < c.threads
                && static_cast<int>(threadIdx.x) >= g.ranges * g.line_threads)
            return;
        const auto first = static_cast<unsigned>(jit::not_kept(first_element));
        // Rows of a range lie apart.
        constexpr bool apart = p.middle.is_there() && rows_are_whole(p);
        const auto place_of = [](unsigned element) {
            constexpr auto row = static_cast<unsigned>(of_middle),
                           gap = static_cast<unsigned>(g.line_row - of_middle);
            return element + (apart ? element / row * gap : 0);
        };
        constexpr bool whole_rows_apart = to_next % of_middle == 0;
#pragma unroll
        for (int w = 0; w < c.words; ++w) {
            sum_type *const to = line + range_in_line
                    + (whole_rows_apart
                                    ? place_of(first) + place_of(w * to_next)
                                    : place_of(first + w * to_next));
#pragma unroll
            for (int v = 0; v < vector; v += wide) {
                sum_type together[wide];
#pragma unroll
                for (int i = 0; i < wide; ++i)
                    together[i] = sums.low[w][v + i];
                jit::elements<sum_element, wide>::of(together).store(to + v);
            }
        }
    }

    /// By all threads: of a line the sums over the middle axis, of a block's positions of it from
    /// `first` on, one row behind the other. `line` is where its row 0 would be.
    __device__ __forceinline__ static void add_up_middle(const sum_type *line,
            sum_type *to, int first, const axis_table<sum_type> &map) {
        constexpr int wide = g.layer_vector, each = g.layer_vectors;
        constexpr int taps = p.middle.most_taps;
        constexpr int most_unrolled = 16;
        constexpr int apart = g.layer_threads * wide;
        using some_sums = jit::elements<sum_element, wide>;
        constexpr int rows = c.planes * c.middle_part;
        constexpr int weights_together = taps % 2 ? 1
                : taps % 4                        ? 2
                                                  : 4 / sum_words(p);
        using some_weights = jit::elements<sum_element, weights_together>;
        const auto add_up_row = [&](int number, int begin) {
            const int plane = c.planes == 1 ? 0 : number / c.middle_part;
            const int position = first + number - plane * c.middle_part;
            if (g.middle_strips * c.middle_part != p.middle.written
                    && position >= p.middle.written)
                return;
            const place at = map.places[position];
            const sum_type *const weights = map.weights + position * taps;
            const sum_type *const from = line
                    + plane * g.segments * g.line_pitch + at.first * g.line_row
                    + begin;
            sum_type sums[each][wide] {};
            const auto add = [&](int tap, sum_type weight) {
#pragma unroll
                for (int k = 0; k < each; ++k) {
                    const auto values = some_sums::load(
                            from + tap * g.line_row + k * apart);
#pragma unroll
                    for (int v = 0; v < wide; ++v)
                        sums[k][v] = jit::multiply_add(
                                weight, values[v], sums[k][v]);
                }
            };
            if constexpr (taps <= most_unrolled) {
#pragma unroll
                for (int tap = 0; tap < taps; tap += weights_together) {
                    const auto some = some_weights::load(weights + tap);
#pragma unroll
                    for (int i = tap; i < tap + weights_together; ++i)
                        if (i < p.middle.least_taps || i < at.count)
                            add(i, some[i - tap]);
                }
            } else {
#pragma unroll 4
                for (int tap = 0; tap < at.count; ++tap)
                    add(tap, weights[tap]);
            }
            sum_type *const of_row = to + number * g.layer_pitch + begin;
#pragma unroll
            for (int k = 0; k < each; ++k)
                if ((k + 1) * apart <= of_middle
                        || begin + k * apart < of_middle)
                    some_sums::of(sums[k]).store(of_row + k * apart);
        };
        // A thread has the same part of some rows, or some parts of all.
        const int thread = static_cast<int>(threadIdx.x);
        constexpr int at_once = c.threads / g.layer_threads;
        if constexpr (at_once > 0) {
            const int row = thread / g.layer_threads;
            const int begin = thread % g.layer_threads * wide;
            if (at_once * g.layer_threads == c.threads || row < at_once)
#pragma unroll 1
                for (int number = row; number < rows; number += at_once)
                    add_up_row(number, begin);
        } else {
#pragma unroll 1
            for (int number = 0; number < rows; ++number)
#pragma unroll 1
                for (int part = thread; part < g.layer_threads;
                        part += c.threads)
                    add_up_row(number, part * wide);
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
        int from = 0; // in a row
        int segment = 0;
        if constexpr (g.middle_strips > 1) {
            segment = map.middle.places[middle * c.middle_part].first;
            read += segment * p.middle.read_pitch;
        } else if constexpr (g.column_parts > 1) {
            from = map.column.places[part * c.parts * c.columns].first
                    * p.inner;
            from -= from % most(c.line_vector, line_margin);
        }

        // What is read first is what copies wait for.
        const place last = map.walk.places[end - 1];
        int row = map.walk.places[begin].first;
        const int end_row = last.first + last.count;
        words of;
        of.find(read + row * p.walk.read_pitch + from, tensor, row, planes,
                p.middle.read - segment);
        int next = row;
        const auto submit = [&](int to) {
            if (next < end_row) of.copy(to, tensor, next);
            ++next;
            commit_copies();
        };
        // A slot is free when all threads have taken its row.
        constexpr int rows_ahead = c.ahead - 1;
#pragma unroll 1
        for (int to = 0; to < rows_ahead; ++to)
            submit(to);
        // The columns that a thread takes from rows of sums.
        lanes_of_thread<s, without_walk> lanes;
        lanes.find(part * c.parts, map.column);
        constexpr int items = ceil_div(g.lane_items, g.groups);
        constexpr int together = items <= 6 ? items : 1;
        const auto write = [&](const sum_type *rows, int pitch) {
            lanes.template each_item<together>([&](auto &of, int inner,
                                                       int number) {
                const int plane = number / c.middle_part;
                const int at = middle * c.middle_part + number % c.middle_part;
                if ((g.outers % c.planes != 0 && plane >= planes)
                        || (g.middle_strips * c.middle_part != p.middle.written
                                && at >= p.middle.written))
                    return;
                of.run({0, 0, 0}, map, rows + number * pitch + inner, 0,
                        written + plane * p.outer_write[0]
                                + at * p.middle.write_pitch + inner);
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
                if constexpr (p.middle.is_there()) {
                    auto *const layers = reinterpret_cast<sum_type *>(
                            jit::dynamic_shared() + g.line_bytes);
                    add_up_middle(line - segment * g.line_row, layers,
                            middle * c.middle_part, map.middle);
                    __syncthreads();
                    write(layers, g.layer_pitch);
                } else {
                    write(line - from, g.line_pitch);
                    slot ^= 1;
                }
            }
            ++current;
            written += p.walk.write_pitch;
        };
        int from_slot = 0, free_slot = rows_ahead;
        step<sum_type> following {};
        if (row < end_row) following = map.steps[row];
#pragma unroll 1
        for (; row < end_row; ++row) {
            wait_for_copies<rows_ahead - 1>();
            __syncthreads();
            submit(free_slot);
            unit raw[c.words];
            of.take(from_slot, raw);
            const step<sum_type> now = following;
            if (row + 1 < end_row) following = map.steps[row + 1];
            from_slot = from_slot + 1 == c.ahead ? 0 : from_slot + 1;
            free_slot = free_slot + 1 == c.ahead ? 0 : free_slot + 1;
            // In branches of their own no sum changes its register.
            if (current < now.low) {
                finish();
                of.sums.shift();
                of.sums.add(now, raw);
            } else {
                of.sums.add(now, raw);
            }
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
