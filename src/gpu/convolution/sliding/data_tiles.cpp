#include "gpu/convolution/sliding/cuts.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

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
    const int stored = nxc
            ? vector_of_channels(bytes, p.alignment, vector, p.written)
            : vector_along(
                    bytes, p.alignment, p.column.written, p.written, columns);
    const double read_elements = depth_slots * phases * read.met * met;
    const double products = 1.0 * depths * columns * vector * m * taps
            / (p.column.up * (p.depth.taps > 1 ? p.depth.up : 1));
    // As many instructions as are read in time, and half as many as the largest.
    constexpr double most_products = 4000, read_in_time = 2000;
    if (is_grouped(p) && products * wide > most_products) return;
    constexpr int most_loads = 1000; // of weights
    if (shared_weights && taps * m * weights_pieces(p, vector) > most_loads)
        return;
    const double weights = shared_weights
            ? shared_weights_of(p, vector, block.lanes) * sum_bytes_of(p.type)
            : 0.0;
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
        const int at_once = weights_at_once(p, vector);
        const double loads = 1.0 * taps * m * weights_pieces(p, vector);
        of.instructions += loads;
        of.wavefronts += loads
                * std::max(
                        1.0, std::min(block.lanes, 32) * at_once * wide / 32.0);
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
    const auto add = [&](int vector, const block_shape &block, int columns,
                             int depths, bool shared_weights) {
        if (staging_pays && walk.phases == 1) {
            if (all_may_be_staged)
                add_tile(vector, block, columns, depths, staging::all,
                        shared_weights);
            add_tile(vector, block, columns, depths, staging::results,
                    shared_weights);
        }
        add_tile(vector, block, columns, depths, staging::none, shared_weights);
    };
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
                add(vector, block, columns, depths, false);
                if (is_grouped(p)) add(vector, narrow, columns, depths, true);
            }
        }
    }
    std::ranges::stable_sort(tiles, {}, &choice::cost);
}

} // namespace gradnn::gpu::sliding
