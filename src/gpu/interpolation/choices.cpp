#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "gpu/interpolation/cuts.hpp"

namespace gradnn::gpu::resample {

namespace {

/// Of a multiprocessor, fitted to the times of 5,500 cuts of 140 problems (H100), that of windows
/// along rows of single elements to those of 3,000 cuts of 250 (H200): what a form of kernel
/// issues in a cycle of a scheduler with many warps, how many warps are half of many, how much
/// longer memory takes where few blocks at a time read at many places, what part of what is read
/// again it reads, what of a turn the last blocks take, cycles of a wavefront, of a sector that
/// is written in part (by ncu the second cache takes some 80 thousand million a second), of
/// waiting for memory and of a thread's path, what a row ahead adds to what a loop issues, and
/// how much longer memory takes for rows of less than 64 bytes.
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
        1.0, 8, 0.45, 0.15, 0.1, 0.18, 0.53, 3, 640, 1, 0, 0.57};
constexpr double bytes_of_cycle = 19;
/// Cycles of a block before its first tile (tables), and before its first line.
constexpr double before_tiles = 1200, before_lines = 400;
/// Times as long as by its parts takes a kernel whose columns have single elements at places of
/// their own, but for those that walk first (H200, 72 problems).
constexpr double longer = 1.1;
/// Of a warp that writes 16 bytes a thread.
constexpr double whole_sectors = 16 * 0.5;

double elements_moved(const problem_specification &p) {
    double read_for_one = 1;
    for (const axis *a : {&p.walk, &p.middle, &p.column})
        read_for_one *= 1.0 * a->read / a->written;
    return 1.0 * elements_of(p)
            * (1 + epilogues_of(p) + loads_of(p) * read_for_one);
}

/// The part of what is moved that rows of less than 64 bytes write in sectors.
double short_rows(const problem_specification &p) {
    const double row_bytes
            = 1.0 * bytes_of(p.type) * p.column.written * p.inner;
    return 1.0 * elements_of(p) / elements_moved(p)
            * std::min(1.0, 64 / row_bytes);
}

/// How often what is read along the walk is, by strips that share rows.
double read_again_of_strips(const problem_specification &p, int strip) {
    return steps_of(p, strip) * p.walk.written / strip / p.walk.read;
}

/// Where the walk comes first.
work_estimate share_of_lines(const specification_of_kernel &s,
        const geometry &g, const work_estimate &rest, const gpu_facts &gpu) {
    const auto &[p, c] = s;
    const int bytes = bytes_of(p.type);
    const double steps = steps_of(p, c.strip);
    const double of_row = 1.0 * c.words * c.line_vector;
    const double turns = g.sets * ceil_div(g.lane_items, g.groups);
    const double step
            = 8.0 * ceil_div(g.piece_bytes, bytes_of_piece * c.threads) + 6
            + c.words + of_row * (bytes == 2 ? 1 : 0)
            + of_row * (p.walk.two ? 2 : 1) + 12;
    const double finish = of_row * 1.5 + of_row * sum_words(p) / 4 + 14
            + turns * rest.instructions;
    // Rows that are copied and taken, sums that are kept and taken.
    const double copied
            = 2 * c.words * std::max(1.0, c.line_vector * bytes / 4.0);
    // A row that is read takes a barrier, one of sums another.
    const double path = before_lines
            + steps
                    * (std::max(500.0 / (c.ahead - 1), 30.0) + 20
                            + c.threads / 4.0)
            + c.strip * (60.0 + c.threads);
    return {.instructions = 60 + 8 * c.words + 40 * g.sets + 1.2 * steps * step
                    + c.strip * finish,
            .path = path,
            .in_flight = of_row * bytes * (c.ahead - 1) * c.threads
                    * std::min<double>(
                            c.blocks, 1.0 * g.grid / gpu.multiprocessors),
            .wavefronts = of_lines.wavefront
                    * (steps * copied
                            + c.strip
                                    * (of_row * sum_words(p)
                                            + turns * rest.wavefronts)),
            .sectors = c.strip * turns * rest.sectors,
            .count = g.grid * (c.threads / 32.0) / gpu.multiprocessors,
            .read_again = read_again_of_strips(p, c.strip)
                    * (1.0 * c.middle_read * g.middle_strips / p.middle.read)
                    * (1.0 * c.tile_read * g.column_parts / p.column.read),
            .next_path = path};
}

work_estimate share_of_threads(const specification_of_kernel &s,
        const geometry &g, work_estimate thread, const gpu_facts &gpu,
        const form_costs &form) {
    const auto &[p, c] = s;
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

work_estimate share_of_tiles(const specification_of_kernel &s,
        const geometry &g, const work_estimate &thread, const gpu_facts &gpu) {
    const auto &[p, c] = s;
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

/// Cycles that a kernel takes. Counting lane by lane takes most of the time: without it the
/// result is too low.
double cost_of(const specification_of_kernel &s, const mapped_problem &of,
        const gpu_facts &gpu, bool by_lanes) {
    const auto &[p, c] = s;
    const geometry g = geometry_of(s);
    const bool tiled = c.stages > 0;
    // Windows were fitted to enlargements, all of whose columns have taps.
    const bool reduces = g.fed != (1U << c.columns) - 1;
    const form_costs &form = p.walk_first             ? of_lines
            : tiled                                   ? of_tiles
            : c.repeated && c.vector == 1 && !reduces ? of_windows
                                                      : of_threads;
    const specification_of_kernel rest = p.walk_first ? rest_of_walk(s) : s;
    const work_estimate thread = estimate_of_thread(
            rest, p.walk_first ? geometry_of(rest) : g, of, by_lanes);
    const work_estimate each = p.walk_first ? share_of_lines(s, g, thread, gpu)
            : tiled                         ? share_of_tiles(s, g, thread, gpu)
                    : share_of_threads(s, g, thread, gpu, form);
    const double warps_held = c.blocks * c.threads / 32.0;
    const double waves = 1.0 * g.grid / (gpu.multiprocessors * c.blocks);
    const double bytes
            = elements_moved(p) * bytes_of(p.type) / gpu.multiprocessors;
    const double parts[] {each.count * each.instructions
                    * (1 + form.few_warps / warps_held) / (4 * form.issued),
            by_lanes ? each.count * each.wavefronts : 0,
            bytes / bytes_of_cycle * (1 + form.short_rows * short_rows(p))
                    * (1 + (std::max(1.0, each.read_again) - 1) * form.again)
                    * (1 + form.places / (1 + form.near_blocks * waves)),
            // What ops behind read lies as what is written.
            by_lanes ? form.sector * each.count * each.sectors
                            * (1 + epilogues_of(p))
                     : 0,
            bytes * form.latency / std::max(1.0, each.in_flight),
            each.path + each.next_path * (std::max(1.0, waves) - 1)};
    // Those that take longest hide most of the others.
    constexpr double sharpness = 1.5;
    double sum = 0;
    for (const double part : parts)
        sum += std::pow(part, sharpness);
    double cycles = std::pow(sum, 1 / sharpness);
    // The last blocks are waited for.
    if (waves < 12) cycles *= 1 + form.last * (std::ceil(waves) / waves - 1);
    if (!p.walk_first && !c.repeated && c.vector == 1) cycles *= longer;
    return cycles;
}

} // namespace

std::vector<choice> choices_of(
        const std::vector<mapped_problem> &forms, const gpu_facts &gpu) {
    // Priced in full: of each kind the best of a price without what is counted lane by lane,
    // which knows no conflicts and no sectors.
    constexpr size_t most_priced = 240, most_chosen = 12;
    constexpr int most_of_kind = 6;
    std::vector<choice> all;
    const auto sort_by_price = [&](bool by_lanes) {
        for (choice &each : all) {
            const mapped_problem &of = forms[each.form];
            each.cost = cost_of(
                    {of.specification, each.cut_by}, of, gpu, by_lanes);
        }
        std::ranges::stable_sort(all, {}, &choice::cost);
    };
    for (size_t form = 0; form < forms.size(); ++form)
        for (const cut &each : all_cuts(forms[form], gpu))
            all.push_back({0, form, each});
    sort_by_price(false);
    const auto kind_of = [](const cut &c) {
        return std::array<int, 9> {c.vector, c.columns, c.repeated, c.exchanged,
                c.apart, c.stages > 0, c.line_vector, c.words, c.gathers};
    };
    std::map<std::pair<bool, std::array<int, 9>>, int> priced;
    std::erase_if(all, [&](const choice &each) {
        const bool walks = forms[each.form].specification.walk.is_there();
        return ++priced[{walks, kind_of(each.cut_by)}] > most_of_kind;
    });
    if (all.size() > most_priced) all.resize(most_priced);
    sort_by_price(true);
    // The best, each unlike those before it.
    const double far_off = all.empty() ? 0 : 2 * all.front().cost;
    std::map<std::tuple<std::array<int, 9>, int, int>, int> alike;
    std::erase_if(all, [&](const choice &each) {
        const cut &c = each.cut_by;
        return each.cost > far_off
                || ++alike[{kind_of(c), c.ahead, c.planes}] > 1;
    });
    if (all.size() > most_chosen) all.resize(most_chosen);
    return all;
}

bool walks_first(const mapped_problem &of) {
    if (!can_walk_first(of.specification)) return false;
    // Of all GPUs, tensors and numbers of images alike, whatever ops there are around it: as many
    // outer positions as fill an H100.
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
    // Those between the axes stay.
    int outermost = 0;
    for (int i = most_outer - 1; i >= 0; --i) {
        if (one.outer_read[i] >= read) one.outer[i] = 1;
        if (one.outer[i] == 1) outermost = i;
    }
    one.outer_write[outermost] = written;
    one.outer_read[outermost] = read;
    one.outer[outermost] = static_cast<int>(
            std::max(1LL, elements / std::max(written, read)));
    const auto cost_of = [&](bool walk_first) {
        one.walk_first = walk_first;
        const auto choices = choices_of({{one, of.maps}}, of_h100);
        return choices.empty() ? HUGE_VAL : choices.front().cost;
    };
    return cost_of(true) < cost_of(false);
}

} // namespace gradnn::gpu::resample
