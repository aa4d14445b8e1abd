// Kernels of two passes, with rows of sums in shared memory between them, and what the second
// pass is compiled for. Read by the host, which plans, and by the kernels.
#pragma once

#include "gpu/interpolation/resample/specification.hpp"

namespace gradnn::gpu::resample {

/// Words of 4 bytes of a sum.
constexpr int sum_words(const problem_specification &p) {
    return p.type == element::f64 ? 2 : 1;
}

/// Columns' sums that are stored at once.
constexpr int line_store_of(const problem_specification &p, const cut &c) {
    int wide = p.inner > 1 || c.apart ? 1 : p.type == element::f64 ? 2 : 4;
    while (c.columns % wide || p.column.written % wide)
        wide /= 2;
    return wide;
}

/// Sums from a row of them to the next, in the first of two passes.
constexpr int line_pitch_of(const problem_specification &p) {
    return p.column.written * p.inner;
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
    p.middle.read_pitch = line_pitch_of(s.of);
    p.walk.read_pitch = p.middle.read * p.middle.read_pitch;
    p.outer_read[0] = s.cut_by.tile_read * p.walk.read_pitch;
    cut &c = made.cut_by;
    c.vector = c.line_vector;
    c.columns = c.read_vector = 1;
    c.repeated = c.exchanged = c.apart = false;
    c.stages = c.line_vector = 0;
    return made;
}

/// Where the walk comes first: what is left, from rows of sums.
constexpr specification_of_kernel rest_of_walk(
        const specification_of_kernel &s) {
    specification_of_kernel made = s;
    problem_specification &p = made.of;
    // Every row that is written is a first one to it.
    while (p.walk.write_pitch * bytes_of(p.type) % p.alignment)
        p.alignment /= 2;
    p.walk = {1, 1, 1, 1, false, false, 0, 0};
    p.rows = {};
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
