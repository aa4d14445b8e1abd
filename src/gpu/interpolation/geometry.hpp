// What follows from a specification, for host and kernels: how lanes, tiles and shared memory lie.
#pragma once

#include "gpu/interpolation/specification.hpp"

namespace gradnn::gpu::resample {

/// A unit that is loaded: so many positions from the place of a column (0 for a window).
struct unit_place {
    int column, position;
};

struct geometry {
    int outers; ///< positions of all outer axes
    /// Parts of the inner elements, a row and the first axis.
    int vectors, tiles, strips;
    int spread; ///< from a column of a thread to its next
    /// The taps of a thread's columns are loaded by units of read_vector or vector elements.
    int units;
    unit_place place_of[most_units];
    bool always_inside[most_units]; ///< of every thread
    /// Of each column the first tap, counted from that of the first unit, and how many it has.
    int first_tap[most_columns], taps[most_columns];
    /// Whether the weights of a column are constants.
    bool fixed[most_columns];
    int checked; ///< units that not every thread has
    /// Columns that are not fixed, their taps, and the most taps of a column.
    int kept_columns, kept_taps, most_kept;
    unsigned fed; ///< columns that have taps, a bit each
    int rows_together; ///< of the middle axis: whose loads are on their way together
    bool rolled; ///< one column of many taps: a loop over them
    int first_position; ///< of a window, from the first of the period
    int reach; ///< positions that units have beyond the ends of a row
    int tile_step; ///< positions that are read from a tile to the next
    /// Of exchanged windows positions of both ends; a warp's lanes that write, and that lead these.
    int left, right, writers, lead;
    int write_vector; ///< columns that are stored at once
    // Of tiles: columns and vectors are lanes; a thread keeps those of `sets` lanes, or `groups`
    // threads share one and take its items (planes, parts of the walk, the middle) by turns.
    int lanes, sets, groups, lane_items;
    int tile_written, tile_strips;
    int middle_strips, column_parts; ///< 1 of tiles
    // Where the walk comes first: ranges of a row of the walk, of an outer position and of a block.
    int segments, ranges;
    int line_read, line_pitch; ///< elements of a range, and of its sums
    int line_threads; ///< that share a range
    /// 16-byte pieces of a range, bytes of those of all, and at which multiples the first begin.
    int line_pieces, piece_bytes, copy_alignment;
    bool lies_at_lines; ///< the first piece, of the caches
    int line_row; ///< from the sums of a position of the middle axis to those of the next
    /// Of sums over the middle axis: vectors of so many elements, as many of a row; how many of them
    /// a thread has at most; elements from a row to the next.
    int layer_vector, layer_threads, layer_rounds, layer_pitch;
    int table_bytes; ///< of the maps of walk and middle; 0: they stay in global memory
    int stage_bytes, line_bytes, sums_bytes, gathered_bytes, shared_bytes;
    long long items;
    int grid; ///< blocks, or tiles in shared memory
    bool fits;
};

constexpr void add_window(
        geometry &g, const problem_specification &p, const cut &c) {
    const pattern &repeats = p.columns;
    int first = 1 << 30, end = -(1 << 30);
    for (int k = 0; k < c.columns; ++k) {
        const int in = k % repeats.written;
        g.first_tap[k]
                = repeats.read * (k / repeats.written) + repeats.first[in];
        g.taps[k] = repeats.taps[in];
        if (g.taps[k] > 0) {
            first = least(first, g.first_tap[k]);
            end = most(end, g.first_tap[k] + g.taps[k]);
            g.fed |= 1U << k;
        }
        // Tiles of one column have the edges' weights now and then.
        g.fixed[k] = k >= repeats.odd_first;
        for (int j = 0; j < least(repeats.odd_last, c.columns); ++j)
            if ((p.column.written - 1 - j) % c.columns == k) g.fixed[k] = false;
    }
    g.tile_step = repeats.read * (c.columns / repeats.written);
    if (c.exchanged) {
        g.left = most(0, -first);
        g.right = most(0, end - g.tile_step);
        g.fits = g.fits && g.tile_step % c.read_vector == 0
                && g.left <= g.tile_step
                && g.right <= g.tile_step
                // Behind the last tile there is no neighbour.
                && (g.right == 0 || g.tiles * g.tile_step >= p.column.read);
        first = 0;
        end = g.tile_step;
    }
    g.first_position = floor_div(first, c.read_vector) * c.read_vector;
    g.units = ceil_div(end - g.first_position, c.read_vector);
    g.fits = g.fits && g.units <= most_units;
    for (int &tap : g.first_tap)
        tap -= g.first_position;
    const int furthest = (g.tiles - 1) * g.tile_step;
    g.reach = most(-g.first_position,
            furthest + g.first_position + g.units * c.read_vector
                    - p.column.read);
    for (int u = 0; u < g.units && g.fits; ++u) {
        g.place_of[u].position = u * c.read_vector;
        const int at = g.first_position + g.place_of[u].position;
        g.always_inside[u]
                = at >= 0 && furthest + at + c.read_vector <= p.column.read;
    }
}

constexpr void add_places(
        geometry &g, const problem_specification &p, const cut &c) {
    const int taps = p.column.most_taps;
    g.fed = (1U << c.columns) - 1;
    g.reach = taps - p.column.least_taps;
    g.units = c.columns * taps;
    if (g.units > most_units || taps > most_taps) {
        g.rolled = true;
        g.units = 1;
        g.fits = c.columns == 1;
        return;
    }
    for (int k = 0; k < c.columns; ++k) {
        g.first_tap[k] = k * taps;
        g.taps[k] = taps;
    }
    for (int u = 0; u < g.units; ++u) {
        g.place_of[u] = {u / taps, u % taps};
        g.always_inside[u] = u % taps < p.column.least_taps;
    }
}

constexpr int stage_margin = 64; ///< bytes around what is copied
constexpr int sector = 32; ///< bytes of the caches, at which copies begin
constexpr int most_sets = 4, most_table_bytes = 24 << 10;
constexpr int table_alignment = 32; ///< bytes, in shared memory

/// Bytes of the maps of walk and middle.
constexpr long long table_bytes_of(const problem_specification &p) {
    long long bytes = 0;
    for (const axis *a : {&p.walk, &p.middle})
        if (a->is_there())
            bytes += a->written * (2 + a->most_taps * sum_words(p)) * 4LL
                    + a->read * sum_words(p) * 16LL;
    return bytes;
}

/// Elements from a position of the first axis to the next, without gaps but of outer ones; or 0.
constexpr long long dense_step(const problem_specification &p) {
    long long step = p.inner;
    for (const axis *a : {&p.column, &p.middle, &p.walk}) {
        if (!a->is_there()) continue;
        if (a->write_pitch != step) return 0;
        if (a == &first_axis_of(p)) break;
        step *= a->written;
    }
    return step;
}

constexpr void add_tiles(
        geometry &g, const problem_specification &p, const cut &c) {
    const axis &first = first_axis_of(p);
    const int bytes = bytes_of(p.type);
    g.tile_written = c.strip * c.parts * (p.walk.is_there() ? 1 : c.columns);
    g.middle_strips = g.column_parts = 1;
    const auto elements = static_cast<int>(
            (c.planes - 1) * p.outer_read[0] + rows_extent(p, c.tile_read));
    g.stage_bytes = round_up(elements * bytes + 2 * stage_margin + sector, 128);
    const long long tables = table_bytes_of(p);
    if (tables > 0 && tables <= most_table_bytes)
        g.table_bytes
                = round_up(static_cast<int>(tables) + 4 * table_alignment, 128);
    if (c.gathers) {
        const long long step = dense_step(p);
        const long long count
                = c.planes * step * least(first.written, g.tile_written);
        g.fits = step > 0 && count < 1 << 20
                && (c.planes == 1 || p.outer_write[0] == step * first.written);
        if (!g.fits) return;
        g.gathered_bytes = round_up(static_cast<int>(count) * bytes + 32, 128);
    }
    // What no tile uses: orders of sums were fixed with it, by how many blocks fit.
    constexpr int beside = 128;
    g.shared_bytes = beside + g.table_bytes + g.gathered_bytes
            + g.stage_bytes * c.stages;
    g.lanes = (p.walk.is_there() ? g.tiles : c.strip) * g.vectors;
    g.lane_items
            = c.planes * (p.walk.is_there() ? c.parts * p.middle.written : 1);
}

/// The first column of a thread, by what of a row it has.
constexpr int first_column_of(const geometry &g, const cut &c, int tile) {
    return tile / g.spread * g.spread * c.columns + tile % g.spread;
}

/// What follows from a thread's part of a row (not `apart`): where the walk is first, the rest.
constexpr geometry geometry_of_columns(
        const problem_specification &p, const cut &c) {
    geometry g {};
    g.fits = true;
    g.vectors = p.inner / c.vector;
    g.tiles = ceil_div(p.column.written, c.columns);
    g.spread = 1;
    if (c.repeated)
        add_window(g, p, c);
    else
        add_places(g, p, c);
    if (!g.fits) return g;
    for (int u = 0; u < g.units; ++u)
        g.checked += !g.always_inside[u];
    for (int k = 0; k < c.columns; ++k) {
        g.most_kept = most(g.most_kept, g.taps[k]);
        if (g.fixed[k]) continue;
        ++g.kept_columns;
        g.kept_taps += g.taps[k];
    }
    constexpr int most_rows_together = 8, most_loads_together = 32;
    g.rows_together = p.middle.most_taps;
    if (g.rows_together > most_rows_together
            || g.rows_together * g.units > most_units)
        g.rows_together = g.rolled
                ? 1
                : least(most_rows_together,
                        most(1, most_loads_together / g.units));

    g.write_vector = c.vector > 1 || c.apart || p.column.write_pitch != 1
            ? 1
            : c.columns;
    while (g.write_vector & (g.write_vector - 1)
            || p.column.written % g.write_vector || c.columns % g.write_vector
            || !pitches_divide(p, g.write_vector, true)
            || p.alignment % (g.write_vector * bytes_of(p.type))
            || g.write_vector * bytes_of(p.type) > 16)
        --g.write_vector;
    return g;
}

constexpr int line_margin = 4; ///< sums around those of a block

/// Rows come in pieces, at multiples of as many bytes in memory, for which threads wait together.
constexpr int bytes_of_piece = 16;

/// Sums over the middle axis, by vectors of 16 bytes: a thread has one of several rows, or some of
/// each. Rows lie an odd number of vectors apart, so that neighbouring ones meet other banks.
/// `kept` are the sums of a range that threads keep.
constexpr void add_layers(
        geometry &g, const problem_specification &p, const cut &c, int kept) {
    g.layer_vector = 4 / sum_words(p);
    const int row = static_cast<int>(row_of_middle(p));
    const int rows = c.planes * c.middle_part;
    g.layer_threads = ceil_div(row, g.layer_vector);
    g.layer_rounds = g.layer_threads <= c.threads
            ? ceil_div(rows, c.threads / g.layer_threads)
            : rows * ceil_div(g.layer_threads, c.threads);
    g.layer_pitch = g.layer_threads * g.layer_vector;
    const bool whole = rows_are_whole(p);
    g.line_row = (ceil_div(whole ? row : kept, g.layer_vector) | 1)
            * g.layer_vector;
    g.line_pitch = g.line_row * (whole ? ceil_div(kept, row) : 1);
}

/// Blocks whose threads walk, and share rows of sums.
constexpr void add_lines(
        geometry &g, const problem_specification &p, const cut &c) {
    const int vector = c.line_vector;
    g.column_parts = ceil_div(g.tiles, c.parts);
    g.middle_strips = ceil_div(p.middle.written, c.middle_part);
    const bool whole = rows_are_whole(p);
    g.segments = whole ? 1 : c.middle_read;
    g.ranges = c.planes * g.segments;
    constexpr long long furthest = 1LL << 29, most_of_layers = 1 << 20;
    g.fits = elements_of_range(p) < furthest
            && (whole || c.middle_read * p.middle.read_pitch < furthest)
            && (c.planes == 1 || c.planes * p.outer_read[0] < furthest)
            && c.planes * row_of_middle(p) * c.middle_part < most_of_layers;
    if (!g.fits) return;
    // Parts of a row begin ahead of what is read for them.
    g.line_read = (whole ? c.middle_read : 1) * c.tile_read * p.inner
            + (g.column_parts > 1 ? most(vector, line_margin) - 1 : 0);
    g.line_threads = c.threads / g.ranges;
    // With places for words beyond the range.
    const int kept = g.line_threads * c.words * vector;
    g.line_pitch = round_up(kept, 4);
    if (p.middle.is_there()) add_layers(g, p, c, kept);
    const int sum_bytes = 4 * sum_words(p);
    g.line_bytes = round_up(
            (g.ranges * g.line_pitch + 2 * line_margin) * sum_bytes, 128);
    // Copies that begin within a line of the caches take shared memory two or three times as long.
    const int line_bytes = round_up(g.line_read, vector) * bytes_of(p.type);
    constexpr int of_line = 128, long_range = 1024;
    const bool alike = p.walk.read_pitch * bytes_of(p.type) % of_line == 0;
    g.lies_at_lines = alike || line_bytes >= long_range;
    g.copy_alignment = g.lies_at_lines && !alike ? of_line : bytes_of_piece;
    g.line_pieces = ceil_div(
            line_bytes - vector * bytes_of(p.type) + g.copy_alignment,
            bytes_of_piece);
    g.piece_bytes = g.ranges * g.line_pieces * bytes_of_piece;
    g.sums_bytes = g.line_bytes // in turns, or with sums over the middle axis
            + (p.middle.is_there() ? round_up(
                       c.planes * c.middle_part * g.layer_pitch * sum_bytes,
                       128)
                                   : g.line_bytes);
    g.shared_bytes = g.sums_bytes + round_up(c.ahead * g.piece_bytes, 32)
            + c.ahead * 4 * sum_bytes;
    g.lanes = c.parts * g.vectors;
    g.lane_items = c.planes * c.middle_part;
}

/// Warps whose lanes have neighbouring parts of rows, at the same strip: whole rows, or any,
/// where a lane at an end of the warp writes nothing if its window goes on there.
constexpr void add_exchange(geometry &g, int middles) {
    constexpr int lanes = 32;
    const int ends = (g.left > 0) + (g.right > 0);
    g.writers = g.tiles > lanes ? 0 : lanes / g.tiles * g.tiles;
    if (g.writers < lanes - ends) {
        g.writers = lanes - ends;
        g.lead = g.left > 0;
    }
    const long long warps
            = (1LL * g.outers * g.tiles + g.writers - 1) / g.writers;
    g.items = warps * g.strips * middles * lanes;
}

/// Of threads that read global memory.
constexpr void add_threads(
        geometry &g, const problem_specification &p, const cut &c) {
    g.strips = ceil_div(p.walk.written, c.strip);
    g.items = static_cast<long long>(g.outers) * g.strips * p.middle.written
            * g.tiles * g.vectors;
    if (c.exchanged) add_exchange(g, p.middle.written);
    g.fits = g.items < 1LL << 31;
    if (rows_are_copied(p, c))
        g.shared_bytes = c.ahead * g.units * loads_of(p) * c.threads
                * most(c.vector, c.read_vector) * bytes_of(p.type);
    g.grid = static_cast<int>((g.items + c.threads - 1) / c.threads);
}

/// Blocks by strips of the first axis, or tiles.
constexpr void add_strips(
        geometry &g, const problem_specification &p, const cut &c) {
    g.tile_strips = ceil_div(
            first_axis_of(p).written, p.walk_first ? c.strip : g.tile_written);
    const long long parts = 1LL * ceil_div(g.outers, c.planes) * g.tile_strips
            * g.middle_strips * g.column_parts;
    g.grid = static_cast<int>(parts);
    g.fits = g.sets <= most_sets && parts < 1LL << 30;
}

/// What follows from all, `g` being what follows from the columns.
constexpr geometry geometry_of(
        const problem_specification &p, const cut &c, geometry g) {
    if (!g.fits) return g;
    g.outers = outers_of(p);
    if (c.apart) {
        g.spread = p.walk_first     ? c.parts
                : p.walk.is_there() ? g.tiles
                                    : c.strip;
        g.tiles = ceil_div(p.column.written, g.spread * c.columns) * g.spread;
    }
    if (!p.walk_first && c.stages == 0) {
        add_threads(g, p, c);
        return g;
    }
    p.walk_first ? add_lines(g, p, c) : add_tiles(g, p, c);
    if (!g.fits) return g;
    g.sets = ceil_div(g.lanes, c.threads);
    g.groups = g.sets > 1 ? 1 : c.threads / g.lanes;
    add_strips(g, p, c);
    return g;
}

constexpr geometry geometry_of(const specification_of_kernel &s) {
    const auto &[p, c] = s;
    return geometry_of(
            p, c, geometry_of_columns(p.walk_first ? rest_of_walk(p) : p, c));
}

} // namespace gradnn::gpu::resample
