// What a sliding kernel is compiled for: the problem and how its work is cut, in plain
// numbers, and what follows from them. Read by the host, which plans, and by the kernels,
// for which all of it is constant.
#pragma once

#include "gpu/jit/element.hpp"

namespace gradnn::gpu::sliding {

using jit::bytes_of;
using jit::element;

constexpr int sum_bytes_of(element type) {
    return type == element::f64 ? 8 : 4;
}

constexpr int ceil_div(int a, int b) {
    return a / b + (a % b > 0);
}
constexpr int floor_div(int a, int b) {
    return a / b - (a % b < 0);
}
constexpr int least(int a, int b) {
    return a < b ? a : b;
}
constexpr int most(int a, int b) {
    return a > b ? a : b;
}

/// One axis of a convolution: position `read` of what is read meets position `written` of
/// what is written by a tap where read * up = written * step + base - tap * dilation. One
/// of step and up is 1. In gradients of weights src is read and dst written (up is 1).
struct axis {
    int read, written, taps, step, up, dilation, base;

    /// What a written position at `offset` from a tile's first one reads by a tap, from what
    /// that one reads; `none` where nothing.
    static constexpr int none = -(1 << 30);
    constexpr int met(int offset, int tap) const {
        const int at = offset * step + base - tap * dilation;
        return at % up == 0 ? at / up : none;
    }
    /// Whether dilation parts the positions into classes that do not meet.
    constexpr bool parts() const { return step == 1 && up == 1; }
};

/// Elements from a position to the next.
struct pitches {
    long long image, channel, depth, row, column;
};
struct weights_pitches {
    long long channel, multiple, depth, row, column;
};

/// The problem. Every channel of the tensor with fewer meets `multiplier` of the other:
/// the written one in data has fewer, of weights' gradients src has.
struct problem_specification {
    element type;
    element weights_type; ///< as `type`, or f32 for gradients of weights
    bool channels_last;
    int images, channels, multiplier;
    axis depth, row, column;
    pitches read, written;
    weights_pitches weights;
    bool reversed; ///< tap k lies where tap taps - 1 - k is expected
    int alignment; ///< of the first elements of both tensors, in bytes
    bool bulk_copies; ///< whether the device has them (compute capability 9.0)
};

constexpr bool divides(long long by, const pitches &of) {
    return of.row % by == 0 && of.depth % by == 0 && of.channel % by == 0
            && of.image % by == 0;
}

/// Elements of a vector along a row of so many elements that tiles enter every `step`, which
/// is 0 for one tile.
constexpr int vector_along(
        int bytes, int alignment, int row, const pitches &of, int step) {
    int vector = least(16, alignment) / bytes;
    while (vector > 1 && (row % vector || step % vector || !divides(vector, of)))
        vector /= 2;
    return most(vector, 1);
}

/// NXC: the vector by which so many channels side by side are loaded or stored.
constexpr int vector_of_channels(
        int bytes, int alignment, int count, const pitches &of) {
    int vector = least(16, alignment) / bytes;
    while (vector > 1
            && (count % vector || of.column % vector || of.row % vector
                    || of.depth % vector || of.image % vector))
        vector /= 2;
    return most(vector, 1);
}

enum class staging { none, results, all };

/// How the work of a data kernel is cut.
struct data_cut {
    int vector; ///< channels of a thread; 1 in NCX
    int columns, depths; ///< results of a thread in a row, and in how many depths
    int strip; ///< rows that a thread walks through
    int ahead; ///< rows on their way
    int unroll; ///< steps of the loop's body, a multiple of `ahead`
    bool unchecked; ///< a body without tests for the middle of a strip
    int lanes; ///< vectors of channels side by side in a block; 1 in NCX
    int threads, blocks; ///< of a block; that a multiprocessor is to hold
    /// NCX: results, or all, lie in shared memory; a block has so many planes (volumes,
    /// where `volumes`), or a band of rows of one.
    staging staged;
    int planes, band;
    bool volumes;
    /// For windows whose taps do not fit in registers: a thread has the results of one row,
    /// the window's rows pass by, and the weights lie in shared memory.
    bool row_by_row;
};

struct data_specification {
    problem_specification of;
    data_cut cut;
};

// How much the tables below hold.
constexpr int most_units = 96;
constexpr int most_depths = 64, most_tile_depths = 3;
constexpr int most_phases = 32;
constexpr int most_taps = 64; ///< along an axis that is unrolled
constexpr int most_columns = 32;

/// The walk along the rows. At step u row_of(u, phase) are read, and tap k of a phase adds
/// to open sum a, which is of written row up * u + shift + a of its class.
struct row_walk {
    int classes, phases, shift, open, reach;

    static constexpr row_walk of(const axis &rows) {
        row_walk w {rows.parts() ? rows.dilation : 1, rows.step, 0, 1, 0};
        if (rows.parts()) {
            w.reach = rows.taps - 1;
        } else if (rows.step == 1) {
            w.shift = -rows.base;
            w.reach = (rows.taps - 1) * rows.dilation;
        } else {
            int first = 0, last = 0;
            bool any = false;
            for (int f = 0; f < rows.step; ++f)
                for (int k = 0; k < rows.taps; ++k) {
                    const int at = f - rows.base + k * rows.dilation;
                    if (at % rows.step) continue;
                    const int row = at / rows.step;
                    first = any ? least(first, row) : row;
                    last = any ? most(last, row) : row;
                    any = true;
                }
            w.shift = first;
            w.reach = last - first;
        }
        w.open = most(w.reach + 1, rows.up);
        return w;
    }
    /// The open sum that a tap adds to, or -1.
    constexpr int sum_of(const axis &rows, int phase, int tap) const {
        if (rows.parts()) return tap;
        if (rows.step == 1) return tap * rows.dilation;
        const int at = phase - rows.base + tap * rows.dilation;
        return at % rows.step ? -1 : at / rows.step - shift;
    }
    constexpr int row_of(const axis &rows, int u, int phase, int in_class) const {
        return rows.parts() ? in_class + rows.base + rows.dilation * u
                            : rows.step * u + phase;
    }
};

/// The vectors of a row that a thread loads, counted from the column that its first result
/// meets, and which of them may lie outside. Tables, not formulas, where kernels unroll
/// loops: a compiler takes long to see through divisions.
struct column_units {
    int vector, first, count;
    bool used[most_units], always_inside[most_units];
    /// By tap and column of a tile: what it meets, counted from the first vector's first
    /// element; -1 where no tile meets anything.
    short met[most_taps][most_columns];

    /// Of tiles whose first columns meet column 0 to `furthest` of a row of `width`. Whether
    /// there is room for them.
    constexpr bool fill(const axis &along, int columns, int column_step,
            int furthest, int width) {
        if (along.taps > most_taps || columns > most_columns) return false;
        int last = 0;
        bool any = false;
        for (int j = 0; j < columns; ++j)
            for (int k = 0; k < along.taps; ++k) {
                const int at = along.met(j * column_step, k);
                if (at == axis::none) continue;
                const int unit = floor_div(at, vector);
                first = any ? least(first, unit) : unit;
                last = any ? most(last, unit) : unit;
                any = true;
            }
        count = last - first + 1;
        if (count > most_units) return false;
        for (int j = 0; j < columns; ++j)
            for (int k = 0; k < along.taps; ++k) {
                const int at = along.met(j * column_step, k);
                met[k][j] = -1;
                if (at == axis::none || at + furthest < 0 || at >= width)
                    continue;
                const int unit = floor_div(at, vector);
                const int begin = unit * vector;
                used[unit - first] = true;
                always_inside[unit - first]
                        = begin >= 0 && furthest + begin < width;
                met[k][j] = static_cast<short>(at - first * vector);
            }
        return true;
    }
};

struct data_geometry {
    int column_step; ///< between a thread's columns
    int tiles, depth_tiles, strips, rows; ///< rows of a class
    row_walk walk;
    int furthest_column; ///< that a tile's first result may meet
    column_units units;
    /// Depths that a thread reads, counted from the one that its first result meets.
    int first_depth, depth_slots;
    bool depth_used[most_depths], depth_always_inside[most_depths];
    /// By tap and depth of a tile, counted from the first that it reads, or -1.
    short depth_met[most_taps][most_tile_depths];
    /// By phase and tap of the rows: the open sum, or -1.
    short sum_of[most_phases][most_taps];
    bool phase_used[most_phases];
    int write_vector;
    int channel_blocks, of_block; ///< blocks side by side in channels; items of one
    /// A column's or vector's channels are loaded `loaded` elements at a time: in NCX these
    /// are columns of a plane, and `pieces` the planes of a multiplier.
    int loaded, pieces;
    int bands;
    int unit_elements, read_elements; ///< of a staged unit: of results, of what is read
    int read_bytes; ///< shared memory for what is read
    int items, grid, shared_bytes;
    bool fits; ///< whether all of it can be counted and held
};

constexpr data_geometry geometry_of(const data_specification &s) {
    const problem_specification &p = s.of;
    const data_cut &c = s.cut;
    const int bytes = bytes_of(p.type);
    const bool staged = c.staged != staging::none;
    const bool read_too = c.staged == staging::all;
    data_geometry g {};
    g.fits = true;
    g.walk = row_walk::of(p.row);
    g.column_step = p.channels_last && p.column.parts() ? p.column.dilation : 1;
    g.tiles = ceil_div(p.column.written, g.column_step * c.columns)
            * g.column_step;
    g.depth_tiles = ceil_div(p.depth.written, c.depths);
    g.bands = staged ? ceil_div(p.row.written, c.band) : 1;
    g.rows = ceil_div(staged ? c.band : p.row.written, g.walk.classes);
    g.strips = ceil_div(g.rows, c.strip);
    g.furthest_column = g.column_step > 1
            ? (p.column.written - 1) / (g.column_step * c.columns)
                            * g.column_step * c.columns
                    + g.column_step - 1
            : (g.tiles - 1) * c.columns * p.column.step / p.column.up;

    // Staged planes follow one another in shared memory.
    const int volume = c.volumes ? p.depth.written : 1;
    g.unit_elements = volume * c.band * p.column.written
            * (c.volumes ? 1 : c.depths);
    g.read_elements = p.multiplier * p.depth.read * p.row.read * p.column.read;
    g.read_bytes = read_too
            ? ceil_div(c.planes * g.read_elements * bytes + 32, 16) * 16
            : 0;
    int step = g.tiles > g.column_step
            ? c.columns * g.column_step * p.column.step / p.column.up
            : 0;
    if (p.channels_last) {
        g.units.vector = 1;
    } else if (read_too) {
        const int plane = p.row.read * p.column.read;
        int aligned = 16;
        while (c.planes * g.read_elements * bytes % aligned) aligned /= 2;
        g.units.vector = vector_along(bytes, aligned, p.column.read,
                {g.read_elements, 0, plane, 0, 1}, step);
    } else {
        g.units.vector = vector_along(
                bytes, p.alignment, p.column.read, p.read, step);
    }
    g.loaded = p.channels_last
            ? vector_of_channels(
                    bytes, p.alignment, c.vector * p.multiplier, p.read)
            : g.units.vector;
    g.pieces = p.channels_last ? c.vector * p.multiplier / g.loaded
                               : p.multiplier;
    if (!g.units.fill(p.column, c.columns, g.column_step, g.furthest_column,
                p.column.read)) {
        g.fits = false;
        return g;
    }

    bool any_depth = false;
    int last_depth = 0;
    for (int o = 0; o < c.depths; ++o)
        for (int k = 0; k < p.depth.taps; ++k) {
            const int at = p.depth.met(o, k);
            if (at == axis::none) continue;
            g.first_depth = any_depth ? least(g.first_depth, at) : at;
            last_depth = any_depth ? most(last_depth, at) : at;
            any_depth = true;
        }
    g.depth_slots = last_depth - g.first_depth + 1;
    if (g.depth_slots > most_depths || g.walk.phases > most_phases
            || c.depths > most_tile_depths || p.depth.taps > most_taps) {
        g.fits = false;
        return g;
    }
    const int furthest_depth
            = (g.depth_tiles - 1) * c.depths * p.depth.step / p.depth.up;
    for (int o = 0; o < c.depths; ++o)
        for (int k = 0; k < p.depth.taps; ++k) {
            const int at = p.depth.met(o, k);
            g.depth_met[k][o] = -1;
            if (at == axis::none || at + furthest_depth < 0
                    || at >= p.depth.read)
                continue;
            g.depth_met[k][o] = static_cast<short>(at - g.first_depth);
            g.depth_used[at - g.first_depth] = true;
            g.depth_always_inside[at - g.first_depth]
                    = at >= 0 && at + furthest_depth < p.depth.read;
        }
    if (p.row.taps > most_taps && !c.row_by_row) {
        g.fits = false;
        return g;
    }
    for (int f = 0; f < g.walk.phases && !c.row_by_row; ++f)
        for (int k = 0; k < p.row.taps; ++k) {
            g.sum_of[f][k] = static_cast<short>(g.walk.sum_of(p.row, f, k));
            g.phase_used[f] |= g.sum_of[f][k] >= 0;
        }

    g.write_vector = p.channels_last
            ? c.vector
            : vector_along(bytes, p.alignment, p.column.written, p.written,
                    c.columns);
    if (staged) {
        int aligned = p.alignment;
        while (c.planes * g.unit_elements * bytes % aligned
                || (g.bands > 1
                        && p.row.written * p.column.written * bytes % aligned))
            aligned /= 2;
        const int band = c.band * p.column.written;
        g.write_vector = vector_along(bytes, aligned, p.column.written,
                {g.unit_elements, 0, band, 0, 1}, c.columns);
    }

    long long items = static_cast<long long>(g.tiles) * g.strips
            * g.walk.classes;
    long long grid = 0;
    if (c.row_by_row) items = static_cast<long long>(g.tiles) * p.row.written;
    if (staged) {
        items *= (c.volumes ? g.depth_tiles : 1) * c.planes;
        g.channel_blocks = 1;
        g.of_block = static_cast<int>(items);
        const long long units = static_cast<long long>(p.images) * p.channels
                * (c.volumes ? 1 : g.depth_tiles);
        grid = g.bands > 1 ? units * g.bands
                           : (units + c.planes - 1) / c.planes;
        if (units >= 1 << 30 || items > c.threads) g.fits = false;
        const long long shared = static_cast<long long>(c.planes)
                        * g.unit_elements * bytes
                + 16 + g.read_bytes;
        g.shared_bytes = static_cast<int>(shared);
        if (shared > 1 << 18) g.fits = false;
    } else {
        items *= static_cast<long long>(g.depth_tiles) * p.images;
        if (!p.channels_last) items *= p.channels;
        g.channel_blocks = p.channels_last
                ? ceil_div(p.channels / c.vector, c.lanes)
                : 1;
        g.of_block = c.threads / c.lanes;
        grid = (items + g.of_block - 1) / g.of_block * g.channel_blocks;
    }
    if (c.row_by_row) {
        // Channels come in blocks of one in NCX, whose weights a block shares.
        if (!p.channels_last) {
            items /= p.channels;
            g.channel_blocks = p.channels;
            grid = (items + g.of_block - 1) / g.of_block * p.channels;
        }
        g.shared_bytes = c.lanes * p.multiplier * p.depth.taps * p.row.taps
                * p.column.taps * sum_bytes_of(p.type);
    }
    if (items >= 1 << 30 || grid >= 1LL << 31) g.fits = false;
    g.items = static_cast<int>(items);
    g.grid = static_cast<int>(grid);
    return g;
}

/// How the work of a gradient of weights is cut.
struct weights_cut {
    int vector, columns, strip, ahead, unroll;
    bool unchecked;
    int lanes, threads, blocks;
    /// NCX: channels side by side in a block; 0: a block has one.
    int channels;
    /// A block has one row of the window's taps.
    bool row_of_taps;
    /// Partial sums of a weight, each of so many rounds of a block.
    int parts, rounds;
};

struct weights_specification {
    problem_specification of;
    weights_cut cut;
};

/// At step t a thread has rows of src of each phase, and of dst the row of the step and as
/// many before it as `kept` says. Tap k meets the phase's row and the dst row of its age.
/// Taps are counted along src: an axis' dilation is negative, its base minus the pad.
struct weights_geometry {
    int column_step, tiles, classes, phases, kept, first_step, end_step, strips;
    column_units src, dst;
    int dst_loaded, dst_pieces; ///< as data_geometry has them
    int row_taps; ///< of a block
    short phase_of[most_taps], age_of[most_taps]; ///< by tap of the rows
    bool phase_used[most_phases];
    int channel_blocks, of_block, slots; ///< slots: threads of a channel in a block of several
    int items, groups, grid, sums;
    bool fits;

};

constexpr weights_geometry geometry_of(const weights_specification &s) {
    const problem_specification &p = s.of;
    const weights_cut &c = s.cut;
    const int bytes = bytes_of(p.type);
    weights_geometry g {};
    g.fits = true;
    const int stride = p.row.step;
    const int gap = -p.row.dilation;
    const int pad = -p.row.base;
    g.column_step
            = p.channels_last && p.column.step == 1 ? -p.column.dilation : 1;
    g.tiles = ceil_div(p.column.written, g.column_step * c.columns)
            * g.column_step;
    g.classes = stride == 1 ? gap : 1;
    g.phases = stride;
    g.row_taps = c.row_of_taps ? 1 : p.row.taps;
    g.kept = 1;
    if (g.phases > most_phases || g.row_taps > most_taps) {
        g.fits = false;
        return g;
    }
    for (int k = 0; k < g.row_taps; ++k) {
        g.phase_of[k] = static_cast<short>(k * gap % stride);
        g.age_of[k] = static_cast<short>(k * gap / (stride == 1 ? gap : stride));
        g.kept = most(g.kept, g.age_of[k] + 1);
        g.phase_used[g.phase_of[k]] = true;
    }
    if (c.row_of_taps) {
        g.first_step = 0;
        g.end_step = ceil_div(p.row.written, gap);
    } else if (stride == 1) {
        g.first_step = most(0, -floor_div(gap - 1 - pad, gap));
        g.end_step = least(ceil_div(p.row.written, gap) + p.row.taps - 1,
                floor_div(p.row.read - 1 + pad, gap) + 1);
    } else {
        g.first_step = most(0, -floor_div(stride - 1 - pad, stride));
        g.end_step = least(floor_div(p.row.read - 1 + pad, stride) + 1,
                p.row.written + (p.row.taps - 1) * gap / stride);
    }
    g.end_step = most(g.end_step, g.first_step);
    g.strips = ceil_div(most(g.end_step - g.first_step, 1), c.strip);
    const int last_tile = (g.tiles / g.column_step - 1) * g.column_step
                    * c.columns
            + g.column_step - 1;
    const int of_tile = g.tiles > g.column_step ? c.columns : 0;
    g.src.vector = p.channels_last
            ? 1
            : vector_along(bytes, p.alignment, p.column.read, p.read,
                    of_tile * p.column.step);
    g.dst.vector = p.channels_last
            ? 1
            : vector_along(
                    bytes, p.alignment, p.column.written, p.written, of_tile);
    g.dst_loaded = p.channels_last
            ? vector_of_channels(
                    bytes, p.alignment, c.vector * p.multiplier, p.written)
            : g.dst.vector;
    g.dst_pieces = p.channels_last ? c.vector * p.multiplier / g.dst_loaded
                                   : p.multiplier;
    constexpr axis itself {0, 0, 1, 1, 1, 1, 0};
    if (!g.src.fill(p.column, c.columns, g.column_step,
                p.column.step * last_tile, p.column.read)
            || !g.dst.fill(itself, c.columns, g.column_step, last_tile,
                    p.column.written)) {
        g.fits = false;
        return g;
    }
    g.sums = p.multiplier * c.vector * p.depth.taps * g.row_taps
            * p.column.taps;
    const long long items = static_cast<long long>(g.tiles) * g.classes
            * g.strips * p.depth.written * p.images;
    if (items >= 1 << 30) {
        g.fits = false;
        return g;
    }
    g.slots = static_cast<int>(items / p.images);
    if (p.channels_last) {
        g.channel_blocks = ceil_div(p.channels / c.vector, c.lanes);
        g.of_block = c.threads / c.lanes;
    } else if (c.channels) {
        g.channel_blocks = ceil_div(p.channels, c.channels);
        g.of_block = c.threads / (g.slots * c.channels) * g.slots;
        if (g.of_block == 0) g.fits = false;
    } else {
        g.channel_blocks = p.channels;
        g.of_block = c.threads;
    }
    if (!g.fits) return g;
    g.items = static_cast<int>(items);
    g.groups = ceil_div(g.items, g.of_block);
    const long long grid = static_cast<long long>(c.parts) * g.channel_blocks
            * (c.row_of_taps ? p.row.taps : 1);
    if (grid >= 1LL << 31) g.fits = false;
    g.grid = static_cast<int>(grid);
    return g;
}

} // namespace gradnn::gpu::sliding
