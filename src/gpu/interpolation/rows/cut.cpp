#include "gpu/interpolation/rows/cut.hpp"

#include "gpu/device/rounding.hpp"

namespace gradnn::gpu::interpolation::rows {

int taps_that_hold(int64_t count) {
    for (const int taps : {1, 2, 3, 4, 6, 8, 12})
        if (count <= taps) return taps;
    return most_taps;
}

namespace {

/// For blocks of so many threads. Returns the bytes of diff_dst that the tiles of a
/// line read in all, 0 where a tile does not fit.
int64_t cut_lines(work_cut &cut, std::span<const int32_t> first, int taps,
        int outputs, int threads, int element_bytes, int64_t most_stage_bytes) {
    constexpr int64_t piece = 16;
    const int64_t most_outputs = int64_t {threads} * outputs;
    const bool dense
            = cut.dst_pitch == cut.dst_row && cut.src_pitch == cut.src_row;
    // What padded taps read beyond the last row is in the stage too.
    const auto stage_of = [&](int64_t elements) {
        return round_up(elements * element_bytes, piece) + 2 * piece;
    };
    const int64_t overhang = int64_t {taps} * cut.inner;
    cut.line_rows = 1;
    if (dense && 2 * int64_t {cut.src_row} <= most_outputs) {
        int64_t rows = std::min(most_outputs / cut.src_row, cut.rows);
        while (rows > 1
                && stage_of(rows * cut.dst_row + overhang) > most_stage_bytes)
            --rows;
        cut.line_rows = static_cast<int32_t>(rows);
    }
    cut.lines = ceil_div(cut.rows, int64_t {cut.line_rows});
    if (cut.line_rows > 1) {
        cut.tiles = 1;
        cut.tile_outputs = cut.line_rows * cut.src_row;
        cut.stage_bytes = static_cast<int32_t>(
                stage_of(int64_t {cut.line_rows} * cut.dst_row + overhang));
        return int64_t {cut.line_rows} * cut.dst_row * element_bytes;
    }
    // Tiles of even length, whole sectors of 16-bit elements.
    constexpr int64_t together = 16;
    const int64_t tiles = ceil_div(int64_t {cut.src_row}, most_outputs);
    const int64_t even
            = round_up(ceil_div(int64_t {cut.src_row}, tiles), together);
    cut.tile_outputs = static_cast<int32_t>(std::min(even, most_outputs));
    cut.tiles = static_cast<int32_t>(
            ceil_div(int64_t {cut.src_row}, int64_t {cut.tile_outputs}));
    int64_t longest = 0;
    int64_t all = 0;
    for (int64_t from = 0; from < cut.src_row; from += cut.tile_outputs) {
        const int64_t last
                = std::min<int64_t>(from + cut.tile_outputs, cut.src_row) - 1;
        const int64_t positions = first[static_cast<size_t>(last / cut.inner)]
                + taps - first[static_cast<size_t>(from / cut.inner)];
        longest = std::max(longest, positions * cut.inner);
        all += positions * cut.inner;
    }
    const int64_t bytes = stage_of(longest);
    if (bytes > most_stage_bytes) return 0;
    cut.stage_bytes = static_cast<int32_t>(bytes);
    return all * element_bytes;
}

} // namespace

tile_choice choose_tiles(const work_cut &problem,
        std::span<const int32_t> first, int taps, int sum_bytes,
        int element_bytes, int64_t most_stage_bytes) {
    const int outputs = outputs_of_thread(taps, sum_bytes);
    tile_choice best;
    double least = 0;
    for (const int threads : {64, 128, most_threads}) {
        work_cut cut = problem;
        const int64_t bytes = cut_lines(cut, first, taps, outputs, threads,
                element_bytes, most_stage_bytes);
        constexpr int64_t ends = 256; // of a tile, whatever its length
        if (bytes == 0
                || bytes > 2 * int64_t {element_bytes} * cut.line_rows
                                        * cut.dst_row
                                + ends * cut.tiles)
            continue;
        // Of a row: instructions of its lanes, as the machine code has them, and
        // for each byte as many as memory leaves time for.
        const double tap = element_bytes == 2 ? 3.0 : 2.0;
        const double of_lane = 90.0 + outputs * (13.0 + taps * tap);
        const double lanes = static_cast<double>(int64_t {cut.tiles} * threads);
        const double cost = (lanes * of_lane + 5.0 * static_cast<double>(bytes))
                / cut.line_rows;
        if (best.threads != 0 && cost >= least) continue;
        least = cost;
        best = {cut, threads};
    }
    return best;
}

int64_t cut_runs(work_cut &cut, int64_t resident) {
    // A block begins with the taps of its outputs, which take about as long as
    // so many lines.
    constexpr int64_t beginning = 4;
    int64_t best = 0;
    for (int64_t waves = 1; waves <= 4; ++waves) {
        const int64_t runs = std::clamp<int64_t>(
                waves * resident / cut.tiles, 1, cut.lines);
        const int64_t lines = ceil_div(cut.lines, runs);
        const int64_t blocks = ceil_div(cut.lines, lines) * cut.tiles;
        const int64_t time = ceil_div(blocks, resident) * (lines + beginning);
        if (best != 0 && time >= best) continue;
        best = time;
        cut.run_lines = lines;
    }
    return ceil_div(cut.lines, cut.run_lines) * cut.tiles;
}

} // namespace gradnn::gpu::interpolation::rows
