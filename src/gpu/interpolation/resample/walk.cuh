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
    using type = storage<p.type>;
    using sum_type = sum<p.type>;
    using row_sums = typename columns::row_sums;

    columns along;
    place middle;
    const sum_type *middle_weights;

    /// A thread's place: of the columns by tiles, of the middle axis, and of its strip.
    struct item {
        int tile, middle, begin, end;
    };

    /// Sums of a row of the first axis over the middle one and the columns.
    __device__ __forceinline__ void add_up(
            row_sums &to, const type *row) const {
        if constexpr (!p.middle.is_there()) {
            add_up_row(to, row, true);
            return;
        }
#pragma unroll
        for (int k = 0; k < c.columns; ++k)
#pragma unroll
            for (int v = 0; v < c.vector; ++v)
                to[k][v] = 0;
        constexpr bool rolled = p.middle.most_taps * g.units > most_units
                || p.middle.most_taps > 8;
        if constexpr (rolled) {
#pragma unroll 1
            for (int q = 0; q < middle.count; ++q)
                add_middle(to, row, q, true);
        } else {
#pragma unroll
            for (int q = 0; q < p.middle.most_taps; ++q)
                add_middle(to, row, q,
                        q < p.middle.least_taps || q < middle.count);
        }
    }
    __device__ __forceinline__ void add_middle(
            row_sums &to, const type *row, int q, bool exists) const {
        row_sums of_row;
        add_up_row(of_row, row + (middle.first + q) * p.middle.read_pitch,
                exists);
        const sum_type weight = exists ? middle_weights[q] : sum_type(0);
#pragma unroll
        for (int k = 0; k < c.columns; ++k)
#pragma unroll
            for (int v = 0; v < c.vector; ++v)
                to[k][v] = multiply_add(weight, of_row[k][v], to[k][v]);
    }
    __device__ __forceinline__ void add_up_row(
            row_sums &to, const type *row, bool exists) const {
        if constexpr (g.rolled) {
            if (exists) along.add_up_rolled(to, row);
            if (!exists)
                for (int v = 0; v < c.vector; ++v)
                    to[0][v] = 0;
        } else {
            typename columns::raw_row raw;
            along.load(raw, row, exists);
            along.add_up(to, raw);
        }
    }

    /// `read` is where the position `from` of the first axis begins, `written` where its
    /// position 0 does.
    __device__ __forceinline__ void run(const item &at,
            const tables<sum_type> &map, const type *read, int from,
            type *written) {
        along.find(at.tile, map.column);
        if constexpr (p.middle.is_there()) {
            middle = map.middle.places[at.middle];
            middle_weights = map.middle.weights
                    + at.middle * static_cast<long long>(p.middle.most_taps);
            written += at.middle * p.middle.write_pitch;
        }
        if constexpr (!p.walk.is_there()) {
            row_sums sums;
            add_up(sums, read);
            along.write(written, sums);
        } else {
            walk_strip(at, map, read, from, written);
        }
    }

    __device__ __forceinline__ void walk_strip(const item &at,
            const tables<sum_type> &map, const type *read, int from,
            type *written) {
        const place last = map.walk.places[at.end - 1];
        int row = map.walk.places[at.begin].first;
        const int end = last.first + last.count;
        read += (row - from) * p.walk.read_pitch;
        open_sums open;
        open.begin = at.begin;
        open.current = row < end ? least(map.steps[row].low, at.begin)
                                 : at.begin;
        open.clear();
        written += open.current * p.walk.write_pitch;
        if constexpr (c.ahead == 0) {
#pragma unroll 1
            for (; row < end; ++row, read += p.walk.read_pitch) {
                row_sums sums;
                add_up(sums, read);
                open.add(*this, map.steps[row], sums, written);
            }
        } else {
            typename columns::raw_row raw[c.ahead];
            step<sum_type> steps[c.ahead];
            const type *next = read;
            int next_row = row;
            const auto load = [&](int slot) {
                if (next_row < end) steps[slot] = map.steps[next_row];
                along.load(raw[slot], next, next_row < end);
                next += p.walk.read_pitch;
                ++next_row;
            };
#pragma unroll
            for (int slot = 0; slot < c.ahead; ++slot)
                load(slot);
#pragma unroll 1
            while (row < end) {
#pragma unroll
                for (int slot = 0; slot < c.ahead; ++slot) {
                    if (row >= end) break;
                    row_sums sums;
                    along.add_up(sums, raw[slot]);
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

    struct open_sums {
        int begin, current;
        row_sums low, high;

        __device__ __forceinline__ void clear() {
#pragma unroll
            for (int k = 0; k < c.columns; ++k)
#pragma unroll
                for (int v = 0; v < c.vector; ++v)
                    low[k][v] = high[k][v] = 0;
        }
        __device__ __forceinline__ void write_one(
                const walk &of, type *&written) {
            if (current >= begin) of.along.write(written, low);
#pragma unroll
            for (int k = 0; k < c.columns; ++k)
#pragma unroll
                for (int v = 0; v < c.vector; ++v) {
                    low[k][v] = p.walk.two ? high[k][v] : sum_type(0);
                    high[k][v] = 0;
                }
            ++current;
            written += p.walk.write_pitch;
        }
        __device__ __forceinline__ void add(const walk &of,
                const step<sum_type> &to, const row_sums &sums,
                type *&written) {
            while (current < to.low)
                write_one(of, written);
#pragma unroll
            for (int k = 0; k < c.columns; ++k)
#pragma unroll
                for (int v = 0; v < c.vector; ++v)
                    low[k][v] = multiply_add(
                            to.low_weight, sums[k][v], low[k][v]);
            if (p.walk.two && to.high_weight != 0) {
#pragma unroll
                for (int k = 0; k < c.columns; ++k)
#pragma unroll
                    for (int v = 0; v < c.vector; ++v)
                        high[k][v] = multiply_add(
                                to.high_weight, sums[k][v], high[k][v]);
            }
        }
    };
};

} // namespace gradnn::gpu::resample
