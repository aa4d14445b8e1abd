// Where the walk comes first: threads walk, each with vectors of a row of diff_dst, and share
// the rows of sums in shared memory, from where the columns and the middle axis take them.
#pragma once

#include "gpu/interpolation/resample/tile.cuh"
#include "gpu/interpolation/resample/walk.cuh"

namespace gradnn::gpu::resample {

template <int threads>
__device__ __forceinline__ void meet() {
    if constexpr (threads == 32)
        __syncwarp();
    else
        __syncthreads();
}

/// The sums of a thread's words, of the two positions of the walk that are open.
template <specification_of_kernel s>
struct words_of_thread {
    static constexpr problem_specification p = s.of;
    static constexpr cut c = s.cut_by;
    static constexpr geometry g = geometry_of(s);
    static constexpr int vector = c.line_vector;
    using type = storage<p.type>;
    using sum_type = sum<p.type>;
    using unit = jit::elements<p.type, vector>;
    static constexpr bool in_pieces = lines_in_pieces(p, c);
    static constexpr int all_pieces = c.planes * g.line_pieces;
    static constexpr int to_next = g.line_threads * vector; ///< word

    rows_on_their_way<unit, c.words, c.threads> own;
    int first; ///< of the thread's row: the element with which the block's part begins
    int past_first; ///< and from there its first word, in elements
    int count; ///< words
    int place_in_line;
    int past_pieces; ///< bytes from the first piece of a slot to the plane's
    int planes;
    sum_type low[c.words][vector], high[c.words][vector];

    /// Of a block whose rows begin at an element `from`.
    __device__ __forceinline__ void find(int from, int planes_of_block) {
        const int thread = static_cast<int>(threadIdx.x);
        const int plane = c.planes == 1 ? 0 : thread / g.line_threads;
        const int number = thread - plane * g.line_threads;
        planes = planes_of_block;
        first = from + plane * static_cast<int>(p.outer_read[0]);
        past_first = number * vector;
        const int words = least(g.line_words,
                (static_cast<int>(elements_of_row(p)) - from + vector - 1)
                        / vector);
        count = plane < planes
                ? (words - number + g.line_threads - 1) / g.line_threads
                : 0;
        place_in_line = plane * g.line_pitch + past_first;
        // Threads that have no row take what they do not keep.
        past_pieces
                = plane < c.planes ? plane * g.line_pieces * bytes_of_piece : 0;
        if constexpr (!in_pieces) own = {copied_rows(), c.ahead};
        each_sum([&](int w, int v) { low[w][v] = high[w][v] = 0; });
    }
    __device__ __forceinline__ static char *copied_rows() {
        return jit::dynamic_shared() + 2 * g.line_bytes;
    }
    /// Submits copies of a row of the block's part, which begins at an element `from`. Pieces
    /// may have more than the row, at the ends of the tensor also more than is there.
    __device__ __forceinline__ void copy(int slot, const type *row, int from,
            const type *tensor, bool at_end) const {
        if constexpr (!in_pieces) {
#pragma unroll
            for (int w = 0; w < c.words; ++w)
                own.copy(slot, w, w < count,
                        row + first + past_first + w * to_next);
        } else {
#pragma unroll
            for (int i = 0; i < all_pieces; i += c.threads) {
                const int number = i + static_cast<int>(threadIdx.x);
                const int plane
                        = c.planes == 1 ? 0 : number / g.line_pieces;
                const auto begin = reinterpret_cast<uintptr_t>(row + from
                        + plane * static_cast<int>(p.outer_read[0]));
                const auto *const piece = reinterpret_cast<const type *>(
                        begin / bytes_of_piece * bytes_of_piece
                        + (number - plane * g.line_pieces) * bytes_of_piece);
                char *const to = copied_rows() + slot * g.piece_bytes
                        + number * bytes_of_piece;
                const bool wanted = number < all_pieces && plane < planes;
                if (!at_end)
                    copy_async_past_l1_if(wanted, to, piece);
                else if (wanted)
                    place(reinterpret_cast<type *>(to), piece, tensor);
            }
        }
    }
    __device__ __forceinline__ static void place(
            type *to, const type *piece, const type *tensor) {
        constexpr int elements = bytes_of_piece / sizeof(type);
#pragma unroll 1
        for (int i = 0; i < elements; ++i)
            if (piece + i >= tensor && piece + i < tensor + tensor_extent(p))
                to[i] = piece[i];
    }
    __device__ __forceinline__ void take(
            int slot, const type *row, unit (&to)[c.words]) const {
        if constexpr (!in_pieces) {
            own.take(slot, to);
        } else {
            const auto past
                    = static_cast<uint32_t>(
                              reinterpret_cast<uintptr_t>(row + first))
                    % bytes_of_piece;
            const char *const from = copied_rows() + slot * g.piece_bytes
                    + past_pieces + past;
#pragma unroll
            for (int w = 0; w < c.words; ++w)
                to[w] = unit::load(reinterpret_cast<const type *>(from)
                        + past_first + w * to_next);
        }
    }
    /// visit(word, element) for all sums of a thread.
    template <typename Visit>
    __device__ __forceinline__ static void each_sum(const Visit &visit) {
#pragma unroll
        for (int w = 0; w < c.words; ++w)
#pragma unroll
            for (int v = 0; v < vector; ++v)
                visit(w, v);
    }
    __device__ __forceinline__ void add(
            const unit (&row)[c.words], const step<sum_type> &to) {
        each_sum([&](int w, int v) {
            low[w][v] = multiply_add(to.low_weight, row[w][v], low[w][v]);
        });
        if (p.walk.two && to.high_weight != 0)
            each_sum([&](int w, int v) {
                high[w][v]
                        = multiply_add(to.high_weight, row[w][v], high[w][v]);
            });
    }
    /// To the next position of the walk.
    __device__ __forceinline__ void shift() {
        each_sum([&](int w, int v) {
            low[w][v] = p.walk.two ? high[w][v] : sum_type(0);
            high[w][v] = 0;
        });
    }
    /// Both at once, which copies no sums.
    __device__ __forceinline__ void shift_and_add(
            const unit (&row)[c.words], const step<sum_type> &to) {
        each_sum([&](int w, int v) {
            low[w][v] = multiply_add(to.low_weight, row[w][v],
                    p.walk.two ? high[w][v] : sum_type(0));
        });
        if constexpr (!p.walk.two) return;
        if (to.high_weight != 0)
            each_sum([&](int w, int v) {
                high[w][v]
                        = multiply_add(to.high_weight, row[w][v], sum_type(0));
            });
        else
            each_sum([&](int w, int v) { high[w][v] = 0; });
    }
    __device__ __forceinline__ void keep(sum_type *line) const {
        constexpr element of
                = p.type == element::f64 ? element::f64 : element::f32;
        constexpr int wide
                = least(vector, 16 / static_cast<int>(sizeof(sum_type)));
#pragma unroll
        for (int w = 0; w < c.words; ++w) {
            if (w >= count) continue;
#pragma unroll
            for (int v = 0; v < vector; v += wide) {
                sum_type together[wide];
#pragma unroll
                for (int i = 0; i < wide; ++i)
                    together[i] = low[w][v + i];
                jit::elements<of, wide>::of(together).store(
                        line + place_in_line + w * to_next + v);
            }
        }
    }
};

/// The columns and positions of the middle axis that a thread takes from rows of sums.
template <specification_of_kernel s>
struct outputs_of_thread {
    static constexpr problem_specification p = s.of;
    static constexpr cut c = s.cut_by;
    static constexpr geometry g = geometry_of(s);
    using type = storage<p.type>;
    using sum_type = sum<p.type>;
    using rest = walk<rest_of_walk(s)>;

    rest of[g.sets];
    bool active[g.sets];

    __device__ __forceinline__ static int lane(int set) {
        const int thread = static_cast<int>(threadIdx.x);
        return g.sets > 1 ? thread + set * c.threads : thread % g.lanes;
    }
    __device__ __forceinline__ static int first_item() {
        return g.sets > 1 ? 0 : static_cast<int>(threadIdx.x) / g.lanes;
    }

    __device__ __forceinline__ void find(
            int part, const axis_table<sum_type> &table) {
#pragma unroll
        for (int set = 0; set < g.sets; ++set) {
            const int columns = part * c.parts + lane(set) / g.vectors;
            active[set] = columns < g.tiles && lane(set) < g.lanes
                    && first_item() < g.groups;
            if (active[set]) of[set].along.find(columns, table);
        }
    }

    /// From `line`, where the elements of whole rows would begin.
    __device__ __forceinline__ void write(const sum_type *line, int middle,
            int planes, const tables<sum_type> &map, type *to) {
        constexpr int items = ceil_div(g.lane_items, g.groups);
        constexpr int together = items <= 6 ? items : 1;
#pragma unroll
        for (int set = 0; set < g.sets; ++set) {
            if (!active[set]) continue;
            const int inner = lane(set) % g.vectors * c.vector;
#pragma unroll together
            for (int i = 0; i < items; ++i) {
                const int number = first_item() + i * g.groups;
                const int plane = number / g.middle_items;
                const typename rest::item item {
                        middle * g.middle_items + number % g.middle_items, 0,
                        0};
                if ((items * g.groups != g.lane_items && number >= g.lane_items)
                        || (g.outers % c.planes != 0 && plane >= planes)
                        || (g.middle_strips * g.middle_items != g.middles
                                && item.middle >= g.middles))
                    continue;
                of[set].run(item, map, line + plane * g.line_pitch + inner, 0,
                        to + plane * p.outer_write[0] + inner);
            }
        }
    }
};

template <specification_of_kernel s>
__device__ void resample_by_lines(const storage<s.of.type> *read,
        storage<s.of.type> *written, const tables<sum<s.of.type>> &map) {
    static constexpr problem_specification p = s.of;
    static constexpr cut c = s.cut_by;
    static constexpr geometry g = geometry_of(s);
    using words = words_of_thread<s>;
    using sum_type = sum<p.type>;

    const auto *const tensor = read;
    unsigned rest = blockIdx.x;
    const int part = rest % g.column_parts;
    rest /= g.column_parts;
    const int middle = rest % g.middle_strips;
    rest /= g.middle_strips;
    const int begin = rest % g.tile_strips * c.strip;
    const int end = least(begin + c.strip, p.walk.written);
    const int outer = rest / g.tile_strips * c.planes;
    const int planes = least(c.planes, g.outers - outer);
    move_to_outer<p>(static_cast<unsigned>(outer), read, written);
    int from = 0;
    if constexpr (g.middle_strips > 1)
        from = map.middle.places[middle * c.middle_part].first
                * static_cast<int>(p.column.read * p.inner);
    else if constexpr (g.column_parts > 1)
        from = map.column.places[part * c.parts * c.columns].first * p.inner;
    from -= from % most(c.line_vector, line_margin);

    words of;
    of.find(from, planes);
    outputs_of_thread<s> outputs;
    outputs.find(part, map.column);
    int slot = 0, current = 0;
    // The position `current`, by all threads alike.
    const auto finish = [&] {
        if (current >= begin) {
            sum_type *const line
                    = reinterpret_cast<sum_type *>(
                              jit::dynamic_shared() + slot * g.line_bytes)
                    + line_margin;
            of.keep(line);
            meet<c.threads>();
            outputs.write(line - from, middle, planes, map,
                    written + current * p.walk.write_pitch);
            slot ^= 1;
        }
        ++current;
    };

    const place last = map.walk.places[end - 1];
    int row = map.walk.places[begin].first;
    const int end_row = last.first + last.count;
    current = row < end_row ? least(map.steps[row].low, begin) : begin;
    step<sum_type> following {};
    if (row < end_row) following = map.steps[row];
    int next = row;
    constexpr int end_rows = ceil_div(2 * bytes_of_piece,
            static_cast<int>(p.walk.read_pitch) * bytes_of(p.type));
    const auto submit = [&](int to) {
        if (next < end_row)
            of.copy(to, read + next * p.walk.read_pitch, from, tensor,
                    next < end_rows || next >= p.walk.read - end_rows);
        ++next;
        commit_copies();
    };
    // A slot whose row is taken is free: for others than its own thread when all have met.
    constexpr int rows_ahead = words::in_pieces ? c.ahead - 1 : c.ahead;
#pragma unroll
    for (int to = 0; to < rows_ahead; ++to)
        submit(to);
    int from_slot = 0, free_slot = rows_ahead % c.ahead;
#pragma unroll 1
    for (; row < end_row; ++row) {
        wait_for_copies<rows_ahead - 1>();
        typename words::unit raw[c.words];
        if constexpr (words::in_pieces) {
            meet<c.threads>();
            submit(free_slot);
        }
        of.take(from_slot, read + row * p.walk.read_pitch, raw);
        if constexpr (!words::in_pieces) submit(free_slot);
        from_slot = from_slot + 1 == c.ahead ? 0 : from_slot + 1;
        free_slot = free_slot + 1 == c.ahead ? 0 : free_slot + 1;
        const step<sum_type> now = following;
        if (row + 1 < end_row) following = map.steps[row + 1];
        if (current == now.low) {
            of.add(raw, now);
            continue;
        }
        finish();
        if constexpr (p.walk.jumps) {
            while (current < now.low) {
                of.shift();
                finish();
            }
        }
        of.shift_and_add(raw, now);
    }
    while (current < end) {
        finish();
        of.shift();
    }
}

} // namespace gradnn::gpu::resample
