// What a resample kernel is compiled for, the problem and its cut, and the tables that it reads.
#pragma once

#include "gpu/device/specification.hpp"

namespace gradnn::gpu::resample {

using namespace jit; // what specifications have in common

/// A resampled axis: diff_src, which is written, has `written` positions, diff_dst `read`.
/// Both are 1 where there is none. Pitches are elements from a position to the next. Where
/// what is read descends its positions are 0, -1, ..., and its pitch is below 0.
struct axis {
    int written, read;
    int least_taps, most_taps; ///< of a position that is written
    bool two; ///< a position that is read has up to two taps
    long long write_pitch, read_pitch;

    constexpr bool is_there() const { return written > 1 || read > 1; }
};

constexpr int most_outer = 4;
constexpr int most_period = 8;
constexpr int most_taps = 32; ///< that are unrolled
constexpr int most_columns = 8, most_units = 64;

/// Where the map of an axis repeats: position `written` * u + k has its taps from
/// `read` * u + first[k] on, as many as taps[k], but for those outside. The weights are those
/// of all positions but the first `odd_first` and the last `odd_last`.
struct pattern {
    int written, read; ///< 0 where it does not repeat
    int odd_first, odd_last;
    int first[most_period], taps[most_period];
    double weight[most_period][most_taps];
};

/// The problem on canonical axes: up to four outer ones, up to three that are resampled (two are
/// `walk` and `column`), and inner elements side by side in both tensors.
struct problem_specification {
    element type;
    int inner;
    int outer[most_outer];
    long long outer_write[most_outer], outer_read[most_outer];
    axis walk, middle, column;
    pattern columns; ///< how the map of `column` repeats
    bool reads_sums; ///< what is read are sums, not elements
    /// Sums along the walk, the middle axis, the columns; else columns, middle axis, walk.
    bool walk_first;
    int alignment; ///< of the first elements of both tensors, in bytes
    fused_op prologue; ///< of what is read
    fused_op epilogue[2]; ///< of what is written, in order
};

/// Units of what is read for one: with those of the other tensor.
constexpr int loads_of(const problem_specification &p) {
    return p.prologue == fused_op::none ? 1 : 2;
}

/// The elements that are read are of this type: sums that a kernel has kept have their own.
constexpr element read_type_of(const problem_specification &p) {
    return !p.reads_sums             ? p.type
            : p.type == element::f64 ? element::f64
                                     : element::f32;
}

/// Words of 4 bytes of a sum.
constexpr int sum_words(const problem_specification &p) {
    return p.type == element::f64 ? 2 : 1;
}

/// The axis that tiles are parts of.
constexpr const axis &first_axis_of(const problem_specification &p) {
    return p.walk.is_there() ? p.walk : p.column;
}

/// Positions of all outer axes.
constexpr int outers_of(const problem_specification &p) {
    int all = 1;
    for (const int count : p.outer)
        all *= count;
    return all;
}

/// Of diff_src.
constexpr long long elements_of(const problem_specification &p) {
    long long all = 1LL * p.inner * p.walk.written * p.middle.written
            * p.column.written;
    for (const int count : p.outer)
        all *= count;
    return all;
}

/// rest % count; `rest` goes on to rest / count.
template <typename Number>
constexpr Number take_part(Number &rest, int count) {
    const Number taken = rest % count;
    rest /= count;
    return taken;
}

/// How work is cut: a thread has `vector` inner elements of `columns` of a row, along a `strip`.
struct cut {
    int vector, columns;
    /// Columns' taps are one window, with constant weights where they repeat; else at own places.
    bool repeated;
    int read_vector; ///< elements of a load along a row; 1 where vector is more than 1
    /// A thread reads what lies over its columns; neighbouring lanes have the rest of its window.
    bool exchanged;
    /// A thread's columns lie apart, those of neighbouring threads side by side.
    bool apart;
    int strip;
    int ahead; ///< rows on their way (lines: and one in use); 0: none
    int threads, blocks; ///< of a block; that a multiprocessor is to hold
    /// Tiles of shared memory, filled by copies of one range each; 0: threads read global
    /// memory. A tile is `planes` outer positions, and of one `parts` strips, for which at
    /// most so many positions of the first axis are read.
    int stages, planes, parts, tile_read;
    /// Where the walk comes first, positions of the middle axis of a block, and those it reads.
    int middle_part, middle_read;
    /// Where the walk comes first a thread has so many vectors, of `line_vector` elements, of a
    /// row, and a block `parts` times the columns of a thread, from `tile_read` positions.
    int words, line_vector;
    /// What a tile writes gathers in shared memory; threads copy it 16 bytes by 16 bytes.
    bool gathers;
};

struct specification_of_kernel {
    problem_specification of;
    cut cut_by;
};

// The maps of the axes as kernels read them.

/// The taps of a position that is written: `count` of those that are read, from `first` on.
struct alignas(8) place {
    int first, count;
};

/// What a position that is read adds to: `low`, and the next one where its weight is not 0.
template <typename Sum>
struct alignas(4 * sizeof(Sum)) step {
    Sum low_weight, high_weight;
    int low;
};

template <typename Sum>
struct axis_table {
    const place *places;
    const Sum *weights; ///< so many for each place: the axis' most taps
    const long long *rows = nullptr; ///< of long sums, from there on
};

template <typename Sum>
struct tables {
    axis_table<Sum> walk, middle, column;
    const step<Sum> *steps; ///< by positions of `walk` that are read
    fused_places others = {};
};

// Rows of diff_dst along the walk: how they lie and are read.

/// Whether all pitches but those of the columns and the inner elements are multiples.
constexpr bool pitches_divide(const problem_specification &p, int by,
        bool written, bool middle = true) {
    for (int i = 0; i < most_outer; ++i)
        if (p.outer[i] > 1
                && (written ? p.outer_write[i] : p.outer_read[i]) % by)
            return false;
    for (const axis *a : {&p.walk, &p.middle})
        if (a->is_there() && (middle || a != &p.middle)
                && (written ? a->write_pitch : a->read_pitch) % by)
            return false;
    return true;
}

/// Whether both tensors are vectors of so many inner elements, at multiples of their bytes.
constexpr bool is_of_vectors(const problem_specification &p, int vector) {
    return vector == 1
            || (p.inner % vector == 0
                    && p.alignment % (vector * bytes_of(p.type)) == 0
                    && p.column.read_pitch % vector == 0
                    && p.column.write_pitch % vector == 0
                    && pitches_divide(p, vector, true)
                    && pitches_divide(p, vector, false));
}

/// Elements that are read at a position of walk and middle.
constexpr long long row_of_middle(const problem_specification &p) {
    return 1LL * p.column.read * p.inner;
}
/// Whether those of a row of the walk are one range; else those of a middle position are.
constexpr bool rows_are_whole(const problem_specification &p) {
    return p.middle.read == 1 || p.middle.read_pitch == row_of_middle(p);
}
/// Elements of a range.
constexpr long long elements_of_range(const problem_specification &p) {
    return row_of_middle(p) * (rows_are_whole(p) ? p.middle.read : 1);
}

/// From the first element that is read of a position of the first axis to the last.
constexpr long long row_extent(const problem_specification &p) {
    const long long columns = p.column.read - 1;
    if (!p.walk.is_there()) return p.inner;
    return (p.middle.read - 1) * p.middle.read_pitch
            + columns * p.column.read_pitch + p.inner;
}
/// And of so many of its positions.
constexpr long long rows_extent(const problem_specification &p, int positions) {
    return (positions - 1) * first_axis_of(p).read_pitch + row_extent(p);
}
/// And of the whole tensor.
constexpr long long tensor_extent(const problem_specification &p) {
    long long all = rows_extent(p, first_axis_of(p).read);
    for (int i = 0; i < most_outer; ++i)
        all += (p.outer[i] - 1) * p.outer_read[i];
    return all;
}

/// Whether threads that read global memory have rows on their way to shared memory, by copies of
/// 8 and 16 bytes; smaller ones are more instructions than they save, and go to registers.
constexpr bool rows_are_copied(const problem_specification &p, const cut &c) {
    return c.ahead > 0 && most(c.vector, c.read_vector) * bytes_of(p.type) >= 8;
}

/// Where the walk comes first: what is left, from rows of sums.
constexpr problem_specification rest_of_walk(problem_specification p) {
    constexpr axis none {1, 1, 1, 1, false, 0, 0};
    // Every row that is written is a first one to it.
    const auto lower = [&](long long pitch) {
        while (pitch * bytes_of(p.type) % p.alignment)
            p.alignment /= 2;
    };
    if (p.walk.written > 1) lower(p.walk.write_pitch);
    p.walk = none;
    p.walk_first = false;
    p.reads_sums = true;
    for (long long &pitch : p.outer_read)
        pitch = 0;
    p.column.read_pitch = p.inner;
    // Positions of the middle axis are rows of their own.
    if (p.middle.is_there()) {
        for (int i = 0; i < most_outer; ++i) {
            if (p.outer[i] > 1) lower(p.outer_write[i]);
            p.outer[i] = 1;
        }
        p.outer[0] = p.middle.written;
        p.outer_write[0] = p.middle.write_pitch;
        p.outer_read[0] = row_of_middle(p);
        p.middle = none;
    }
    return p;
}
constexpr cut rest_of_walk(cut c) {
    c.strip = c.parts;
    c.ahead = c.line_vector = c.words = 0;
    return c;
}

} // namespace gradnn::gpu::resample
