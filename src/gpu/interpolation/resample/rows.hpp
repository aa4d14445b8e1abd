// Rows of diff_dst along the walk: how they lie and are read, and what they add to where the
// map of the walk repeats.
#pragma once

#include "gpu/interpolation/resample/specification.hpp"

namespace gradnn::gpu::resample {

/// Whether all pitches but those of the columns and the inner elements are multiples.
constexpr bool pitches_divide(
        const problem_specification &p, int by, bool written) {
    for (int i = 0; i < most_outer; ++i)
        if (p.outer[i] > 1
                && (written ? p.outer_write[i] : p.outer_read[i]) % by)
            return false;
    for (const axis *a : {&p.walk, &p.middle})
        if (a->is_there() && (written ? a->write_pitch : a->read_pitch) % by)
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

/// Elements of an outer position's row of the walk.
constexpr long long elements_of_row(const problem_specification &p) {
    return 1LL * p.middle.read * p.column.read * p.inner;
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

constexpr int most_rows = 8; ///< of a period, which are unrolled

/// The rows `read` * u + t, of which the first lows are from `written` * u on: what they add to
/// counts from there.
struct period {
    int rows, written; ///< 0 rows where there is none
    step<double> row[most_rows];

    /// Of the positions of a period, the first and the last that a row adds to.
    constexpr int first() const { return row[0].low; }
    constexpr int last() const {
        return row[rows - 1].low + (row[rows - 1].high_weight != 0);
    }
    /// The position that is open when a period begins.
    constexpr int before() const { return row[rows - 1].low - written; }
};

constexpr period period_of(const pattern &of) {
    period made {};
    if (of.written == 0 || of.read > most_rows) return made;
    constexpr int none = 1 << 20;
    for (int t = 0; t < of.read; ++t) {
        step<double> &row = made.row[t];
        row.low = none;
        for (int k = -2 * most_period; k < 3 * most_period; ++k) {
            const int before = floor_div(k, of.written);
            const int in = k - before * of.written;
            const int tap = t - before * of.read - of.first[in];
            if (tap < 0 || tap >= of.taps[in]) continue;
            if (row.low == none) {
                row.low = k;
                row.low_weight = of.weight[in][tap];
            } else if (k == row.low + 1) {
                row.high_weight = of.weight[in][tap];
            } else {
                return {};
            }
        }
        if (row.low == none || (t > 0 && row.low < made.row[t - 1].low))
            return {};
    }
    made.rows = of.read;
    made.written = of.written;
    return made.before() <= made.first() ? made : period {};
}

} // namespace gradnn::gpu::resample
