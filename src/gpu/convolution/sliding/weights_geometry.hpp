// What follows from the specification of a kernel of weights.
#pragma once

#include "gpu/convolution/sliding/specification.hpp"

namespace gradnn::gpu::sliding {

/// At step t a thread has rows of src of each phase, and of dst the row of the step and as
/// many before it as `kept` says. Tap k meets the phase's row and the dst row of its age.
/// Taps are counted along src: an axis' dilation is negative, its base minus the pad.
struct weights_geometry {
    int column_step, tiles, classes, kept, first_step, end_step, strips;
    int src_step; ///< rows of src from a step to the next one; of dst `classes`
    row_table src, dst;
    int row_taps, tap_blocks; ///< of a block; how many of these have all
    short phase_of[most_taps], age_of[most_taps]; ///< by tap of the rows
    int channel_blocks, of_block;
    int items, groups, grid, sums;
    bool copied; ///< rows on their way, to shared memory; dst's from `dst_at` on
    int dst_at, shared_bytes;
    /// Staged rows, whose pieces are tiles: of src of a piece the first column, what dst's
    /// first one meets past that, and how many there are; of src and dst together.
    int low, past, src_columns, row_elements;
    bool fits;

    static constexpr weights_geometry of(const kernel_specification &);
};

constexpr weights_geometry weights_geometry::of(const kernel_specification &s) {
    const problem_specification &p = s.of;
    const work_cut &c = s.cut;
    const int bytes = bytes_of(p.type);
    weights_geometry g {};
    const int stride = p.row.step;
    const int gap = -p.row.dilation;
    const int pad = -p.row.base;
    const int every = stride == 1 ? gap : stride;
    g.src_step = every;
    g.column_step = column_step_of(p);
    const int of_tile = c.staged_rows ? c.piece : c.columns;
    g.tiles = ceil_div(p.column.written, g.column_step * of_tile)
            * g.column_step;
    g.classes = stride == 1 ? gap : 1;
    g.row_taps = c.row_taps ? c.row_taps : p.row.taps;
    g.tap_blocks = ceil_div(p.row.taps, g.row_taps);
    g.kept = 1;
    const int tile_step = g.tiles > g.column_step ? of_tile : 0;
    g.src = row_table::of(
            p, p.read, c.vector, p.column.read, tile_step * p.column.step);
    const int multiples = multiples_of(p, c);
    g.dst = row_table::of(p, p.written,
            is_grouped(p) ? multiples : c.vector * p.multiplier,
            p.column.written, tile_step);
    g.src.phases = stride;
    g.src.depths.count = p.depth.taps;
    if (stride > most_phases || g.row_taps > most_taps
            || p.depth.taps > most_depths)
        return g;
    for (int k = 0; k < g.row_taps; ++k) {
        g.phase_of[k] = static_cast<short>(k * gap % stride);
        g.age_of[k] = static_cast<short>(k * gap / every);
        g.kept = most(g.kept, g.age_of[k] + 1);
        g.src.phase_used[g.phase_of[k]] = true;
    }
    if (c.row_taps) {
        g.first_step = 0;
        g.end_step = ceil_div(p.row.written, gap) + g.row_taps - 1;
    } else {
        g.first_step = most(0, -floor_div(every - 1 - pad, every));
        g.end_step = least(floor_div(p.row.read - 1 + pad, every) + 1,
                ceil_div(p.row.written, g.classes)
                        + (p.row.taps - 1) * gap / every);
    }
    g.end_step = most(g.end_step, g.first_step);
    g.strips = ceil_div(most(g.end_step - g.first_step, 1), c.strip);
    const int last = first_column_of(g.tiles - 1, of_tile, g.column_step);
    if (!g.src.columns.fill(
                p.column, c.columns, g.column_step, p.column.step * last)
            || !g.dst.columns.fill(axis::flat(p.column.written), c.columns,
                    g.column_step, last))
        return g;
    // Depths may be far apart, and are as many as taps.
    for (int k = 0; k < p.depth.taps; ++k) {
        g.src.depths.at[k] = p.depth.met(0, k);
        g.src.depths.meet(k, 0, k, g.src.depths.at[k],
                (p.depth.written - 1) * p.depth.step, p.depth.read);
    }
    g.dst.phase_used[0] = g.dst.depths.used[0] = g.dst.depths.always_inside[0]
            = true;
    g.sums = multiples * c.vector * p.depth.taps * g.row_taps * p.column.taps;
    g.copied = c.copies && least(g.src.loaded, g.dst.loaded) * bytes >= 4;
    if (g.copied) {
        const int slots = (c.ahead + 1) * c.unroll * c.threads * bytes;
        g.dst_at = slots * g.src.units() * g.src.loaded;
        g.shared_bytes = g.dst_at + slots * g.dst.units() * g.dst.loaded;
    }
    const long long items = static_cast<long long>(g.tiles) * g.classes
            * g.strips * p.depth.written * p.images;
    if (items >= 1 << 30) return g;
    g.channel_blocks
            = ceil_div(p.channels / c.vector * multiple_blocks(p, c), c.lanes);
    g.of_block = c.threads / (c.run * c.lanes) * c.run;
    if (g.of_block == 0) return g;
    g.items = static_cast<int>(items);
    g.groups = ceil_div(g.items, c.staged_rows ? c.staged_rows : g.of_block);
    const long long grid
            = static_cast<long long>(c.parts) * g.channel_blocks * g.tap_blocks;
    g.fits = grid < 1LL << 31;
    if (c.staged_rows) {
        const int vector = 16 / bytes;
        g.low = floor_div(p.column.base, vector) * vector;
        g.past = p.column.base - g.low;
        g.src_columns = ceil_div(g.past + c.piece + p.column.taps - 1, vector)
                * vector;
        g.row_elements = g.src_columns + c.piece;
        const long long shared = 2LL * c.staged_rows * g.row_elements * bytes;
        g.shared_bytes = static_cast<int>(shared);
        g.fits = g.fits && shared < 1 << 18
                && c.piece / c.columns * c.staged_rows <= c.threads;
    }
    g.grid = static_cast<int>(grid);
    return g;
}

} // namespace gradnn::gpu::sliding
