#include <cstdint>
#include <numeric>
#include <set>

#include "gpu/convolution/sliding/cuts.hpp"

namespace gradnn::gpu::sliding {

namespace {

/// Wavefronts of a warp's stores of a row of results to shared memory.
double store_wavefronts(int vector, int columns, int bytes) {
    if (vector * bytes >= 4) {
        const int words = vector * bytes / 4;
        return 1.0 * columns / vector * words
                * std::gcd(
                        std::max(1, columns / vector), std::max(1, 32 / words));
    }
    return columns * (columns % 2 ? 1.0 : std::gcd(columns / 2, 32));
}

/// Planes, bands and strips of a block whose results lie in shared memory.
std::optional<work_cut> staged_cut(
        const data_estimator &e, work_cut cut, double beside_rows) {
    const problem_specification &p = e.p;
    const bool all = cut.staged == staging::all;
    const int64_t weights = !cut.shared_weights
            ? 0
            : e.weights_bytes(cut.vector, 1) / cut.vector;
    const int64_t row = int64_t {p.column.written} * e.bytes,
                  volume = row * p.row.written * p.depth.written,
                  read = !all ? 0
                              : int64_t {p.multiplier} * p.depth.read
                    * p.row.read * p.column.read * e.bytes;
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
                            && (planes + cut.vector) * unit <= room
                            && of_unit * (planes / cut.vector + 1) <= 288))
                return;
            const int resident = std::max(1,
                    threads > cut.threads
                            ? std::min(blocks, held * cut.threads / threads)
                            : blocks);
            const double of_grid = whole
                    ? std::ceil(1.0 * units / planes)
                    : 1.0 * units * ceil_div(p.row.written, band);
            const double waves
                    = of_grid / (1.0 * e.gpu.multiprocessors * resident);
            const bool aligned = planes * (unit - read - weights) % 16 == 0
                    && planes * read % 16 == 0;
            const double cost = turns_of(waves, 4)
                    * (1.0 * strip / p.row.up + e.over + beside_rows
                            + (all ? 6 : 3))
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
                for (int planes = cut.vector;
                        planes <= std::min<int64_t>(units,
                                std::max(cut.vector,
                                        288 * cut.vector
                                                / (tiles_of_unit * strips)));
                        planes += cut.vector)
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
    const double products = 1.0 * cut.depths * cut.columns * cut.vector
            * p.multiplier * e.taps / p.column.up
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
                = ceil_div(p.column.written, e.column_step * cut.columns) * 1.0
                * e.column_step * ceil_div(p.depth.written, cut.depths)
                * classes * p.images;
        const double blocks = p.channels_last
                ? tiles * ceil_div(p.channels / cut.vector, cut.lanes)
                        / (cut.threads / cut.lanes)
                : tiles * p.channels / cut.vector / cut.threads;
        const int rows = ceil_div(p.row.written, classes);
        cut.strip = std::min(rows,
                strip_of(ceil_div(rows, up), blocks,
                        1.0 * e.gpu.multiprocessors * cut.blocks, over + beside)
                        * up);
    }
    const data_geometry g = data_geometry::of(tile.specification);
    if (!g.fits || g.shared_bytes > e.gpu.block_shared_bytes) return {};
    if (is_grouped(p)) {
        cut.blocks = std::clamp(
                e.gpu.shared_bytes / (g.shared_bytes + 1024), 1, cut.blocks);
        const double steps = 1.0 * cut.strip / up;
        tile.cost *= (steps + over + beside) / steps
                * filling(e.gpu, cut, g.grid);
    }
    if (cut.staged == staging::all)
        tile.cost *= 1
                + std::max(0.0, 12.0 - ceil_div(g.items, 32) * cut.blocks)
                        * 0.04;
    return tile;
}

} // namespace

void data_estimator::add_tile(int vector, const block_shape &block, int columns,
        int depths, staging staged, bool shared_weights) {
    const bool nxc = p.channels_last;
    const int m = p.multiplier, met = met_channels(p, vector);
    const double sharing = is_grouped(p) ? sharers(vector) : 1;
    row_read read = reads(columns, met, sharing);
    const double depth_slots = std::max(1.0,
            1.0 * (p.depth.taps + (depths - 1) * p.depth.step) / p.depth.up);
    const int phases = walk.phases;
    const int results = depths * columns * vector * p.row.up;
    const bool in_shared = staged != staging::none,
               all = staged == staging::all;
    // Elements that ops behind the problem read; NCX is cut as without, by what was measured.
    const double others = in_shared ? 0.0 : results * epilogues_of(p);
    const double asked = nxc ? others : 0.0;
    const int stored
            = vector_moved(p, p.written, vector, p.column.written, columns);
    const double read_elements = depth_slots * phases * read.met * met;
    const double products = 1.0 * depths * columns * vector * m * taps
            / (p.column.up * (p.depth.taps > 1 ? p.depth.up : 1));
    // As many instructions as are read in time, and half as many as the largest.
    constexpr double most_products = 4000, read_in_time = 2000;
    if (is_grouped(p) && products * wide > most_products) return;
    constexpr int most_loads = 1000; // of weights
    if (shared_weights && taps * m * weights_pieces(p, vector) > most_loads)
        return;
    const double weights
            = shared_weights ? weights_bytes(vector, block.lanes) : 0.0;
    walk_estimate of {*this, block, 2048 + weights, 0.7, is_long()};
    of.shared_bytes += weights;
    of.raw = read_elements * bytes / 4
            + others / stored * std::max(1.0, stored * bytes / 4.0);
    of.registers = registers_of(1.0 * walk.open * depths * columns * vector,
                           shared_weights ? 12 : taps * m * vector,
                           phases * read.met * met
                                   * (is_grouped(p) ? depth_slots : 1))
            + (p.depth.taps > 1 ? 4 : 0) + (is_long() ? 10 : 0)
            + (is_grouped(p) ? 8 : 0);
    of.loads = phases * depth_slots * read.pieces
                    * (nxc ? read.met : read.met / read.loaded)
            + asked / stored;
    of.instructions = products * wide + loading(of.loads, read_elements)
            + asked * (bytes == 2 ? 3.5 : 2.0 * wide)
            + results * (bytes == 2 ? 1.0 : 0.5)
            + 1.0 * results / stored * (in_shared ? 1.2 : 1.0) + 24;
    of.wavefronts = of.loads * read.wavefronts;
    of.bytes = read.entered * met * bytes * depths * phases / sharing;
    if (all) {
        // A thread has one row, and loads its weights for it.
        if (p.row.written == 1) of.instructions += 3.0 * taps * m;
        const int into = std::max(1, static_cast<int>(read.entered));
        read.loaded = vector_dividing(bytes, 16, p.column.read,
                columns >= width ? 0 : static_cast<int>(read.entered));
        of.loads = depth_slots * met * read.met / read.loaded;
        of.wavefronts = of.loads
                * (store_wavefronts(read.loaded, into, bytes)
                        / std::max(1, into / read.loaded));
        of.bytes = HUGE_VAL; // all are there
    }
    if (in_shared)
        of.wavefronts
                += depths * p.row.up * store_wavefronts(stored, columns, bytes);
    else
        of.wavefronts += 1.0 * results * bytes * 32 / 64;
    // Parts of sectors are written more than once.
    if (!nxc && !in_shared && (columns / stored > 1 || stored * bytes < 16))
        of.wavefronts += 1.0 * results / stored * 24;
    if (shared_weights) {
        const double loads = 1.0 * taps * m * weights_pieces(p, vector);
        of.instructions += loads;
        of.wavefronts += loads * weights_wavefronts(vector, block.lanes);
    }
    of.loaded_bytes = read.loaded * bytes;
    of.results = results * used(columns);
    of.floor = 9.7 * bytes
            * (1 + 1.0 * m / p.group * read_share() + asked / results);
    of.may_copy_groups(
            (others > 0 ? std::min(read.loaded, stored) : read.loaded) * bytes,
            is_long(), is_long() ? 320 / products : 400 / of.instructions);
    // Copies of 16 bytes pass the first cache by, in which others of a group find them.
    of.may_copy &= !all && sharing <= 1 && !(in_shared && is_grouped(p));
    if (is_grouped(p))
        of.instructions
                *= 1 + 0.1 * std::max(0.0, of.instructions / read_in_time - 1);
    const std::set tried {1, of.best()};
    of.bytes += asked * bytes / 4; // on their way for a part of a step
    for (const int rows : tried) {
        if (of.held(rows) > (is_long() && vector > 1 ? 150 : most_registers))
            continue;
        const int unroll = of.copied(rows) ? of.group
                : rows > 1                 ? rows
                : of.instructions < 160    ? 2
                                           : 1;
        // Sums that a row adds one product to each move up by instructions.
        const double moves = is_long()
                ? 0.8 * walk.open * columns * vector * wide / unroll
                : 0.0;
        const double groups = of.copied(rows)
                ? 12.0 / unroll - (unroll >= 4 ? 12.0 : 0.0)
                : 0.0;
        work_cut cut = of.cut(vector, columns, rows, unroll);
        cut.depths = depths;
        cut.staged = staged;
        cut.shared_weights = shared_weights;
        tiles.push_back({of.cost(rows, moves + groups, all), {p, cut}});
    }
}

void data_estimator::add_tiles() {
    if (multiples_at_once(p) < p.multiplier) return; // these pass by
    const bool staging_pays = !p.channels_last && written_is_dense();
    const bool all_may_be_staged = p.group == 1 && read_is_dense()
            && p.bulk_copies && p.alignment == 16;
    const int most = staging_pays ? 28 : 16;
    std::vector<staging> stagings;
    if (staging_pays && walk.phases == 1) {
        if (all_may_be_staged) stagings.push_back(staging::all);
        stagings.push_back(staging::results);
    }
    stagings.push_back(staging::none);
    for (const int vector : channel_vectors(p.written)) {
        const block_shape block = block_of(vector, is_long() ? 160 : 288),
                          narrow
                = block_of(vector, 288, lanes_of_weights(vector));
        for (int columns = 1; columns <= std::min(width, most); ++columns) {
            if (p.column.up > 1 && columns % p.column.up && columns < width)
                continue;
            if (columns > 16 && columns < width && width % columns) continue;
            for (int depths = 1; depths <= 3; ++depths) {
                if (depths > 1
                        && (p.depth.taps == 1 || depths > p.depth.written))
                    break;
                if (depths < p.depth.written && depths % p.depth.up) continue;
                if (depths == 3 && p.depth.up != 3) continue;
                for (const staging each : stagings)
                    add_tile(vector, block, columns, depths, each, false);
                if (!is_grouped(p)) continue;
                for (const staging each : stagings)
                    add_tile(vector, narrow, columns, depths, each, true);
            }
        }
    }
}

std::vector<choice> data_choices(
        const problem_specification &p, const gpu_facts &gpu) {
    data_estimator e {{p, gpu}};
    e.add_tiles();
    add_long_rows(e);
    if (is_grouped(p)) add_passing_rows(e);
    std::ranges::stable_sort(e.tiles, {}, &choice::cost);
    const std::vector<choice> done
            = best_finished(e, is_grouped(p) ? 300 : 40, finished);
    if (done.empty() && !is_grouped(p)) return row_by_row_choices(e);
    std::vector<choice> chosen;
    for (const choice &each : done)
        if (chosen.size() < 5 && is_unlike(chosen, each.specification.cut))
            chosen.push_back(each);
    return chosen;
}

} // namespace gradnn::gpu::sliding
