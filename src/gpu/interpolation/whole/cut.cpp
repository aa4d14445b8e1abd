#include "gpu/interpolation/whole/cut.hpp"

#include <algorithm>

#include "gpu/device/banks.hpp"

namespace gradnn::gpu::interpolation::whole {

namespace {

using detail::axis_map;
using axis_maps = std::array<axis_map, 3>;

// The estimate's own constants, of this kernel on an H200 (README.md). What a
// multiprocessor does in a cycle: bytes that memory moves, instructions that
// its warps issue, with enough of them and each alone; and cycles from a load to its
// use, and of a pass beside its instructions.
constexpr double bytes_a_cycle = 16.0;
constexpr double issues_a_cycle = 3.2;
constexpr double issues_of_a_warp = 0.13;
constexpr double latency = 900.0;
constexpr double pass_latency = 120.0;

constexpr int64_t piece_bytes = 16;

int64_t room_for(int64_t taps) {
    const int64_t multiple
            = taps > weights_at_once ? 2 * weights_at_once : weights_at_once;
    return round_up(std::max<int64_t>(taps, 1), multiple);
}

/// The most elements, up to 16 bytes of sums, that divide `inner`. Else three in shared
/// memory, where they lie in banks of their own; in global memory threads would write
/// every third element.
int32_t width_of(int64_t inner, int64_t sum_bytes, bool last) {
    const int width = widest_vector(sum_bytes, inner);
    constexpr int odd = 3;
    return width == 1 && inner >= odd && !last ? odd : width;
}

/// Instructions of a thread for a cell.
double cell_cost(const axis_pass &pass, bool last) {
    const auto width = static_cast<double>(pass.width);
    const double taps = pass.most_taps;
    const double stored = last ? 3.0 + 0.5 * width : 1.0;
    // Innermost positions keep their weights in registers.
    if (pass.inner == 1) return 6.0 + stored + 3.0 * taps;
    return 24.0 + stored + (4.5 + 1.5 * width) * taps;
}

/// Cycles that shared memory takes for a tap of a warp's cells: more where its threads
/// read other words of the same bank.
int turns_of_a_tap(
        const axis_pass &pass, const axis_map &map, int64_t element_bytes) {
    constexpr int warp = 32;
    const int64_t cells = ceil_div(int64_t {pass.inner}, int64_t {pass.width});
    const bool threes = pass.width == 3; // loaded one by one
    return (threes ? 3 : 1)
            * shared_turns(warp, (threes ? 1 : pass.width) * element_bytes,
                    [&](int64_t cell) {
                        const int64_t row = cell / cells;
                        const int64_t line = row / pass.taken;
                        const auto j = static_cast<size_t>(row % pass.taken);
                        return ((line * pass.given + map.first(j)) * pass.inner
                                       + cell % cells * pass.width)
                                * element_bytes;
                    });
}

/// A pass and what it costs.
struct planned_pass {
    axis_pass pass;
    double instructions = 0; ///< of a thread for a cell
    double turns = 0; ///< cycles of shared memory for a warp's cells

    /// Of a multiprocessor, for a warp's cells.
    double cycles() const {
        return std::max(instructions / issues_a_cycle, turns);
    }
};

/// The passes in the order `axes`.
std::vector<planned_pass> passes_of(const search_facts &facts,
        const axis_maps &maps, const std::vector<size_t> &axes) {
    std::array<int64_t, 3> sizes {};
    for (size_t axis = 0; axis < 3; ++axis)
        sizes[axis] = maps[axis].dst;
    std::vector<planned_pass> passes;
    for (const size_t axis : axes) {
        const bool last = axis == axes.back();
        planned_pass planned;
        axis_pass &pass = planned.pass;
        int64_t outer = 1;
        int64_t inner = facts.channels;
        for (size_t other = 0; other < 3; ++other)
            (other < axis ? outer : inner) *= other == axis ? 1 : sizes[other];
        pass.outer = static_cast<int32_t>(outer);
        pass.given = static_cast<int32_t>(sizes[axis]);
        pass.taken = static_cast<int32_t>(maps[axis].src);
        pass.inner = static_cast<int32_t>(inner);
        pass.width = width_of(inner, facts.sum_bytes, last);
        pass.most_taps = static_cast<int32_t>(maps[axis].max_count);
        pass.cells = exact_divider(ceil_div(inner, int64_t {pass.width}));
        pass.positions = exact_divider(pass.taken);
        sizes[axis] = maps[axis].src;
        planned.instructions = cell_cost(pass, last);
        planned.turns = pass.most_taps
                * turns_of_a_tap(pass, maps[axis],
                        passes.empty() ? facts.element_bytes : facts.sum_bytes);
        passes.push_back(planned);
    }
    return passes;
}

int64_t cells_of(const axis_pass &pass) {
    return int64_t {pass.outer} * pass.taken * pass.cells.by;
}
int64_t results_of(const axis_pass &pass) {
    return int64_t {pass.outer} * pass.taken * pass.inner;
}

/// The order of axes that takes the fewest cycles.
std::vector<size_t> order_of(const search_facts &facts, const axis_maps &maps) {
    std::vector<size_t> axes;
    for (size_t axis = 0; axis < 3; ++axis)
        if (!maps[axis].identity) axes.push_back(axis);
    std::vector<size_t> best;
    double least = 0;
    do {
        double cost = 0;
        for (const planned_pass &planned : passes_of(facts, maps, axes))
            cost += static_cast<double>(cells_of(planned.pass))
                    * planned.cycles();
        if (best.empty() || cost < least) {
            best = axes;
            least = cost;
        }
    } while (std::next_permutation(axes.begin(), axes.end()));
    return best;
}

class chunk_search {
public:
    chunk_search(const search_facts &facts, const axis_maps &maps)
        : facts_(facts) {
        const auto axes = order_of(facts, maps);
        passes_ = passes_of(facts, maps, axes);
        work_shape &shape = tried_.shape;
        shape.passes = static_cast<int32_t>(passes_.size());
        for (size_t i = 0; i < axes.size(); ++i) {
            shape.pass[i] = passes_[i].pass;
            add_tables(shape.pass[i], maps[axes[i]]);
        }
        shape.position_count = static_cast<int32_t>(tried_.positions.size());
        shape.weight_count = static_cast<int32_t>(tried_.weights.size());
        shape.groups = facts.groups;
        shape.dst_elements = static_cast<int32_t>(
                maps[0].dst * maps[1].dst * maps[2].dst * facts.channels);
        shape.src_elements = static_cast<int32_t>(
                maps[0].src * maps[1].src * maps[2].src * facts.channels);
        for (int64_t count = 1; count <= facts.groups;
                count += std::max<int64_t>(1, count / 8)) {
            shape.chunk_groups = static_cast<int32_t>(count);
            place_shared();
            if (tried_.shared_bytes > facts.shared_bytes) break;
            const int64_t chunks = ceil_div(facts.groups, count);
            if (chunks > int64_t {1} << 29) continue;
            shape.chunks = static_cast<int32_t>(chunks);
            for (int threads = 64; threads <= most_threads; threads += 32)
                keep_if_best(threads);
        }
    }

    work_cut best() {
        best_.positions = std::move(tried_.positions);
        best_.weights = std::move(tried_.weights);
        return std::move(best_);
    }

private:
    void add_tables(axis_pass &pass, const axis_map &map) {
        pass.positions_at = static_cast<int32_t>(tried_.positions.size());
        for (int64_t j = 0; j < map.src; ++j) {
            const auto at = static_cast<size_t>(j);
            position_taps taps;
            taps.start = static_cast<int32_t>(map.first(at) * pass.inner);
            taps.count = static_cast<int32_t>(map.count(at));
            taps.weights = static_cast<int32_t>(tried_.weights.size());
            tried_.positions.push_back(taps);
            for (int64_t k = 0; k < map.count(at); ++k)
                tried_.weights.push_back(map.weight(map.offset(at) + k));
            tried_.weights.resize(static_cast<size_t>(
                    taps.weights + room_for(map.max_count)));
        }
    }

    void place_shared() {
        work_shape &shape = tried_.shape;
        const int64_t groups = shape.chunk_groups;
        int64_t at = 0;
        const auto place = [&](int64_t count, int64_t bytes) {
            const int64_t begin = at;
            at = round_up(at + count * bytes, piece_bytes);
            return static_cast<int32_t>(std::min<int64_t>(begin, INT32_MAX));
        };
        // What lies before the chunk in its first piece, and after it in its last.
        place(groups * shape.dst_elements
                        + 2 * piece_bytes / facts_.element_bytes,
                facts_.element_bytes);
        // The last cell of three reads up to two elements beyond the results.
        constexpr int64_t beyond = 2;
        shape.first_at = place(shape.passes > 1
                        ? groups * results_of(shape.pass[0]) + beyond
                        : 0,
                facts_.sum_bytes);
        shape.second_at = place(
                shape.passes > 2 ? groups * results_of(shape.pass[1]) : 0,
                facts_.sum_bytes);
        shape.weights_at = place(shape.weight_count, facts_.sum_bytes);
        shape.positions_at = place(shape.position_count,
                static_cast<int64_t>(sizeof(position_taps)));
        tried_.shared_bytes = at;
    }

    void keep_if_best(int threads) {
        const work_shape &shape = tried_.shape;
        const auto number
                = [](int64_t value) { return static_cast<double>(value); };
        const double warps = threads / 32.0;
        const int64_t elements
                = int64_t {shape.chunk_groups} * shape.dst_elements;
        const int64_t results
                = int64_t {shape.chunk_groups} * shape.src_elements;
        const int64_t piece = piece_bytes / facts_.element_bytes;
        double instructions
                = 60.0 + 5.0 * number(ceil_div(elements, piece * threads));
        double waits = 0; // cycles of shared memory, for each warp
        for (const planned_pass &planned : passes_) {
            const axis_pass &pass = planned.pass;
            int64_t turns = 0;
            if (pass.inner == 1) {
                const int64_t lanes = std::min<int64_t>(pass.taken, threads);
                turns = ceil_div(int64_t {pass.taken}, lanes)
                        * ceil_div(int64_t {pass.outer} * shape.chunk_groups,
                                threads / lanes);
                instructions += 30.0;
            } else {
                turns = ceil_div(
                        cells_of(pass) * shape.chunk_groups, int64_t {threads});
            }
            instructions += 20.0 + number(turns) * planned.instructions;
            waits += number(turns) * planned.turns;
        }
        const multiprocessor &sm = facts_.sm;
        const int64_t resident = std::max<int64_t>(1,
                sm.blocks_held(threads, sm.registers_for(resident_threads),
                        tried_.shared_bytes));
        const int64_t held = std::min(resident,
                ceil_div(int64_t {shape.chunks}, facts_.multiprocessors));
        const double at_once = number(held);
        const double rate
                = std::min(issues_a_cycle, issues_of_a_warp * warps * at_once);
        const double computing
                = at_once * warps * std::max(instructions / rate, waits);
        const double moving = at_once
                * number((elements + results) * facts_.element_bytes)
                / bytes_a_cycle;
        // Of a chunk alone: its copy, then its passes.
        const double chain = latency + pass_latency * shape.passes
                + instructions / issues_of_a_warp;
        const double busy = std::max(computing, moving)
                + 0.3 * std::min(computing, moving);
        const double waves = number(shape.chunks)
                / (at_once * number(facts_.multiprocessors));
        // The tables of a block.
        const double start = 1500.0
                + number(shape.weight_count + shape.position_count) / warps;
        const double cycles
                = start + std::max(1.0, waves) * std::max(busy, chain);
        if (best_.threads != 0 && cycles >= best_.cycles) return;
        best_.shape = tried_.shape;
        best_.shared_bytes = tried_.shared_bytes;
        best_.threads = threads;
        best_.cycles = cycles;
        best_.blocks = std::min<int64_t>(
                shape.chunks, resident * facts_.multiprocessors);
    }

    const search_facts &facts_;
    std::vector<planned_pass> passes_;
    work_cut tried_;
    work_cut best_;
};

} // namespace

work_cut cut_problem(const search_facts &facts, const axis_maps &maps) {
    // Elements are counted by 32 bits, with room for two tensors.
    constexpr int64_t most = int64_t {1} << 29;
    int64_t given = facts.channels;
    int64_t taken = facts.channels;
    for (const axis_map &map : maps) {
        given *= map.dst;
        taken *= map.src;
        if (given > most || taken > most) return {};
    }
    // One group and the tables of all axes, before anything is made of them.
    int64_t least = given * facts.element_bytes;
    for (const axis_map &map : maps)
        if (!map.identity)
            least += map.src
                    * (static_cast<int64_t>(sizeof(position_taps))
                            + room_for(map.max_count) * facts.sum_bytes);
    if (least > facts.shared_bytes) return {};
    return chunk_search(facts, maps).best();
}

} // namespace gradnn::gpu::interpolation::whole
