#include "gpu/interpolation/cuts.hpp"

#include <algorithm>
#include <set>

namespace gradnn::gpu::resample {

namespace {

/// Of a count: halves, and fewer where they are `fine`.
std::vector<int> parts_of(int count, bool fine) {
    std::set<int> made {1, count};
    for (int part = 2; part < std::min(count, 4096); part *= 2)
        made.insert(part);
    for (int parts = 2; fine && parts <= 6; ++parts)
        made.insert(ceil_div(count, parts));
    return {made.begin(), made.end()};
}

/// Of vectors of 16 bytes, halves, and so on, the longest that fit; narrower ones save registers.
template <typename Fits>
std::vector<int> longest_vectors(
        element type, size_t most_made, const Fits &fits) {
    std::vector<int> made;
    for (int vector = 16 / bytes_of(type);
            vector >= 1 && made.size() < most_made; vector /= 2)
        if (fits(vector)) made.push_back(vector);
    return made;
}

/// Parts of a row that a thread may have: a cut's vector, columns and how these are read.
std::vector<cut> columns_of(const problem_specification &p) {
    std::vector<cut> made;
    const int bytes = bytes_of(p.type);
    const auto is_vector = [&](int vector) { return is_of_vectors(p, vector); };
    // Of single elements of 16 bits a thread may have 8, where its stores are no vectors of 4.
    const bool writes_vectors = p.column.write_pitch == 1
            && p.column.written % 4 == 0 && pitches_divide(p, 4, true);
    const int most_places
            = bytes == 2 && !p.reads_sums && !writes_vectors ? 8 : 4;
    for (const int vector : longest_vectors(read_type_of(p), 2, is_vector)) {
        cut c {};
        c.vector = vector;
        c.read_vector = 1;
        for (const int columns : {1, 2, 4, 8}) {
            // Places of its own.
            if (columns > 1
                    && (columns > p.column.written || vector * bytes > 8
                            || columns * p.column.most_taps > 24
                            || columns > (vector > 1 ? 4 : most_places)))
                break;
            c.columns = columns;
            made.push_back(c);
            // Where a warp does not have the vectors of a position.
            c.apart = columns > 1 && p.inner / vector < 32;
            if (c.apart) made.push_back(c);
            c.apart = false;
        }
        c.repeated = true;
        const int most_sums = vector > 1 ? 16 : 8;
        const auto fed = std::count_if(p.columns.taps,
                p.columns.taps + p.columns.written,
                [](int taps) { return taps > 0; });
        for (c.columns = p.columns.written; c.columns > 0
                && c.columns <= least(most_columns, p.column.written)
                && c.columns / p.columns.written * fed * vector <= most_sums;
                c.columns += p.columns.written) {
            // Elements of a load along the columns of a window.
            const int step = p.columns.read * (c.columns / p.columns.written);
            const auto is_read = [&](int wide) {
                return wide == 1
                        || (vector == 1 && p.column.read_pitch == 1
                                && (c.columns >= p.column.written
                                        || step % wide == 0)
                                && p.column.read % wide == 0
                                && (p.reads_sums
                                        || p.alignment % (wide * bytes) == 0)
                                && pitches_divide(p, wide, false));
            };
            for (const int wide :
                    longest_vectors(read_type_of(p), 2, is_read)) {
                cut window = c;
                window.read_vector = wide;
                made.push_back(window);
                window.exchanged = wide > 1 && !p.reads_sums;
                if (window.exchanged) made.push_back(window);
            }
        }
    }
    return made;
}

/// The cuts of a problem by what a thread has of a row, of which `columns` follow.
struct cut_list {
    const cut_problem &whole;
    const gpu_facts &gpu;
    const cut_visitor &visit;
    std::array<detail::axis_spans, 3> spans; ///< walk, middle, column
    geometry columns;
    const problem_specification &p = whole.p;
    const size_t first_axis = p.walk.is_there() ? 0 : 2;

    /// Threads read global memory.
    void add_threads(cut c) {
        const bool walks = p.walk.is_there();
        c.strip = c.planes = c.parts = 1;
        c.threads = 128;
        const bool in_place = !walks || p.middle.is_there() || columns.rolled;
        for (const int strip : parts_of(p.walk.written, true))
            for (const int ahead :
                    in_place ? std::vector {0} : std::vector {2, 4}) {
                c.strip = c.apart && !walks ? 128 : strip;
                c.ahead = ahead;
                const geometry g = geometry_of(p, c, columns);
                if (is_held(c, g))
                    visit(c, g, estimate_of_thread(whole, c, columns));
            }
    }

    /// Threads read tiles of shared memory.
    void add_tiles(cut c) {
        constexpr int least_bytes = 1500, most_bytes = 200000;
        const axis &first = first_axis_of(p);
        // Copies of one range take neighbours that lie behind one another.
        const long long row = row_extent(p);
        if (p.alignment < 16 || first.read_pitch < 0
                || first.read_pitch > 2 * row
                || (p.walk.is_there() && row > first.read_pitch))
            return;
        const int of_strip = p.walk.is_there() ? 1 : c.columns;
        const int positions = ceil_div(first.written, of_strip);
        const int outers = outers_of(p);
        const long long all_read = rows_extent(p, first.read);
        const bool one_outer = outers == p.outer[0]
                && p.outer_read[0] <= all_read + all_read / 8;
        for (const int tile : parts_of(positions, true)) {
            const bool all = tile == positions;
            // All of them are copied, also those that feed nothing.
            c.tile_read
                    = all ? first.read : spans[first_axis].of(tile * of_strip);
            const long long bytes
                    = rows_extent(p, c.tile_read) * bytes_of(p.type);
            if (bytes > most_bytes) break;
            for (const int planes : parts_of(least(outers, 512), false)) {
                if (planes > 1
                        && (!all || !one_outer || planes * bytes > most_bytes))
                    break;
                if (planes * bytes < least_bytes && (!all || planes < outers))
                    continue;
                c.planes = planes;
                add_tiles_of(c, tile);
            }
        }
    }

    /// Threads walk first, and share rows of sums.
    void add_lines(cut c) {
        const int bytes = bytes_of(p.type);
        const int most_sums = p.type == element::f64 ? 8 : 16;
        // Rows begin and end at multiples of it, and so does a block's part of one (lines.cuh).
        const auto is_line = [&](int vector) {
            return p.alignment % (vector * bytes) == 0
                    && row_of_middle(p) % vector == 0
                    && pitches_divide(p, vector, false, !rows_are_whole(p));
        };
        const std::vector<int> strips = parts_of(p.walk.written, true);
        const work_estimate thread = estimate_of_thread(whole, c, columns);
        for (const int vector : longest_vectors(p.type, 3, is_line))
            for (const int words : {1, 2, 3, 4, 5, 6, 8, 12, 16})
                for (const int threads : {32, 64, 96, 128, 192, 256}) {
                    c.line_vector = vector;
                    c.words = words;
                    c.threads = threads;
                    if (words * vector > most_sums || !take_part_of_rows(c))
                        continue;
                    for (const int ahead : {4, 8}) {
                        c.ahead = ahead;
                        c.strip = p.walk.written;
                        if (ahead * words * vector * bytes > 256) break;
                        geometry g = geometry_of(p, c, columns);
                        if (!is_held(c, g)) break;
                        for (const int strip : strips) {
                            c.strip = strip;
                            add_strips(g, p, c);
                            if (g.fits) visit(c, g, thread);
                        }
                    }
                }
    }

    /// Of tiles of so many positions of the first axis, or threads' columns.
    void add_tiles_of(cut c, int tile) {
        const bool walks = p.walk.is_there();
        const int tile_read = c.tile_read;
        for (const int parts : {1, 2, 4, 8, 16}) {
            if (parts > 1 && (!walks || parts > tile)) break;
            c.strip = ceil_div(tile, parts);
            c.parts = ceil_div(tile, c.strip);
            // Strips of a tile may end beyond it.
            const int strips = c.strip * c.parts;
            c.tile_read = strips == tile
                    ? tile_read
                    : std::max(tile_read, spans[first_axis].of(strips));
            c.stages = 1;
            const work_estimate thread
                    = estimate_of_thread(whole, c, columns); // of any stages
            for (const int stages : {1, 2})
                for (const int threads : {128, 256, 512})
                    for (const bool gathers : {false, true}) {
                        // Whole vectors are written well.
                        if (gathers && c.vector > 1
                                && c.vector * bytes_of(p.type) >= 8)
                            continue;
                        c.stages = stages;
                        c.threads = threads;
                        c.gathers = gathers;
                        const geometry g = geometry_of(p, c, columns);
                        if (is_held(c, g)
                                && 1LL * g.lanes * g.lane_items >= threads / 2)
                            visit(c, g, thread);
                    }
        }
    }

    /// A block's part of the rows, of lines: whole ones of several outer positions, or some middle
    /// positions or columns. Whether there is one, and half of the threads have something to read.
    bool take_part_of_rows(cut &c) {
        const long long words = 1LL * c.threads * c.words;
        const long long range = elements_of_range(p);
        const long long of_range = (range + c.line_vector - 1) / c.line_vector;
        const bool by_ranges = !rows_are_whole(p);
        const int segments = by_ranges ? p.middle.read : 1;
        const auto busy = [&](long long used) {
            return 2 * used >= words || (c.threads == 32 && c.words == 1);
        };
        const int parts_of_row = ceil_div(p.column.written, c.columns);
        c.parts = parts_of_row;
        c.tile_read = p.column.read;
        c.middle_part = p.middle.written;
        c.middle_read = p.middle.read;
        c.planes = 1;
        const long long threads = (of_range + c.words - 1) / c.words;
        const auto fitting = static_cast<int>(c.threads / threads); // ranges
        if (fitting >= segments) {
            c.planes = std::min(fitting / segments, p.outer[0]);
            // Of several outer axes, parts of the first.
            while (outers_of(p) != p.outer[0] && p.outer[0] % c.planes != 0)
                --c.planes;
            return busy(c.planes * segments * of_range);
        }
        if (by_ranges && fitting == 0) return false;
        const long long fit
                = words * c.line_vector - std::max(c.line_vector, line_margin);
        const bool by_middle = p.middle.is_there();
        const int positions = by_middle ? p.middle.written : parts_of_row;
        for (int parts = 2; parts <= positions; ++parts) {
            if (by_middle) {
                c.middle_part = ceil_div(positions, parts);
                c.middle_read = spans[1].of(c.middle_part);
            } else {
                c.parts = ceil_div(positions, parts);
                c.tile_read = spans[2].of(c.parts * c.columns);
            }
            const long long read = 1LL * c.middle_read * c.tile_read * p.inner;
            if (by_ranges ? c.middle_read <= fitting : read <= fit)
                return busy(read / c.line_vector);
        }
        return false;
    }

    /// Whether a multiprocessor holds a block, by its registers too. Sets how many it holds.
    bool is_held(cut &c, const geometry &g) const {
        constexpr int most_registers = 224;
        if (!g.fits || g.shared_bytes > gpu.block_shared_bytes) return false;
        const int registers = ceil_div(registers_of(p, c, g), 8) * 8;
        // Each of four schedulers has a quarter of the registers, and whole warps.
        const int warps = gpu.registers / 4 / (registers * 32) * 4;
        c.blocks = std::min({warps / (c.threads / 32), gpu.threads / c.threads,
                32, gpu.shared_bytes / (g.shared_bytes + 1024)});
        return c.blocks > 0 && registers <= most_registers;
    }
};

} // namespace

void each_cut(const cut_problem &whole, const gpu_facts &gpu,
        const cut_visitor &visit) {
    const problem_specification &p = whole.p;
    const bool walks = p.walk.is_there();
    if (walks && !whole.of.maps[0].two_taps) return;
    const auto &[walk, middle, column] = whole.of.maps;
    cut_list list {whole, gpu, visit,
            {detail::axis_spans(walk), detail::axis_spans(middle),
                    detail::axis_spans(column)},
            {}};
    for (const cut &c : columns_of(whole.rest)) {
        const geometry &g = list.columns = geometry_of_columns(whole.rest, c);
        // Neighbouring lanes have both ends of a window, if it has any.
        if (!g.fits || (c.exchanged && g.left + g.right == 0)) continue;
        if (p.walk_first) {
            list.add_lines(c);
            continue;
        }
        list.add_threads(c);
        // Copies compute nothing.
        if (p.prologue == fused_op::none && !c.exchanged
                && (walks || !p.middle.is_there()))
            list.add_tiles(c);
    }
}

} // namespace gradnn::gpu::resample
