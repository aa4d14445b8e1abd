#include <set>

#include "gpu/convolution/sliding/cuts.hpp"

namespace gradnn::gpu::sliding {

namespace {

/// Shared memory that a block's sums have beside its rows.
constexpr int sums_bytes = 26000;

struct estimator : tile_estimator {
    int kept() const {
        return p.row.step == 1
                ? p.row.taps
                : (p.row.taps - 1) * -p.row.dilation / p.row.step + 1;
    }
    /// A window of one row whose last rows of dst move up a sum each.
    bool is_long() const { return kept() > 8 && taps == p.row.taps; }
    void add_tiles();
    void add_tile(int vector, int m, const block_shape &block, int columns);
    /// Channels of dst of a thread to try.
    std::vector<int> multiples_tried() const {
        std::vector<int> tried {p.multiplier};
        for (int m = p.multiplier - 1; m >= 1 && is_grouped(p); --m)
            if (p.multiplier % m == 0) tried.push_back(m);
        return tried;
    }
    /// Vectors of channels of all threads that share no sum.
    int lanes_of(const work_cut &cut) const {
        return p.channels / cut.vector * multiple_blocks(p, cut);
    }
};

void estimator::add_tile(
        int vector, int m, const block_shape &block, int columns) {
    const bool nxc = p.channels_last, grouped = is_grouped(p);
    // Threads that read the same of src, and of dst.
    const double of_src = 1.0 * p.multiplier / m,
                 sharing = grouped ? sharers(vector) : 1;
    const row_read src = reads(columns, vector, of_src);
    const int phases = std::min(p.row.step, p.row.taps);
    const double of_row = phases * src.met * vector;
    const double of_dst = 1.0 * columns * (grouped ? 1 : vector) * m;
    const double products = 1.0 * columns * vector * m * taps;
    constexpr double most_products = 2500;
    if (grouped && products * wide > most_products) return;
    const int dst_loaded = nxc
            ? vector_moved(p, p.written, grouped ? m : vector * m, 0, 0)
            : src.loaded;
    walk_estimate of {*this, block, sums_bytes, 0.9, is_long()};
    of.raw = (of_row * p.depth.taps + of_dst) * bytes / 4;
    of.registers = registers_of(kept() * of_dst, taps * m * vector, of_row)
            + (grouped ? 8 : 0);
    of.loads = of_row / src.loaded * p.depth.taps + of_dst / dst_loaded;
    of.instructions = products * wide
            + loading(of.loads, of_row * p.depth.taps + of_dst) + 26
            + (kept() - 1) * of_dst * wide
                    * (kept() > 4 && !is_long() ? 0.5 : 0.0);
    of.bytes = grouped
            ? columns * bytes
                    * (p.column.step * phases * vector / of_src + m / sharing)
            : 1.0 * columns * (p.column.step * phases + m) * vector * bytes;
    of.wavefronts = of.loads * src.wavefronts;
    of.loaded_bytes = src.loaded * bytes;
    of.results = columns * vector / of_src * used(columns);
    of.floor = 9.7 * bytes * (1.0 * p.multiplier / p.group + read_share());
    of.may_copy_groups(std::min(src.loaded, dst_loaded) * bytes, false,
            is_long() ? 500 / (products * wide) : 400 / of.instructions);
    // Copies of 16 bytes pass the first cache by.
    of.may_copy &= of_src * sharing <= 1;
    for (const int rows : std::set {1, of.best()}) {
        const double all = of.held(rows);
        if (all > most_registers) continue;
        const double moves = is_long() ? (kept() - 1) * of_dst * wide
                        / (of.copied(rows) ? of.group : 2)
                                       : 0;
        const double groups = of.copied(rows) ? 14.0 / of.group : 0;
        // As many steps as rows of dst are kept: none of these moves then.
        const int whole = ceil_div(kept(), rows) * rows;
        int unroll = std::max(2, rows);
        if (kept() <= 4)
            unroll = all * 1.15 + 6 < 1.0 * gpu.registers
                                    / (block.threads * of.blocks(rows))
                    ? whole
                    : rows;
        else if (kept() > 8 && of.instructions * kept() < 3600)
            unroll = whole;
        unroll = of.copied(rows) ? kept() <= 4 ? kept() : of.group
                                 : ceil_div(unroll, rows) * rows;
        if (!grouped || of.copied(rows)) {
            work_cut cut = of.cut(vector, columns, rows, unroll);
            if (grouped) cut.multiples = m;
            tiles.push_back({of.cost(rows, moves + groups), {p, cut}});
            continue;
        }
        // Rows that move take instructions, bodies without moves registers.
        for (const int steps : {rows, whole}) {
            constexpr double read_in_time = 2500; // of machine code
            if (steps > rows
                    && (kept() == 1 || steps * of.instructions > read_in_time))
                continue;
            work_cut cut = of.cut(vector, columns, rows, steps);
            cut.multiples = m;
            if (steps == whole)
                cut.blocks = std::max(1,
                        std::min(cut.blocks,
                                blocks_of(block.threads,
                                        static_cast<int>(all * 1.08 + 4))));
            const double moving
                    = steps % kept() == 0 ? 0 : (kept() - 1) * of_dst * wide;
            tiles.push_back({of.cost(rows, moving), {p, cut}});
        }
    }
}

void estimator::add_tiles() {
    for (const int vector : channel_vectors(p.read)) {
        const int most_threads = is_long() ? 160 : 288;
        for (const int multiples : multiples_tried()) {
            const int shares = p.multiplier / multiples;
            const block_shape block = shares == 1
                    ? block_of(vector, most_threads)
                    : block_of_lanes(p.channels / vector * shares,
                            std::min(vector, multiples) * bytes, most_threads,
                            256);
            for (int columns = 1; columns <= std::min(width, 16); ++columns)
                add_tile(vector, multiples, block, columns);
        }
    }
    std::ranges::stable_sort(tiles, {}, &choice::cost);
}

/// NCX: a block has channels side by side whose planes, of so many threads, cover it best.
void share_block(const estimator &e, work_cut &cut, double slots) {
    cut.lanes = cut.run = 1;
    const int lanes = e.lanes_of(cut);
    if (slots > 64 || lanes == 1 || e.p.images == 1) return;
    cut.run = static_cast<int>(slots);
    double best_score = -1;
    for (int channels = 1; channels <= cut.threads / cut.run; ++channels) {
        const int wide = cut.run * channels;
        const double used
                = 1.0 * (cut.threads - cut.threads % wide) / cut.threads;
        const double whole
                = 1.0 * lanes / (ceil_div(lanes, channels) * channels);
        const double score = used * whole + 0.15 * std::min(1.0, wide / 32.0)
                + 0.03 * std::min(1.0, wide / 128.0);
        if (score > best_score) {
            best_score = score;
            cut.lanes = channels;
        }
    }
}

/// A tile with its strips, parts and rounds, or nothing.
std::optional<choice> finished(const estimator &e, choice tile) {
    const problem_specification &p = e.p;
    work_cut cut = tile.specification.cut;
    cut.strip = 1 << 20;
    const weights_geometry all = weights_geometry::of({p, cut});
    if (!all.fits) return {};
    const int steps = all.end_step - all.first_step;
    const double of_strip
            = 1.0 * all.tiles * p.depth.written * all.classes * p.images;
    const double held = 1.0 * e.gpu.multiprocessors * cut.blocks;
    // Chains are short enough with a part for each round of short strips.
    work_cut &best = tile.specification.cut;
    best.strip = std::max(1, std::min(steps, longest_chain / cut.columns));
    best.parts = best.rounds = 1;
    best.parts = weights_geometry::of({p, best}).groups;
    // A block's sums, in steps.
    const double of_sums
            = is_grouped(p) ? 4 + 6.0 / cut.columns : 4 + e.taps / 6.0;
    double least_cost = HUGE_VAL;
    for (int strips = 1; strips <= std::max(1, steps / 3); ++strips) {
        cut.strip = std::max(1, ceil_div(steps, strips));
        if (ceil_div(std::max(steps, 1), cut.strip) != strips) continue;
        if (!p.channels_last) share_block(e, cut, of_strip / p.images * strips);
        const weights_geometry g = weights_geometry::of({p, cut});
        if (!g.fits) continue;
        const double blocks = g.channel_blocks * g.tap_blocks;
        const double idle = 1.0 * g.of_block * g.groups
                / std::max(1.0, of_strip * strips);
        const double spread = p.channels_last
                ? 1.0
                : 1.0 * cut.threads * g.channel_blocks
                        / (1.0 * g.of_block * e.lanes_of(cut));
        for (const int waves : {1, 2, 3, 4, 6, 8}) {
            const int most_parts = std::min<int>(g.groups,
                    std::max(1, static_cast<int>(held * waves / blocks)));
            cut.rounds = ceil_div(g.groups, most_parts);
            cut.parts = ceil_div(g.groups, cut.rounds);
            if (1.0 * cut.rounds * cut.strip * cut.columns > longest_chain)
                continue;
            const double cost = turns_of(cut.parts * blocks / held, 3, 0.4)
                    * (cut.rounds * (cut.strip + (g.kept - 1) * 0.4 + 2)
                            + of_sums)
                    * idle * spread;
            if (cost >= least_cost * (waves > 1 ? 0.97 : 1.0)) continue;
            least_cost = cost;
            best = cut;
        }
    }
    const weights_geometry g = weights_geometry::of(tile.specification);
    if (!g.fits || g.shared_bytes > e.gpu.block_shared_bytes - sums_bytes)
        return {};
    if (is_grouped(p)) {
        const double of_thread
                = best.rounds * (best.strip + (g.kept - 1) * 0.4 + 2) + of_sums;
        tile.cost *= filling(e.gpu, best, g.grid) * of_thread * g.grid
                * best.threads
                / (of_strip * std::max(steps, 1) * e.lanes_of(best));
    }
    return tile;
}

/// Large windows: a block has one row of their taps.
std::vector<choice> tiles_of_rows(const estimator &e) {
    const problem_specification &p = e.p;
    std::vector<choice> tiles;
    if (p.row.step != 1 || p.depth.taps > 1 || p.row.taps == 1) return tiles;
    for (const int columns : e.row_columns()) {
        const int met = e.met_by(columns);
        // Where a row has one tap, rows of several.
        constexpr int most_rows = 32;
        const int row_taps = p.column.taps > 1
                ? 1
                : ceil_div(p.row.taps, ceil_div(p.row.taps, most_rows));
        for (const int multiples : e.multiples_tried()) {
            const int registers
                    = (columns * multiples * row_taps + met) * e.wide
                    + met * e.bytes / 8 + 40
                    + p.column.taps * row_taps * multiples * e.wide;
            if (registers > 230) continue;
            work_cut cut {};
            cut.columns = columns;
            cut.row_taps = row_taps;
            if (is_grouped(p)) cut.multiples = multiples;
            if (row_taps > 1) cut.unroll = 4;
            cut.unchecked = row_taps > 1;
            const block_shape block = e.block_of(cut.vector);
            cut.lanes = block.lanes;
            cut.threads = block.threads;
            cut.blocks = std::clamp(e.blocks_of(cut.threads, registers), 1, 8);
            const int of_dst = columns * (is_grouped(p) ? multiples : 1);
            tiles.push_back({1.0 * (met + of_dst) / of_dst, {p, cut}});
        }
    }
    return tiles;
}

/// Long windows of one row of NCX, by rows in shared memory.
std::optional<choice> staged_rows_choice(const tile_estimator &e) {
    const problem_specification &p = e.p;
    constexpr int shortest = 9;
    if (p.channels_last || e.bytes < 4 || p.group * p.multiplier > 1
            || p.column.taps < shortest || p.column.taps > most_taps
            || p.column.step > 1 || p.column.dilation != -1 || !p.row.is_flat()
            || !p.depth.is_flat())
        return {};
    work_cut cut {};
    // An odd number of vectors: neighbours' are in different banks.
    cut.columns = e.bytes == 4 ? 12 : 10;
    constexpr int most_tiles = 192;
    const int tiles = ceil_div(p.column.written, cut.columns);
    const int of_piece = ceil_div(tiles, ceil_div(tiles, most_tiles));
    cut.piece = of_piece * cut.columns;
    const double rows = 1.0 * p.images * p.depth.written * p.row.written
            * ceil_div(tiles, of_piece);
    cut.staged_rows = static_cast<int>(std::clamp(
            std::min(rows, most_tiles / double(of_piece)), 1.0, 8.0));
    cut.threads = ceil_div(of_piece * cut.staged_rows, 32) * 32;
    const int registers = (p.column.taps + cut.columns) * e.wide + 24;
    if (registers > most_registers) return {};
    cut.parts = cut.rounds = 1;
    const weights_geometry g = weights_geometry::of({p, cut});
    if (!g.fits || g.shared_bytes > e.gpu.block_shared_bytes - sums_bytes)
        return {};
    cut.blocks = e.blocks_held(
            cut.threads, registers, g.shared_bytes + sums_bytes);
    const double held = 1.0 * e.gpu.multiprocessors * cut.blocks;
    const int most_rounds = std::max(1, longest_chain / cut.columns);
    double least_cost = HUGE_VAL;
    work_cut best = cut;
    for (int waves = 1; waves <= 8; ++waves) {
        const int wanted = std::clamp(
                static_cast<int>(held * waves / p.channels), 1, g.groups);
        cut.rounds = std::min(most_rounds, ceil_div(g.groups, wanted));
        cut.parts = ceil_div(g.groups, cut.rounds);
        const double turns = std::ceil(1.0 * cut.parts * p.channels / held);
        const double cost = turns * (cut.rounds + 1.5);
        if (cost >= least_cost) continue;
        least_cost = cost;
        best = cut;
    }
    const double copies = (1.0 + 1.0 * g.src_columns / cut.piece) * 8
            / std::min(g.src.loaded, g.dst.loaded);
    const double loads
            = (2 * cut.columns + p.column.taps) * e.bytes / 16.0 / cut.columns;
    const double instructions
            = p.column.taps * e.wide + copies + 1.2 * loads + 2.5;
    const double floor = 9.7 * e.bytes * 2;
    return choice {beside_memory(instructions, floor), {p, best}};
}

} // namespace

std::vector<choice> weights_choices(
        const problem_specification &p, const gpu_facts &gpu) {
    estimator e {{p, gpu}};
    e.add_tiles();
    if (e.tiles.empty()) e.tiles = tiles_of_rows(e);
    std::vector<choice> chosen;
    const auto staged = staged_rows_choice(e);
    if (staged && (e.tiles.empty() || staged->cost < e.tiles[0].cost))
        chosen.push_back(*staged);
    if (is_grouped(p)) {
        // What a tile costs follows from how tiles fill the device, too.
        constexpr size_t most_tried = 60;
        e.tiles = best_finished(e, most_tried, finished);
    }
    for (const choice &each : e.tiles) {
        if (chosen.size() >= 4 || each.cost > 1.9 * e.tiles[0].cost) break;
        if (!is_unlike(chosen, each.specification.cut)) continue;
        if (is_grouped(p))
            chosen.push_back(each);
        else if (const auto tile = finished(e, each))
            chosen.push_back(*tile);
    }
    return chosen;
}

} // namespace gradnn::gpu::sliding
