#include <algorithm>
#include <bit>
#include <cstdint>
#include <numeric>

#include "gpu/interpolation/cuts.hpp"

namespace gradnn::gpu::resample {

namespace {

struct thread {
    const cut_problem &whole;
    const cut &c;
    const geometry &g;
    const problem_specification &p = whole.rest;

    const bool halves = bytes_of(p.type) == 2;
    const int read_bytes = bytes_of(read_type_of(p));
    const bool shared = c.stages > 0 || p.reads_sums;
    const int unit = std::max(c.vector, c.read_vector);
    const int exchanged = c.exchanged ? g.left + g.right : 0;
    const int rolled_taps = g.rolled ? p.column.most_taps : 0;
    /// Rows of the middle axis for one, and of the walk those that are read and written.
    const double rows = p.middle.is_there()
            ? (p.middle.most_taps + p.middle.least_taps) / 2.0
            : 1;
    const double steps = p.walk.is_there() ? steps_of(p, c.strip) : 1;
    const int strip = p.walk.is_there() ? c.strip : 1;

    double instructions() const {
        const double of_row = std::popcount(g.fed) * c.vector;
        const int taps = std::accumulate(g.taps, g.taps + c.columns, 0);
        double row = g.units * (1 + (read_bytes == 2 ? unit : 0))
                + 1.5 * g.checked + 2.0 * exchanged * sum_words(p)
                + taps * c.vector;
        // Each column has its own address.
        if (!c.repeated && c.vector == 1) row += c.columns;
        if (g.rolled)
            row = rolled_taps * (4 + c.vector * (read_bytes == 2 ? 2 : 1)) + 8;
        if (p.middle.is_there()) row += of_row + 4;
        double step = rows * row;
        double written = c.vector > 1
                ? c.columns * (1 + (halves ? c.vector / 2.0 : 0))
                : 1.0 * c.columns / g.write_vector * (halves ? 2 : 1);
        written += of_row + 4;
        // Tiles keep the columns.
        const double begin = shared ? 18 : 60 + g.kept_taps * 2 + c.columns * 4;
        if (!p.walk.is_there()) return begin + step + written;
        step += of_row * (p.walk.two ? 2 : 1) + 11;
        written += of_row * 1.5 + 5;
        return begin + 30 + steps * step + strip * written;
    }

    double path() const {
        const double load = shared ? 40 : 700;
        const double chain = g.rolled
                ? 4.0 * rolled_taps + 20 + rolled_taps / 4.0 * load
                : 4.0 * g.most_kept + 20;
        double step
                = load * std::max(1.0, rows / g.rows_together) + rows * chain;
        if (c.ahead > 1) step = std::max(load / c.ahead, chain);
        return (shared ? 40 : 2000)
                + steps * (step + (p.walk.is_there() ? 30 : 0));
    }

    double wavefronts() const {
        double of_row = 0;
        warp_addresses of_column {};
        for (int u = 0; u < g.units; ++u) {
            const auto [column, position] = g.place_of[u];
            if (position == 0) of_column = places(column, false);
            of_row += wavefronts_of(
                    shifted(of_column,
                            position * p.column.read_pitch * read_bytes),
                    unit * read_bytes, shared);
        }
        if (g.rolled) of_row *= rolled_taps;
        of_row += exchanged * sum_words(p);
        // Places and weights, which threads that read global memory load each time.
        const double found = shared ? 0 : 2.0 * g.kept_columns + g.kept_taps;
        return found + steps * (rows * of_row + 1)
                + strip
                * (c.gathers ? each_store(wavefronts_of, true)
                             : c.columns / g.write_vector);
    }

    double sectors() const {
        if (c.gathers) return 0;
        const int64_t row = bytes_of(p.type)
                * (p.middle.is_there()              ? p.middle.write_pitch
                                : p.walk.is_there() ? p.walk.write_pitch
                                                    : p.outer_write[0]);
        return strip * each_store(sectors_of, row);
    }

    double bytes_in_flight() const {
        const double ratio = 1.0 * p.column.read / p.column.written;
        const double of_row
                = std::min<double>(g.units * unit,
                          std::max(1.0, ratio * c.columns) * c.vector)
                * bytes_of(p.type);
        const double middle = 1.0 * p.middle.read / p.middle.written;
        return of_row * std::clamp(middle, 1.0, 8.0) * std::max(1, c.ahead);
    }

    /// The sum of what is counted of all stores of a row.
    template <typename Count, typename Last>
    double each_store(const Count &count, const Last &last) const {
        const int bytes = std::max(c.vector, g.write_vector) * bytes_of(p.type);
        const int64_t step = g.spread * p.column.write_pitch * bytes_of(p.type);
        const warp_addresses stored = places(0, true);
        double all = 0;
        for (int k = 0; k < c.columns; k += g.write_vector)
            all += count(shifted(stored, k * step), bytes, last);
        return all;
    }

    /// Of a warp's lanes, off the edges, addresses of a column's first load or of the first store.
    warp_addresses places(int column, bool written) const {
        warp_addresses made {};
        const bool tiled = c.stages > 0;
        const auto pitch_of = [&](const axis &a) {
            return written ? a.write_pitch : a.read_pitch;
        };
        const int64_t outer_pitch
                = written ? p.outer_write[0] : p.outer_read[0];
        const auto place_of = [&](size_t a, int64_t position) {
            const auto &map = whole.of.maps[a];
            return written ? position
                           : map.first(std::min(position, map.src - 1));
        };
        for (int lane = 0; lane < 32; ++lane) {
            int64_t rest = lane;
            int64_t at = take_part(rest, g.vectors) * c.vector;
            const auto tile = static_cast<int>(
                    take_part(rest, tiled ? g.lanes / g.vectors : g.tiles));
            const int first = first_column_of(g, c, tile);
            const int64_t window = c.repeated
                    ? tile * g.tile_step + g.first_position
                    : place_of(2, first + column * g.spread);
            at += (written ? first : window) * pitch_of(p.column);
            if (c.gathers) at += take_part(rest, c.planes) * outer_pitch;
            at += place_of(1, take_part(rest, p.middle.written))
                    * pitch_of(p.middle);
            const int64_t row = std::min<int64_t>(
                    take_part(rest, tiled ? c.parts : g.strips) * c.strip,
                    p.walk.written - 1);
            at += place_of(0, row) * pitch_of(p.walk);
            if (!c.gathers) at += rest * outer_pitch;
            made[static_cast<size_t>(lane)] = (at + (1 << 24))
                    * (written ? bytes_of(p.type) : read_bytes);
        }
        return made;
    }
};

} // namespace

double steps_of(const problem_specification &p, int strip) {
    const double ratio = 1.0 * p.walk.read / p.walk.written;
    const bool parts = p.walk.two && strip < p.walk.written;
    return strip * ratio + (parts ? std::max(1.0, ratio) : 0);
}

work_estimate estimate_of_thread(
        const cut_problem &of, const cut &c, const geometry &g, bool by_lanes) {
    const thread each {of, c, g};
    return {each.instructions(), each.path(), each.bytes_in_flight(),
            by_lanes ? each.wavefronts() : 0, by_lanes ? each.sectors() : 0};
}

int registers_of(
        const problem_specification &p, const cut &c, const geometry &g) {
    const int wide = sum_words(p);
    const int unit = std::max(
            1, std::max(c.vector, c.read_vector) * bytes_of(p.type) / 4);
    const int sums = std::popcount(g.fed) * c.vector * wide;
    const int weights = g.kept_taps * wide;
    const bool walks_last = p.walk.is_there() && !p.walk_first;
    const int walks = walks_last ? p.walk.two ? 3 : 2 : 1;
    const int ahead = p.walk_first ? 0 : c.ahead;
    const int middles = p.middle.is_there() ? 1 : 0;
    const int held = ahead > 0 && rows_are_copied(p, c) ? 1 : ahead;
    const int waiting
            = g.units * loads_of(p) * unit * std::max(1, held + middles);
    const int checked = (g.left + g.right) * wide + g.checked;
    // What a thread keeps of further lanes.
    const int kept = std::max(0, g.sets - 1)
            * (weights + checked / 4 + 2 + (c.repeated ? 1 : 2 * c.columns));
    const int others
            = c.gathers ? 0 : epilogues_of(p) * c.columns * c.vector * wide;
    const int all = 40 + kept + checked / 2 + others + sums * (walks + middles)
            + weights + waiting
            + (ahead > 0 ? std::max(held, 2) * (2 + 2 * wide) : 0);
    if (!p.walk_first) return all;
    const int word = ceil_div(c.line_vector * bytes_of(p.type), 4);
    const int lines = c.words * (2 * c.line_vector * wide + word)
            + 2 * (2 + 2 * wide) + 8;
    return (all + lines) * 9 / 10 - 8; // by what compilers need
}

} // namespace gradnn::gpu::resample
