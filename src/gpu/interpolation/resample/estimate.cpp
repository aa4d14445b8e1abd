#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <set>

#include "gpu/interpolation/resample/cuts.hpp"

namespace gradnn::gpu::resample {

namespace {

// Of a multiprocessor, of an H100's or H200's as measured: bytes of a cycle at the rate of a
// copy, cycles from a load to its bytes under load, the share of the cycles that issue.
constexpr double bytes_of_cycle = 13.3, latency = 1100, issued = 0.52;

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

/// Where the walk comes first.
estimate estimate_of_lines(const specification_of_kernel &s,
        const mapped_problem &of, const gpu_facts &gpu, bool with_wavefronts) {
    const problem_specification &p = s.of;
    const cut &c = s.cut_by;
    const geometry g = geometry_of(s);
    const specification_of_kernel next = rest_of_walk(s);
    const geometry next_geometry = geometry_of(next);
    const thread_estimate rest(next, next_geometry, of);
    const int bytes = bytes_of(p.type);
    const double sms = gpu.multiprocessors;
    const double blocks = g.grid, warps = c.threads / 32.0;
    const double steps = steps_of(p, c.strip);
    const double of_row = static_cast<double>(c.words) * c.line_vector;
    const double turns = g.sets > 1 ? g.sets : ceil_div(g.lane_items, g.groups);
    const double waves = blocks / (sms * c.blocks);
    estimate made {};
    made.bytes = elements_moved(p) * bytes / sms / bytes_of_cycle;
    const double step = c.words + of_row * (bytes == 2 ? 1 : 0)
            + of_row * (p.walk.two ? 2 : 1) + 12;
    const double finish = of_row * 1.5 + of_row * sum_words(p) / 4 + 14
            + turns * rest.instructions();
    const double issue_rate
            = 4 * issued / (1 + 4 / std::max(1.0, c.blocks * warps));
    made.issue = blocks * warps
            * (60 + 8 * c.words + 40 * g.sets + steps * step + c.strip * finish)
            / sms / issue_rate;
    if (with_wavefronts)
        made.wavefronts = blocks * warps
                * (steps * c.words * std::max(1, c.line_vector * bytes / 4)
                        + c.strip
                                * (of_row * sum_words(p)
                                        + turns * rest.wavefronts()))
                / sms;
    made.waiting = made.bytes * bytes_of_cycle * latency
            / (of_row * bytes * c.ahead * c.threads
                    * std::min<double>(c.blocks, blocks / sms))
            * 0.34;
    made.path = (2000 + steps * std::max(700.0 / c.ahead, 30.0)
                        + c.strip * (60 + turns * rest.path()))
            * std::max(1.0, waves);
    const double read_again = steps * p.walk.written / c.strip / p.walk.read
            * (p.middle.is_there() ? static_cast<double>(c.middle_read)
                                    * g.middle_strips / p.middle.read
                                   : static_cast<double>(c.tile_read)
                                    * g.column_parts / p.column.read);
    made.bytes *= 1 + (std::max(1.0, read_again) - 1) / 3;
    made.turns = waves < 12 ? 1 + 0.7 * (std::ceil(waves) / waves - 1) : 1;
    return made;
}

} // namespace

double estimate::cycles() const {
    constexpr double sharpness = 2.5;
    double sum = 0;
    for (const double each : {issue, wavefronts, bytes, waiting, path})
        sum += std::pow(each, sharpness);
    return std::pow(sum, 1 / sharpness) * turns;
}

estimate estimate_of(const specification_of_kernel &s, const mapped_problem &of,
        const gpu_facts &gpu, bool with_wavefronts) {
    const problem_specification &p = s.of;
    const cut &c = s.cut_by;
    if (p.walk_first) return estimate_of_lines(s, of, gpu, with_wavefronts);
    const geometry g = geometry_of(s);
    const thread_estimate thread(s, g, of);
    const double bytes = bytes_of(p.type);
    const double sms = gpu.multiprocessors;
    estimate made {};
    made.bytes = elements_moved(p) * bytes / sms / bytes_of_cycle;
    const double warps_held = c.blocks * c.threads / 32.0;
    // Few warps issue less often.
    const double issue_rate = 4 * issued / (1 + 4 / warps_held);
    double warps = 0, in_flight = 0, read_again = 1;
    const double blocks = c.stages > 0 ? g.all_tiles : g.grid;
    const double waves = blocks / (sms * c.blocks);
    if (c.stages == 0) {
        warps = std::ceil(static_cast<double>(g.items) / 32);
        made.issue = warps * thread.instructions() / sms / issue_rate;
        in_flight = thread.bytes_in_flight()
                * std::min<double>(c.blocks * c.threads,
                        static_cast<double>(g.items) / sms);
        made.path = thread.path() * std::max(1.0, waves);
    } else {
        const double turns = ceil_div(g.lane_items, g.groups);
        const double of_tile = g.sets > 1
                ? static_cast<double>(ceil_div(g.lanes, 32)) * g.lane_items
                : ceil_div(g.groups * g.lanes, 32) * turns;
        warps = g.all_tiles * of_tile;
        made.issue = (warps * thread.instructions()
                             + g.all_tiles * c.threads / 32.0 * 60)
                / sms / issue_rate;
        in_flight = static_cast<double>(g.stage_bytes) * c.blocks
                * (c.stages > 1 ? 0.85 : 0.45);
        const axis &first = p.walk.is_there() ? p.walk : p.column;
        read_again = std::max(1.0,
                static_cast<double>(c.tile_read) * g.tile_strips / first.read
                        * c.middle_read * g.middle_strips / p.middle.read);
        const double copied = c.stages > 1 ? 0 : latency;
        double path = 200 + copied + turns * g.sets * thread.path();
        if (c.line_vector > 0) {
            const specification_of_kernel next = second_pass_of(s);
            const geometry next_geometry = geometry_of(next);
            const thread_estimate second(next, next_geometry, of);
            const double threads = static_cast<double>(next.of.inner)
                    / c.line_vector * c.planes * c.parts * c.middle_part;
            const double seconds = g.all_tiles * std::ceil(threads / 32);
            made.issue += seconds * second.instructions() / sms / issue_rate;
            if (with_wavefronts)
                made.wavefronts += seconds * second.wavefronts() / sms;
            path += std::ceil(threads / c.threads) * second.path() + 60;
        }
        if (c.gathers) {
            const double flushed
                    = elements_written(p) * bytes / 16 / 32; // by warps
            made.issue += flushed * 14 / sms / issue_rate;
            made.wavefronts += with_wavefronts ? flushed * 10 / sms : 0;
            path += 100 + 40.0 * flushed / g.all_tiles * 32 / c.threads;
        }
        // A warp submits the copies of boxes.
        if (g.boxes) path += 30.0 * c.tile_read;
        made.path = path * std::max(1.0, waves);
    }
    // Of the times of some 2,000 cuts of 131 problems on an H100: conflicts that are not
    // counted, turns of threads that read memory, and what a path waits for the others.
    if (c.stages == 0) made.issue *= 1.3;
    if (with_wavefronts)
        made.wavefronts
                = (made.wavefronts + warps * thread.wavefronts() / sms) * 1.24;
    made.path *= c.stages > 0 ? 1.2 : 0.3;
    // Sectors that are written in part, by many planes at a time or with short rows, leave
    // the second cache early.
    const double written = elements_written(p) / elements_moved(p);
    const double row_bytes = bytes * p.column.written * p.inner;
    if (c.stages == 0)
        made.bytes *= 1 + 1.2 * written * std::min(1.0, 64 / row_bytes);
    else if (!c.gathers)
        made.bytes *= 1 + 0.17 * written * std::log2(c.planes);
    // Two thirds of what tiles read again is found in the second cache.
    made.bytes *= 1 + (read_again - 1) / 3;
    made.waiting = elements_moved(p) * bytes / sms * latency
            / std::max(1.0, in_flight) * 0.34;
    made.turns = waves < 12 ? 1 + 0.7 * (std::ceil(waves) / waves - 1) : 1;
    return made;
}

} // namespace gradnn::gpu::resample
