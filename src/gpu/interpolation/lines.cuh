// Where the walk comes first: threads walk, each with vectors of a row of diff_dst. From shared
// memory they add up these rows of sums over the middle axis, and those of that over the columns.
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
    static constexpr int step_bytes = sizeof(step<sum_type>);
    /// Rows lie alike between multiples of the copies' alignment.
    static constexpr bool rows_are_alike = row_bytes % g.copy_alignment == 0;

    /// Of the row that is copied next where a piece's range begins or, where rows are alike, the
    /// piece; its place in the range, in bytes. Of one range all turns' pieces are `turn_bytes` apart.
    const char *next[places];
    int place_in_range[places];
    bool wanted[turns];
    const step<sum_type> *next_step; ///< what that row adds to
    /// Of the row that is taken next: its place in its first piece, in bytes.
    uint32_t past;
    /// Of the first word: in a range, and in what was copied, in bytes; of its range in a line.
    int first_element, place_in_copy, range_in_line;
    open_sums<sum_type, c.words, vector, p.walk.two> sums;

    /// Of a block with so many planes, and segments that exist, whose row begins at `read`.
    __device__ __forceinline__ void find(const type *read, const type *tensor,
            const step<sum_type> *of_row, int planes, int segments) {
        next_step = of_row;
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
            wanted[i] = piece < all_pieces
                    && (g.ranges == 1 || of < planes * g.segments);
            if (i >= places) continue;
            place_in_range[i] = (piece - of * g.line_pieces) * bytes_of_piece;
            next[i] = begin_of(of);
            if constexpr (rows_are_alike) next[i] = piece_of_row(i);
        }
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
    /// What rows on their way add to, by slots.
    __device__ __forceinline__ static step<sum_type> *steps() {
        return reinterpret_cast<step<sum_type> *>(
                jit::dynamic_shared() + g.shared_bytes - c.ahead * step_bytes);
    }
    /// The first piece of a range begins at a multiple of the alignment, ahead of the row.
    __device__ __forceinline__ const char *piece_of_row(int i) const {
        const auto begin = reinterpret_cast<uintptr_t>(next[i]);
        return next[i] - static_cast<int>(begin % g.copy_alignment)
                + place_in_range[i];
    }
    /// Submits copies of the next row. Pieces may have more than the row.
    __device__ __forceinline__ void copy(int slot, const type *tensor) {
        char *const to = jit::dynamic_shared() + g.sums_bytes
                + slot * g.piece_bytes + threadIdx.x * bytes_of_piece;
        const char *pieces[places];
#pragma unroll
        for (int i = 0; i < places; ++i)
            pieces[i]
                    = jit::not_kept(rows_are_alike ? next[i] : piece_of_row(i));
        const auto piece = [&](int i) {
            return reinterpret_cast<const type *>(
                    places == turns ? pieces[i] : pieces[0] + i * turn_bytes);
        };
        constexpr int in_piece = bytes_of_piece / sizeof(type);
        const type *const end = tensor + tensor_extent(p);
        // One comparison, of 32 bits where these do.
        constexpr long long last
                = tensor_extent(p) * sizeof(type) - bytes_of_piece;
        const auto whole = [&](int i) {
            const auto at = reinterpret_cast<uintptr_t>(piece(i))
                    - reinterpret_cast<uintptr_t>(tensor);
            return last >= 0
                    && (last < 1LL << 31 ? static_cast<uint32_t>(at)
                                            <= static_cast<uint32_t>(last)
                                         : at <= static_cast<uintptr_t>(last));
        };
        // Those that are the tensor's, without a branch between them.
        bool inside = true;
#pragma unroll
        for (int i = 0; i < turns; ++i) {
            inside = inside && (whole(i) || !wanted[i]);
            copy_async_past_l1_if(
                    wanted[i] && whole(i), to + i * turn_bytes, piece(i));
        }
        // Through the L1 cache: all blocks read these.
        const int byte = static_cast<int>(threadIdx.x) * bytes_of_piece;
        copy_async_if<bytes_of_piece>(byte < step_bytes,
                reinterpret_cast<char *>(steps() + slot) + byte,
                reinterpret_cast<const char *>(next_step++) + byte);
        // Of others its elements alone.
#pragma unroll
        for (int i = 0; !inside && i < turns; ++i)
#pragma unroll 1
            for (int e = 0; wanted[i] && !whole(i) && e < in_piece; ++e)
                if (piece(i) + e >= tensor && piece(i) + e < end)
                    reinterpret_cast<type *>(to + i * turn_bytes)[e]
                            = piece(i)[e];
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
        // Rows of a range lie apart.
        constexpr auto row = static_cast<unsigned>(of_middle);
        constexpr unsigned gap = p.middle.is_there() && rows_are_whole(p)
                ? static_cast<unsigned>(g.line_row) - row
                : 0;
#pragma unroll
        for (int w = 0; w < c.words; ++w) {
            const auto element
                    = static_cast<unsigned>(first_element + w * to_next);
            sum_type *const to
                    = line + range_in_line + (element + element / row * gap);
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
        constexpr int wide = g.layer_vector, taps = p.middle.most_taps;
        constexpr int rows = c.planes * c.middle_part;
        constexpr int unrolled = taps <= 16 ? taps : 4;
        constexpr int together = taps % 2 || taps > 16 ? 1
                : taps % 4                             ? 2
                                                       : 4 / sum_words(p);
        using some_sums = jit::elements<sum_element, wide>;
        using some_weights = jit::elements<sum_element, together>;
        some_weights some;
        // A thread has the same part of some rows, or some parts of all.
        constexpr int at_once = most(1, c.threads / g.layer_threads);
        const int row = threadIdx.x / (c.threads / at_once);
        const unsigned part = threadIdx.x % (c.threads / at_once);
#pragma unroll 1
        for (int number = row < at_once ? row : rows; number < rows;
                number += at_once) {
            const int plane = c.planes == 1 ? 0 : number / c.middle_part;
            const int position = first + number - plane * c.middle_part;
            if (g.middle_strips * c.middle_part != p.middle.written
                    && position >= p.middle.written)
                continue;
            const place at = map.places[position];
            const sum_type *const weights = map.weights + position * taps;
            const sum_type *const from = line
                    + plane * g.segments * g.line_pitch + at.first * g.line_row;
#pragma unroll 1
            for (unsigned i = part; i < g.layer_threads; i += c.threads) {
                sum_type sums[wide] {};
#pragma unroll unrolled
                for (int tap = 0; tap < taps; ++tap) {
                    if (tap >= p.middle.least_taps && tap >= at.count) break;
                    if (tap % together == 0)
                        some = some_weights::load(weights + tap);
                    const auto values = some_sums::load(
                            from + tap * g.line_row + i * wide);
#pragma unroll
                    for (int v = 0; v < wide; ++v)
                        sums[v] = jit::multiply_add(
                                some[tap % together], values[v], sums[v]);
                }
                some_sums::of(sums).store(
                        to + number * g.layer_pitch + i * wide);
            }
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
        of.find(read + row * p.walk.read_pitch + from, tensor, map.steps + row,
                planes, p.middle.read - segment);
        int next = row;
        const auto submit = [&](int to) {
            if (next < end_row) of.copy(to, tensor);
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
        int slot = 0,
            current = row < end_row ? least(map.steps[row].low, begin) : begin;
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
        int from_slot = 0;
#pragma unroll 1
        for (; row < end_row; ++row) {
            wait_for_copies<rows_ahead - 1>();
            __syncthreads();
            submit(from_slot == 0 ? rows_ahead : from_slot - 1);
            unit raw[c.words];
            of.take(from_slot, raw);
            const step<sum_type> now = of.steps()[from_slot];
            from_slot = from_slot + 1 == c.ahead ? 0 : from_slot + 1;
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
