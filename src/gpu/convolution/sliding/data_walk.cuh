// A thread's tile of data, and its walk along the rows that it reads (data.cuh).
#pragma once

#include "gpu/convolution/sliding/data_geometry.hpp"
#include "gpu/convolution/sliding/rows.cuh"

namespace gradnn::gpu::sliding {

template <const kernel_specification &s>
struct data_walk {
    static constexpr problem_specification p = s.of;
    static constexpr work_cut cut = s.cut;
    static constexpr const data_geometry &g = geometry_for<s, data_geometry>::g;
    static constexpr bool staged = cut.staged != staging::none;
    static constexpr bool staged_read = cut.staged == staging::all;
    static constexpr bool batched = g.read.batched;
    using type = stored_of<p.type>;
    using sum_type = sum_of<p.type>;
    static constexpr int channels = cut.row_by_row && is_grouped(p)
            ? multiples_at_once(p)
            : met_channels(p, cut.vector);
    static constexpr int taps = p.depth.taps * p.row.taps * p.column.taps;
    static constexpr element type_of_sums
            = p.type == element::f64 ? element::f64 : element::f32;
    /// Whose weights are side by side in shared memory.
    static constexpr int lanes_of_weights
            = staged ? cut.planes / cut.vector : cut.lanes;
    __device__ static constexpr int tap_of(int kd, int kh, int kw) {
        return (kd * p.row.taps + kh) * p.column.taps + kw;
    }
    /// From a row that is read to the next one.
    static constexpr int row_step = p.row.parts() ? p.row.dilation : p.row.step;

    // Where the thread is.
    int image, channel, in_class, first_row, last_row, first_depth,
            first_column;
    int read_column, read_depth;
    // Its tile. Weights that stay in shared memory would still take a compiler's time, or local
    // memory.
    static constexpr bool keeps_weights
            = !cut.shared_weights && !cut.row_by_row;
    sum_type weights[keeps_weights ? p.multiplier : 1][taps][cut.vector];
    sum_type open[g.walk.open][cut.depths][cut.columns][cut.vector];
    loaded_rows<s, data_geometry, &data_geometry::read> rows;
    // What ops behind the problem read where the thread writes: copied with the rows, or
    // of some rows of results in registers.
    static constexpr int ops = staged ? 0 : epilogues_of(p);
    using written_unit = elements<p.type, g.write_vector>;
    static constexpr int units_written
            = cut.depths * cut.columns * cut.vector / g.write_vector;
    static constexpr int other_units = ops == 0 ? 1 : ops * units_written;
    static constexpr int others_held = ops == 0
            ? 1
            : most(g.copied ? 1 : p.row.up * (batched ? cut.unroll : 1),
                    least(32 / other_units, g.walk.open - p.row.up));
    written_unit other_rows[others_held][other_units];
    rows_on_their_way<written_unit, other_units, cut.threads> other_copies;
    // Where it reads and writes.
    const type *tensor_read, *all_weights, *read, *next;
    const sum_type *shared_weights; ///< of its channels, where they stay there
    int last_step;
    int last_whole_step; ///< whose rows of every phase are there
    type *written;
    fused_places others;

    /// At a tile's first result; what its channel reads begins at `plane`.
    __device__ void begin_at(const type *plane, int column, int depth) {
        first_column = column;
        read_column = column * p.column.step / p.column.up;
        first_depth = depth;
        read_depth = depth * p.depth.step / p.depth.up;
        read = plane + read_depth * g.read.from.depth
                + read_column * g.read.from.column;
    }
    __device__ const type *plane_in_tensor() const {
        return tensor_read + image * p.read.image
                + static_cast<long long>(channel / p.group) * p.multiplier
                * p.read.channel;
    }

    __device__ type *row_at(int row) const {
        return written
                + static_cast<long long>(row) * g.walk.classes * g.to.row;
    }
    __device__ __forceinline__ static int row_of(int u, int a) {
        return p.row.up * u + g.walk.shift + a;
    }
    /// Calls body(place, depth, column, channel, unit, inside) for the vectors of a row of
    /// results.
    template <typename Body>
    __device__ __forceinline__ void for_each_written(
            int row, const Body &body) const {
        constexpr int along = cut.columns / g.columns_at_once,
                      across = cut.vector / g.channels_at_once;
        for_each<cut.depths, along, across>([&](int o, int i, int c) {
            const int j = i * g.columns_at_once, v = c * g.channels_at_once;
            body(row_at(row) + o * g.to.depth + j * g.column_step * g.to.column
                            + v * g.to.channel,
                    o, j, v, (o * along + i) * across + c,
                    (g.depth_tiles * cut.depths <= p.depth.written
                            || first_depth + o < p.depth.written)
                            && (g.tiles * cut.columns <= p.column.written
                                    || first_column + j * g.column_step
                                            < p.column.written));
        });
    }
    /// What ops behind it read for rows of results from one on, to registers or by copies.
    template <int rows>
    __device__ __forceinline__ void load_others(
            int to, int first, bool checked, bool copies = false) {
        for_each<rows, ops>([&](int r, int e) {
            const int row = first + r;
            const bool there = !checked || (row >= first_row && row < last_row);
            for_each_written(
                    row, [&](type *at, int, int, int, int unit, bool inside) {
                        const int i = e * units_written + unit;
                        const bool wanted = there && inside;
                        const type *const from
                                = other_of(at, others.epilogue[e]);
                        if (!copies && wanted)
                            other_rows[to + r][i] = written_unit::load(from);
                        if constexpr (g.copied && ops > 0)
                            if (copies)
                                other_copies.copy(to + r, i, wanted, from);
                    });
        });
    }

    /// The rows at `next` go to a slot of the ring, if they are there.
    __device__ void load(int step, int slot, bool checked) {
        const bool exists = !checked || !g.copied || step <= last_step;
        // Registers: after the last rows these again.
        const int first
                = (g.copied ? step : least(step, last_step)) * p.row.step;
        rows.template load<g.copied, g.walk.phases == 1>(
                slot, next, [&](int f) {
                    return exists
                            && (g.walk.phases == 1 || !checked
                                    || first + f < p.row.read);
                });
        if constexpr (g.copied)
            load_others<p.row.up>(slot * p.row.up, row_of(step, 0), true, true);
    }
    __device__ void advance() { next += row_step * g.read.from.row; }
    __device__ void load_next(int step, int slot, bool checked) {
        if (!checked || step <= last_step) advance();
        load(step, slot, checked);
    }
    __device__ void move_rows_up() { rows.move_up(); }
    __device__ bool loads_are_inside(int step) const {
        return step + cut.unroll - 1 <= last_whole_step;
    }
    /// Whether a body needs no tests, with the rows that it loads.
    __device__ bool is_free(int u) const {
        const int steps = g.copied ? cut.unroll : cut.unroll + cut.ahead;
        return cut.unchecked && row_of(u, 0) >= first_row
                && u + steps - 1 <= last_whole_step
                && (p.row.up == 1 || row_of(u + cut.unroll, 0) <= last_row);
    }

    __device__ void multiply(int u, int slot) {
        constexpr auto &columns = g.read.columns;
        constexpr int width = columns.count * columns.vector;
        if constexpr (g.copied) rows.take(slot);
        sum_type values[g.walk.phases][g.read.depths.count][width][channels];
        for_each<g.walk.phases, g.read.depths.count, width, channels>(
                [&](int f, int z, int x, int e) {
                    if (g.read.depths.used[z]
                            && columns.used[x / columns.vector]
                            && g.read.phase_used[f])
                        values[f][z][x][e] = rows.element_of(slot, f, z, x, e);
                });
        if (!g.copied && !batched) {
            load_others<p.row.up>(0, row_of(u, 0), checked_now);
            load_ahead(*this, u, slot, checked_now);
        }
        if constexpr (cut.shared_weights) {
            multiply_shared(values);
            return;
        }
        for_each<g.walk.phases, p.row.taps, cut.depths, p.depth.taps>(
                [&](int f, int kh, int o, int kd) {
                    const int a = g.sum_of[f][kh], z = g.read.depths.met[kd][o];
                    if (a >= 0 && z >= 0)
                        multiply_row(values[f][z], a, o, kd, kh);
                });
    }
    /// A row of what is read by a row of the window, to the sums of a depth.
    template <typename Values>
    __device__ __forceinline__ void multiply_row(
            const Values &values, int a, int o, int kd, int kh) {
        for_each<p.column.taps, cut.columns, cut.vector, p.multiplier>(
                [&](int kw, int j, int v, int m) {
                    const int x = g.read.columns.met[kw][j];
                    if (x < 0) return;
                    const int e = !is_grouped(p) ? v * p.multiplier + m : m;
                    open[a][o][j][v] = multiply_add(values[x][e],
                            weights[m][tap_of(kd, kh, kw)][v],
                            open[a][o][j][v]);
                });
    }
    template <typename Values>
    __device__ void multiply_shared(const Values &values); // in data.cuh
    /// A thread's weights of a multiple and a tap, from shared memory.
    struct vector_of_weights {
        static constexpr int at_once = weights_at_once(p, cut.vector);
        elements<type_of_sums, at_once> all[weights_pieces(p, cut.vector)];
        __device__ __forceinline__ sum_type operator[](int v) const {
            return all[v / at_once][v % at_once];
        }
    };
    // Set around multiply, whose loads stand between conversions and products.
    bool checked_now;
    /// Whether the rows of a body are looked through for NaN together.
    static constexpr bool gathers = cut.unroll >= 4;
    bool any_nan;

    /// A row of open sums; what the ops behind it read is in a row of the copies or registers.
    __device__ __forceinline__ void write_row(
            int a, int row, int place, bool copied) {
        for_each_written(
                row, [&](type *to, int o, int j, int v, int unit, bool inside) {
                    sum_type values[g.write_vector];
#pragma unroll
                    for (int e = 0; e < g.write_vector; ++e)
                        values[e] = p.channels_last ? open[a][o][j][v + e]
                                                    : open[a][o][j + e][v];
                    auto made = written_unit::of(values);
#pragma unroll
                    for (int e = 0; e < ops; ++e) {
                        const int i = e * units_written + unit;
                        made = computed(p.epilogue[e], made,
                                copied ? other_copies.taken(place, i)
                                       : other_rows[copied ? 0 : place][i]);
                    }
                    if (!inside) return;
                    if constexpr (staged)
                        made.store(to);
                    else
                        made.store_global(to);
                });
        bool is_nan = gathers && !checked_now && any_nan;
        for_each<cut.depths, cut.columns, ceil_div(cut.vector, 2)>(
                [&](int o, int j, int v) {
                    is_nan |= either_is_nan(open[a][o][j][2 * v],
                            open[a][o][j][least(2 * v + 1, cut.vector - 1)]);
                });
        if (gathers && !checked_now)
            any_nan = is_nan;
        else if (is_nan)
            take_again(row);
    }
    __device__ void take_again(int row) {
        write_again(tensor_read, all_weights, row_at(row), image, channel,
                first_depth, in_class + g.walk.classes * row, first_column,
                others);
    }

    /// The open sums become those of the rows that are `up` further on, or 0.
    __device__ __forceinline__ void move_up(int up) {
        for_each<g.walk.open, cut.depths, cut.columns, cut.vector>(
                [&](int a, int o, int j, int v) {
                    open[a][o][j][v] = a + up < g.walk.open
                            ? open[least(a + up, g.walk.open - 1)][o][j][v]
                            : sum_type(0);
                });
    }
    /// Rows that meet nothing.
    __device__ void write_zeros(int row, int end) {
        move_up(g.walk.open);
        for (; row < end; ++row) {
            load_others<1>(0, row, false);
            write_row(0, row, 0, false);
        }
    }

    __device__ bool is_of_strip(int row) const {
        return row >= first_row && (p.row.up == 1 || row < last_row);
    }
    /// Step u, whose rows are in a slot of the ring.
    __device__ __forceinline__ void step(int u, int slot, bool checked) {
        multiply(u, slot);
        const int of_others = g.copied || batched ? slot : 0;
#pragma unroll
        for (int a = 0; a < p.row.up; ++a)
            if (const int row = row_of(u, a); !checked || is_of_strip(row))
                write_row(a, row, of_others * p.row.up + a, g.copied);
        move_up(p.row.up);
    }

    /// Steps without tests, of rows in slots from `first` on; or, where rows leave the ring in
    /// groups, those of a group before `end`, with tests.
    __device__ void body(int u, int first, bool checked = false, int end = 0) {
        any_nan = checked_now = false;
        if constexpr (batched) {
#pragma unroll
            for (int i = 0; i < cut.unroll; ++i)
                rows.take_row(i);
            load_others<p.row.up * cut.unroll>(0, row_of(u, 0), checked);
#pragma unroll
            for (int i = 0; i < cut.unroll; ++i) {
                load_next(u + cut.ahead + i, i, checked);
            }
        }
#pragma unroll
        for (int i = 0; i < cut.unroll; ++i)
            if (!checked || u + i < end)
                step(u + i, g.copied ? first + i : i % cut.ahead, checked);
        checked_now = true;
        if (!gathers || !any_nan) return;
#pragma unroll 1
        for (int i = 0; i < p.row.up * cut.unroll; ++i)
            if (const int row = row_of(u, i);
                    !checked || (is_of_strip(row) && row < last_row))
                take_again(row);
    }

    /// From first_row to last_row, counted in the class.
    __device__ void walk() {
        const int up = p.row.up;
        const int shift = g.walk.shift;
        int u = -floor_div(shift + g.walk.reach - first_row, up);
        last_step = floor_div(last_row - 1 - shift, up);
        // What step 0 would read.
        const int origin = p.row.parts() ? in_class + p.row.base : 0;
        u = most(u, -floor_div(origin, row_step));
        last_step = least(
                last_step, floor_div(p.row.read - 1 - origin, row_step));
        const int met = u <= last_step ? up * u + shift : last_row;
        checked_now = true;
        write_zeros(first_row, least(met, last_row));
        if (u > last_step) return;
        rows.find_outside(read_column, p.column.read, read_depth);
        next = read
                + static_cast<long long>(origin + row_step * u)
                        * g.read.from.row;
        last_whole_step = g.walk.phases == 1
                ? last_step
                : least(last_step, p.row.read / p.row.step - 1);
        if constexpr (g.copied) {
            constexpr int slots = (cut.ahead + 1) * cut.unroll;
            rows.copies = {dynamic_shared() + g.copied_at, slots};
            other_copies.own = reinterpret_cast<written_unit *>(
                                       dynamic_shared() + g.others_at)
                    + threadIdx.x;
        }
        walk_along(*this, u, last_step + 1);
        // The last rows, whose others are waited for together: they were copied too, and the
        // caches have them.
        if constexpr (g.copied && ops > 0) wait_for_copies<0>();
#pragma unroll
        for (int first = 0; first < g.walk.open - up; first += others_held) {
            load_others<others_held>(0, row_of(u, first), true);
#pragma unroll
            for (int a = first;
                    a < least(first + others_held, g.walk.open - up); ++a)
                if (row_of(u, a) >= first_row && row_of(u, a) < last_row)
                    write_row(a, row_of(u, a), a - first, false);
        }
        write_zeros(most(first_row, row_of(u, g.walk.open - up)), last_row);
    }

    // In data.cuh.
    __device__ static int place_of_weight(int m, int tap, int piece, int lane);
    __device__ static vector_of_weights weights_at(
            const sum_type *of_lane, int m, int tap);
    __device__ static void write_again(const type *read, const type *weights,
            type *at, int image, int first_channel, int first_depth, int row,
            int first_column, fused_places others);
    __device__ static sum_type weight_of(
            const type *all, int channel, int m, int kd, int kh, int kw);
    template <typename Channel>
    __device__ void share_weights(
            sum_type *to, int count, const Channel &channel_of) const;
    __device__ void load_weights(const sum_type *shared, int lane);
    __device__ void of_tensors(type *tensor);
    __device__ void of_planes(type *tensor);
    // In data_rows.cuh.
    __device__ void add_row(const sum_type *by);
    __device__ void add_taps(const type *from, const sum_type *by);
    __device__ void pass_by();
};

} // namespace gradnn::gpu::sliding
