// Where the walk comes first: threads walk, each with vectors of a row of diff_dst, and share
// the rows of sums in shared memory, from where the columns and the middle axis take them.
#pragma once

#include "gpu/interpolation/resample/tile.cuh"
#include "gpu/interpolation/resample/walk.cuh"

namespace gradnn::gpu::resample {

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

    int place[c.words]; ///< in elements of a row that is read
    int place_in_line[c.words];
    bool inside[c.words];
    sum_type low[c.words][vector], high[c.words][vector];

    /// Of a block whose rows begin at an element `from`.
    __device__ __forceinline__ void find(int from, int planes) {
#pragma unroll
        for (int w = 0; w < c.words; ++w) {
            const int number = static_cast<int>(threadIdx.x) + w * c.threads;
            const int plane = c.planes == 1 ? 0 : number / g.line_words;
            const int at = (number - plane * g.line_words) * vector;
            inside[w] = plane < planes && at < g.line_words * vector
                    && from + at < elements_of_row(p);
            place[w] = from + at + plane * static_cast<int>(p.outer_read[0]);
            place_in_line[w] = plane * g.line_pitch + at;
#pragma unroll
            for (int v = 0; v < vector; ++v)
                low[w][v] = high[w][v] = 0;
        }
    }
    __device__ __forceinline__ void load(
            unit (&to)[c.words], const type *row, bool exists) const {
#pragma unroll
        for (int w = 0; w < c.words; ++w)
            to[w] = exists && inside[w] ? unit::load(row + place[w])
                                        : unit::zeros();
    }
    __device__ __forceinline__ void add(
            const unit (&row)[c.words], const step<sum_type> &to) {
#pragma unroll
        for (int w = 0; w < c.words; ++w)
#pragma unroll
            for (int v = 0; v < vector; ++v)
                low[w][v] = multiply_add(to.low_weight, row[w][v], low[w][v]);
        if (p.walk.two && to.high_weight != 0) {
#pragma unroll
            for (int w = 0; w < c.words; ++w)
#pragma unroll
                for (int v = 0; v < vector; ++v)
                    high[w][v] = multiply_add(
                            to.high_weight, row[w][v], high[w][v]);
        }
    }
    /// To the next position of the walk.
    __device__ __forceinline__ void shift() {
#pragma unroll
        for (int w = 0; w < c.words; ++w)
#pragma unroll
            for (int v = 0; v < vector; ++v) {
                low[w][v] = p.walk.two ? high[w][v] : sum_type(0);
                high[w][v] = 0;
            }
    }
    __device__ __forceinline__ void keep(sum_type *line) const {
        constexpr element of
                = p.type == element::f64 ? element::f64 : element::f32;
        constexpr int wide
                = least(vector, 16 / static_cast<int>(sizeof(sum_type)));
#pragma unroll
        for (int w = 0; w < c.words; ++w) {
            if (!inside[w]) continue;
#pragma unroll
            for (int v = 0; v < vector; v += wide) {
                sum_type together[wide];
#pragma unroll
                for (int i = 0; i < wide; ++i)
                    together[i] = low[w][v + i];
                jit::elements<of, wide>::of(together).store(
                        line + place_in_line[w] + v);
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
#pragma unroll
        for (int set = 0; set < g.sets; ++set) {
            if (!active[set]) continue;
            const int inner = lane(set) % g.vectors * c.vector;
#pragma unroll 1
            for (int number = first_item(); number < g.lane_items;
                    number += g.groups) {
                const int plane = number / g.middle_items;
                const typename rest::item item {
                        middle * g.middle_items + number % g.middle_items, 0,
                        0};
                if (plane >= planes || item.middle >= g.middles) continue;
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
    // By all threads alike.
    const auto finish = [&] {
        if (current >= begin) {
            sum_type *const line
                    = reinterpret_cast<sum_type *>(
                              jit::dynamic_shared() + slot * g.line_bytes)
                    + line_margin;
            of.keep(line);
            __syncthreads();
            outputs.write(line - from, middle, planes, map,
                    written + current * p.walk.write_pitch);
            slot ^= 1;
        }
        of.shift();
        ++current;
    };

    const place last = map.walk.places[end - 1];
    int row = map.walk.places[begin].first;
    const int end_row = last.first + last.count;
    current = row < end_row ? least(map.steps[row].low, begin) : begin;
    typename words::unit raw[c.ahead][c.words];
    step<sum_type> steps[c.ahead];
    const auto *next = read + row * p.walk.read_pitch;
    int next_row = row;
    const auto load = [&](int at) {
        if (next_row < end_row) steps[at] = map.steps[next_row];
        of.load(raw[at], next, next_row < end_row);
        next += p.walk.read_pitch;
        ++next_row;
    };
#pragma unroll
    for (int at = 0; at < c.ahead; ++at)
        load(at);
#pragma unroll 1
    while (row < end_row) {
#pragma unroll
        for (int at = 0; at < c.ahead; ++at) {
            if (row >= end_row) break;
            while (current < steps[at].low)
                finish();
            of.add(raw[at], steps[at]);
            load(at);
            ++row;
        }
    }
    while (current < end)
        finish();
}

} // namespace gradnn::gpu::resample
