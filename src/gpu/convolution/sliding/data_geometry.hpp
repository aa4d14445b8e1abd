// What follows from the specification of a kernel of data.
#pragma once

#include "gpu/convolution/sliding/specification.hpp"

namespace gradnn::gpu::sliding {

struct data_geometry {
    int column_step; ///< between a thread's columns
    int tiles, depth_tiles, strips, rows; ///< rows of a class
    row_walk walk;
    row_table read;
    pitches to; ///< where results go first
    /// By phase and tap of the rows: the open sum, or -1.
    short sum_of[most_phases][most_taps];
    int write_vector;
    int channel_blocks, of_block; ///< side by side in channels; items of one
    int bands;
    /// Of a staged unit the results, and what it reads.
    int unit_elements, read_elements;
    int read_bytes; ///< shared memory for what is read
    /// Whether rows ahead are copied to shared memory, from this byte on.
    bool copied;
    int copied_at, others_at;
    /// Weights in shared memory, where their rows are chunks: from this byte on, of a plane.
    int weights_at, weights_pitch;
    /// What a vector of results has of channels and of columns.
    int channels_at_once, columns_at_once;
    int items, grid, shared_bytes;
    bool fits; ///< whether all of it can be counted and held

    static constexpr data_geometry of(const kernel_specification &);
};

constexpr data_geometry data_geometry::of(const kernel_specification &s) {
    const problem_specification &p = s.of;
    const work_cut &c = s.cut;
    const int bytes = bytes_of(p.type);
    const bool staged = c.staged != staging::none;
    const bool read_too = c.staged == staging::all;
    // Where taps pass by, a thread has one row and depth of results at a time.
    const axis rows = c.row_by_row ? axis::flat(p.row.written) : p.row,
               depths = c.row_by_row ? axis::flat(p.depth.written) : p.depth;
    data_geometry g {};
    g.channel_blocks = 1;
    g.walk = row_walk::of(rows);
    g.column_step = column_step_of(p);
    g.tiles = ceil_div(p.column.written, g.column_step * c.columns)
            * g.column_step;
    g.depth_tiles = ceil_div(p.depth.written, c.depths);
    g.bands = ceil_div(p.row.written, c.band);
    g.rows = ceil_div(c.band, g.walk.classes);
    g.strips = ceil_div(g.rows, c.strip);
    g.to = p.written;
    if (staged) {
        g.to.column = 1;
        g.to.row = p.column.written;
        g.to.depth = g.to.row * c.band;
        const int volume = c.volumes ? p.depth.written : c.depths;
        g.unit_elements = volume * c.band * p.column.written;
        g.to.channel = g.unit_elements;
    }
    pitches from = p.read;
    if (read_too) {
        g.read_elements
                = p.multiplier * p.depth.read * p.row.read * p.column.read;
        g.read_bytes = round_up(c.planes * g.read_elements * bytes + 32, 16);
        // Staged planes follow one another without gaps.
        from.column = 1;
        from.row = p.column.read;
        from.depth = from.row * p.row.read;
        from.channel = from.depth * p.depth.read;
    }
    g.read = row_table::of(p, from,
            c.row_by_row && is_grouped(p) ? multiples_at_once(p)
                                          : met_channels(p, c.vector),
            p.column.read,
            g.tiles > g.column_step
                    ? c.columns * g.column_step * p.column.step / p.column.up
                    : 0);
    g.read.phases = g.walk.phases;
    if (!g.read.columns.fill(p.column, c.columns, g.column_step,
                first_column_of(g.tiles - 1, c.columns, g.column_step)
                        * p.column.step / p.column.up)
            || depths.taps > most_taps
            || !g.read.depths.fill(depths, c.depths, 1,
                    (g.depth_tiles - 1) * c.depths * depths.step / depths.up)
            || g.read.depths.count > most_taps || g.walk.phases > most_phases
            || rows.taps > most_taps)
        return g;
    g.fits = true;
    for (int f = 0; f < g.walk.phases; ++f)
        for (int k = 0; k < rows.taps; ++k) {
            const int sum = g.walk.sum_of(f, k);
            g.sum_of[f][k] = static_cast<short>(sum == axis::none ? -1 : sum);
            g.read.phase_used[f] |= sum != axis::none;
        }

    g.write_vector = staged
            ? vector_dividing(bytes, p.alignment, p.column.written, c.columns)
            : vector_moved(p, p.written, c.vector, p.column.written, c.columns);
    g.channels_at_once = p.channels_last ? g.write_vector : 1;
    g.columns_at_once = p.channels_last ? 1 : g.write_vector;

    long long items
            = static_cast<long long>(g.tiles) * g.strips * g.walk.classes;
    long long grid = 0;
    if (staged) {
        items *= (c.volumes ? g.depth_tiles : 1) * c.planes / c.vector;
        g.of_block = static_cast<int>(items);
        const long long units = static_cast<long long>(p.images) * p.channels
                * (c.volumes ? 1 : g.depth_tiles);
        grid = g.bands > 1 ? units * g.bands
                           : (units + c.planes - 1) / c.planes;
        if (units >= 1 << 30 || items > c.threads) g.fits = false;
        const long long shared
                = static_cast<long long>(c.planes) * g.unit_elements * bytes
                + 16 + g.read_bytes;
        g.shared_bytes = static_cast<int>(shared);
        if (shared > 1 << 18) g.fits = false;
        if (c.row_by_row || c.shared_weights)
            g.weights_at = round_up(g.shared_bytes, 16);
        if (c.row_by_row) {
            g.weights_pitch = ceil_div(p.column.taps, c.chunk) * c.chunk;
            g.shared_bytes = g.weights_at
                    + c.planes * g.weights_pitch * sum_bytes_of(p.type);
            if (c.chunk % g.read.columns.vector) g.fits = false;
        } else if (c.shared_weights) {
            g.shared_bytes = g.weights_at
                    + shared_weights_of(p, c.vector, c.planes / c.vector)
                            * sum_bytes_of(p.type);
        }
    } else {
        items *= static_cast<long long>(g.depth_tiles) * p.images;
        // Where a block shares weights it has so many channels.
        if (p.channels_last || c.row_by_row || c.shared_weights)
            g.channel_blocks = ceil_div(p.channels / c.vector, c.lanes);
        else
            items *= p.channels / c.vector;
        g.of_block = c.threads / c.lanes;
        grid = (items + g.of_block - 1) / g.of_block * g.channel_blocks;
        if (c.row_by_row || c.shared_weights)
            g.shared_bytes = shared_weights_of(p, c.vector, c.lanes)
                    * sum_bytes_of(p.type);
    }
    // With them come the elements that ops behind the problem read.
    const int ops = staged ? 0 : epilogues_of(p);
    g.copied = c.copies && !read_too
            && (ops > 0 ? least(g.read.loaded, g.write_vector) : g.read.loaded)
                            * bytes
                    >= 4;
    if (g.copied) {
        g.copied_at = round_up(g.shared_bytes, 16);
        const int rows = (c.ahead + 1) * c.unroll * bytes * c.threads;
        g.others_at = g.copied_at + rows * g.read.units() * g.read.loaded;
        g.shared_bytes = g.others_at
                + rows * ops * p.row.up * c.depths * c.columns * c.vector;
    }
    g.read.batched = !g.copied && c.ahead >= 4 && c.ahead == c.unroll
            && g.read.units() <= 8;
    if (items >= 1 << 30 || grid >= 1LL << 31) g.fits = false;
    g.items = static_cast<int>(items);
    g.grid = static_cast<int>(grid);
    return g;
}

} // namespace gradnn::gpu::sliding
