#include "gpu/convolution/sliding/cuts.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace gradnn::gpu::sliding {

namespace {

/// Wavefronts of a warp's stores of a row of results to shared memory.
double store_wavefronts(int vector, int columns, int bytes) {
    if (vector * bytes >= 4) {
        const int words = vector * bytes / 4;
        return static_cast<double>(columns) / vector * words
                * std::gcd(
                        std::max(1, columns / vector), std::max(1, 32 / words));
    }
    return columns * (columns % 2 ? 1.0 : std::gcd(columns / 2, 32));
}

} // namespace

void data_estimator::add_tile(int vector, const block_shape &block, int columns,
        int depths, staging staged) {
    const bool nxc = p.channels_last;
    const int m = p.multiplier;
    const int up = p.column.up, step = p.column.step;
    const bool one = columns >= width;
    const int span = (p.column.taps - 1) * column_gap;
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
    double load_wavefronts
            = std::max({1.0, nxc ? 0.0 : entered * bytes * 32 / 128,
                    loaded * bytes * 32 / 128.0});
    const double deep = (p.depth.taps + depths - 1) * 1.0;
    const double depth_slots = p.depth.up == 1
            ? deep + (depths - 1) * (p.depth.step - 1)
            : std::max(1.0, deep / p.depth.up);
    const int phases = walk.phases;
    const int results = depths * columns * vector * p.row.up;
    const bool in_shared = staged != staging::none;
    // Elements that ops behind the problem read; NCX is cut as without, by what was measured.
    const double others = in_shared ? 0.0 : results * epilogues_of(p);
    const double asked = nxc ? others : 0.0;
    int stored = nxc ? vector
                     : vector_along(bytes, p.alignment, p.column.written,
                             p.written, columns);
    if (in_shared && stored * bytes < 4) stored = 1;
    const double raw = depth_slots * phases * met * vector * m * bytes / 4
            + others / stored * std::max(1.0, stored * bytes / 4.0);
    const double half = bytes == 2 ? 1.0 : 0.6;
    const double registers
            = static_cast<double>(walk.open) * depths * columns * vector * wide
            + static_cast<double>(taps) * m * vector * wide
            + phases * met * vector * m * wide * half + 30
            + (p.depth.taps > 1 ? 4 : 0);
    const double products = static_cast<double>(depths) * columns * vector * m
            * taps / (up * (p.depth.taps > 1 ? p.depth.up : 1));
    double loads = phases * depth_slots * pieces * (nxc ? met : met / loaded)
            + asked / stored;
    double instructions = products * wide + loads * 1.5
            + asked * (bytes == 2 ? 3.5 : 2.0 * wide)
            + (bytes == 2 ? 1.0 : 0.3 * wide) * phases * depth_slots * met
                    * vector * m
            + results * (bytes == 2 ? 1.0 : 0.5)
            + static_cast<double>(results) / stored * (in_shared ? 1.2 : 1.0)
            + 24;
    if (staged == staging::all) {
        // A thread has one row, and loads its weights for it.
        if (p.row.written == 1) instructions += 3.0 * taps * m;
        loaded = vector_dividing(
                bytes, 16, p.column.read, one ? 0 : static_cast<int>(entered));
        loads = depth_slots * m * met / loaded;
        const int into = std::max(1, static_cast<int>(entered));
        load_wavefronts = store_wavefronts(loaded, into, bytes)
                / std::max(1, into / loaded);
    }
    double wavefronts = loads * load_wavefronts;
    if (in_shared)
        wavefronts
                += depths * p.row.up * store_wavefronts(stored, columns, bytes);
    else
        wavefronts += static_cast<double>(results) * bytes * 32 / 64;
    // Parts of sectors are written more than once.
    if (!nxc && !in_shared && (columns / stored > 1 || stored * bytes < 16))
        wavefronts += static_cast<double>(results) / stored * 24;

    const double new_bytes = entered * vector * m * bytes * depths * phases;
    // Rows of a group that is copied; a small copy costs as many instructions as a large
    // one.
    const bool may_copy = staged != staging::all
            && (others > 0 ? std::min(loaded, stored) : loaded) * bytes
                    >= (is_long() || instructions < 24 * loads ? 8 : 4);
    const int group = std::clamp(
            static_cast<int>(is_long() ? 320 / products : 400 / instructions),
            1, std::clamp(p.row.written / 24, 1, 8));
    rows_ahead of {gpu, block.threads, registers + (is_long() ? 10 : 0), raw,
            instructions, new_bytes, may_copy, group, 2048, 0.7};
    const int ahead = staged == staging::all ? 1 : of.best();
    of.bytes += asked * bytes / 4; // on their way for a part of a step
    for (const int rows : {1, ahead}) {
        if (of.held(rows) > (is_long() && vector > 1 ? 150 : most_registers))
            continue;
        // Copies are written to shared memory and read there.
        const double taken = of.copied(rows) ? loads : 0;
        const int unroll = of.copied(rows) ? group
                : rows > 1                 ? rows
                : instructions < 160       ? 2
                                           : 1;
        // Sums that a row adds one product to each move up by instructions.
        const double moves = is_long()
                ? 0.8 * walk.open * columns * vector * wide / unroll
                : 0.0;
        const double beside = moves
                + (of.copied(rows) ? 12.0 / group - (group >= 4 ? 12.0 : 0.0)
                                   : 0.0);
        const double by_issue
                = (instructions + taken + beside) / results / used(columns);
        const double by_shared = 4
                * (wavefronts + taken * 2 * std::max(1.0, loaded * bytes / 4.0))
                / results / used(columns);
        double cost = of.with_few_warps(
                overlapped(by_issue, by_shared), rows, is_long());
        // What memory takes, in instructions of a result.
        const double ratio = static_cast<double>(p.depth.read) * p.row.read
                * p.column.read
                / (static_cast<double>(p.depth.written) * p.row.written
                        * p.column.written);
        const double floor = 9.7 * bytes * (1 + m * ratio + asked / results);
        const double late = staged == staging::all ? 1.0 : of.late(rows);
        cost = std::max(cost, 0.75 * floor * late) + 0.2 * cost
                + (staged == staging::all ? 0.45 * cost - 0.25 * floor : 0.0);
        work_cut cut {};
        cut.vector = vector;
        cut.columns = columns;
        cut.depths = depths;
        cut.copies = of.copied(rows);
        cut.ahead = cut.copies ? ceil_div(rows, group) : rows;
        cut.unroll = unroll;
        cut.unchecked = unroll > 1 || instructions < 260;
        cut.lanes = nxc ? block.lanes : 1;
        cut.threads = block.threads;
        cut.blocks = of.blocks(rows);
        cut.staged = staged;
        tiles.push_back({cost, {p, cut}});
        if (ahead == 1) break;
    }
}

void data_estimator::add_tiles() {
    const bool staging_pays = !p.channels_last && written_is_dense();
    const bool all_may_be_staged
            = read_is_dense() && p.bulk_copies && p.alignment == 16;
    for (const int vector : channel_vectors(p.written)) {
        const block_shape block = block_of(vector, is_long() ? 160 : 288);
        const int most = staging_pays ? 28 : 16;
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
                if (staging_pays && walk.phases == 1) {
                    if (all_may_be_staged)
                        add_tile(vector, block, columns, depths, staging::all);
                    add_tile(vector, block, columns, depths, staging::results);
                }
                add_tile(vector, block, columns, depths, staging::none);
            }
        }
    }
    std::ranges::stable_sort(tiles, {}, &choice::cost);
}

} // namespace gradnn::gpu::sliding
