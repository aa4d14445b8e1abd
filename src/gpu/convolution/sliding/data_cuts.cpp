#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>

#include "gpu/convolution/sliding/cuts.hpp"

namespace gradnn::gpu::sliding {

namespace {

/// Planes, bands and strips of a block whose results lie in shared memory.
std::optional<work_cut> staged_cut(
        const data_estimator &e, work_cut cut, double beside_rows) {
    const problem_specification &p = e.p;
    const bool all = cut.staged == staging::all;
    // Blocks have whole groups of what they read, and whole vectors of channels.
    const int each = all ? p.group : cut.vector;
    const int64_t weights = !cut.shared_weights
            ? 0
            : shared_weights_of(p, cut.vector, 1) * sum_bytes_of(p.type)
                    / cut.vector;
    const int64_t row = int64_t {p.column.written} * e.bytes,
                  volume = row * p.row.written * p.depth.written,
                  read = !all ? 0
                              : int64_t {p.multiplier} * p.depth.read
                    * p.row.read * p.column.read * e.bytes / p.group;
    constexpr int64_t most_bytes = 200000;
    cut.volumes = p.depth.written > 1
            && (all || volume <= 56000 || p.depth.written % cut.depths);
    const int depth_tiles = ceil_div(p.depth.written, cut.depths);
    if (row * p.row.written > most_bytes || read > most_bytes
            || (cut.volumes && volume > most_bytes)
            || (cut.vector > 1 && depth_tiles > 1 && !cut.volumes))
        return {};
    const int64_t units
            = int64_t {p.images} * p.channels * (cut.volumes ? 1 : depth_tiles);
    const int64_t unit
            = (cut.volumes ? volume : row * p.row.written * cut.depths) + read
            + weights;
    const int tiles_of_unit = ceil_div(p.column.written, cut.columns)
            * e.walk.classes * (cut.volumes ? depth_tiles : 1);
    const int rows = ceil_div(p.row.written, e.walk.classes);
    const bool has_bands = e.walk.classes == 1 && cut.depths == 1
            && !cut.volumes && !all && cut.vector == 1;
    double least_cost = HUGE_VAL;
    std::optional<work_cut> best;
    const int held = cut.blocks;
    for (const int blocks : {held, std::max(2, held - 1), std::max(1, held / 2),
                 std::min(3, held), std::min(2, held)}) {
        const int64_t room = std::min<int64_t>(
                (e.gpu.shared_bytes - 8 * 1024) / blocks - 1200,
                e.gpu.block_shared_bytes - 1024);
        const auto least_bands = static_cast<int>((unit + room - 1) / room);
        if (least_bands > 1 && !has_bands) continue;
        const auto consider = [&](int strips, int band, int planes) {
            const bool whole = band == p.row.written;
            const int of_class = ceil_div(band, e.walk.classes);
            const int strip
                    = ceil_div(ceil_div(of_class, strips), p.row.up) * p.row.up;
            const int of_unit = tiles_of_unit * strips;
            const int threads
                    = ceil_div(of_unit * planes / cut.vector, 32) * 32;
            if (strip < 1 || ceil_div(of_class, strip) != strips
                    || (whole ? planes * unit : band * row) > room
                    || threads > 352
                    || int64_t {threads} * blocks * 32 > e.gpu.registers
                    || (threads < 64 && planes < units
                            && (planes + each) * unit <= room
                            && of_unit * (planes + each) / cut.vector <= 288))
                return;
            const int resident = std::max(1,
                    threads > cut.threads
                            ? std::min(blocks, held * cut.threads / threads)
                            : blocks);
            const double of_grid = whole
                    ? std::ceil(static_cast<double>(units) / planes)
                    : static_cast<double>(units)
                            * ceil_div(p.row.written, band);
            const double waves = of_grid
                    / (static_cast<double>(e.gpu.multiprocessors) * resident);
            const bool aligned = planes * (unit - read - weights) % 16 == 0
                    && planes * read % 16 == 0;
            const double cost = turns_of(waves, 4)
                    * (static_cast<double>(strip) / p.row.up + e.over
                            + beside_rows + (all ? 6 : 3))
                    * std::max(resident * threads / 32.0, 12.0)
                    * (1 + (resident == 1 ? 0.3 : 0.0)
                            + (all && resident == 2 ? 0.15 : 0.0))
                    * (aligned ? 1.0 : 1.12);
            if (cost >= least_cost) return;
            least_cost = cost;
            best = cut;
            best->strip = strip;
            best->planes = planes;
            best->band = band;
            best->blocks = resident;
            best->threads = threads;
        };
        for (int strips = 1; strips <= std::max(1, rows / (3 * p.row.up));
                ++strips) {
            if (least_bands > 1)
                for (int more = 0; more < 3; ++more)
                    consider(strips,
                            ceil_div(p.row.written, least_bands + more), 1);
            else
                for (int planes = each;
                        planes <= std::min<int64_t>(units,
                                std::max(each,
                                        288 * cut.vector
                                                / (tiles_of_unit * strips)));
                        planes += each)
                    consider(strips, p.row.written, planes);
        }
    }
    return best;
}

/// A tile with the rest of its cut, or nothing.
std::optional<choice> finished(const data_estimator &e, choice tile) {
    const problem_specification &p = e.p;
    work_cut &cut = tile.specification.cut;
    // What a strip begins with, in steps: of many products it is a part of one.
    const double products = static_cast<double>(cut.depths) * cut.columns
            * cut.vector * p.multiplier * e.taps / p.column.up
            / (cut.row_by_row ? p.row.up * p.depth.up : 1);
    double beside = is_grouped(p) ? std::min(2.5, 0.3 + 400 / products)
                                  : 1.5 + e.taps / 24.0;
    if (cut.shared_weights || (is_grouped(p) && cut.row_by_row)) {
        // A block's weights.
        constexpr double of_a_weight = 15; // instructions
        beside += of_a_weight * p.multiplier * e.taps * cut.vector * cut.lanes
                / cut.threads / products;
    }
    const double over = cut.row_by_row ? 0 : e.over;
    const int classes = cut.row_by_row ? 1 : e.walk.classes,
              up = cut.row_by_row ? 1 : p.row.up;
    cut.band = p.row.written;
    if (cut.staged != staging::none) {
        const auto staged = staged_cut(e, cut, beside);
        if (!staged) return {};
        cut = *staged;
    } else {
        const double tiles
                = ceil_div(p.column.written, e.column_step * cut.columns)
                * static_cast<double>(e.column_step)
                * ceil_div(p.depth.written, cut.depths) * classes * p.images;
        const double blocks = p.channels_last
                ? tiles * ceil_div(p.channels / cut.vector, cut.lanes)
                        / (cut.threads / cut.lanes)
                : tiles * p.channels / cut.vector / cut.threads;
        const int rows = ceil_div(p.row.written, classes);
        cut.strip = std::min(rows,
                strip_of(ceil_div(rows, up), blocks,
                        static_cast<double>(e.gpu.multiprocessors) * cut.blocks,
                        over + beside)
                        * up);
    }
    const data_geometry g = data_geometry::of(tile.specification);
    if (!g.fits || g.shared_bytes > e.gpu.block_shared_bytes) return {};
    if (is_grouped(p)) {
        cut.blocks = std::clamp(
                e.gpu.shared_bytes / (g.shared_bytes + 1024), 1, cut.blocks);
        const double steps = static_cast<double>(cut.strip) / up;
        tile.cost *= (steps + over + beside) / steps
                * filling(e.gpu, cut, g.grid);
    }
    if (cut.staged == staging::all)
        tile.cost *= 1
                + std::max(0.0, 12.0 - ceil_div(g.items, 32) * cut.blocks)
                        * 0.04;
    return tile;
}

/// Taps of a chunk: those whose chunks have fewest taps beyond the last one, then long ones.
int chunk_of(int taps, int vector) {
    int best = vector;
    int least = 1 << 20;
    for (int chunk = ceil_div(8, vector) * vector; chunk <= 20;
            chunk += vector) {
        const int all = ceil_div(taps, chunk) * (chunk + 2);
        if (all > least) continue;
        least = all;
        best = chunk;
    }
    return best;
}

bool is_plain(const axis &a) {
    return a.step == 1 && a.up == 1 && a.dilation == 1;
}

/// Long windows of one row in planes of NCX.
void add_long_rows(data_estimator &e) {
    const problem_specification &p = e.p;
    constexpr int shortest = 9;
    if (p.channels_last || p.group * p.multiplier > 1
            || p.column.taps < shortest || p.column.taps > most_taps
            || !is_plain(p.column) || !p.row.is_flat() || !p.depth.is_flat()
            || p.alignment < 16 || !e.written_is_dense() || !e.read_is_dense())
        return;
    const int of_16_bytes = 16 / e.bytes;
    const bool vectors = p.column.read % of_16_bytes == 0
            && p.column.written % of_16_bytes == 0;
    const int vector = vectors ? of_16_bytes : 1;
    const int chunk = chunk_of(p.column.taps, std::max(vector, 4 / e.wide));
    // Neighbours' columns an odd number of vectors apart: no two in one bank.
    for (int columns = vector; columns <= 28; columns += 2 * vector) {
        const int loaded
                = ceil_div(columns + chunk - 1 + vector, vector) * vector;
        const double registers = columns * e.wide + loaded * e.bytes / 4.0
                + (e.bytes == 2 ? loaded : 0) + 18;
        if (columns < 6 || columns > p.column.written + vector
                || registers > 200)
            continue;
        const double chunks = ceil_div(p.column.taps, chunk);
        const double loads = chunks
                * (static_cast<double>(loaded) / vector + chunk * e.wide / 4.0);
        const double instructions = chunks
                        * (chunk * columns * e.wide + 10
                                + (e.bytes == 2 ? loaded : 0))
                + loads * 1.2 + columns * (0.5 + 1.2 / vector) + 30;
        const double wavefronts
                = chunks * (loaded * e.bytes / 4.0 + chunk / 4.0)
                + columns * e.bytes / 4.0;
        const double used = e.used(columns);
        const double cost = overlapped(
                instructions / columns / used, 4 * wavefronts / columns / used);
        const double floor = 9.7 * e.bytes * 2;
        work_cut cut {};
        cut.columns = columns;
        cut.threads = 128;
        cut.blocks = std::max(
                1, e.blocks_of(cut.threads, static_cast<int>(registers)));
        cut.staged = staging::all;
        cut.row_by_row = true;
        cut.chunk = chunk;
        e.tiles.push_back({beside_memory(cost, floor, true), {p, cut}});
    }
    std::ranges::stable_sort(e.tiles, {}, &choice::cost);
}

/// Groups: rows of taps pass by, whose products are so many that rows that are read come from
/// the first cache again.
void add_passing_rows(data_estimator &e) {
    const problem_specification &p = e.p;
    const int m = multiples_at_once(p);
    if ((p.row.taps * p.depth.taps == 1 && m == p.multiplier)
            || p.row.taps > most_taps || p.depth.taps > most_taps)
        return;
    for (const int vector : e.channel_vectors(p.written))
        for (int columns = 1; columns <= std::min(e.width, 16); ++columns) {
            if (p.column.up > 1 && columns % p.column.up && columns < e.width)
                continue;
            const row_read read = e.reads(columns, m, e.sharers(vector));
            const int at_once = weights_at_once(p, vector);
            work_cut cut {};
            cut.vector = vector;
            cut.columns = columns;
            cut.row_by_row = true;
            const block_shape block
                    = e.block_of(vector, 160, e.lanes_of_weights(vector));
            cut.lanes = block.lanes;
            cut.threads = block.threads;
            const double elements = read.met * m,
                         loads = read.pieces
                    * (p.channels_last ? read.met : read.met / read.loaded),
                         of_weights = static_cast<double>(p.column.taps) * m
                    * weights_pieces(p, vector),
                         products = static_cast<double>(columns) * vector * m
                    * p.column.taps / p.column.up,
                         results = columns * vector;
            // Those of the rows and depths that a result meets, and of its multiples.
            const double times = static_cast<double>(p.row.taps) * p.depth.taps
                    / (p.row.up * (p.depth.taps > 1 ? p.depth.up : 1))
                    * (p.multiplier / m);
            const int stored = vector_along(
                    e.bytes, p.alignment, p.column.written, p.written, columns);
            constexpr double most_products = 4000;
            // What is loaded is multiplied at once.
            const double registers
                    = (results + elements * (e.bytes == 2 ? 1.4 : 1.1) + 12)
                            * e.wide
                    + 30;
            if (products * e.wide > most_products || registers > most_registers)
                continue;
            const double instructions = times
                            * (products * e.wide + e.loading(loads, elements)
                                    + of_weights + 25)
                    + results * 1.5 + 24;
            const double wavefronts = times
                            * (loads * read.wavefronts
                                    + of_weights
                                            * std::max(1.0,
                                                    std::min(cut.lanes, 32)
                                                            * at_once * e.wide
                                                            / 32.0))
                    + results * e.bytes * 32 / 64.0
                    + (p.channels_last ? 0 : results / stored * 24);
            if (shared_weights_of(p, vector, cut.lanes) * sum_bytes_of(p.type)
                    > e.gpu.block_shared_bytes)
                continue;
            const double shared = 1024.0
                    + shared_weights_of(p, vector, cut.lanes)
                            * sum_bytes_of(p.type);
            cut.blocks = std::clamp(
                    std::min(e.blocks_of(
                                     cut.threads, static_cast<int>(registers)),
                            static_cast<int>(e.gpu.shared_bytes / shared)),
                    1, e.gpu.threads / cut.threads);
            const double warps = cut.blocks * cut.threads / 32.0;
            // Loads are waited for at once.
            const double waiting = 1.15 + std::max(0.0, 16 - warps) * 0.05;
            const double inside = results * e.used(columns);
            const double floor = 9.7 * e.bytes
                    * (1
                            + static_cast<double>(p.multiplier) / p.group
                                    * e.read_share());
            e.tiles.push_back(
                    {beside_memory(waiting
                                     * overlapped(instructions / inside,
                                             4 * wavefronts / inside),
                             floor),
                            {p, cut}});
        }
    std::ranges::stable_sort(e.tiles, {}, &choice::cost);
}

/// Windows that leave no room in registers for all taps.
std::vector<choice> row_by_row_choices(const data_estimator &e) {
    const problem_specification &p = e.p;
    std::vector<choice> made;
    if (std::max({p.column.taps, p.depth.taps,
                (p.depth.taps - 1) * p.depth.dilation / p.depth.up + 1})
                    > most_taps
            || p.row.step > most_phases)
        return made;
    for (const int columns : e.row_columns()) {
        if (columns % p.column.up) continue;
        const int met = e.met_by(columns);
        // Taps of NXC pass by, some at a time, where columns have no gaps.
        const int chunk = p.channels_last && p.group * p.multiplier == 1
                        && columns >= 8 && p.column.taps > 16
                        && is_plain(p.column)
                ? 16
                : 0;
        const int loaded = chunk > 0 ? columns + chunk - 1 : met * p.multiplier;
        const int registers
                = (columns + loaded) * e.wide + loaded * e.bytes / 8 + 48;
        if (registers > 230) continue;
        work_cut cut {};
        cut.columns = columns;
        cut.band = p.row.written;
        cut.row_by_row = true;
        cut.chunk = chunk;
        if (p.channels_last) cut.lanes = std::min(32, p.channels);
        const int64_t of_lane
                = int64_t {p.multiplier} * e.taps * sum_bytes_of(p.type);
        if (of_lane > e.gpu.block_shared_bytes) continue;
        while (cut.lanes * of_lane > e.gpu.block_shared_bytes)
            cut.lanes = ceil_div(cut.lanes, 2);
        const double of_channel = static_cast<double>(p.images)
                * p.depth.written * p.row.written
                * ceil_div(p.column.written, columns);
        cut.threads = static_cast<int>(
                std::clamp(std::ceil(of_channel * cut.lanes / 32) * 32, 64.0,
                        p.channels_last ? 256.0 : 128.0));
        cut.blocks = static_cast<int>(std::clamp<int64_t>(
                std::min<int64_t>(e.blocks_of(cut.threads, registers),
                        e.gpu.shared_bytes / (cut.lanes * of_lane + 1024)),
                1, e.gpu.threads / cut.threads));
        if (data_geometry::of({p, cut}).fits)
            made.push_back(
                    {static_cast<double>(met + columns) / columns, {p, cut}});
    }
    return made;
}

} // namespace

std::vector<choice> data_choices(
        const problem_specification &p, const gpu_facts &gpu) {
    data_estimator e {{p, gpu}};
    e.add_tiles();
    add_long_rows(e);
    if (is_grouped(p)) add_passing_rows(e);
    const size_t most_tried = is_grouped(p) ? 300 : 40;
    std::vector<choice> done;
    for (const choice &each : e.tiles) {
        if (done.size() >= most_tried
                || (!done.empty() && each.cost > 1.9 * done[0].cost))
            break;
        if (const auto finished_tile = finished(e, each))
            done.push_back(*finished_tile);
    }
    if (done.empty() && !is_grouped(p)) return row_by_row_choices(e);
    std::ranges::stable_sort(done, {}, &choice::cost);
    std::vector<choice> chosen;
    for (const choice &each : done)
        if (chosen.size() < 5 && is_unlike(chosen, each.specification.cut))
            chosen.push_back(each);
    return chosen;
}

} // namespace gradnn::gpu::sliding
