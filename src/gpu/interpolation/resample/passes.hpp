// Rows that are walked first; kernels of two passes, with rows of sums in shared memory between
// them, and what the second pass is compiled for. Read by the host, which plans, and by the kernels.
#pragma once

#include "gpu/interpolation/resample/specification.hpp"

namespace gradnn::gpu::resample {

/// Words of 4 bytes of a sum.
constexpr int sum_words(const problem_specification &p) {
    return p.type == element::f64 ? 2 : 1;
}

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

/// Elements of an outer position's row of the walk.
constexpr long long elements_of_row(const problem_specification &p) {
    return 1LL * p.middle.read * p.column.read * p.inner;
}
/// Whether they have no gaps.
constexpr bool rows_are_dense(const problem_specification &p) {
    return p.column.read_pitch == p.inner
            && (!p.middle.is_there()
                    || p.middle.read_pitch == 1LL * p.column.read * p.inner);
}

/// Whether rows begin and end at multiples of so many elements, where the walk comes first.
constexpr bool lines_are_aligned(const problem_specification &p, int elements) {
    return p.alignment % (elements * bytes_of(p.type)) == 0
            && elements_of_row(p) % elements == 0
            && pitches_divide(p, elements, false);
}
/// Of 16 bits, vectors that begin at any element: a thread copies the pairs that they meet, one
/// more than they have, and shifts them.
constexpr bool lines_are_shifted(const problem_specification &p, const cut &c) {
    return bytes_of(p.type) == 2 && !lines_are_aligned(p, c.line_vector);
}
/// Copies of a row that a thread has on their way, and the elements of one.
constexpr int line_copies(const problem_specification &p, const cut &c) {
    return c.words * (lines_are_shifted(p, c) ? c.line_vector / 2 + 1 : 1);
}
constexpr int line_copied(const problem_specification &p, const cut &c) {
    return lines_are_shifted(p, c) ? 2 : c.line_vector;
}

/// Columns' sums that are stored at once.
constexpr int line_store_of(const problem_specification &p, const cut &c) {
    int wide = p.inner > 1 || c.apart ? 1 : p.type == element::f64 ? 2 : 4;
    while (c.columns % wide || p.column.written % wide)
        wide /= 2;
    return wide;
}

/// Sums from a row of them to the next, in the first of two passes.
constexpr int line_pitch_of(const problem_specification &p, const cut &c) {
    const int length = p.column.written * p.inner;
    // Neighbouring threads that store to neighbouring rows find other banks.
    const int wide = most(c.line_vector, line_store_of(p, c));
    return c.items_first && length / wide % 2 == 0 ? length + wide : length;
}

/// The second pass of a tile.
constexpr specification_of_kernel second_pass_of(
        const specification_of_kernel &s) {
    specification_of_kernel made = s;
    problem_specification &p = made.of;
    p.reads_sums = true;
    p.inner *= p.column.written;
    p.column = {1, 1, 1, 1, false, false, 0, 0};
    p.columns = {};
    p.middle.read_pitch = line_pitch_of(s.of, s.cut_by);
    p.walk.read_pitch = s.cut_by.middle_read * p.middle.read_pitch;
    p.outer_read[0] = s.cut_by.tile_read * p.walk.read_pitch;
    cut &c = made.cut_by;
    c.vector = c.line_vector;
    c.columns = c.middles = c.read_vector = 1;
    c.repeated = c.apart = c.items_first = false;
    c.stages = c.line_vector = 0;
    return made;
}

/// Where the walk comes first: what is left, from rows of sums.
constexpr specification_of_kernel rest_of_walk(
        const specification_of_kernel &s) {
    specification_of_kernel made = s;
    problem_specification &p = made.of;
    p.walk = {1, 1, 1, 1, false, false, 0, 0};
    p.walk_first = false;
    p.reads_sums = true;
    for (long long &pitch : p.outer_read)
        pitch = 0;
    p.column.read_pitch = p.inner;
    p.middle.read_pitch = 1LL * p.column.read * p.inner;
    cut &c = made.cut_by;
    c.strip = c.parts;
    c.ahead = c.line_vector = c.words = 0;
    return made;
}

} // namespace gradnn::gpu::resample
