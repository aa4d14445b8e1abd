// What a sliding kernel is compiled for: the problem and how its work is cut, in plain
// numbers, and what follows from them. Read by the host, which plans, and by the kernels,
// for which all of it is constant.
#pragma once

#include "gpu/device/specification.hpp"

namespace gradnn::gpu::sliding {

using namespace jit; // what specifications have in common

constexpr int sum_bytes_of(element type) {
    return type == element::f64 ? 8 : 4;
}

/// Whether a position is one of so many.
constexpr bool is_one_of(int position, int count) {
    return static_cast<unsigned>(position) < static_cast<unsigned>(count);
}

/// One axis of a convolution: position `read` of what is read meets position `written` of
/// what is written by a tap where read * up = written * step + base - tap * dilation. One
/// of step and up is 1. In gradients of weights src is read and dst written (up is 1).
struct axis {
    int read, written, taps, step, up, dilation, base;

    /// What a written position at `offset` from a tile's first one reads by a tap, from what
    /// that one reads; `none` where nothing.
    static constexpr int none = -(1 << 30);
    /// Whose positions meet the same one and no other.
    static constexpr axis flat(int positions) {
        return {positions, positions, 1, 1, 1, 1, 0};
    }
    constexpr int met(int offset, int tap) const {
        const int at = offset * step + base - tap * dilation;
        return at % up == 0 ? at / up : none;
    }
    /// Whether a position meets the same one and no other.
    constexpr bool is_flat() const {
        return taps == 1 && read == written && step == 1 && up == 1
                && base == 0;
    }
    /// Whether dilation parts the positions into classes that do not meet.
    constexpr bool parts() const { return step == 1 && up == 1; }
};

/// Elements from a position to the next.
struct pitches {
    long long image, channel, depth, row, column;
};
struct weights_pitches {
    long long group, channel, multiple, depth, row, column;
};

/// The problem. Groups have `group` channels of one tensor, what is written in data and src
/// in weights' gradients, and each of these meets the group's `multiplier` channels of the
/// other. Depthwise, groups of one channel and some, have 1.
struct problem_specification {
    element type;
    bool channels_last;
    int images, channels, group, multiplier;
    axis depth, row, column;
    pitches read, written;
    weights_pitches weights;
    bool reversed; ///< tap k lies where tap taps - 1 - k is expected
    int alignment; ///< of first elements but those of weights, in bytes
    bool bulk_copies; ///< whether the device has them (compute capability 9.0)
    fused_op epilogue[2]; ///< data: of what is written, in order
};

enum class staging { none, results, all };

/// How the work of a kernel is cut.
struct work_cut {
    int vector = 1; ///< channels of a thread, of one group; depthwise NCX: 1
    int columns; ///< of a thread: results in a row, or places of dst
    int strip = 1; ///< rows that a thread walks through
    int ahead = 1; ///< rows on their way, in registers, or groups of rows
    int unroll = 1; ///< steps of a body, a multiple of ahead, or a group's rows
    bool unchecked; ///< a body without tests for the middle of a strip
    /// Rows ahead are copied to shared memory by 4, 8 or 16 bytes, in `ahead` groups of as
    /// many rows as the loop's body has steps.
    bool copies;
    int lanes = 1; ///< vectors of channels side by side in a block
    int threads, blocks; ///< of a block; that a multiprocessor is to hold

    // Data.
    int depths = 1; ///< in which a thread has its columns
    /// NCX: results, or all (of groups of one channel), lie in shared memory; a block has so
    /// many planes (volumes, where `volumes`), or a band of rows of one.
    staging staged;
    int planes = 1, band;
    bool volumes;
    /// For windows whose taps do not fit in registers: a thread has the results of one row,
    /// the window's rows pass by, and the weights lie in shared memory. Where all is staged,
    /// for long windows of one row, whose taps pass by, `chunk` at a time.
    bool row_by_row;
    int chunk;
    /// Groups: a thread takes the weights from shared memory at each row, not to registers once.
    bool shared_weights;

    // Weights.
    int multiples = 0; ///< channels of dst of a thread; 0: all that it meets
    int run = 1; ///< threads of a channel side by side in a block
    int row_taps; ///< of the window's rows so many are a block's; 0: all
    int parts, rounds; ///< sums of a weight, each of so many of its rounds
    /// Long windows of one row in NCX: a block has so many rows, or pieces of rows of so many
    /// columns, in shared memory at a time; 0: none.
    int staged_rows, piece;
};

struct kernel_specification {
    problem_specification of;
    work_cut cut;
};

/// Elements of the widest vector that divides all of these.
template <typename... Counts>
constexpr int vector_dividing(int bytes, int alignment, Counts... counts) {
    int vector = least(16, alignment) / bytes;
    while (vector > 1 && (... || (counts % vector != 0)))
        vector /= 2;
    return most(vector, 1);
}

/// Elements that are loaded or stored at a time: in NXC of so many channels side by side, in
/// NCX along a row of so many columns that tiles enter every `step`, which is 0 for one tile.
constexpr int vector_moved(const problem_specification &p, const pitches &of,
        int channels, int columns, int step) {
    const int bytes = bytes_of(p.type);
    return p.channels_last ? vector_dividing(bytes, p.alignment, channels,
                   of.column, of.row, of.depth, of.image)
                           : vector_dividing(bytes, p.alignment, columns, step,
                                   of.row, of.depth, of.channel, of.image);
}

/// Of one channel that meets more, vectors do not reach over groups either.
constexpr int most_multiples = 16;
constexpr bool is_grouped(const problem_specification &p) {
    return p.group > 1 || p.multiplier > most_multiples;
}
/// Data: multiples whose products a row of taps has together. They follow from the problem, as
/// the order of a sum does: what one result meets of so many fits in registers.
constexpr int multiples_at_once(const problem_specification &p) {
    if (!is_grouped(p)) return p.multiplier;
    constexpr int registers = 96;
    const int gap = p.channels_last && p.column.parts() ? 1 : p.column.dilation;
    const int met = (p.column.taps - 1) * gap / p.column.up + 1;
    const int held = registers * 4 / sum_bytes_of(p.type), fit = held / met;
    int at_once = least(p.multiplier, most(1, least(fit, most_multiples)));
    // Those that pass by leave room for a tile of columns.
    const int tile = least(8, p.column.written) * p.column.step / p.column.up;
    if (p.channels_last && at_once < p.multiplier && p.column.written > 1)
        at_once = most(1, held / (met + tile));
    while (p.multiplier % at_once)
        --at_once;
    // Of a prime number of them all, if they are few.
    return at_once > 2 || p.multiplier > 2 * most_multiples
                    || p.multiplier > fit
            ? at_once
            : p.multiplier;
}

/// Channels that so many of one group meet.
constexpr int met_channels(const problem_specification &p, int vector) {
    return is_grouped(p) ? p.multiplier : vector * p.multiplier;
}

/// Gradients of weights: channels of dst that a thread has, and threads that have all of them.
constexpr int multiples_of(const problem_specification &p, const work_cut &c) {
    return c.multiples ? c.multiples : p.multiplier;
}
constexpr int multiple_blocks(
        const problem_specification &p, const work_cut &c) {
    return p.multiplier / multiples_of(p, c);
}

/// Sums that are loaded from shared memory at a time, of a vector of channels: their weights
/// lie in pieces of so many, those of all lanes side by side.
constexpr int weights_at_once(const problem_specification &p, int vector) {
    const int most_at_once = 16 / sum_bytes_of(p.type);
    return vector >= most_at_once ? most_at_once : vector == 3 ? 4 : vector;
}
constexpr int weights_pieces(const problem_specification &p, int vector) {
    return ceil_div(vector, weights_at_once(p, vector));
}
/// Elements that so many lanes' weights take.
constexpr int shared_weights_of(
        const problem_specification &p, int vector, int lanes) {
    return p.multiplier * p.depth.taps * p.row.taps * p.column.taps
            * weights_pieces(p, vector) * weights_at_once(p, vector) * lanes;
}

/// Between a thread's columns: in NXC those that a dilation parts from their neighbours.
constexpr int column_step_of(const problem_specification &p) {
    return p.channels_last && p.column.parts()
            ? most(p.column.dilation, -p.column.dilation)
            : 1;
}

/// The first column of a tile, of so many that are `step` apart.
constexpr int first_column_of(int tile, int columns, int step) {
    return tile % step + tile / step * (step * columns);
}

// How much the tables below hold.
constexpr int most_units = 96;
constexpr int most_depths = 128, most_tile_depths = 3;
constexpr int most_phases = 32;
constexpr int most_taps = 64; ///< along an axis that is unrolled
constexpr int most_columns = 32;

/// The walk along the rows. At step u rows are read, one of each phase, and tap k of a phase
/// adds to open sum a, which is of written row up * u + shift + a of its class.
struct row_walk {
    axis along; ///< of a class
    int classes, phases, shift, open, reach;

    static constexpr row_walk of(const axis &rows) {
        row_walk w {rows, 1, rows.step, 0, 1, 0};
        if (rows.parts()) {
            w.classes = rows.dilation;
            w.along.dilation = 1;
            w.along.base = 0;
        }
        // Every tap meets one of the phases.
        int first = -axis::none, last = axis::none;
        for (int f = 0; f < rows.step; ++f)
            for (int k = 0; k < rows.taps; ++k) {
                const int sum = w.sum_of(f, k);
                if (sum == axis::none) continue;
                first = least(first, sum);
                last = most(last, sum);
            }
        w.shift = first;
        w.reach = last - first;
        w.open = most(w.reach + 1, rows.up);
        return w;
    }
    /// The open sum that a tap adds to, or `none`.
    constexpr int sum_of(int phase, int tap) const {
        const int at = phase - along.base + tap * along.dilation;
        return at % along.step == 0 ? at / along.step - shift : axis::none;
    }
};

/// What a thread loads along an axis, by vectors, counted from what its first result meets,
/// and which of them may lie outside. Tables, not formulas, where kernels unroll loops: a
/// compiler takes long to see through divisions.
template <int most_units, int most_taps, int most_results>
struct axis_units {
    int vector, count;
    int at[most_units]; ///< a vector's first element
    bool used[most_units], always_inside[most_units];
    /// By tap and result of a tile: what it meets, counted from the first vector's first
    /// element; -1 where no tile meets anything.
    short met[most_taps][most_results];

    /// Whether a vector is inside, of a tile whose first result meets `place` of so many.
    constexpr bool is_inside(int unit, int place, int positions) const {
        return always_inside[unit] || is_one_of(place + at[unit], positions);
    }

    /// Of tiles of so many results, `step` apart, whose first ones meet 0 to `furthest`.
    /// Whether there is room for them.
    constexpr bool fill(
            const axis &along, int results, int step, int furthest) {
        if (along.taps > most_taps || results > most_results) return false;
        int first = 0, last = 0;
        bool any = false;
        for (int j = 0; j < results; ++j)
            for (int k = 0; k < along.taps; ++k) {
                const int at = along.met(j * step, k);
                if (at == axis::none) continue;
                const int unit = floor_div(at, vector);
                first = any ? least(first, unit) : unit;
                last = any ? most(last, unit) : unit;
                any = true;
            }
        count = last - first + 1;
        if (count > most_units) return false;
        for (int unit = 0; unit < count; ++unit)
            at[unit] = (first + unit) * vector;
        for (int j = 0; j < results; ++j)
            for (int k = 0; k < along.taps; ++k) {
                const int place = along.met(j * step, k);
                meet(k, j, floor_div(place, vector) - first, place, furthest,
                        along.read);
            }
        return true;
    }
    /// A tap and a result meet a place, or none, in a unit, of so many positions.
    constexpr void meet(int tap, int result, int unit, int place, int furthest,
            int positions) {
        met[tap][result] = -1;
        if (place + furthest < 0 || place >= positions) return;
        used[unit] = true;
        always_inside[unit] = at[unit] >= 0 && furthest + at[unit] < positions;
        met[tap][result] = static_cast<short>(unit * vector + place - at[unit]);
    }
};

/// The rows of a tensor that a thread loads: of each phase, depth and piece of the channels
/// vectors along the columns.
struct row_table {
    pitches from;
    int phases;
    bool phase_used[most_phases];
    axis_units<most_depths, most_depths, most_tile_depths> depths;
    axis_units<most_units, most_taps, most_columns> columns;
    /// Elements that are loaded at a time, in NXC channels of a column. Pieces are so many
    /// channels of a vector; in NCX the planes of a multiplier.
    int loaded, pieces;
    /// Whether rows that are on their way in registers leave these some at a time.
    bool batched;

    /// Of so many channels, or planes, and of rows of so many columns, which tiles enter every
    /// `step`.
    static constexpr row_table of(const problem_specification &p,
            const pitches &from, int channels, int columns, int step) {
        row_table t {};
        t.from = from;
        t.phases = t.depths.vector = t.depths.count = 1;
        t.loaded = vector_moved(p, from, channels, columns, step);
        t.columns.vector = p.channels_last ? 1 : t.loaded;
        t.pieces = p.channels_last ? channels / t.loaded : channels;
        return t;
    }
    constexpr int units() const {
        return phases * depths.count * pieces * columns.count;
    }
};

} // namespace gradnn::gpu::sliding
