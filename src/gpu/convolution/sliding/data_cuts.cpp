#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>

#include "gpu/convolution/sliding/cuts.hpp"

namespace gradnn::gpu::sliding {

namespace {

constexpr int most_registers = 222; ///< estimated, of 255

/// A tile of a thread with its estimates, before strips are cut.
struct tile {
    double cost; ///< of a result, in instructions
    double instructions; ///< of a result
    data_cut cut;
};

/// What the estimates are made of.
struct estimator {
    const problem_specification &p;
    const gpu_facts &gpu;
    const int bytes, taps, wide; ///< wide: registers of a sum
    const row_walk walk;
    std::vector<tile> tiles;

    estimator(const problem_specification &of, const gpu_facts &on)
        : p(of),
          gpu(on),
          bytes(bytes_of(of.type)),
          taps(of.depth.taps * of.row.taps * of.column.taps),
          wide(sum_bytes_of(of.type) / 4),
          walk(row_walk::of(of.row)) {}

    int column_step() const {
        return p.channels_last && p.column.parts() ? p.column.dilation : 1;
    }
    /// Results that follow one another without gaps, so that planes may be staged.
    bool planes_are_dense(const pitches &of, int rows, int columns, int depths,
            int channels) const {
        const int64_t plane = int64_t {rows} * columns;
        return (columns == 1 || of.column == 1) && (rows == 1 || of.row == columns)
                && (depths == 1 || of.depth == plane)
                && (channels == 1 || of.channel == plane * depths)
                && (p.images == 1 || of.image == plane * depths * channels)
                && plane * depths * channels < (1 << 30);
    }

    void add_tiles();
    void add_tile(int vector, const block_shape &block, int columns, int depths,
            staging staged);
};

/// Wavefronts of a warp's stores of a row of results to shared memory.
double store_wavefronts(int vector, int columns, int bytes) {
    const auto common = [](int a, int b) {
        while (b != 0) {
            const int rest = a % b;
            a = b;
            b = rest;
        }
        return a;
    };
    if (vector * bytes >= 4) {
        const int words = vector * bytes / 4;
        return static_cast<double>(columns) / vector * words
                * common(std::max(1, columns / vector),
                        std::max(1, 32 / words));
    }
    return columns * (columns % 2 ? 1.0 : common(columns / 2, 32));
}

void estimator::add_tile(int vector, const block_shape &block, int columns,
        int depths, staging staged) {
    const bool nxc = p.channels_last;
    const int m = p.multiplier;
    const int up = p.column.up, step = p.column.step;
    const int width = ceil_div(p.column.written, column_step());
    const double used
            = static_cast<double>(width) / (ceil_div(width, columns) * columns);
    const bool one = columns >= width;
    const int gap = column_step() > 1 ? 1 : p.column.dilation;
    const int span = (p.column.taps - 1) * gap;
    double met = static_cast<double>((columns - 1) * step + 1 + span) / up;
    if (up > 1) met = static_cast<double>(columns + span) / up;
    const double entered = static_cast<double>(columns) * step / up;
    int loaded = vector_of_channels(bytes, p.alignment, vector * m, p.read);
    const int pieces = nxc ? vector * m / loaded : m;
    if (!nxc) {
        loaded = vector_along(bytes, p.alignment, p.column.read, p.read,
                one ? 0 : static_cast<int>(entered));
        if (one) met = std::min(met, static_cast<double>(p.column.read));
    }
    double load_wavefronts = std::max({1.0,
            nxc ? 0.0 : entered * bytes * 32 / 128, loaded * bytes * 32 / 128.0});
    const double deep = (p.depth.taps + depths - 1) * 1.0;
    const double depth_slots = p.depth.up == 1
            ? deep + (depths - 1) * (p.depth.step - 1)
            : std::max(1.0, deep / p.depth.up);
    const int phases = walk.phases;
    const double raw = depth_slots * phases * met * vector * m * bytes / 4;
    const int results = depths * columns * vector * p.row.up;
    const double half = bytes == 2 ? 1.0 : 0.6;
    const double registers = static_cast<double>(walk.open) * depths * columns
                    * vector * wide
            + static_cast<double>(taps) * m * vector * wide
            + phases * met * vector * m * wide * half + 30
            + (p.depth.taps > 1 ? 4 : 0);
    const double products = static_cast<double>(depths) * columns * vector * m
            * taps / (up * (p.depth.taps > 1 ? p.depth.up : 1));
    double loads = phases * depth_slots * pieces * (nxc ? met : met / loaded);
    int stored = nxc ? vector
                     : vector_along(bytes, p.alignment, p.column.written,
                             p.written, columns);
    const bool in_shared = staged != staging::none;
    if (in_shared && stored * bytes < 4) stored = 1;
    const double instructions = products * wide + loads * 1.5
            + (bytes == 2 ? 1.0 : 0.3 * wide) * phases * depth_slots * met
                    * vector * m
            + results * (bytes == 2 ? 1.0 : 0.5)
            + static_cast<double>(results) / stored * (in_shared ? 1.2 : 1.0)
            + 24;
    if (staged == staging::all) {
        const pitches plane {0, p.row.read * p.column.read, 0, 0, 1};
        loaded = vector_along(bytes, 16, p.column.read, plane,
                one ? 0 : static_cast<int>(entered));
        loads = depth_slots * m * met / loaded;
        const int into = std::max(1, static_cast<int>(entered));
        load_wavefronts = store_wavefronts(loaded, into, bytes)
                / std::max(1, into / loaded);
    }
    double wavefronts = loads * load_wavefronts;
    if (in_shared)
        wavefronts += depths * p.row.up * store_wavefronts(stored, columns, bytes);
    else
        wavefronts += static_cast<double>(results) * bytes * 32 / 64;
    // Parts of sectors are written more than once.
    if (!nxc && !in_shared && (columns / stored > 1 || stored * bytes < 16))
        wavefronts += static_cast<double>(results) / stored * 24;

    // Rows on their way: so that the steps of a multiprocessor's warps outlast memory.
    const double new_bytes = entered * vector * m * bytes * depths * phases;
    const auto registers_of = [&](int ahead) {
        const double all = registers + raw * ahead + (ahead > 1 ? 6 : 0);
        return std::clamp(
                ceil_div(static_cast<int>(all), 8) * 8, 32, 255);
    };
    const auto warps_of = [&](int ahead) {
        const int blocks = std::max(
                1, gpu.registers / (block.threads * registers_of(ahead)));
        return std::min(blocks * block.threads, gpu.threads) / 32.0;
    };
    const auto in_flight = [&](int ahead) {
        return ahead * warps_of(ahead) * 32 * new_bytes;
    };
    int ahead = 1;
    for (const int more : {2, 4, 8}) {
        if (staged == staging::all || in_flight(ahead) >= 12000
                || registers + raw * more + 6 > 214 || more * instructions > 1600)
            break;
        if (in_flight(more) > 1.25 * in_flight(ahead)
                && (warps_of(more) >= 12
                        || warps_of(more) >= warps_of(ahead) * 0.6))
            ahead = more;
    }
    for (const int rows : {1, ahead}) {
        const double all = registers + raw * rows + (rows > 1 ? 6 : 0);
        if (all > most_registers) continue;
        const int blocks = std::max(1,
                std::min(gpu.threads / block.threads,
                        gpu.registers / (block.threads * registers_of(rows))));
        const double by_issue = instructions / results / used;
        const double by_shared = 4 * wavefronts / results / used;
        double cost = std::max(by_issue, by_shared)
                + 0.2 * std::min(by_issue, by_shared);
        cost *= 1 + std::max(0.0, 12 - warps_of(rows)) * 0.05;
        // What memory takes, in instructions of a result.
        const double ratio = static_cast<double>(p.depth.read) * p.row.read
                * p.column.read
                / (static_cast<double>(p.depth.written) * p.row.written
                        * p.column.written);
        const double floor = 9.7 * bytes * (1 + m * ratio);
        const double late = staged == staging::all
                ? 1.0
                : std::clamp(9000 / in_flight(rows), 1.0, 2.5);
        cost = std::max(cost, 0.75 * floor * late) + 0.2 * cost
                + (staged == staging::all ? 0.45 * cost - 0.25 * floor : 0.0);
        const int unroll = rows > 1 ? rows : instructions < 160 ? 2 : 1;
        data_cut cut {};
        cut.vector = vector;
        cut.columns = columns;
        cut.depths = depths;
        cut.ahead = rows;
        cut.unroll = unroll;
        cut.unchecked = unroll > 1 || instructions < 260;
        cut.lanes = nxc ? block.lanes : 1;
        cut.threads = block.threads;
        cut.blocks = blocks;
        cut.staged = staged;
        tiles.push_back({cost, instructions / results / used, cut});
        if (ahead == 1) break;
    }
}

void estimator::add_tiles() {
    const bool nxc = p.channels_last;
    const int width = ceil_div(p.column.written, column_step());
    const bool staging_pays = !nxc && planes_are_dense(p.written, p.row.written,
                    p.column.written, p.depth.written, p.channels);
    const bool read_is_dense = planes_are_dense(p.read, p.row.read,
            p.column.read, p.depth.read, p.channels * p.multiplier);
    for (const int vector : channel_vectors(p, p.written)) {
        const block_shape block = nxc
                ? block_of(p.channels / vector, vector * bytes)
                : block_shape {1, 128};
        const int most = staging_pays ? 28 : 16;
        for (int columns = 1; columns <= std::min(width, most); ++columns) {
            if (p.column.up > 1 && columns % p.column.up && columns < width)
                continue;
            if (columns > 16 && columns < width && width % columns) continue;
            for (int depths = 1; depths <= 3; ++depths) {
                if (depths > 1 && (p.depth.taps == 1 || depths > p.depth.written))
                    break;
                if (depths < p.depth.written && depths % p.depth.up) continue;
                if (depths == 3 && p.depth.up != 3) continue;
                if (staging_pays && walk.phases == 1) {
                    if (read_is_dense && p.bulk_copies && p.alignment == 16)
                        add_tile(vector, block, columns, depths, staging::all);
                    add_tile(vector, block, columns, depths, staging::results);
                }
                add_tile(vector, block, columns, depths, staging::none);
            }
        }
    }
    std::stable_sort(tiles.begin(), tiles.end(),
            [](const tile &a, const tile &b) { return a.cost < b.cost; });
}

/// Planes, bands and strips of a block whose results lie in shared memory.
std::optional<data_cut> staged_cut(
        const estimator &e, data_cut cut, double beside_rows) {
    const problem_specification &p = e.p;
    const row_walk &walk = e.walk;
    const bool all = cut.staged == staging::all;
    const int64_t volume = int64_t {p.depth.written} * p.row.written
            * p.column.written * e.bytes;
    const int64_t read = all ? int64_t {p.multiplier} * p.depth.read * p.row.read
                    * p.column.read * e.bytes
                             : 0;
    if (volume > 200000 * int64_t {p.depth.written} || read > 200000) return {};
    const int depth_tiles = ceil_div(p.depth.written, cut.depths);
    cut.volumes = p.depth.written > 1
            && (all || volume <= 56000 || p.depth.written % cut.depths);
    if (cut.volumes && volume > 200000) return {};
    const int tiles_of_unit = cut.volumes ? depth_tiles : 1;
    const int64_t units = int64_t {p.images} * p.channels
            * (cut.volumes ? 1 : depth_tiles);
    const int width = ceil_div(p.column.written, cut.columns);
    const double over = static_cast<double>(walk.reach) / p.row.up;
    const int rows = ceil_div(p.row.written, walk.classes);
    const int64_t unit = (cut.volumes ? volume
                                      : int64_t {cut.depths} * p.row.written
                                              * p.column.written * e.bytes)
            + read;
    double least_cost = HUGE_VAL;
    std::optional<data_cut> best;
    const int held = cut.blocks;
    for (const int blocks : {held, std::max(2, held - 1), std::max(1, held / 2),
                 std::min(3, held), std::min(2, held)}) {
        const int64_t room = std::min<int64_t>(
                (e.gpu.shared_bytes - 8 * 1024) / blocks - 1200,
                e.gpu.block_shared_bytes - 1024);
        for (int strips = 1; strips <= std::max(1, rows / (3 * p.row.up));
                ++strips) {
            std::vector<int> bands {p.row.written};
            if (unit > room) {
                if (walk.classes > 1 || cut.depths > 1 || cut.volumes || all)
                    break;
                bands.clear();
                const int needed = static_cast<int>((unit + room - 1) / room);
                for (int more = 0; more < 3; ++more)
                    bands.push_back(ceil_div(p.row.written, needed + more));
            }
            for (const int band : bands) {
                const int of_class = ceil_div(band, walk.classes);
                const int strip
                        = ceil_div(ceil_div(of_class, strips), p.row.up)
                        * p.row.up;
                const int64_t held_bytes = cut.volumes
                        ? unit
                        : int64_t {band} * p.column.written * e.bytes
                                * cut.depths;
                if (strip < 1 || ceil_div(of_class, strip) != strips
                        || held_bytes + (cut.volumes ? 0 : read) > room)
                    continue;
                const int threads_of_unit
                        = width * strips * walk.classes * tiles_of_unit;
                const bool whole = band == p.row.written;
                const int64_t most_planes = whole
                        ? std::min<int64_t>(units,
                                std::max(1, 288 / threads_of_unit))
                        : 1;
                for (int planes = 1; planes <= most_planes; ++planes) {
                    const int threads
                            = ceil_div(threads_of_unit * planes, 32) * 32;
                    if (threads > 352 || (whole && planes * unit > room)
                            || int64_t {threads} * blocks * 32
                                    > e.gpu.registers)
                        continue;
                    if (threads < 64 && planes < units
                            && (planes + 1) * unit <= room
                            && threads_of_unit * (planes + 1) <= 288)
                        continue;
                    const int resident = std::max(1,
                            std::min(blocks,
                                    threads > cut.threads
                                            ? held * cut.threads / threads
                                            : blocks));
                    const double of_grid = whole
                            ? std::ceil(static_cast<double>(units) / planes)
                            : static_cast<double>(units)
                                    * ceil_div(p.row.written, band);
                    const double waves = of_grid
                            / (static_cast<double>(e.gpu.multiprocessors)
                                    * resident);
                    const double turns
                            = waves < 4 ? std::ceil(waves) : waves + 0.5;
                    const double warps = resident * threads / 32.0;
                    const bool aligned = planes * (unit - read) % 16 == 0
                            && planes * read % 16 == 0;
                    const double cost = std::max(turns, 0.35)
                            * (static_cast<double>(strip) / p.row.up + over
                                    + beside_rows + (all ? 6 : 3))
                            * std::max(warps, 12.0)
                            * (1 + (resident == 1 ? 0.3 : 0.0)
                                    + (all && resident == 2 ? 0.15 : 0.0))
                            * (aligned ? 1.0 : 1.12);
                    if (cost >= least_cost) continue;
                    least_cost = cost;
                    best = cut;
                    best->strip = strip;
                    best->planes = planes;
                    best->band = band;
                    best->blocks = resident;
                    best->threads = threads;
                }
            }
        }
    }
    return best;
}

/// The rest of a tile's cut, or nothing.
std::optional<data_cut> finished(const estimator &e, data_cut cut) {
    const problem_specification &p = e.p;
    const double over = static_cast<double>(e.walk.reach) / p.row.up;
    const double beside = 1.5 + e.taps / 24.0;
    std::optional<data_cut> made;
    if (cut.staged != staging::none) {
        made = staged_cut(e, cut, beside);
    } else {
        const double tiles = ceil_div(p.column.written,
                                     e.column_step() * cut.columns)
                * static_cast<double>(e.column_step())
                * ceil_div(p.depth.written, cut.depths) * e.walk.classes
                * p.images;
        const double blocks = p.channels_last
                ? tiles * ceil_div(p.channels / cut.vector, cut.lanes)
                        / (cut.threads / cut.lanes)
                : tiles * p.channels / cut.threads;
        const int rows = ceil_div(p.row.written, e.walk.classes);
        cut.strip = std::min(rows,
                strip_of(ceil_div(rows, p.row.up), blocks,
                        static_cast<double>(e.gpu.multiprocessors) * cut.blocks,
                        over + beside)
                        * p.row.up);
        cut.planes = 1;
        cut.band = p.row.written;
        made = cut;
    }
    if (!made) return {};
    const data_geometry g = geometry_of(data_specification {p, *made});
    if (!g.fits || g.shared_bytes > e.gpu.block_shared_bytes) return {};
    return made;
}

/// Windows that leave no room in registers for all taps.
std::vector<choice<data_specification>> row_by_row_choices(const estimator &e) {
    const problem_specification &p = e.p;
    std::vector<choice<data_specification>> made;
    if (p.column.taps > 64) return made;
    const int width = ceil_div(p.column.written, e.column_step());
    std::vector<int> tried;
    for (const int columns : {width <= 32 ? width : ceil_div(width, ceil_div(width, 16)),
                 ceil_div(width, ceil_div(width, 14)),
                 ceil_div(width, ceil_div(width, 8)), 8, 7, 4, 2, 1}) {
        if (columns > width || columns % p.column.up
                || std::count(tried.begin(), tried.end(), columns) > 0)
            continue;
        tried.push_back(columns);
        const int gap = e.column_step() > 1 ? 1 : p.column.dilation;
        const int met = std::min(
                ((columns - 1) * p.column.step + (p.column.taps - 1) * gap)
                                / p.column.up
                        + 1,
                columns >= width ? p.column.read : 1 << 20);
        const int registers = (columns + met) * e.wide
                + met * e.bytes / 8 + 48;
        if (registers > 230) continue;
        data_cut cut {};
        cut.vector = cut.depths = cut.planes = cut.strip = cut.ahead
                = cut.unroll = 1;
        cut.columns = columns;
        cut.band = p.row.written;
        cut.row_by_row = true;
        cut.lanes = p.channels_last ? std::min(32, p.channels) : 1;
        int64_t shared = 0;
        for (;; cut.lanes = ceil_div(cut.lanes, 2)) {
            shared = int64_t {cut.lanes} * p.multiplier * e.taps
                    * sum_bytes_of(p.type);
            if (shared <= e.gpu.block_shared_bytes || cut.lanes == 1) break;
        }
        if (shared > e.gpu.block_shared_bytes) continue;
        const double of_channel = static_cast<double>(p.images)
                * p.depth.written * p.row.written
                * ceil_div(p.column.written, columns);
        cut.threads = static_cast<int>(std::clamp(
                std::ceil(of_channel * cut.lanes / 32) * 32, 64.0,
                p.channels_last ? 256.0 : 128.0));
        const int rounded = ceil_div(registers, 8) * 8;
        cut.blocks = static_cast<int>(std::clamp<int64_t>(
                std::min<int64_t>(e.gpu.registers / (cut.threads * rounded),
                        e.gpu.shared_bytes / (shared + 1024)),
                1, e.gpu.threads / cut.threads));
        if (geometry_of(data_specification {p, cut}).fits)
            made.push_back({static_cast<double>(met + columns) / columns,
                    {p, cut}});
    }
    return made;
}

} // namespace

std::vector<choice<data_specification>> data_choices(
        const problem_specification &p, const gpu_facts &gpu) {
    estimator e(p, gpu);
    e.add_tiles();
    constexpr size_t most_tried = 40;
    std::vector<tile> done;
    for (const tile &each : e.tiles) {
        if (done.size() >= most_tried
                || (!done.empty() && each.cost > 1.9 * done[0].cost))
            break;
        const std::optional<data_cut> cut = finished(e, each.cut);
        if (!cut) continue;
        double cost = each.cost;
        if (cut->staged == staging::all) {
            const data_geometry g = geometry_of(data_specification {p, *cut});
            const double warps = ceil_div(g.items, 32) * cut->blocks;
            cost *= 1 + std::max(0.0, 12 - warps) * 0.04;
        }
        done.push_back({cost, each.instructions, *cut});
    }
    if (done.empty()) return row_by_row_choices(e);
    std::stable_sort(done.begin(), done.end(),
            [](const tile &a, const tile &b) { return a.cost < b.cost; });
    // The best, each unlike those before it.
    std::vector<choice<data_specification>> chosen;
    const auto alike = [](const data_cut &a, const data_cut &b) {
        return a.vector == b.vector && a.depths == b.depths
                && a.staged == b.staged && (a.ahead > 1) == (b.ahead > 1);
    };
    for (const tile &each : done) {
        const auto same = std::count_if(
                chosen.begin(), chosen.end(), [&](const auto &other) {
                    return alike(other.specification.cut, each.cut);
                });
        if (same >= (chosen.size() < 3 ? 1 : 2)) continue;
        chosen.push_back({each.cost, {p, each.cut}});
        if (chosen.size() == 5) break;
    }
    return chosen;
}

} // namespace gradnn::gpu::sliding
