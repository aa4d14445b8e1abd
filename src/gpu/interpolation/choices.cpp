#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "gpu/interpolation/cuts.hpp"

namespace gradnn::gpu::resample {

namespace {

/// Of a multiprocessor, fitted to times (README.md): what a form of kernel issues in a cycle of a
/// scheduler with many warps, how many warps are half of many, how much longer memory takes where
/// few blocks at a time read at many places, what part of what is read again it reads, what of a
/// turn the last blocks take, cycles of a wavefront, of a sector that is written in part, of
/// waiting for memory and of a thread's path, what a row ahead adds to what a loop issues, and how
/// much longer memory takes for rows of less than 64 bytes.
struct form_costs {
    double issued, few_warps, places, near_blocks, again, last, wavefront,
            sector, latency, path, ahead, short_rows;
};
constexpr form_costs of_threads {
        1.3, 7.4, 0.66, 0.15, 0, 0.18, 0.53, 3, 50, 0.38, 0.19, 0.3};
constexpr form_costs of_windows {
        0.75, 7.4, 0.22, 0.24, 0.6, 0.115, 0.79, 1, 315, 0.8, 0.06, 0.3};
constexpr form_costs of_tiles {
        1.9, 18, 0.54, 0.03, 0.1, 0.18, 0.53, 3, 0, 0.67, 0, 0};
constexpr form_costs of_lines {
        2, 12, 0.78, 0.26, 0.11, 0.24, 0.72, 1.2, 450, 1.13, 0, 0.54};
constexpr double bytes_of_cycle = 19;
/// Cycles of a block before its first tile (tables), and before its first line.
constexpr double before_tiles = 1200, before_lines = 660;
/// How much longer single elements at places of their own take, but for lines (H200, 72 problems).
constexpr double longer = 1.1;
/// Of a warp that writes 16 bytes a thread.
constexpr double whole_sectors = 16 * 0.5;

/// How often what is read along the walk is, by strips that share rows.
double read_again_of_strips(const problem_specification &p, int strip) {
    return steps_of(p, strip) * p.walk.written / strip / p.walk.read;
}

/// Where the walk comes first.
work_estimate share_of_lines(const problem_specification &p, const cut &c,
        const geometry &g, const work_estimate &rest, const gpu_facts &gpu) {
    const int bytes = bytes_of(p.type);
    const double steps = steps_of(p, c.strip);
    const double of_row = 1.0 * c.words * c.line_vector;
    const double turns = g.sets * ceil_div(g.lane_items, g.groups);
    const double step
            = 2.0 * ceil_div(g.piece_bytes, bytes_of_piece * c.threads) + 46
            + c.words + of_row * ((bytes == 2 ? 1 : 0) + (p.walk.two ? 2 : 1));
    // Sums over the middle axis, of a thread.
    const int taps = (p.middle.most_taps + p.middle.least_taps) / 2;
    const double finish = 14 + (p.middle.is_there() ? 5.0 : 1.0) * c.words
            + of_row * sum_words(p) / 4
            + g.layer_rounds * (14 + taps * (2 + g.layer_vector))
            + turns * rest.instructions;
    // Rows that are copied, by lines of the caches, and taken; sums that are kept and taken.
    const double lines = g.line_pieces * bytes_of_piece / 128.0;
    const double copied = c.words * std::max(1.0, c.line_vector * bytes / 4.0)
            + 1.5 * g.ranges * (g.lies_at_lines ? lines : 1 + 1.4 * lines) * 32
                    / c.threads;
    // A row that is read takes a barrier, one of sums another.
    const double waited
            = std::max(500.0 / (c.ahead - 1), 30.0) + 20 + c.threads / 4.0;
    const double path = of_lines.path
            * (before_lines + steps * waited
                    + c.strip * (p.middle.is_there() ? 2 : 1)
                            * (60.0 + c.threads));
    const double at_once
            = std::min<double>(c.blocks, 1.0 * g.grid / gpu.multiprocessors);
    const double summed = of_row * sum_words(p)
            + g.layer_rounds * (4 + taps * 7.0) + turns * rest.wavefronts;
    return {.instructions
            = 160 + 8 * c.words + 40 * g.sets + steps * step + c.strip * finish,
            .path = path,
            .in_flight = of_row * bytes * (c.ahead - 1) * c.threads * at_once,
            .wavefronts
            = of_lines.wavefront * (steps * copied + c.strip * summed),
            .sectors = c.strip * turns * rest.sectors,
            .count = g.grid * (c.threads / 32.0) / gpu.multiprocessors,
            .read_again = read_again_of_strips(p, c.strip)
                    * (1.0 * c.middle_read * g.middle_strips / p.middle.read)
                    * (1.0 * c.tile_read * g.column_parts / p.column.read)
                    * (1.0 * g.line_pieces * bytes_of_piece
                            / (g.line_read * bytes)),
            .next_path = path};
}

work_estimate share_of_threads(const problem_specification &p, const cut &c,
        const geometry &g, work_estimate thread, const gpu_facts &gpu,
        const form_costs &form) {
    const auto items = static_cast<double>(g.items);
    thread.count = std::ceil(items / 32) / gpu.multiprocessors;
    // Loops over rows ahead are long.
    thread.instructions *= 1 + form.ahead * std::max(0, c.ahead - 1);
    thread.wavefronts *= form.wavefront;
    if (p.walk.is_there()) thread.read_again = read_again_of_strips(p, c.strip);
    thread.in_flight *= std::min<double>(
            c.blocks * c.threads, items / gpu.multiprocessors);
    thread.path *= form.path;
    thread.next_path = thread.path;
    return thread;
}

work_estimate share_of_tiles(const problem_specification &p, const cut &c,
        const geometry &g, const work_estimate &thread, const gpu_facts &gpu) {
    const double turns = ceil_div(g.lane_items, g.groups);
    const double of_tile = ceil_div(g.groups * g.lanes, 32) * turns;
    work_estimate made {.instructions
            = of_tile * thread.instructions + c.threads / 32.0 * 170,
            .path = 200 + turns * g.sets * thread.path,
            .in_flight = 0,
            .wavefronts = of_tiles.wavefront * of_tile * thread.wavefronts,
            .sectors = of_tile * thread.sectors,
            .count = g.grid / static_cast<double>(gpu.multiprocessors),
            .read_again
            = 1.0 * c.tile_read * g.tile_strips / first_axis_of(p).read};
    if (c.gathers) {
        const double flushed = 1.0 * elements_of(p) * bytes_of(p.type) / 16 / 32
                / g.grid; // by warps
        made.instructions += flushed * 24;
        made.wavefronts += flushed;
        made.sectors += whole_sectors * flushed;
        made.path += 100 + 40.0 * flushed * 32 / c.threads;
    }
    // Copies are on their way while other stages are computed.
    const double computed = of_tiles.path * made.path;
    const double alone = 980 + g.stage_bytes / 82.0 + computed;
    made.path = before_tiles + alone;
    made.next_path = std::max(computed, alone / c.stages);
    return made;
}

/// Those that take longest hide most of the others: times add up by their powers of 1.5.
double power(double cycles) {
    return cycles * std::sqrt(cycles);
}

/// The power of the cycles that a kernel takes. Too low without what is counted lane by lane.
double cost_of(const cut_problem &of, const cut &c, const geometry &g,
        const work_estimate &thread, const gpu_facts &gpu, bool by_lanes) {
    const problem_specification &p = of.p;
    // Windows were fitted to enlargements, all of whose columns have taps.
    const bool reduces = g.fed != (1U << c.columns) - 1;
    const form_costs &form = p.walk_first             ? of_lines
            : c.stages > 0                            ? of_tiles
            : c.repeated && c.vector == 1 && !reduces ? of_windows
                                                      : of_threads;
    const work_estimate each = p.walk_first
            ? share_of_lines(p, c, g, thread, gpu)
            : c.stages > 0 ? share_of_tiles(p, c, g, thread, gpu)
                           : share_of_threads(p, c, g, thread, gpu, form);
    const double warps_held = c.blocks * c.threads / 32.0;
    const double waves = 1.0 * g.grid / (gpu.multiprocessors * c.blocks);
    const double bytes = of.moved * bytes_of(p.type) / gpu.multiprocessors;
    const double parts[] {each.count * each.instructions
                    * (1 + form.few_warps / warps_held) / (4 * form.issued),
            by_lanes ? each.count * each.wavefronts : 0,
            bytes / bytes_of_cycle * (1 + form.short_rows * of.short_rows)
                    * (1 + (std::max(1.0, each.read_again) - 1) * form.again)
                    * (1 + form.places / (1 + form.near_blocks * waves)),
            // What ops behind read lies as what is written.
            by_lanes ? form.sector * each.count * each.sectors
                            * (1 + epilogues_of(p))
                     : 0,
            bytes * form.latency / std::max(1.0, each.in_flight),
            each.path + each.next_path * (std::max(1.0, waves) - 1)};
    double sum = 0;
    for (const double part : parts)
        sum += power(part);
    // The last blocks are waited for.
    if (waves < 12)
        sum *= power(1 + form.last * (std::ceil(waves) / waves - 1));
    if (!p.walk_first && !c.repeated && c.vector == 1) sum *= power(longer);
    return sum;
}

/// A number of all that are cut alike.
int64_t kind_of(const cut &c) {
    int64_t made = 0;
    for (const int each : {c.vector, c.columns, +c.repeated, +c.exchanged,
                 +c.apart, +(c.stages > 0), c.line_vector, c.words, +c.gathers})
        made = made * 32 + each;
    return made;
}

} // namespace

cut_problem::cut_problem(const mapped_problem &whole) : of(whole) {
    double read_for_one = 1;
    for (const axis *a : {&p.walk, &p.middle, &p.column})
        read_for_one *= 1.0 * a->read / a->written;
    const double written = 1.0 * elements_of(p);
    moved = written * (1 + epilogues_of(p) + loads_of(p) * read_for_one);
    const double row_bytes
            = 1.0 * bytes_of(p.type) * p.column.written * p.inner;
    short_rows = written / moved * std::min(1.0, 64 / row_bytes);
}

std::vector<choice> choices_of(const mapped_problem &whole,
        const gpu_facts &gpu, size_t most_chosen, double most_cost) {
    // Priced in full: of each kind the best without what is counted lane by lane.
    constexpr size_t most_priced = 240, most_of_kind = 6;
    const cut_problem of(whole);
    std::vector<choice> all;
    each_cut(of, gpu,
            [&](const cut &c, const geometry &g, const work_estimate &thread) {
                const double cost = cost_of(of, c, g, thread, gpu, false);
                if (cost < most_cost) all.push_back({cost, c});
            });
    std::ranges::stable_sort(all, {}, &choice::cost);
    std::map<int64_t, size_t> of_kind;
    std::erase_if(all, [&](const choice &each) {
        return of_kind[kind_of(each.cut_by)]++ >= most_of_kind;
    });
    // By price, whether it is the full one, which is no lower, and number.
    std::set<std::tuple<double, bool, size_t>> priced;
    for (size_t i = 0; i < std::min(all.size(), most_priced); ++i)
        priced.insert({all[i].cost, false, i});
    // The best, each unlike those before it.
    std::vector<choice> chosen;
    std::set<std::tuple<int64_t, int, int>> unlike;
    while (!priced.empty() && chosen.size() < most_chosen) {
        const auto [cost, full, number] = *priced.begin();
        priced.erase(priced.begin());
        if (!chosen.empty() && cost > power(2) * chosen.front().cost) break;
        choice &each = all[number];
        const cut &c = each.cut_by;
        if (!full) {
            const cut rest = of.p.walk_first ? rest_of_walk(c) : c;
            const geometry columns = geometry_of_columns(of.rest, c);
            const work_estimate thread = estimate_of_thread(
                    of, rest, geometry_of(of.rest, rest, columns), true);
            each.cost = cost_of(
                    of, c, geometry_of(of.p, c, columns), thread, gpu, true);
            priced.insert({each.cost, true, number});
        } else if (unlike.insert({kind_of(c), c.ahead, c.planes}).second) {
            chosen.push_back(each);
        }
    }
    return chosen;
}

double cost_in_order(
        const mapped_problem &of, bool walk_first, double most_cost) {
    // Alike for all GPUs, tensors, ops around it and numbers of images: as many as fill an H100.
    constexpr gpu_facts of_h100 {132, 227 << 10, 228 << 10, 65536, 2048};
    constexpr long long elements = 32 << 20;
    problem_specification one = of.specification;
    one.alignment = 16;
    one.prologue = one.epilogue[0] = one.epilogue[1] = fused_op::none;
    long long written = one.inner, read = one.inner;
    for (const axis *a : {&one.walk, &one.middle, &one.column}) {
        written = std::max(written, a->written * a->write_pitch);
        read = std::max(read, a->read * a->read_pitch);
    }
    std::ranges::fill(one.outer, 1);
    one.outer[0] = static_cast<int>(
            std::max(1LL, elements / std::max(written, read)));
    one.outer_write[0] = written;
    one.outer_read[0] = read;
    one.walk_first = walk_first;
    const auto choices = choices_of({one, of.maps}, of_h100, 1, most_cost);
    return choices.empty() ? HUGE_VAL : choices.front().cost;
}

} // namespace gradnn::gpu::resample
