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
