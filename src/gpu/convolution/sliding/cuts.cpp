#include "gpu/convolution/sliding/cuts.hpp"

namespace gradnn::gpu::sliding {

block_shape tile_estimator::block_of_lanes(
        int vectors, int vector_bytes, int most_threads, int most_lanes) const {
    if (!p.channels_last) return {1, 128};
    block_shape best {1, 128};
    double best_score = -1e9;
    for (int lanes = 1; lanes <= std::min(vectors, most_lanes); ++lanes) {
        const int blocks = ceil_div(vectors, lanes);
        const bool all = lanes == vectors;
        const bool sectors = lanes * vector_bytes % 32 == 0
                && vectors * vector_bytes % 32 == 0;
        for (int items = 1; items <= 64; ++items) {
            const int threads = ceil_div(lanes * items, 32) * 32;
            if (threads > most_threads) break;
            if (threads < 96 && items < 64) continue;
            // Threads at work, less what partial sectors, short runs and few or many
            // items cost.
            double score = 1.0 * lanes * items / threads * vectors
                    / (1.0 * blocks * lanes);
            if (!all && !sectors) score -= 32.0 / (lanes * vector_bytes);
            if (!all && lanes * vector_bytes < 128)
                score -= lanes * vector_bytes >= 64 ? 0.03 : 0.15;
            score -= items == 1 ? 0.08 : items < 4 ? 0.02 : 0.0;
            score -= threads > 160 ? 0.04 : 0.0;
            score += threads == 128 ? 0.01 : 0.0;
            score += std::min(lanes, 64) * 1e-4;
            if (score > best_score + 1e-9) {
                best_score = score;
                best = {lanes, threads};
            }
        }
    }
    return best;
}

int strip_of(int rows, double blocks, double held, double beside) {
    int best = rows;
    double least_cost = HUGE_VAL;
    constexpr int shortest = 3;
    for (int strips = 1; strips <= std::max(1, rows / shortest); ++strips) {
        const int strip = ceil_div(rows, strips);
        if (ceil_div(rows, strip) != strips) continue;
        const double waves = blocks * strips / held;
        const double cost = turns_of(waves, 5) * (strip + beside);
        if (cost < least_cost) {
            least_cost = cost;
            best = strip;
        }
    }
    return best;
}

double filling(const gpu_facts &gpu, const work_cut &cut, int grid) {
    constexpr double busy = 12; // warps
    const double of_block = cut.threads / 32.0,
                 each = 1.0 * grid / gpu.multiprocessors,
                 waves = each / cut.blocks;
    const double taken = waves <= 1
            ? std::max(busy, std::ceil(each) * of_block)
            : turns_of(waves, 5) * std::max(busy, cut.blocks * of_block);
    return taken / (each * of_block);
}

std::vector<int> tile_estimator::row_columns() const {
    std::vector<int> tried;
    for (const int columns :
            {width <= 32 ? width : ceil_div(width, ceil_div(width, 16)),
                    ceil_div(width, ceil_div(width, 14)),
                    ceil_div(width, ceil_div(width, 8)), 8, 7, 4, 2, 1})
        if (columns <= width && std::ranges::count(tried, columns) == 0)
            tried.push_back(columns);
    return tried;
}

std::vector<int> tile_estimator::channel_vectors(const pitches &of) const {
    if (!p.channels_last && !is_grouped(p)) return {1};
    std::vector<int> vectors;
    // Those of one group, in any number of parts that are loaded or stored at once.
    for (int vector = 8; vector >= 1; --vector)
        if (is_grouped(p) ? p.group % vector == 0
                          : p.channels % vector == 0
                                && vector_moved(p, of, vector, 0, 0) == vector)
            vectors.push_back(vector);
    return vectors;
}

bool is_unlike(const std::vector<choice> &chosen, const work_cut &cut) {
    const auto same = std::ranges::count_if(chosen, [&](const choice &other) {
        const work_cut &taken = other.specification.cut;
        return taken.vector == cut.vector && taken.depths == cut.depths
                && taken.staged == cut.staged
                && taken.row_by_row == cut.row_by_row
                && (taken.ahead > 1) == (cut.ahead > 1);
    });
    return same < (chosen.size() < 3 ? 1 : 2);
}

row_read tile_estimator::reads(
        int columns, int channels, double sharers) const {
    const int up = p.column.up, step = p.column.step;
    const int span = (p.column.taps - 1) * column_gap;
    const double entered = 1.0 * columns * step / up;
    double met = 1.0 * ((columns - 1) * step + 1 + span) / up;
    const bool one = columns >= width;
    const int loaded = vector_moved(p, p.read, channels, p.column.read,
            one ? 0 : static_cast<int>(entered));
    if (p.channels_last)
        return {met, entered, loaded, channels / loaded,
                std::max(1.0, loaded * bytes * 32 / 128.0 / sharers)};
    if (one) met = std::min<double>(met, p.column.read);
    return {met, entered, loaded, channels,
            std::max({1.0, entered * bytes * 32 / 128,
                    loaded * bytes * 32 / 128.0})};
}

void walk_estimate::may_copy_groups(int copy_bytes, bool few_pay, double rows) {
    may_copy = copy_bytes >= (few_pay || instructions < 24 * loads ? 8 : 4);
    group = std::clamp(
            static_cast<int>(rows), 1, std::clamp(e.p.row.written / 24, 1, 8));
}

int walk_estimate::blocks(int ahead) const {
    const gpu_facts &gpu = e.gpu;
    const double copies = copied(ahead)
            ? 4 * raw * (ahead + group) * block.threads + block_bytes
            : shared_bytes;
    return std::max(1,
            std::min({gpu.threads / block.threads,
                    e.blocks_of(block.threads,
                            std::clamp(static_cast<int>(held(ahead)), 32, 255)),
                    static_cast<int>(gpu.shared_bytes * share / copies)}));
}

int walk_estimate::best() const {
    int ahead = 1;
    for (const int more : {2, 4, 8}) {
        if (in_flight(ahead) >= (may_copy ? 24000 : 12000) || held(more) > 214
                || (!may_copy && more * instructions > 1600))
            break;
        if (in_flight(more) > 1.25 * in_flight(ahead)
                && (warps(more) >= 12 || warps(more) >= warps(ahead) * 0.6))
            ahead = more;
    }
    return ahead;
}

double walk_estimate::cost(int ahead, double beside, bool staged) const {
    // Copies are written to shared memory and read there.
    const double taken = copied(ahead) ? loads : 0;
    double cost = overlapped((instructions + taken + beside) / results,
            4 * (wavefronts + taken * 2 * std::max(1.0, loaded_bytes / 4))
                    / results);
    cost *= 1 + std::max(0.0, 12 - warps(ahead)) * 0.05;
    if (is_long) cost *= 1 + std::max(0.0, 16 - warps(ahead)) * 0.04;
    // Loads to registers are waited for together.
    const double together = copied(ahead)
            ? 1.0
            : 1 + 0.1 * std::clamp(2 - in_flight(1) / 12000, 0.0, 1.0);
    return beside_memory(cost, floor, staged,
            std::clamp(9000 / in_flight(ahead), 1.0, 2.5) * together);
}

work_cut walk_estimate::cut(
        int vector, int columns, int ahead, int unroll) const {
    work_cut cut {};
    cut.vector = vector;
    cut.columns = columns;
    cut.copies = copied(ahead);
    cut.ahead = cut.copies ? ceil_div(ahead, unroll) : ahead;
    cut.unroll = unroll;
    cut.unchecked = unroll > 1 || instructions < 260;
    cut.lanes = block.lanes;
    cut.threads = block.threads;
    cut.blocks = blocks(ahead);
    return cut;
}

} // namespace gradnn::gpu::sliding
