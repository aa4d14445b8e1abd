// A thread walks along the first axis: every row is read once, and adds to at most two open
// sums.
#pragma once

#include "gpu/interpolation/resample/columns.cuh"

namespace gradnn::gpu::resample {

template <specification_of_kernel s>
struct walk {
    using columns = columns_of_thread<s>;
    static constexpr problem_specification p = s.of;
    static constexpr cut c = s.cut_by;
    static constexpr geometry g = geometry_of(s);
    static constexpr period repeats = period_of(p.rows);
    using type = storage<p.type>;
    using read_type = storage<read_type_of(p)>;
    using sum_type = sum<p.type>;
    using row_sums = typename columns::row_sums;
    using raw_row = typename columns::raw_row;
    /// Of a thread's positions of the middle axis.
    using layer_sums = row_sums[c.middles];
    using layer_others = typename columns::other_row[c.middles];

    columns along;
    int first_middle;
    place middle; ///< all taps of these positions
    const sum_type *middle_weights; ///< where there is one position
    const step<sum_type> *middle_steps; ///< where there are more

    /// A thread's place: of the middle axis, and of its strip.
    struct item {
        int middle, begin, end;
    };

    /// Calls visit(middle, column, inner element) for all sums of a thread.
    template <typename Visit>
    __device__ __forceinline__ static void each_sum(const Visit &visit) {
#pragma unroll
        for (int m = 0; m < c.middles; ++m)
#pragma unroll
            for (int k = 0; k < c.columns; ++k)
#pragma unroll
                for (int v = 0; v < c.vector; ++v)
                    visit(m, k, v);
    }

    /// Sums of a position of the first axis over the middle one and the columns.
    __device__ __forceinline__ void add_up(
            layer_sums &to, const read_type *layer) const {
        if constexpr (!p.middle.is_there()) {
            add_up_row(to[0], layer, true);
        } else if constexpr (c.middles > 1) {
            walk_middle(to, layer);
        } else {
            each_sum([&](int m, int k, int v) { to[m][k][v] = 0; });
            constexpr bool rolled = p.middle.most_taps * g.units > most_units
                    || p.middle.most_taps > 8;
            if constexpr (rolled) {
#pragma unroll 1
                for (int q = 0; q < middle.count; ++q)
                    add_middle(to[0], layer, q, true);
            } else {
#pragma unroll
                for (int q = 0; q < p.middle.most_taps; ++q)
                    add_middle(to[0], layer, q,
                            q < p.middle.least_taps || q < middle.count);
            }
        }
    }
    /// Every row is read once, and the next one is on its way.
    __device__ __forceinline__ void walk_middle(
            layer_sums &to, const read_type *layer) const {
        const int end = middle.first + middle.count;
        int row = middle.first;
        const read_type *next = layer + row * p.middle.read_pitch;
        raw_row raw, later;
        step<sum_type> taken {}, following {};
        if (row < end) following = middle_steps[row];
        along.load(later, next, row < end);
        row_sums high;
#pragma unroll
        for (int m = -1; m < c.middles; ++m) {
            row_sums low;
#pragma unroll
            for (int k = 0; k < c.columns; ++k)
#pragma unroll
                for (int v = 0; v < c.vector; ++v) {
                    low[k][v] = m < 0 ? sum_type(0) : high[k][v];
                    high[k][v] = 0;
                }
#pragma unroll 1
            while (row < end && following.low == first_middle + m) {
                taken = following;
#pragma unroll
                for (int u = 0; u < columns::loads; ++u)
                    raw[u] = later[u];
                ++row;
                next += p.middle.read_pitch;
                if (row < end) following = middle_steps[row];
                along.load(later, next, row < end);
                row_sums sums;
                along.add_up(sums, raw);
                if (m >= 0) add_weighted(low, taken.low_weight, sums);
                if (m + 1 < c.middles && taken.high_weight != 0)
                    add_weighted(high, taken.high_weight, sums);
            }
            if (m < 0) continue;
#pragma unroll
            for (int k = 0; k < c.columns; ++k)
#pragma unroll
                for (int v = 0; v < c.vector; ++v)
                    to[most(m, 0)][k][v] = low[k][v];
        }
    }
    __device__ __forceinline__ static void add_weighted(
            row_sums &to, sum_type weight, const row_sums &sums) {
#pragma unroll
        for (int k = 0; k < c.columns; ++k)
#pragma unroll
            for (int v = 0; v < c.vector; ++v)
                to[k][v] = multiply_add(weight, sums[k][v], to[k][v]);
    }
    __device__ __forceinline__ void add_middle(
            row_sums &to, const read_type *row, int q, bool exists) const {
        row_sums of_row;
        add_up_row(
                of_row, row + (middle.first + q) * p.middle.read_pitch, exists);
        add_weighted(to, exists ? middle_weights[q] : sum_type(0), of_row);
    }
    __device__ __forceinline__ void add_up_row(
            row_sums &to, const read_type *row, bool exists) const {
        if constexpr (g.rolled) {
            if (exists) along.add_up_rolled(to, row);
            if (!exists)
                for (int v = 0; v < c.vector; ++v)
                    to[0][v] = 0;
        } else {
            raw_row raw;
            along.load(raw, row, exists);
            along.add_up(to, raw);
        }
    }

    /// Whether a position of the first axis has one of the middle axis of a thread.
    __device__ __forceinline__ bool has_middle(int m) const {
        return p.middle.written % c.middles == 0
                || first_middle + m < p.middle.written;
    }
    /// Of a position of the first axis.
    __device__ __forceinline__ void load_others(
            layer_others &to, const type *written) const {
#pragma unroll
        for (int m = 0; m < c.middles; ++m)
            if (columns::epilogues > 0 && has_middle(m))
                along.load_others(to[m], written + m * p.middle.write_pitch);
    }
    /// To a position of the first axis.
    __device__ __forceinline__ void write(type *written, const layer_sums &sums,
            const layer_others &others) const {
#pragma unroll
        for (int m = 0; m < c.middles; ++m)
            if (has_middle(m))
                along.write(
                        written + m * p.middle.write_pitch, sums[m], others[m]);
    }

    /// After `along` found its columns. `read` is where the position `from` of the first axis
    /// begins, `written` where its position 0 does.
    __device__ __forceinline__ void run(const item &at,
            const tables<sum_type> &map, const read_type *read, int from,
            type *written) {
        along.others = map.others;
        if constexpr (p.middle.is_there()) {
            first_middle = at.middle * c.middles;
            middle = map.middle.places[first_middle];
            const place last = map.middle.places[least(first_middle + c.middles,
                                                         p.middle.written)
                    - 1];
            middle.count = last.first + last.count - middle.first;
            middle_weights = map.middle.weights
                    + first_middle * static_cast<long long>(p.middle.most_taps);
            middle_steps = map.middle_steps;
            written += first_middle * p.middle.write_pitch;
        }
        if constexpr (!p.walk.is_there()) {
            layer_sums sums;
            layer_others others;
            load_others(others, written);
            add_up(sums, read);
            write(written, sums, others);
        } else {
            walk_strip(at, map, read, from, written);
        }
    }

    __device__ __forceinline__ void walk_strip(const item &at,
            const tables<sum_type> &map, const read_type *read, int from,
            type *written) {
        const place last = map.walk.places[at.end - 1];
        int row = map.walk.places[at.begin].first;
        const int end = last.first + last.count;
        read += (row - from) * p.walk.read_pitch;
        open_sums open;
        open.begin = at.begin;
        open.end = at.end;
        open.current
                = row < end ? least(map.steps[row].low, at.begin) : at.begin;
        open.clear();
        written += open.current * p.walk.write_pitch;
        open.load_others(*this, written);
        if constexpr (c.ahead == 0 || rows_are_copied(p, c)) {
            rows_of_walk<c.ahead == 0> rows(read, row, end, along);
            if constexpr (repeats.rows > 0) {
                // Of whole periods weights are constants, but near the ends of the axis.
                constexpr int first_one = ceil_div(
                        p.rows.odd_first - repeats.first(), repeats.written);
                constexpr int end_of_all
                        = floor_div(p.walk.written - p.rows.odd_last - 1
                                          - repeats.last(),
                                  repeats.written)
                        + 1;
                // A row ahead of them opens the position that they begin with.
                int one = most(row / repeats.rows + 1, first_one);
                const int end_one = least(end_of_all, end / repeats.rows);
                int stop = one < end_one ? one * repeats.rows : end;
#pragma unroll 1
                for (;;) {
                    add_rows(rows, open, map, row, stop, written);
                    if (stop == end) break;
#pragma unroll 1
                    for (; one < end_one; ++one)
                        add_period(rows, open, written);
                    row = end_one * repeats.rows;
                    stop = end;
                }
            } else {
                add_rows(rows, open, map, row, end, written);
            }
        } else {
            // In registers.
            raw_row raw[c.ahead];
            step<sum_type> steps[c.ahead];
            int next = row;
            const auto load = [&](int slot) {
                if (next < end) steps[slot] = map.steps[next];
                along.load(raw[slot], read, next < end);
                read += p.walk.read_pitch;
                ++next;
            };
#pragma unroll
            for (int slot = 0; slot < c.ahead; ++slot)
                load(slot);
#pragma unroll 1
            while (row < end) {
#pragma unroll
                for (int slot = 0; slot < c.ahead; ++slot) {
                    if (row >= end) break;
                    layer_sums sums;
                    along.add_up(sums[0], raw[slot]);
                    const step<sum_type> taken = steps[slot];
                    load(slot);
                    open.add(*this, taken, sums, written);
                    ++row;
                }
            }
        }
        while (open.current < at.end)
            open.write_one(*this, written);
    }

    /// The rows of a walk, one after the other: as they lie, or on their way to shared memory.
    template <bool in_place, int = 0>
    struct rows_of_walk {
        const read_type *read;

        __device__ __forceinline__ rows_of_walk(
                const read_type *first, int, int, const columns &)
            : read(first) {}
        __device__ __forceinline__ void add_up_next(
                const walk &of, layer_sums &to) {
            of.add_up(to, read);
            read += p.walk.read_pitch;
        }
    };
    template <int unused>
    struct rows_of_walk<false, unused> {
        rows_ahead<s> rows;

        __device__ __forceinline__ rows_of_walk(
                const read_type *first, int row, int end, const columns &along)
            : rows(first, end - row, along) {}
        __device__ __forceinline__ void add_up_next(
                const walk &of, layer_sums &to) {
            raw_row raw;
            rows.take(raw, of.along);
            of.along.add_up(to[0], raw);
        }
    };

    template <typename Rows, typename Open>
    __device__ __forceinline__ void add_rows(Rows &rows, Open &open,
            const tables<sum_type> &map, int row, int end, type *&written) {
        step<sum_type> following {};
        if (row < end) following = map.steps[row];
#pragma unroll 1
        for (; row < end; ++row) {
            layer_sums sums;
            rows.add_up_next(*this, sums);
            const step<sum_type> now = following;
            if (row + 1 < end) following = map.steps[row + 1];
            open.add(*this, now, sums, written);
        }
    }
    template <typename Rows, typename Open>
    __device__ __forceinline__ void add_period(
            Rows &rows, Open &open, type *&written) {
        static constexpr period of = repeats;
#pragma unroll
        for (int t = 0; t < of.rows; ++t) {
            layer_sums sums;
            rows.add_up_next(*this, sums);
            const row_of_period to = of.row[t];
            const int before = t > 0 ? of.row[most(t - 1, 0)].low : of.before();
#pragma unroll
            for (int i = 0; i < to.low - before; ++i)
                open.write_one(*this, written);
            open.add_constant(to, sums);
        }
    }

    struct open_sums {
        int begin, end, current;
        layer_sums low, high;
        layer_others others; ///< of `current`

        __device__ __forceinline__ void clear() {
            each_sum([&](int m, int k, int v) {
                low[m][k][v] = high[m][k][v] = 0;
            });
        }
        __device__ __forceinline__ void load_others(
                const walk &of, const type *written) {
            if (columns::epilogues > 0 && current >= begin && current < end)
                of.load_others(others, written);
        }
        __device__ __forceinline__ void write_one(
                const walk &of, type *&written) {
            if (current >= begin) of.write(written, low, others);
            each_sum([&](int m, int k, int v) {
                low[m][k][v] = p.walk.two ? high[m][k][v] : sum_type(0);
                high[m][k][v] = 0;
            });
            ++current;
            written += p.walk.write_pitch;
            load_others(of, written);
        }
        __device__ __forceinline__ void add(const walk &of,
                const step<sum_type> &to, const layer_sums &sums,
                type *&written) {
            while (current < to.low)
                write_one(of, written);
#pragma unroll
            for (int m = 0; m < c.middles; ++m)
                add_weighted(low[m], to.low_weight, sums[m]);
            if (p.walk.two && to.high_weight != 0) {
#pragma unroll
                for (int m = 0; m < c.middles; ++m)
                    add_weighted(high[m], to.high_weight, sums[m]);
            }
        }
        __device__ __forceinline__ void add_constant(
                const row_of_period &to, const layer_sums &sums) {
#pragma unroll
            for (int m = 0; m < c.middles; ++m) {
                add_weighted(
                        low[m], static_cast<sum_type>(to.low_weight), sums[m]);
                if (to.high_weight != 0)
                    add_weighted(high[m], static_cast<sum_type>(to.high_weight),
                            sums[m]);
            }
        }
    };
};

} // namespace gradnn::gpu::resample
