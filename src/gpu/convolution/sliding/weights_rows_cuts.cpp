#include <algorithm>
#include <cmath>

#include "gpu/convolution/sliding/cuts.hpp"

namespace gradnn::gpu::sliding {

std::optional<choice<weights_specification>> staged_rows_choice(
        const problem_specification &p, const gpu_facts &gpu) {
    const int bytes = bytes_of(p.type);
    const int wide = sum_bytes_of(p.type) / 4;
    constexpr int shortest = 9;
    if (p.channels_last || bytes < 4 || p.multiplier > 1
            || p.column.taps < shortest || p.column.taps > most_taps
            || p.column.step > 1 || p.column.dilation != -1 || !p.row.is_flat()
            || !p.depth.is_flat())
        return {};
    weights_cut cut {};
    cut.vector = cut.ahead = cut.unroll = cut.strip = cut.lanes = 1;
    // An odd number of vectors: neighbours' are in different banks.
    cut.columns = bytes == 4 ? 12 : 10;
    constexpr int most_tiles = 192;
    const int tiles = ceil_div(p.column.written, cut.columns);
    const int of_piece = ceil_div(tiles, ceil_div(tiles, most_tiles));
    cut.piece = of_piece * cut.columns;
    const double rows = static_cast<double>(p.images) * p.depth.written
            * p.row.written * ceil_div(tiles, of_piece);
    cut.staged_rows = static_cast<int>(std::clamp(
            std::min(rows, most_tiles / double(of_piece)), 1.0, 8.0));
    cut.threads = ceil_div(of_piece * cut.staged_rows, 32) * 32;
    const int registers = (p.column.taps + cut.columns) * wide + 24;
    if (registers > 222) return {};
    cut.parts = cut.rounds = 1;
    const weights_geometry g = geometry_of(weights_specification {p, cut});
    if (!g.fits || g.shared_bytes > gpu.block_shared_bytes - 26000) return {};
    cut.blocks = std::clamp(
            std::min(gpu.registers / (cut.threads * ceil_div(registers, 8) * 8),
                    gpu.shared_bytes / (g.shared_bytes + 26000)),
            1, gpu.threads / cut.threads);
    const double held = static_cast<double>(gpu.multiprocessors) * cut.blocks;
    const int most_rounds = std::max(1, longest_chain / cut.columns);
    double least_cost = HUGE_VAL;
    weights_cut best = cut;
    for (int waves = 1; waves <= 8; ++waves) {
        const int wanted = std::clamp(
                static_cast<int>(held * waves / p.channels), 1, g.groups);
        cut.rounds = std::min(most_rounds, ceil_div(g.groups, wanted));
        cut.parts = ceil_div(g.groups, cut.rounds);
        const double turns
                = std::ceil(static_cast<double>(cut.parts) * p.channels / held);
        const double cost = turns * (cut.rounds + 1.5);
        if (cost >= least_cost) continue;
        least_cost = cost;
        best = cut;
    }
    const double copies = (1.0 + static_cast<double>(g.src_columns) / cut.piece)
            * 8 / std::min(g.src_loaded, g.dst_loaded);
    const double loads
            = (2 * cut.columns + p.column.taps) * bytes / 16.0 / cut.columns;
    const double instructions
            = p.column.taps * wide + copies + 1.2 * loads + 2.5;
    const double floor = 9.7 * bytes * 2;
    return choice<weights_specification> {
            std::max(instructions, 0.75 * floor) + 0.2 * instructions,
            {p, best}};
}

} // namespace gradnn::gpu::sliding
