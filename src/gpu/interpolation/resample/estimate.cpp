#include <algorithm>
#include <cmath>

#include "gpu/interpolation/resample/cuts.hpp"
#include "gpu/interpolation/resample/thread_estimate.hpp"

namespace gradnn::gpu::resample {

namespace {

/// Of a multiprocessor, fitted to the times of 5,500 cuts of 140 problems (H100), that of windows
/// along rows of single elements to those of 3,000 cuts of 250 (H200): what a form of kernel
/// issues in a cycle of a scheduler with many warps, how many warps are half of many, how much
/// longer memory takes where few blocks at a time read at many places, what part of what is read
/// again it reads, what of a turn the last blocks take, cycles of a wavefront, of a sector that
/// is written in part (by ncu the second cache takes some 80 thousand million a second), of
/// waiting for memory and of a thread's path, and what a row ahead adds to what a loop issues.
struct form_costs {
    double issued, few_warps, places, near_blocks, again, last, wavefront,
            sector, latency, path, ahead;
};
constexpr form_costs of_threads {
        1.3, 7.4, 0.66, 0.15, 0, 0.18, 0.53, 3, 50, 0.38, 0.19};
constexpr form_costs of_windows {
        0.75, 7.4, 0.22, 0.24, 0.6, 0.115, 0.79, 1, 315, 0.8, 0.06};
constexpr form_costs of_tiles {
        1.9, 18, 0.54, 0.03, 0.1, 0.18, 0.53, 3, 0, 0.67, 0};
constexpr form_costs of_lines {
        1.0, 8, 0.45, 0.15, 0.1, 0.18, 0.53, 3, 640, 1, 0};
constexpr double bytes_of_cycle = 19;
/// Cycles of a block before its first tile (tables and barriers), and before its first line.
constexpr double before_tiles = 1200, before_lines = 400;
/// Times as long as by its parts takes a kernel whose columns have single elements at places of
/// their own, but for those that walk first (H200, 72 problems).
constexpr double longer = 1.1;
/// Of a warp that writes 16 bytes a thread.
constexpr double whole_sectors = 16 * 0.5;

double elements_written(const problem_specification &p) {
    return static_cast<double>(elements_of(p));
}
double elements_moved(const problem_specification &p) {
    double read_for_one = 1;
    for (const axis *a : {&p.walk, &p.middle, &p.column})
        read_for_one *= static_cast<double>(a->read) / a->written;
    return elements_written(p)
            * (1 + epilogues_of(p) + loads_of(p) * read_for_one);
}

/// What all forms have in common: how fast a part of the warps that many would be issues, and
/// what memory and the last blocks take.
class block_costs {
public:
    block_costs(const form_costs &form, const specification_of_kernel &s,
            const gpu_facts &gpu, double blocks)
        : form_(form),
          warps_held_(s.cut_by.blocks * s.cut_by.threads / 32.0),
          waves_(blocks / (gpu.multiprocessors * s.cut_by.blocks)) {
        bytes_ = elements_moved(s.of) * bytes_of(s.of.type)
                / gpu.multiprocessors;
    }
    double issue(double instructions) const {
        return instructions * (1 + form_.few_warps / warps_held_)
                / (4 * form_.issued);
    }
    double memory(double read_again, double in_part) const {
        return bytes_ / bytes_of_cycle * (1 + in_part)
                * (1 + (std::max(1.0, read_again) - 1) * form_.again)
                * (1 + form_.places / (1 + form_.near_blocks * waves_));
    }
    double waiting(double in_flight) const {
        return bytes_ * form_.latency / std::max(1.0, in_flight);
    }
    double one_after_the_other(double cycles) const {
        return cycles * std::max(1.0, waves_);
    }
    double one_after_the_first(double cycles) const {
        return cycles * (std::max(1.0, waves_) - 1);
    }
    double turns() const {
        return waves_ < 12 ? 1 + form_.last * (std::ceil(waves_) / waves_ - 1)
                           : 1;
    }

private:
    const form_costs &form_;
    double warps_held_, waves_, bytes_;
};

/// The part of what is moved that rows of less than 64 bytes write in sectors.
double short_rows(const problem_specification &p) {
    const double row_bytes = static_cast<double>(bytes_of(p.type))
            * p.column.written * p.inner;
    return elements_written(p) / elements_moved(p)
            * std::min(1.0, 64 / row_bytes);
}

/// Where the walk comes first.
estimate estimate_of_lines(const specification_of_kernel &s,
        const mapped_problem &of, const gpu_facts &gpu, bool by_lanes) {
    const problem_specification &p = s.of;
    const cut &c = s.cut_by;
    const geometry g = geometry_of(s);
    const specification_of_kernel next = rest_of_walk(s);
    const geometry next_geometry = geometry_of(next);
    const thread_estimate rest(next, next_geometry, of);
    const block_costs costs(of_lines, s, gpu, g.grid);
    const int bytes = bytes_of(p.type);
    const double warps = g.grid * (c.threads / 32.0) / gpu.multiprocessors;
    const double steps = steps_of(p, c.strip);
    const double of_row = static_cast<double>(c.words) * c.line_vector;
    const double turns = g.sets > 1 ? static_cast<double>(g.sets) * g.lane_items
                                    : ceil_div(g.lane_items, g.groups);
    const double step
            = 8.0 * ceil_div(g.piece_bytes, bytes_of_piece * c.threads) + 6
            + c.words + of_row * (bytes == 2 ? 1 : 0)
            + of_row * (p.walk.two ? 2 : 1) + 12;
    const double finish = of_row * 1.5 + of_row * sum_words(p) / 4 + 14
            + turns * rest.instructions();
    const double read_again = steps * p.walk.written / c.strip / p.walk.read
            * (p.middle.is_there() ? static_cast<double>(c.middle_read)
                                    * g.middle_strips / p.middle.read
                                   : static_cast<double>(c.tile_read)
                                    * g.column_parts / p.column.read);
    estimate made {};
    made.issue = costs.issue(warps
            * (60 + 8 * c.words + 40 * g.sets + 1.2 * steps * step
                    + c.strip * finish));
    made.bytes = costs.memory(read_again, 0.57 * short_rows(p));
    if (by_lanes) {
        // Rows that are copied and taken, sums that are kept and taken.
        const double copied
                = 2 * c.words * std::max(1.0, c.line_vector * bytes / 4.0);
        made.wavefronts = of_lines.wavefront * warps
                * (steps * copied
                        + c.strip
                                * (of_row * sum_words(p)
                                        + turns * rest.wavefronts()));
        made.sectors
                = of_lines.sector * warps * c.strip * turns * rest.sectors();
    }
    made.waiting = costs.waiting(of_row * bytes * (c.ahead - 1) * c.threads
            * std::min<double>(c.blocks,
                    static_cast<double>(g.grid) / gpu.multiprocessors));
    // A row that is read takes a barrier, one of sums another.
    made.path = costs.one_after_the_other(before_lines
            + steps
                    * (std::max(500.0 / (c.ahead - 1), 30.0) + 20
                            + c.threads / 4.0)
            + c.strip * (60.0 + c.threads));
    made.turns = costs.turns();
    return made;
}

} // namespace

double estimate::cycles() const {
    constexpr double sharpness = 1.5;
    double sum = 0;
    for (const double each : {issue, wavefronts, bytes, sectors, waiting, path})
        sum += std::pow(each, sharpness);
    return std::pow(sum, 1 / sharpness) * turns;
}

estimate estimate_of(const specification_of_kernel &s, const mapped_problem &of,
        const gpu_facts &gpu, bool by_lanes) {
    const problem_specification &p = s.of;
    const cut &c = s.cut_by;
    if (p.walk_first) return estimate_of_lines(s, of, gpu, by_lanes);
    const geometry g = geometry_of(s);
    const thread_estimate thread(s, g, of);
    const double sms = gpu.multiprocessors;
    const double longer_or_not
            = (p.column.is_there() ? !c.repeated : p.inner == 1)
                    && c.vector == 1
            ? longer
            : 1;
    estimate made {};
    if (c.stages == 0) {
        const form_costs &form
                = c.repeated && c.vector == 1 ? of_windows : of_threads;
        const block_costs costs(form, s, gpu, g.grid);
        const double warps = std::ceil(static_cast<double>(g.items) / 32) / sms;
        // Loops over rows ahead are long.
        made.issue = costs.issue(warps * thread.instructions()
                * (1 + form.ahead * std::max(0, c.ahead - 1)));
        if (by_lanes) {
            made.wavefronts = form.wavefront * warps * thread.wavefronts();
            made.sectors = form.sector * warps * thread.sectors();
        }
        const double read_again = p.walk.is_there()
                ? steps_of(p, c.strip) * p.walk.written / c.strip / p.walk.read
                : 1;
        made.bytes = costs.memory(read_again, 0.3 * short_rows(p));
        made.waiting = costs.waiting(thread.bytes_in_flight()
                * std::min<double>(c.blocks * c.threads,
                        static_cast<double>(g.items) / sms));
        made.path = costs.one_after_the_other(form.path * thread.path());
        made.turns = longer_or_not * costs.turns();
        return made;
    }
    const block_costs costs(of_tiles, s, gpu, g.all_tiles);
    const double tiles = g.all_tiles / sms;
    const double turns = ceil_div(g.lane_items, g.groups);
    const double of_tile = g.sets > 1
            ? static_cast<double>(ceil_div(g.lanes, 32)) * g.lane_items
            : ceil_div(g.groups * g.lanes, 32) * turns;
    double instructions
            = of_tile * thread.instructions() + c.threads / 32.0 * 170;
    double turns_of_banks = 0, sectors = 0;
    if (by_lanes) {
        turns_of_banks = of_tiles.wavefront * of_tile * thread.wavefronts();
        sectors = of_tile * thread.sectors();
    }
    double path = 200 + turns * g.sets * thread.path();
    if (c.gathers) {
        const double flushed = elements_written(p) * bytes_of(p.type) / 16 / 32
                / g.all_tiles; // by warps
        instructions += flushed * 24;
        if (by_lanes) {
            turns_of_banks += flushed;
            sectors += whole_sectors * flushed;
        }
        path += 100 + 40.0 * flushed * 32 / c.threads;
    }
    const axis &first = first_axis_of(p);
    const double read_again
            = static_cast<double>(c.tile_read) * g.tile_strips / first.read;
    // Copies are on their way while other stages are computed.
    const double copied = 980 + g.stage_bytes / 82.0;
    made.issue = costs.issue(tiles * instructions);
    made.wavefronts = tiles * turns_of_banks;
    made.sectors = of_tiles.sector * tiles * sectors;
    made.bytes = costs.memory(read_again, 0);
    const double alone = copied + of_tiles.path * path;
    made.path = before_tiles + alone
            + costs.one_after_the_first(
                    std::max(of_tiles.path * path, alone / c.stages));
    made.turns = longer_or_not * costs.turns();
    return made;
}

} // namespace gradnn::gpu::resample
