#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <set>

#include "gpu/interpolation/resample/cuts.hpp"

namespace gradnn::gpu::resample {

namespace {

/// Of a multiprocessor, fitted to the times of 5,500 cuts of 140 problems (H100): what a form of
/// kernel issues in a cycle of a scheduler with many warps, how many warps are half of many, and
/// how much longer memory takes where few blocks at a time read at many places.
struct form_costs {
    double issued, few_warps, places, near_blocks;
};
constexpr form_costs of_threads {1.3, 7.4, 0.66, 0.15};
constexpr form_costs of_tiles {1.9, 18, 0.54, 0.03};
constexpr form_costs of_lines {9.5, 130, 0.45, 0.15};
constexpr double bytes_of_cycle = 19, conflicts = 0.53;

using lanes = std::array<int64_t, 32>;

/// What 32 lanes take to load `bytes` each from these addresses: lines of the first cache, or
/// turns of the 32 banks of shared memory.
double wavefronts_of(const lanes &addresses, int bytes, bool shared) {
    double count = 0;
    const int at_once = bytes > 4 ? 128 / bytes : 32;
    for (size_t first = 0; first < 32; first += static_cast<size_t>(at_once)) {
        std::array<int64_t, 32> seen {};
        std::array<int, 32> of_bank {};
        int words = 0, lines = 0, worst = 0;
        for (int lane = 0; lane < at_once; ++lane) {
            const int64_t address
                    = addresses[first + static_cast<size_t>(lane)];
            const auto end = seen.begin() + words;
            const int64_t key = address / (shared ? std::max(4, bytes) : 128);
            if (std::find(seen.begin(), end, key) != end) continue;
            seen[static_cast<size_t>(words++)] = key;
            ++lines;
            if (!shared) continue;
            for (int word = 0; word < std::max(1, bytes / 4); ++word)
                worst = std::max(worst,
                        ++of_bank[static_cast<size_t>(
                                (address / 4 + word) % 32)]);
        }
        count += shared ? worst : lines;
    }
    return count;
}

/// 32 bytes each, that 32 lanes store to.
double sectors_of(const lanes &addresses, int bytes) {
    std::set<int64_t> sectors;
    for (const int64_t address : addresses)
        for (int64_t at = address; at < address + bytes; at += 16)
            sectors.insert(at / 32);
    return static_cast<double>(sectors.size());
}

/// Positions of the walk that are read for `strip` ones.
double steps_of(const problem_specification &p, int strip) {
    const double ratio = static_cast<double>(p.walk.read) / p.walk.written;
    const bool parts = p.walk.two && strip < p.walk.written;
    return strip * ratio + (parts ? std::max(1.0, ratio) : 0);
}

/// What a thread does, in instructions of one lane and in bytes.
class thread_estimate {
public:
    thread_estimate(const specification_of_kernel &s, const geometry &g,
            const mapped_problem &of)
        : p_(s.of), c_(s.cut_by), g_(g), of_(of) {
        halves_ = bytes_of(p_.type) == 2;
        read_halves_ = halves_ && !p_.reads_sums;
        shared_ = c_.stages > 0 || p_.reads_sums;
        unit_ = std::max(c_.vector, c_.read_vector);
        rows_ = p_.middle.is_there() ? static_cast<double>(p_.middle.most_taps
                                               + p_.middle.least_taps)
                        / 2
                                     : 1;
        if (c_.middles > 1) {
            const double of_one
                    = static_cast<double>(p_.middle.read) / p_.middle.written;
            rows_ = of_one * c_.middles
                    + (p_.middle.two ? std::max(1.0, of_one) : 0);
        }
        steps_ = p_.walk.is_there() ? steps_of(p_, c_.strip) : 1;
        column_taps_ = g_.rolled ? p_.column.most_taps : 0;
    }

    double instructions() const {
        const double of_row = c_.columns * c_.vector;
        const double values = of_row * c_.middles;
        double taps = 0, kept = 0;
        for (int k = 0; k < c_.columns && !g_.rolled; ++k) {
            taps += g_.taps[k];
            if (!(c_.repeated && g_.fixed[k])) kept += g_.taps[k];
        }
        double checked = 0;
        for (int u = 0; u < g_.units && !g_.rolled; ++u)
            checked += g_.always_inside[u] ? 0 : 1.5;
        double row = g_.units * (1 + (read_halves_ ? unit_ : 0)) + checked
                + taps * c_.vector;
        if (g_.rolled)
            row = column_taps_ * (4 + c_.vector * (read_halves_ ? 2 : 1)) + 8;
        if (!p_.column.is_there()) row -= taps * c_.vector;
        if (p_.middle.is_there() && c_.line_vector == 0)
            row += c_.middles > 1 ? 2 * of_row + 12 + g_.units * unit_ / 2.0
                                  : of_row + 4;
        // The first of two passes: each row by itself, to shared memory.
        if (c_.line_vector > 0)
            return row + 10
                    + static_cast<double>(c_.columns) / line_store_of(p_, c_);
        double step = rows_ * row;
        double written = c_.vector > 1
                ? c_.columns * (1 + (halves_ ? c_.vector / 2.0 : 0))
                : static_cast<double>(c_.columns) / g_.write_vector
                        * (halves_ ? 2 : 1);
        written = written * c_.middles + values + 4;
        // Tiles keep the columns.
        const double begin = shared_ ? 18 : 60 + kept * 2 + c_.columns * 4;
        if (!p_.walk.is_there()) return begin + step + written;
        step += values * (p_.walk.two ? 2 : 1) + 11;
        written += values * 1.5 + 5;
        return begin + 30 + steps_ * step + c_.strip * written;
    }

    /// Cycles from begin to end, if nothing else runs.
    double path() const {
        const bool shared = shared_;
        double chain = 4.0 * (g_.rolled ? column_taps_ : g_.taps[0]) + 20;
        const double load = shared ? 40 : 700;
        if (g_.rolled) chain += column_taps_ / 4 * load;
        // Rows of the middle axis are unrolled, or walked with one on its way.
        double step = c_.middles > 1 ? rows_ * std::max(load, chain)
                                     : load + rows_ * chain;
        if (c_.ahead > 1) step = std::max(load / c_.ahead, chain);
        if (c_.line_vector > 0) return load + chain + 20;
        const double begin = shared ? 40 : 2000;
        return begin + steps_ * (step + (p_.walk.is_there() ? 30 : 0));
    }

    /// Of a warp; its lanes' addresses are those of the middle of the problem.
    double wavefronts() const {
        const int bytes = p_.reads_sums && halves_ ? 4 : bytes_of(p_.type);
        double of_row = 0;
        const int units = g_.rolled ? 1 : g_.units;
        for (int u = 0; u < units; ++u)
            of_row += wavefronts_of(
                    places(u, 0, false), unit_ * bytes, shared_);
        if (g_.rolled) of_row *= column_taps_;
        double of_store = 0;
        if (c_.line_vector > 0) { // and the sums that are kept
            const int wide = line_store_of(p_, c_);
            for (int k = 0; k < c_.columns; k += wide)
                of_store += wavefronts_of(
                        places(0, k, true), wide * 4 * sum_words(p_), true);
            return of_row + of_store;
        }
        // Of a store the second cache takes less than a sector a cycle.
        for (int k = 0; k < c_.columns; k += g_.write_vector) {
            const lanes to = places(0, k, true);
            const int wide
                    = std::max(c_.vector, g_.write_vector) * bytes_of(p_.type);
            of_store += c_.gathers ? wavefronts_of(to, wide, true)
                                   : sectors_of(to, wide) * 1.2;
        }
        // Places and weights, which threads that read global memory load each time.
        double found = 0;
        for (int k = 0; k < c_.columns && c_.stages == 0 && !p_.reads_sums; ++k)
            if (!c_.repeated || !g_.fixed[k]) found += 2.0 + g_.taps[k];
        return found + steps_ * (rows_ * of_row + 1)
                + (p_.walk.is_there() ? c_.strip * c_.middles : 1) * of_store;
    }

    /// That a thread has on their way and that no neighbour has, at most.
    double bytes_in_flight() const {
        const double ratio
                = static_cast<double>(p_.column.read) / p_.column.written;
        const double of_row
                = std::min<double>(g_.units * unit_,
                          std::max(1.0, ratio * c_.columns) * c_.vector)
                * bytes_of(p_.type);
        const double middle = p_.middle.is_there()
                ? static_cast<double>(p_.middle.read) / p_.middle.written
                : 1;
        return of_row
                * (c_.middles > 1 ? 1.0 : std::max(1.0, std::min(middle, 8.0)))
                * std::max(1, c_.ahead);
    }

private:
    /// Of a warp's lanes, the addresses of a unit that they load, or of a column that they
    /// store.
    lanes places(int unit, int column, bool written) const {
        lanes made {};
        const bool tiled = c_.stages > 0;
        const bool items_first = tiled && c_.items_first;
        for (int lane = 0; lane < 32; ++lane) {
            int64_t rest = tiled && !items_first ? lane % g_.lanes
                    : items_first                ? lane / g_.groups
                                                 : lane;
            int64_t at = rest % g_.vectors * c_.vector;
            rest /= g_.vectors;
            const auto tile = static_cast<int>(rest % g_.tiles);
            rest = tiled && !items_first ? lane / g_.lanes
                    : items_first        ? lane % g_.groups
                                         : rest / g_.tiles;
            int64_t position
                    = first_column_of(g_, c_, tile) + column * g_.spread;
            if (!written && c_.repeated)
                position = tile * g_.tile_step + g_.first_position
                        + g_.unit_position[unit];
            else if (!written)
                position = g_.unit_position[unit]
                        + first(2,
                                first_column_of(g_, c_, tile)
                                        + g_.unit_column[unit] * g_.spread);
            if (c_.line_vector > 0) {
                made[static_cast<size_t>(lane)]
                        = place_of_line(rest, at, position, written);
                continue;
            }
            at += position * pitch(p_.column, written);
            if (tiled && c_.gathers) {
                at += rest % c_.planes * outer_pitch(written);
                rest /= c_.planes;
            }
            const int middles = tiled ? g_.middle_items : g_.middles;
            const int64_t middle = rest % middles * c_.middles;
            rest /= middles;
            at += (written ? middle : first(1, middle))
                    * pitch(p_.middle, written);
            const int strips = tiled ? c_.parts : g_.strips;
            const int64_t row = std::min<int64_t>(
                    rest % strips * c_.strip, p_.walk.written - 1);
            at += written ? row * p_.walk.write_pitch
                          : first(0, row)
                            * (tiled ? g_.stage_row : p_.walk.read_pitch);
            if (!tiled || !c_.gathers)
                at += rest / strips * outer_pitch(written);
            const int bytes = p_.reads_sums && halves_ && !written
                    ? 4
                    : bytes_of(p_.type);
            made[static_cast<size_t>(lane)] = (at + (1 << 24)) * bytes;
        }
        return made;
    }
    /// Of an item of the first of two passes: in the tile, or among the sums.
    int64_t place_of_line(
            int64_t item, int64_t inner, int64_t position, bool written) const {
        if (written)
            return (item * line_pitch_of(p_, c_) + position * p_.inner + inner)
                    * 4 * sum_words(p_);
        const int64_t row = item / c_.middle_read % c_.tile_read;
        const int64_t plane = item / c_.middle_read / c_.tile_read;
        return (inner + position * p_.column.read_pitch
                       + item % c_.middle_read * p_.middle.read_pitch
                       + row * g_.stage_row + plane * outer_pitch(false)
                       + (1 << 24))
                * bytes_of(p_.type);
    }
    int64_t outer_pitch(bool written) const {
        return written ? p_.outer_write[0] : p_.outer_read[0];
    }
    int64_t first(size_t axis, int64_t position) const {
        const auto &map = of_.maps[axis];
        return map.first(std::min(position, map.src - 1));
    }
    static int64_t pitch(const axis &of, bool written) {
        return written ? of.write_pitch : of.read_pitch;
    }

    const problem_specification &p_;
    const cut &c_;
    const geometry &g_;
    const mapped_problem &of_;
    bool halves_, read_halves_, shared_;
    int unit_;
    double rows_, steps_, column_taps_;
};

double elements_written(const problem_specification &p) {
    return static_cast<double>(elements_of(p));
}
double elements_moved(const problem_specification &p) {
    double read_for_one = 1;
    for (const axis *a : {&p.walk, &p.middle, &p.column})
        read_for_one *= static_cast<double>(a->read) / a->written;
    return elements_written(p) * (1 + read_for_one);
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
    /// Nine tenths of what is read again is found in the second cache.
    double memory(double read_again, double in_part) const {
        return bytes_ / bytes_of_cycle * (1 + in_part)
                * (1 + (std::max(1.0, read_again) - 1) / 10)
                * (1 + form_.places / (1 + form_.near_blocks * waves_));
    }
    double waiting(double latency, double in_flight) const {
        return bytes_ * latency / std::max(1.0, in_flight);
    }
    double one_after_the_other(double cycles) const {
        return cycles * std::max(1.0, waves_);
    }
    double turns() const {
        return waves_ < 12 ? 1 + 0.18 * (std::ceil(waves_) / waves_ - 1) : 1;
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
        const mapped_problem &of, const gpu_facts &gpu) {
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
    const double step = c.words + of_row * (bytes == 2 ? 1 : 0)
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
            * (60 + 8 * c.words + 40 * g.sets + 3.4 * steps * step
                    + c.strip * finish));
    made.bytes = costs.memory(read_again, 0.57 * short_rows(p));
    made.waiting = costs.waiting(640,
            of_row * bytes * c.ahead * c.threads
                    * std::min<double>(c.blocks,
                            static_cast<double>(g.grid) / gpu.multiprocessors));
    // A row of sums takes a barrier.
    made.path = costs.one_after_the_other(
            steps * std::max(86.0 / c.ahead, 7.0) + 1.5 * c.strip * c.threads);
    made.turns = costs.turns();
    return made;
}

} // namespace

double estimate::cycles() const {
    constexpr double sharpness = 1.5;
    double sum = 0;
    for (const double each : {issue, wavefronts, bytes, waiting, path})
        sum += std::pow(each, sharpness);
    return std::pow(sum, 1 / sharpness) * turns;
}

estimate estimate_of(const specification_of_kernel &s, const mapped_problem &of,
        const gpu_facts &gpu, bool with_wavefronts) {
    const problem_specification &p = s.of;
    const cut &c = s.cut_by;
    if (p.walk_first) return estimate_of_lines(s, of, gpu);
    const geometry g = geometry_of(s);
    const thread_estimate thread(s, g, of);
    const double sms = gpu.multiprocessors;
    estimate made {};
    if (c.stages == 0) {
        const block_costs costs(of_threads, s, gpu, g.grid);
        const double warps = std::ceil(static_cast<double>(g.items) / 32) / sms;
        // Loops over rows ahead are long.
        made.issue = costs.issue(warps * thread.instructions()
                * (1 + 0.19 * std::max(0, c.ahead - 1)));
        if (with_wavefronts)
            made.wavefronts = conflicts * warps * thread.wavefronts();
        made.bytes = costs.memory(1, 0.3 * short_rows(p));
        made.waiting = costs.waiting(50,
                thread.bytes_in_flight()
                        * std::min<double>(c.blocks * c.threads,
                                static_cast<double>(g.items) / sms));
        made.path = costs.one_after_the_other(0.38 * thread.path());
        made.turns = costs.turns();
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
    double turns_of_banks
            = with_wavefronts ? conflicts * of_tile * thread.wavefronts() : 0;
    double path = 200 + turns * g.sets * thread.path();
    if (c.line_vector > 0) {
        const specification_of_kernel next = second_pass_of(s);
        const geometry next_geometry = geometry_of(next);
        const thread_estimate second(next, next_geometry, of);
        const double threads = static_cast<double>(next.of.inner)
                / c.line_vector * c.planes * c.parts * c.middle_part;
        instructions += std::ceil(threads / 32) * second.instructions();
        if (with_wavefronts)
            turns_of_banks += conflicts * std::ceil(threads / 32)
                    * second.wavefronts();
        path += std::ceil(threads / c.threads) * second.path() + 60;
    }
    if (c.gathers) {
        const double flushed = elements_written(p) * bytes_of(p.type) / 16 / 32
                / g.all_tiles; // by warps
        instructions += flushed * 24;
        turns_of_banks += with_wavefronts ? flushed : 0;
        path += 100 + 40.0 * flushed * 32 / c.threads;
    }
    // A warp submits the copies of boxes.
    if (g.boxes) path += 30.0 * c.tile_read;
    const axis &first = p.walk.is_there() ? p.walk : p.column;
    const double read_again = static_cast<double>(c.tile_read) * g.tile_strips
            / first.read * c.middle_read * g.middle_strips / p.middle.read;
    // Copies are on their way while other stages are computed.
    const double copied = 980 + g.stage_bytes / 82.0;
    made.issue = costs.issue(tiles * instructions);
    made.wavefronts = tiles * turns_of_banks;
    made.bytes = costs.memory(read_again, 0);
    made.path = costs.one_after_the_other(
            std::max(0.67 * path, (copied + 0.67 * path) / c.stages));
    made.turns = costs.turns();
    return made;
}

} // namespace gradnn::gpu::resample
