// A thread walks along the first axis: a row is read once, and adds to at most two open sums.
#pragma once

#include "gpu/interpolation/columns.cuh"

namespace gradnn::gpu::resample {

template <const specification_of_kernel &s>
struct kernel_of<s>::walk {
    using row_sums = typename columns::row_sums;
    using raw_row = typename columns::raw_row;
    using other_row = typename columns::other_row;

    columns along;
    place middle; ///< its taps along the middle axis
    const sum_type *middle_weights;

    /// A thread's place: of the middle axis, and of its strip.
    struct item {
        int middle, begin, end;
    };

    /// Sums of a position of the first axis over the middle one and the columns.
    __device__ __forceinline__ void add_up(
            row_sums &to, const read_type *layer) const {
        if constexpr (!p.middle.is_there()) {
            add_up_row(to, layer, true);
        } else {
            // Of a loop those that there are.
            const int rows = g.rows_together < p.middle.most_taps
                    ? middle.count
                    : p.middle.most_taps;
            each_of(to, [&](int k, int v) { to[k][v] = 0; });
#pragma unroll 1
            for (int first = 0; first < rows; first += g.rows_together)
#pragma unroll
                for (int i = 0; i < g.rows_together; ++i) {
                    const int q = first + i;
                    const bool exists
                            = q < p.middle.least_taps || q < middle.count;
                    const bool skipped = columns::skips && !exists;
                    row_sums of_row;
                    add_up_row(of_row,
                            layer + (skipped ? 0 : q) * p.middle.read_pitch,
                            exists || skipped);
                    if (skipped) continue;
                    add_weighted<g.fed>(to,
                            exists ? middle_weights[q] : sum_type(0), of_row);
                }
        }
    }
    __device__ __forceinline__ void add_up_row(
            row_sums &to, const read_type *row, bool exists) const {
        if constexpr (g.rolled) {
            along.add_up_rolled(to, row, exists);
        } else {
            raw_row raw;
            along.load(raw, row, exists);
            along.add_up(to, raw);
        }
    }

    /// After `along` is found. Of the first axis `read` is at the position `from`, `written` at 0.
    __device__ __forceinline__ void run(const item &at,
            const tables<sum_type> &map, const read_type *read, int from,
            type *written) {
        along.others = map.others;
        written += along.first_column * p.column.write_pitch;
        if constexpr (p.middle.is_there()) {
            middle = map.middle.places[at.middle];
            middle_weights = map.middle.weights
                    + at.middle * static_cast<long long>(p.middle.most_taps);
            written += at.middle * p.middle.write_pitch;
            read += middle.first * p.middle.read_pitch;
        }
        if constexpr (!p.walk.is_there()) {
            row_sums sums;
            other_row others;
            along.load_others(others, written);
            add_up(sums, read);
            along.write(written, sums, others);
        } else {
            walk_strip(at, map, read, from, written);
        }
    }

    struct open_positions {
        int begin, end, current;
        open_sums<sum_type, c.columns, c.vector, p.walk.two, g.fed> sums;
        other_row others; ///< of `current`

        __device__ __forceinline__ void load_others(
                const walk &of, const type *written) {
            if (columns::epilogues > 0 && current >= begin && current < end)
                of.along.load_others(others, written);
        }
        __device__ __forceinline__ void write_one(
                const walk &of, type *&written) {
            // Of one strip none is ahead of it.
            if (c.strip >= p.walk.written || current >= begin)
                of.along.write(written, sums.low, others);
            sums.shift();
            ++current;
            written += p.walk.write_pitch;
            load_others(of, written);
        }
    };

    __device__ __forceinline__ void walk_strip(const item &at,
            const tables<sum_type> &map, const read_type *read, int from,
            type *written) {
        const place last = map.walk.places[at.end - 1];
        int row = map.walk.places[at.begin].first;
        const int end = last.first + last.count;
        read += (row - from) * p.walk.read_pitch;
        open_positions open;
        open.begin = at.begin;
        open.end = at.end;
        open.current
                = row < end ? least(map.steps[row].low, at.begin) : at.begin;
        open.sums.clear();
        written += open.current * p.walk.write_pitch;
        open.load_others(*this, written);
        rows_of_walk rows(read, end - row, along);
        // Of tables in global memory the next step is on its way meanwhile; there is one more.
        constexpr int early = c.stages == 0 ? 1 : 0;
        const step<sum_type> *steps = map.steps + row;
        step<sum_type> following {};
        if constexpr (early > 0) following = *steps;
        // Rows that are held in registers change places.
        constexpr int together = rows_of_walk::copied ? 1 : most(1, c.ahead);
#pragma unroll together
        for (; row < end; ++row, ++steps) {
            row_sums sums;
            rows.add_up_next(*this, sums);
            const step<sum_type> next = steps[early];
            const step<sum_type> now = early > 0 ? following : next;
            following = next;
#pragma unroll 1
            while (open.current < now.low)
                open.write_one(*this, written);
            open.sums.add(now, sums);
        }
#pragma unroll 1
        while (open.current < at.end)
            open.write_one(*this, written);
    }

    /// The rows of a walk: as they lie, or on their way to shared memory or (small) to registers.
    struct rows_of_walk {
        static constexpr bool copied = rows_are_copied(p, c);
        rows_on_their_way<typename columns::unit, columns::loads, c.threads>
                copies;
        raw_row held[copied ? 1 : most(1, c.ahead)];
        const read_type *next;
        int left, slot = 0;

        __device__ __forceinline__ rows_of_walk(
                const read_type *first, int count, const columns &along)
            : next(first), left(count) {
            if constexpr (copied) copies = {jit::dynamic_shared(), c.ahead};
#pragma unroll
            for (int i = 0; i < c.ahead; ++i)
                submit(along, i);
        }
        __device__ __forceinline__ void submit(const columns &along, int to) {
            if constexpr (!copied) {
                along.load(held[to], next, left > 0);
                next += p.walk.read_pitch;
            } else {
                if (left > 0) {
                    along.each_load(next, true,
                            [&](int u, bool is_tap, const auto *at) {
                                copies.copy(to, u, is_tap, at);
                            });
                    next += p.walk.read_pitch;
                }
                commit_copies();
            }
            --left;
        }
        __device__ __forceinline__ void add_up_next(
                const walk &of, row_sums &to) {
            if constexpr (c.ahead == 0) {
                of.add_up(to, next);
                next += p.walk.read_pitch;
            } else if constexpr (copied) {
                raw_row raw;
                wait_for_copies<c.ahead - 1>();
                copies.take(slot, raw);
                submit(of.along, slot);
                slot = slot + 1 == c.ahead ? 0 : slot + 1;
                of.along.add_up(to, raw);
            } else {
                of.along.add_up(to, held[0]);
#pragma unroll
                for (int i = 1; i < c.ahead; ++i)
#pragma unroll
                    for (int u = 0; u < columns::loads; ++u)
                        held[i - 1][u] = held[i][u];
                submit(of.along, c.ahead - 1);
            }
        }
    };

    /// Of threads that read global memory.
    __device__ static void resample(
            const type *read, type *written, const tables<sum_type> &map) {
        const unsigned number = blockIdx.x * c.threads + threadIdx.x;
        if (number >= g.items) return;
        unsigned rest = number;
        int vector = 0, tile = 0;
        const int lane = static_cast<int>(rest % 32);
        if constexpr (c.exchanged) {
            rest /= 32;
        } else {
            vector = take_part(rest, g.vectors);
            tile = take_part(rest, g.tiles);
        }
        item at;
        at.middle = take_part(rest, p.middle.written);
        at.begin = take_part(rest, g.strips) * c.strip;
        at.end = least(at.begin + c.strip, p.walk.written);
        bool writes = true;
        if constexpr (c.exchanged) {
            // Of all rows' tiles, one after the other; all lanes take part in exchanges. No clamp:
            // ptxas 13.0 loses a comparison of its result with the upper bound (VIMNMX.RELU).
            const unsigned number = rest * g.writers + lane - g.lead;
            const bool exists
                    = number < static_cast<unsigned>(g.outers * g.tiles);
            writes = exists && lane >= g.lead && lane < g.lead + g.writers;
            rest = exists ? number : 0;
            tile = take_part(rest, g.tiles);
        }
        walk of;
        of.along.find(tile, map.column);
        if (!writes) of.along.first_column = p.column.written;
        move_to_outer<p>(rest, read, written);
        of.run(at, map, read + vector * c.vector, 0,
                written + vector * c.vector);
    }
};

/// The lanes of a thread of a block that shares what it reads: parts of a row, which the thread
/// keeps, by a kernel of the specification `of_lane`. Of every lane it takes some items.
template <const specification_of_kernel &s,
        const specification_of_kernel &of_lane>
struct lanes_of_thread {
    static constexpr cut c = s.cut_by;
    static constexpr geometry g = kernel_of<s>::g;

    typename kernel_of<of_lane>::walk of[g.sets];
    bool active[g.sets];

    __device__ __forceinline__ static int lane(int set) {
        const int thread = static_cast<int>(threadIdx.x);
        return g.sets > 1 ? thread + set * c.threads : thread % g.lanes;
    }
    /// The first of its inner elements.
    __device__ __forceinline__ static int inner(int set) {
        return lane(set) % g.vectors * c.vector;
    }
    __device__ __forceinline__ static int first_item() {
        return g.sets > 1 ? 0 : static_cast<int>(threadIdx.x) / g.lanes;
    }

    /// Of a block whose columns begin at the part `first` of a row.
    __device__ __forceinline__ void find(
            int first, const axis_table<jit::sum_of<s.of.type>> &table) {
#pragma unroll
        for (int set = 0; set < g.sets; ++set) {
            const int columns = first + lane(set) / g.vectors;
            active[set] = columns < g.tiles && lane(set) < g.lanes
                    && first_item() < g.groups;
            if (active[set]) of[set].along.find(columns, table);
        }
    }
    /// visit(walk of a lane, first inner element, item) for what a thread takes, some `together`.
    template <int together, typename Visit>
    __device__ __forceinline__ void each_item(const Visit &visit) {
        constexpr int items = ceil_div(g.lane_items, g.groups);
#pragma unroll
        for (int set = 0; set < g.sets; ++set) {
            if (!active[set]) continue;
#pragma unroll together
            for (int i = 0; i < items; ++i) {
                const int item = first_item() + i * g.groups;
                if (items * g.groups == g.lane_items || item < g.lane_items)
                    visit(of[set], inner(set), item);
            }
        }
    }
};

} // namespace gradnn::gpu::resample
