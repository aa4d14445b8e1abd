// Cuts of data for windows whose rows of taps, or whose taps, pass by (data_rows.cuh).
#include "gpu/convolution/sliding/cuts.hpp"

namespace gradnn::gpu::sliding {

namespace {

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

} // namespace

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
        const double loads
                = chunks * (1.0 * loaded / vector + chunk * e.wide / 4.0);
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
}

void add_passing_rows(data_estimator &e) {
    const problem_specification &p = e.p;
    const int m = multiples_at_once(p);
    if ((p.row.taps * p.depth.taps == 1 && m == p.multiplier
                && !e.tiles.empty())
            || p.row.taps > most_taps || p.depth.taps > most_taps)
        return;
    for (const int vector : e.channel_vectors(p.written))
        for (int columns = 1; columns <= std::min(e.width, 16); ++columns) {
            if (p.column.up > 1 && columns % p.column.up && columns < e.width)
                continue;
            const row_read read = e.reads(columns, m, e.sharers(vector));
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
                         of_weights
                    = 1.0 * p.column.taps * m * weights_pieces(p, vector),
                         products
                    = 1.0 * columns * vector * m * p.column.taps / p.column.up,
                         results = columns * vector;
            // Those of the rows and depths that a result meets, and of its multiples.
            const double times = 1.0 * p.row.taps * p.depth.taps
                    / (p.row.up * (p.depth.taps > 1 ? p.depth.up : 1))
                    * (p.multiplier / m);
            const int stored = vector_moved(
                    p, p.written, vector, p.column.written, columns);
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
                                            * e.weights_wavefronts(
                                                    vector, cut.lanes))
                    + results * e.bytes * 32 / 64.0
                    + (p.channels_last ? 0 : results / stored * 24);
            const int shared = e.weights_bytes(vector, cut.lanes);
            if (shared > e.gpu.block_shared_bytes) continue;
            cut.blocks = e.blocks_held(
                    cut.threads, static_cast<int>(registers), shared + 1024);
            const double warps = cut.blocks * cut.threads / 32.0;
            // Loads are waited for at once.
            const double waiting = 1.15 + std::max(0.0, 16 - warps) * 0.05;
            const double inside = results * e.used(columns);
            const double floor = 9.7 * e.bytes
                    * (1 + 1.0 * p.multiplier / p.group * e.read_share());
            e.tiles.push_back(
                    {beside_memory(waiting
                                     * overlapped(instructions / inside,
                                             4 * wavefronts / inside),
                             floor),
                            {p, cut}});
        }
}

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
        const int of_lane = e.weights_bytes(1, 1);
        if (of_lane > e.gpu.block_shared_bytes) continue;
        while (cut.lanes * of_lane > e.gpu.block_shared_bytes)
            cut.lanes = ceil_div(cut.lanes, 2);
        const double of_channel = 1.0 * p.images * p.depth.written
                * p.row.written * ceil_div(p.column.written, columns);
        cut.threads = static_cast<int>(
                std::clamp(std::ceil(of_channel * cut.lanes / 32) * 32, 64.0,
                        p.channels_last ? 256.0 : 128.0));
        cut.blocks = e.blocks_held(
                cut.threads, registers, cut.lanes * of_lane + 1024);
        if (data_geometry::of({p, cut}).fits)
            made.push_back({1.0 * (met + columns) / columns, {p, cut}});
    }
    return made;
}

} // namespace gradnn::gpu::sliding
