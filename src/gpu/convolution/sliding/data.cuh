// Depthwise convolution, data: the gradient of src, or the forward direction.
//
//   written[n,c,x] = sum over m and k of weights[c,m,k] * read[n,c*multiplier+m,y],
//                    where y * up = x * step + base - k * dilation
//
// A thread has a tile of columns (in NXC of a vector of channels, in volumes of some depths)
// and walks along the rows of what is read. It loads each row once, some rows ahead, and adds
// its products to the open sums of the rows of written that it meets; when a row has met all
// that it meets, it is written and the sums move up. Every element has its terms in one
// order, by rows, then depths, columns and channels, whatever the tile: the bits follow from
// the problem alone. Taps that meet nothing in any tile are left out.
//
// In NCX a block may collect the results of whole planes in shared memory, to write them by
// vectors wherever rows begin, and may have what it reads copied there at once.
//
// A zero stands for what lies outside: a sum that is NaN is taken again from the definition.
#pragma once

#include "gpu/convolution/sliding/device.cuh"

namespace gradnn::gpu::sliding {

/// From a column of a tile to the next one, and from a depth to the next, where results go.
template <data_specification s>
__device__ constexpr long long result_column() {
    return s.cut.staged != staging::none ? 1 : s.of.written.column;
}
template <data_specification s>
__device__ constexpr long long result_depth() {
    return s.cut.staged != staging::none
            ? static_cast<long long>(s.cut.band) * s.of.column.written
            : s.of.written.depth;
}

/// A row of a tile again, over nothing but the terms of the formula.
template <data_specification s>
__device__ __noinline__ void write_again(const storage<s.of.type> *read,
        const storage<s.of.type> *weights, storage<s.of.type> *at, int image,
        int first_channel, int first_depth, int row, int first_column) {
    constexpr problem_specification p = s.of;
    constexpr data_cut cut = s.cut;
    constexpr int column_step = geometry_of(s).column_step;
#pragma unroll 1
    for (int e = 0; e < cut.depths * cut.columns * cut.vector; ++e) {
        const int channel = first_channel + e % cut.vector;
        const int j = e / cut.vector % cut.columns;
        const int o = e / (cut.vector * cut.columns);
        const int column = first_column + j * column_step;
        const int depth = first_depth + o;
        if (column >= p.column.written || depth >= p.depth.written) continue;
        sum<p.type> total = 0;
#pragma unroll 1
        for (int t = 0; t < p.depth.taps * p.row.taps * p.column.taps; ++t) {
            // In the order of the walk, whose rows of read ascend.
            const int kh = p.row.taps - 1 - t / (p.depth.taps * p.column.taps);
            const int kd = t / p.column.taps % p.depth.taps;
            const int kw = t % p.column.taps;
            int z = depth * p.depth.step + p.depth.base
                    - kd * p.depth.dilation;
            int y = row * p.row.step + p.row.base - kh * p.row.dilation;
            int x = column * p.column.step + p.column.base
                    - kw * p.column.dilation;
            if (z < 0 || y < 0 || x < 0 || z % p.depth.up || y % p.row.up
                    || x % p.column.up)
                continue;
            z /= p.depth.up;
            y /= p.row.up;
            x /= p.column.up;
            if (z >= p.depth.read || y >= p.row.read || x >= p.column.read)
                continue;
#pragma unroll 1
            for (int m = 0; m < p.multiplier; ++m)
                total = multiply_add(
                        widen<p.type>(read[image * p.read.image
                                + (static_cast<long long>(channel)
                                                  * p.multiplier
                                          + m)
                                        * p.read.channel
                                + z * p.read.depth + y * p.read.row
                                + x * p.read.column]),
                        widen<p.type>(
                                weights[weight_at<p>(channel, m, kd, kh, kw)]),
                        total);
        }
        at[o * result_depth<s>() + j * column_step * result_column<s>()
                + e % cut.vector]
                = narrow<p.type>(total);
    }
}

template <data_specification s>
struct data_walk {
    static constexpr problem_specification p = s.of;
    static constexpr data_cut cut = s.cut;
    static constexpr data_geometry g = geometry_of(s);
    static constexpr bool staged = cut.staged != staging::none;
    static constexpr bool staged_read = cut.staged == staging::all;
    using type = storage<p.type>;
    using sum_type = sum<p.type>;
    static constexpr int channels = cut.vector * p.multiplier;
    using vector = jit::elements<p.type, g.loaded>;
    /// From a row that is read to the next one.
    static constexpr int row_step = p.row.parts() ? p.row.dilation : p.row.step;

    // Where the thread is.
    int image, channel, in_class, first_row, last_row, first_depth, first_column;
    int read_column, read_depth;
    // Its tile.
    sum_type weights[p.multiplier][p.depth.taps][p.row.taps][p.column.taps]
                    [cut.vector];
    sum_type open[g.walk.open][cut.depths][cut.columns][cut.vector];
    vector rows[cut.ahead][g.walk.phases][g.depth_slots][g.pieces][g.units.count];
    bool column_inside[g.units.count], depth_inside[g.depth_slots];
    // Where it reads and writes.
    const type *read, *all_weights, *next;
    int next_step; ///< the step whose rows are at `next`
    type *written;
    long long depth_pitch, row_pitch, column_pitch;
    const type *read_from; ///< for write_again

    __device__ void find_outside() {
#pragma unroll
        for (int unit = 0; unit < g.units.count; ++unit)
            column_inside[unit] = g.units.always_inside[unit]
                    || static_cast<unsigned>(read_column
                               + (unit + g.units.first) * g.units.vector)
                            < static_cast<unsigned>(p.column.read);
#pragma unroll
        for (int slot = 0; slot < g.depth_slots; ++slot)
            depth_inside[slot] = g.depth_always_inside[slot]
                    || static_cast<unsigned>(read_depth + slot + g.first_depth)
                            < static_cast<unsigned>(p.depth.read);
    }

    __device__ void load_weights(const sum_type *shared, int lane) {
#pragma unroll
        for (int m = 0; m < p.multiplier; ++m)
#pragma unroll
            for (int kd = 0; kd < p.depth.taps; ++kd)
#pragma unroll
                for (int kh = 0; kh < p.row.taps; ++kh)
#pragma unroll
                    for (int kw = 0; kw < p.column.taps; ++kw)
#pragma unroll
                        for (int v = 0; v < cut.vector; ++v)
                            weights[m][kd][kh][kw][v] = shared
                                    ? shared[shared_weight(lane * cut.vector + v,
                                            m, kd, kh, kw)]
                                    : widen<p.type>(*(all_weights
                                            + weight_at<p>(
                                                    channel + v, m, kd, kh, kw)));
    }
    __device__ static constexpr int shared_weight(
            int of_channel, int m, int kd, int kh, int kw) {
        return (((of_channel * p.multiplier + m) * p.depth.taps + kd)
                               * p.row.taps
                       + kh)
                * p.column.taps
                + kw;
    }

    /// The rows at `next` go to a slot of the ring.
    __device__ void load(int slot, bool checked) {
#pragma unroll
        for (int f = 0; f < g.walk.phases; ++f) {
            if (!g.phase_used[f]) continue;
            const bool row_inside = g.walk.phases == 1 || !checked
                    || next_step * p.row.step + f < p.row.read;
#pragma unroll
            for (int z = 0; z < g.depth_slots; ++z) {
                if (!g.depth_used[z]) continue;
#pragma unroll
                for (int m = 0; m < g.pieces; ++m)
#pragma unroll
                    for (int unit = 0; unit < g.units.count; ++unit) {
                        if (!g.units.used[unit]) continue;
                        load_into(rows[slot][f][z][m][unit], 
                                next + f * row_pitch
                                        + (z + g.first_depth) * depth_pitch
                                        + m * piece_pitch()
                                        + (unit + g.units.first)
                                                * g.units.vector * column_pitch,
                                column_inside[unit] && depth_inside[z]
                                        && row_inside);
                    }
            }
        }
    }
    __device__ static constexpr long long piece_pitch() {
        return p.channels_last ? g.loaded
                : staged_read  ? static_cast<long long>(p.depth.read)
                        * p.row.read * p.column.read
                               : p.read.channel;
    }

    /// Of a loaded row, the element of a column, counted from the first loaded one, and of
    /// a channel of the vector or a plane.
    __device__ sum_type element_of(
            int slot, int f, int z, int column, int channel_of) const {
        const int unit = column / g.units.vector;
        return p.channels_last
                ? rows[slot][f][z][channel_of / g.loaded][unit]
                      [channel_of % g.loaded]
                : rows[slot][f][z][channel_of][unit][column % g.units.vector];
    }

    __device__ void multiply(int slot) {
        constexpr int width = g.units.count * g.units.vector;
        sum_type values[g.walk.phases][g.depth_slots][width][channels];
#pragma unroll
        for (int f = 0; f < g.walk.phases; ++f)
#pragma unroll
            for (int z = 0; z < g.depth_slots; ++z)
#pragma unroll
                for (int x = 0; x < width; ++x)
#pragma unroll
                    for (int e = 0; e < channels; ++e)
                        if (g.depth_used[z] && g.units.used[x / g.units.vector]
                                && g.phase_used[f])
                            values[f][z][x][e] = element_of(slot, f, z, x, e);
        advance_and_load(slot);
#pragma unroll
        for (int f = 0; f < g.walk.phases; ++f)
#pragma unroll
            for (int kh = 0; kh < p.row.taps; ++kh) {
                const int a = g.sum_of[f][kh];
                if (a < 0) continue;
#pragma unroll
                for (int o = 0; o < cut.depths; ++o)
#pragma unroll
                    for (int kd = 0; kd < p.depth.taps; ++kd) {
                        const int z = g.depth_met[kd][o];
                        if (z < 0) continue;
#pragma unroll
                        for (int kw = 0; kw < p.column.taps; ++kw)
#pragma unroll
                            for (int j = 0; j < cut.columns; ++j) {
                                const int x = g.units.met[kw][j];
                                if (x < 0) continue;
#pragma unroll
                                for (int v = 0; v < cut.vector; ++v)
#pragma unroll
                                    for (int m = 0; m < p.multiplier; ++m)
                                        open[a][o][j][v] = multiply_add(
                                                values[f][z][x]
                                                      [p.channels_last
                                                                      ? v * p.multiplier
                                                                              + m
                                                                      : m],
                                                weights[m][kd][kh][kw][v],
                                                open[a][o][j][v]);
                            }
                    }
            }
    }
    // Set by `step` around multiply, whose loads stand between conversions and products.
    bool checked_now;
    int last_step;
    __device__ void advance_and_load(int slot) {
        if (checked_now) {
#pragma unroll
            for (int i = 0; i + 1 < cut.ahead; ++i)
#pragma unroll
                for (int f = 0; f < g.walk.phases; ++f)
#pragma unroll
                    for (int z = 0; z < g.depth_slots; ++z)
#pragma unroll
                        for (int m = 0; m < g.pieces; ++m)
#pragma unroll
                            for (int unit = 0; unit < g.units.count; ++unit)
                                rows[i][f][z][m][unit]
                                        = rows[i + 1][f][z][m][unit];
            advance();
            load(cut.ahead - 1, true);
        } else {
            next += row_step * row_pitch;
            ++next_step;
            load(slot, false);
        }
    }
    /// To the next step's rows, or to the last ones again.
    __device__ void advance() {
        if (next_step < last_step) {
            next += row_step * row_pitch;
            ++next_step;
        }
    }

    __device__ void write_row(int a, int row, bool zeros) {
        type *const at
                = written + static_cast<long long>(row) * g.walk.classes
                        * (staged ? p.column.written : p.written.row);
#pragma unroll
        for (int o = 0; o < cut.depths; ++o) {
            if (g.depth_tiles * cut.depths > p.depth.written
                    && first_depth + o >= p.depth.written)
                continue;
            constexpr int step = p.channels_last ? 1 : g.write_vector;
#pragma unroll
            for (int j = 0; j < cut.columns; j += step) {
                if (g.tiles * cut.columns > p.column.written
                        && first_column + j * g.column_step
                                >= p.column.written)
                    continue;
                sum_type values[g.write_vector];
#pragma unroll
                for (int e = 0; e < g.write_vector; ++e)
                    values[e] = zeros        ? sum_type(0)
                            : p.channels_last ? open[a][o][j][e]
                                              : open[a][o][j + e][0];
                jit::elements<p.type, g.write_vector>::of(values).store(
                        at
                                + o * result_depth<s>()
                                + j * g.column_step * result_column<s>());
            }
        }
        if (zeros) return;
        bool is_nan = false;
#pragma unroll
        for (int o = 0; o < cut.depths; ++o)
#pragma unroll
            for (int j = 0; j < cut.columns; ++j)
#pragma unroll
                for (int v = 0; v < cut.vector; v += 2)
                    is_nan |= either_is_nan(open[a][o][j][v],
                            open[a][o][j][v + 1 < cut.vector ? v + 1 : v]);
        if (is_nan)
            write_again<s>(read_from, all_weights, at, image, channel,
                    first_depth, in_class + g.walk.classes * row, first_column);
    }

    /// Step u, whose rows are in a slot of the ring.
    __device__ void step(int u, int slot, bool checked) {
        checked_now = checked;
        multiply(slot);
#pragma unroll
        for (int a = 0; a < p.row.up; ++a) {
            const int row = p.row.up * u + g.walk.shift + a;
            if (!checked
                    || (row >= first_row && (p.row.up == 1 || row < last_row)))
                write_row(a, row, false);
        }
#pragma unroll
        for (int a = 0; a < g.walk.open; ++a)
#pragma unroll
            for (int o = 0; o < cut.depths; ++o)
#pragma unroll
                for (int j = 0; j < cut.columns; ++j)
#pragma unroll
                    for (int v = 0; v < cut.vector; ++v)
                        open[a][o][j][v] = a + p.row.up < g.walk.open
                                ? open[a + p.row.up < g.walk.open ? a + p.row.up
                                                                  : 0][o][j][v]
                                : sum_type(0);
    }

    /// From first_row to last_row, counted in the class.
    __device__ void walk() {
        const int up = p.row.up;
        const int shift = g.walk.shift;
        int u = -floor_div(shift + g.walk.reach - first_row, up);
        last_step = floor_div(last_row - 1 - shift, up);
        if (p.row.parts()) {
            u = most(u, -floor_div(in_class + p.row.base, p.row.dilation));
            last_step = least(last_step,
                    floor_div(p.row.read - 1 - p.row.base - in_class,
                            p.row.dilation));
        } else {
            u = most(u, 0);
            last_step = least(last_step, (p.row.read - 1) / p.row.step);
        }
        const int met = u <= last_step ? up * u + shift : last_row;
        for (int row = first_row; row < least(met, last_row); ++row)
            write_row(0, row, true);
        if (u > last_step) return;
#pragma unroll
        for (int a = 0; a < g.walk.open; ++a)
#pragma unroll
            for (int o = 0; o < cut.depths; ++o)
#pragma unroll
                for (int j = 0; j < cut.columns; ++j)
#pragma unroll
                    for (int v = 0; v < cut.vector; ++v)
                        open[a][o][j][v] = 0;
        find_outside();
        next_step = u;
        next = read
                + static_cast<long long>(
                          g.walk.row_of(p.row, u, 0, in_class))
                        * row_pitch;
#pragma unroll
        for (int i = 0; i < cut.ahead; ++i) {
            if (i) advance();
            load(i, true);
        }
        // The last step whose rows of every phase are there.
        const int whole = g.walk.phases == 1
                ? last_step
                : least(last_step, p.row.read / p.row.step - 1);
#pragma unroll 1
        for (;;) {
            if (cut.unchecked && up * u + shift >= first_row
                    && u + cut.unroll + cut.ahead - 1 <= whole
                    && (up == 1 || up * (u + cut.unroll) + shift <= last_row)) {
#pragma unroll
                for (int i = 0; i < cut.unroll; ++i)
                    step(u + i, i % cut.ahead, false);
                u += cut.unroll;
                continue;
            }
            step(u, 0, true);
            if (++u > last_step) break;
        }
        const int rest = up * u + shift;
#pragma unroll
        for (int a = 0; a < g.walk.open - up; ++a)
            if (rest + a >= first_row && rest + a < last_row)
                write_row(a, rest + a, false);
        for (int row = most(first_row, rest + most(g.walk.open - up, 0));
                row < last_row; ++row)
            write_row(0, row, true);
    }
};

/// A thread's tile in tensors as they lie.
template <data_specification s>
__device__ void data_of_thread(const storage<s.of.type> *read,
        const storage<s.of.type> *weights, storage<s.of.type> *written) {
    using walk_type = data_walk<s>;
    constexpr problem_specification p = s.of;
    constexpr data_cut cut = s.cut;
    constexpr data_geometry g = walk_type::g;
    walk_type t;
    const unsigned thread = threadIdx.x;
    const unsigned channel_block = blockIdx.x % g.channel_blocks;
    const unsigned lane = thread % cut.lanes;
    unsigned rest = blockIdx.x / g.channel_blocks * g.of_block
            + thread / cut.lanes;
    const unsigned item = rest;
    // In NXC a block's weights are the same few: they go through shared memory.
    constexpr int block_weights = cut.lanes * cut.vector * p.multiplier
            * p.depth.taps * p.row.taps * p.column.taps;
    constexpr bool shares_weights = p.channels_last
            && block_weights * sum_bytes_of(p.type) <= 46000;
    const sum<p.type> *shared = nullptr;
    if constexpr (shares_weights) {
        __shared__ sum<p.type> of_block[block_weights];
        constexpr int taps = p.depth.taps * p.row.taps * p.column.taps;
        for (int i = thread; i < block_weights; i += cut.threads) {
            const int k = i % taps;
            const int m = i / taps % p.multiplier;
            const int c = i / (taps * p.multiplier)
                    + static_cast<int>(channel_block) * cut.lanes * cut.vector;
            if (c < p.channels)
                of_block[i] = widen<p.type>(*(weights
                        + weight_at<p>(c, m, k / (p.row.taps * p.column.taps),
                                k / p.column.taps % p.row.taps,
                                k % p.column.taps)));
        }
        __syncthreads();
        shared = of_block;
    }
    if (thread >= cut.lanes * g.of_block || item >= g.items) return;
    t.channel = (channel_block * cut.lanes + lane) * cut.vector;
    if (p.channels_last && t.channel >= p.channels) return;
    const int tile = rest % g.tiles;
    rest /= g.tiles;
    int depth_tile;
    int strip;
    if constexpr (p.channels_last) {
        depth_tile = rest % g.depth_tiles;
        rest /= g.depth_tiles;
        strip = rest % g.strips;
        rest /= g.strips;
        t.in_class = rest % g.walk.classes;
        t.image = rest / g.walk.classes;
    } else {
        strip = rest % g.strips;
        rest /= g.strips;
        t.in_class = rest % g.walk.classes;
        rest /= g.walk.classes;
        depth_tile = rest % g.depth_tiles;
        rest /= g.depth_tiles;
        t.channel = rest % p.channels;
        t.image = rest / p.channels;
    }
    t.all_weights = weights;
    t.load_weights(shared, lane);
    t.first_column = g.column_step > 1 ? tile % g.column_step
                    + tile / g.column_step * (g.column_step * cut.columns)
                                       : tile * cut.columns;
    t.read_column = t.first_column * p.column.step / p.column.up;
    t.first_depth = depth_tile * cut.depths;
    t.read_depth = t.first_depth * p.depth.step / p.depth.up;
    t.first_row = strip * cut.strip;
    t.last_row = least(t.first_row + cut.strip,
            (p.row.written - t.in_class + g.walk.classes - 1) / g.walk.classes);
    t.depth_pitch = p.read.depth;
    t.row_pitch = p.read.row;
    t.column_pitch = p.read.column;
    t.read_from = read;
    t.read = read + t.image * p.read.image
            + static_cast<long long>(t.channel) * p.multiplier * p.read.channel
            + t.read_depth * p.read.depth + t.read_column * p.read.column;
    t.written = written + t.image * p.written.image
            + static_cast<long long>(t.channel) * p.written.channel
            + t.first_depth * p.written.depth + t.in_class * p.written.row
            + t.first_column * p.written.column;
    t.walk();
}

/// A block's planes, whose results lie in shared memory until all are there.
template <data_specification s>
__device__ void data_of_planes(const storage<s.of.type> *read,
        const storage<s.of.type> *weights, storage<s.of.type> *written) {
    using walk_type = data_walk<s>;
    using type = storage<s.of.type>;
    constexpr problem_specification p = s.of;
    constexpr data_cut cut = s.cut;
    constexpr data_geometry g = walk_type::g;
    constexpr int vector = 16 / bytes_of(p.type);
    constexpr int plane = p.row.written * p.column.written;
    const unsigned thread = threadIdx.x;
    type *const shared_read = reinterpret_cast<type *>(jit::dynamic_shared());
    const unsigned block = blockIdx.x / g.bands;
    const int band = static_cast<int>(blockIdx.x % g.bands) * cut.band;
    const unsigned units = p.images * p.channels
            * (cut.volumes ? 1 : g.depth_tiles);
    const unsigned first_unit = block * cut.planes;
    const unsigned here = least(cut.planes, units - first_unit);
    const long long first = static_cast<long long>(first_unit)
                    * (g.bands > 1 ? plane : g.unit_elements)
            + band * p.column.written;
    const int count = g.bands > 1
            ? least(cut.band, p.row.written - band) * p.column.written
            : static_cast<int>(here) * g.unit_elements;
    // Shared memory and memory are at the same place in a vector.
    const auto past = p.alignment == 16
            ? first % vector
            : static_cast<long long>(
                    reinterpret_cast<uintptr_t>(written + first) % 16
                    / sizeof(type));
    type *const results = shared_read + g.read_bytes / bytes_of(p.type) + past;
    const long long read_at
            = static_cast<long long>(first_unit) * g.read_elements;
    const int before = read_at % vector;
    if constexpr (walk_type::staged_read)
        copy_to_shared<p.bulk_copies>(shared_read, read + read_at - before,
                before + static_cast<int>(here) * g.read_elements,
                cut.threads);

    unsigned rest = thread;
    const int tile = rest % g.tiles;
    rest /= g.tiles;
    const int strip = rest % g.strips;
    rest /= g.strips;
    const int in_class = rest % g.walk.classes;
    rest /= g.walk.classes;
    int depth_tile = 0;
    if constexpr (cut.volumes) {
        depth_tile = rest % g.depth_tiles;
        rest /= g.depth_tiles;
    }
    const int of_block = rest;
    unsigned unit = first_unit + rest;
    if (thread < g.items && unit < units) {
        walk_type t;
        if constexpr (!cut.volumes) {
            depth_tile = unit % g.depth_tiles;
            unit /= g.depth_tiles;
        }
        t.channel = unit % p.channels;
        t.image = unit / p.channels;
        t.in_class = in_class;
        t.all_weights = weights;
        t.load_weights(nullptr, 0);
        t.first_column = tile * cut.columns;
        t.read_column = t.first_column * p.column.step / p.column.up;
        t.first_depth = depth_tile * cut.depths;
        t.read_depth = t.first_depth * p.depth.step / p.depth.up;
        t.first_row = (g.bands > 1 ? band : 0) + strip * cut.strip;
        t.last_row = least(least(t.first_row + cut.strip,
                                   (g.bands > 1 ? band : 0) + g.rows),
                (p.row.written - in_class + g.walk.classes - 1)
                        / g.walk.classes);
        t.read_from = read;
        t.column_pitch = 1;
        if constexpr (walk_type::staged_read) {
            t.row_pitch = p.column.read;
            t.depth_pitch = static_cast<long long>(p.row.read) * p.column.read;
            t.read = shared_read + before + of_block * g.read_elements;
        } else {
            t.row_pitch = p.read.row;
            t.depth_pitch = p.read.depth;
            t.read = read + t.image * p.read.image
                    + static_cast<long long>(t.channel) * p.multiplier
                            * p.read.channel;
        }
        t.read += t.read_depth * t.depth_pitch + t.read_column;
        t.written = results + of_block * g.unit_elements
                + (in_class - (g.bands > 1 ? band : 0)) * p.column.written
                + t.first_column;
        if constexpr (cut.volumes)
            t.written += t.first_depth * plane;
        t.walk();
    }
    __syncthreads();
    write_from_shared(written + first, results, count, cut.threads);
}

} // namespace gradnn::gpu::sliding
