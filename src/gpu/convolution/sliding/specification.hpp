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
    long long channel, multiple, depth, row, column;
};

/// The problem. Every channel of the tensor with fewer meets `multiplier` of the other:
/// the written one in data has fewer, of weights' gradients src has.
struct problem_specification {
    element type;
    bool channels_last;
    int images, channels, multiplier;
    axis depth, row, column;
    pitches read, written;
    weights_pitches weights;
    bool reversed; ///< tap k lies where tap taps - 1 - k is expected
    int alignment; ///< of first elements but those of weights, in bytes
    bool bulk_copies; ///< whether the device has them (compute capability 9.0)
    fused_op epilogue[2]; ///< data: of what is written, in order
};

/// Elements of the widest vector that divides all of these.
template <typename... Counts>
constexpr int vector_dividing(int bytes, int alignment, Counts... counts) {
    int vector = least(16, alignment) / bytes;
    while (vector > 1 && (... || (counts % vector != 0)))
        vector /= 2;
    return most(vector, 1);
}

/// Elements of a vector along a row of so many elements that tiles enter every `step`, which
/// is 0 for one tile.
constexpr int vector_along(
        int bytes, int alignment, int row, const pitches &of, int step) {
    return vector_dividing(bytes, alignment, row, step, of.row, of.depth,
            of.channel, of.image);
}

/// NXC: the vector by which so many channels side by side are loaded or stored.
constexpr int vector_of_channels(
        int bytes, int alignment, int count, const pitches &of) {
    return vector_dividing(
            bytes, alignment, count, of.column, of.row, of.depth, of.image);
}

/// Whether rows ahead are copied to shared memory where a cut says so: by 4, 8 or 16 bytes,
/// in groups of as many rows as the loop's body has steps, `ahead` of them, each of which
/// costs instructions of its own.
constexpr bool rows_are_copied(bool copies, int loaded_bytes) {
    return copies && loaded_bytes >= 4;
}

/// Between a thread's columns: in NXC those that a dilation parts from their neighbours.
constexpr int column_step_of(const problem_specification &p) {
    return p.channels_last && p.column.parts()
            ? most(p.column.dilation, -p.column.dilation)
            : 1;
}

/// The first column of a tile, of so many that are `step` apart.
constexpr int first_column_of(int tile, int columns, int step) {
    return step > 1 ? tile % step + tile / step * (step * columns)
                    : tile * columns;
}

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
    constexpr int row_of(
            const axis &rows, int u, int phase, int in_class) const {
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

    /// Whether a vector is inside, of a tile whose first column meets `column` of a row of
    /// `width`.
    constexpr bool is_inside(int unit, int column, int width) const {
        return always_inside[unit]
                || static_cast<unsigned>(column + (unit + first) * vector)
                < static_cast<unsigned>(width);
    }

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

} // namespace gradnn::gpu::sliding
