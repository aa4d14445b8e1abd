#include "gpu/interpolation/resample/cuts.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace gradnn::gpu::resample {

using detail::axis_map;

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

/// Of an axis, the most positions that so many neighbouring ones of diff_src take.
class reads_of_axis {
public:
    explicit reads_of_axis(const axis_map &map)
        : places_(host_tables<float>::places_of(map)) {}

    int most(int written) {
        int &result = known_[written];
        if (result > 0) return result;
        result = 1;
        const auto step = static_cast<size_t>(written);
        for (size_t i = 0; i < places_.size(); i += step) {
            const place last = places_[std::min(places_.size(), i + step) - 1];
            result = std::max(
                    result, last.first + last.count - places_[i].first);
        }
        return result;
    }

private:
    std::vector<place> places_;
    std::map<int, int> known_;
};

/// A problem whose cuts are listed, by tiles of its first and its middle axis.
struct tiled_problem {
    const mapped_problem &of;
    const gpu_facts &gpu;
    reads_of_axis first, middle, column;

    tiled_problem(const mapped_problem &problem, const gpu_facts &facts)
        : of(problem),
          gpu(facts),
          first(problem.maps[problem.specification.walk.is_there() ? 0 : 2]),
          middle(problem.maps[1]),
          column(problem.maps[2]) {}
};

/// Whether neighbours of the first axis lie behind one another, as copies of one range take
/// them.
bool is_nested(const problem_specification &p) {
    const axis &first = first_axis_of(p);
    const long long row = row_extent(p);
    if (p.alignment < 16 || first.read_pitch < 0) return false;
    if (p.walk.is_there() && row > first.read_pitch) return false;
    return first.read_pitch <= 2 * row;
}

/// Whether there is no walk that just goes from one row to the next.
bool adds_up_rows(const problem_specification &p) {
    return !p.walk.is_there() || p.walk.most_taps > 1
            || p.walk.written != p.walk.read;
}

/// Whether a multiprocessor holds a block, with the registers that its threads need. Sets how
/// many it holds.
bool set_blocks(cut &c, const problem_specification &p, const geometry &g,
        const gpu_facts &gpu) {
    constexpr int most_registers = 224;
    const int registers = ceil_div(registers_of({p, c}, g), 8) * 8;
    c.blocks = std::min(
            {gpu.registers / (c.threads * registers), gpu.threads / c.threads,
                    32, gpu.shared_bytes / (g.shared_bytes + 1024)});
    return c.blocks > 0 && registers <= most_registers;
}

/// Threads read global memory.
void add_threads(std::vector<cut> &to, const mapped_problem &of,
        const gpu_facts &gpu, cut c) {
    const problem_specification &p = of.specification;
    c.strip = c.planes = c.parts = 1;
    c.threads = 128;
    const bool rolled = geometry_of({p, c}).rolled;
    const std::vector<int> rows_ahead
            = p.middle.is_there() || rolled || !p.walk.is_there()
            ? std::vector {0}
            : std::vector {2, 4};
    const std::vector<int> strips = p.walk.is_there()
            ? parts_of(p.walk.written, true)
            : std::vector<int> {1};
    // What a thread finds once serves so many rows.
    const int least_strip = adds_up_rows(p) ? 1 : std::min(16, p.walk.written);
    for (const int strip : strips)
        for (const int ahead : rows_ahead) {
            if (strip < least_strip) break;
            c.strip = c.apart && !p.walk.is_there() ? 128 : strip;
            c.ahead = ahead;
            const geometry g = geometry_of({p, c});
            if (g.fits && set_blocks(c, p, g, gpu)) to.push_back(c);
        }
}

/// By tiles of so many positions of the first axis: stages, threads and parts.
void add_tiles_of(std::vector<cut> &to, tiled_problem &in, cut c, int tile) {
    const problem_specification &p = in.of.specification;
    const gpu_facts &gpu = in.gpu;
    c.ahead = 0;
    const int tile_read = c.tile_read;
    c.strip = tile;
    const geometry of_columns = geometry_of_columns({p, c});
    if (!of_columns.fits) return;
    for (const int parts : {1, 2, 4, 8, 16}) {
        if (parts > 1 && (!p.walk.is_there() || parts > tile)) break;
        c.strip = ceil_div(tile, parts);
        c.parts = ceil_div(tile, c.strip);
        // Strips of a tile may end beyond it.
        const int more
                = c.strip * c.parts * (p.walk.is_there() ? 1 : c.columns);
        c.tile_read = c.strip * c.parts == tile
                ? tile_read
                : std::max(tile_read, in.first.most(more));
        for (const int stages : {1, 2}) {
            if (stages > 1 && !p.bulk_copies) continue;
            for (const int threads : {128, 256, 512}) {
                c.stages = stages;
                c.threads = threads;
                for (const bool gathers : {false, true}) {
                    c.gathers = gathers;
                    // Whole vectors are written well.
                    if (c.gathers && c.vector * bytes_of(p.type) >= 8) continue;
                    geometry g = of_columns;
                    add_tiles(g, p, c);
                    if (!g.fits || g.shared_bytes > gpu.block_shared_bytes
                            || static_cast<long long>(g.lanes) * g.lane_items
                                    < threads / 2)
                        continue;
                    if (set_blocks(c, p, g, gpu)) to.push_back(c);
                }
            }
        }
    }
}

/// Threads read tiles of shared memory.
void add_tiles(std::vector<cut> &to, tiled_problem &in, cut c) {
    const problem_specification &p = in.of.specification;
    if (!is_nested(p)) return;
    const axis &first = first_axis_of(p);
    const int bytes = bytes_of(p.type);
    const int positions = p.walk.is_there()
            ? p.walk.written
            : ceil_div(p.column.written, c.columns);
    const int outers = outers_of(p);
    const long long whole = rows_extent(p, first.read);
    const bool one_outer
            = outers == p.outer[0] && p.outer_read[0] <= whole + whole / 8;
    const auto fits
            = [&](long long elements) { return elements * bytes <= 200000; };
    const auto pays
            = [&](long long elements) { return elements * bytes >= 1500; };
    for (const int tile : parts_of(positions, true)) {
        const int of_tile = p.walk.is_there() ? tile : tile * c.columns;
        const bool all = tile == positions;
        // All of them are copied, also those that feed nothing.
        c.tile_read = all ? first.read : in.first.most(of_tile);
        const long long elements = rows_extent(p, c.tile_read);
        if (!fits(elements)) break;
        if (!all && !pays(elements)) continue;
        for (const int planes : parts_of(std::min(outers, 512), false)) {
            if (planes > 1 && (!all || !one_outer)) break;
            if (!fits(planes * elements)) break;
            if (!pays(planes * elements) && planes < outers) continue;
            c.planes = planes;
            add_tiles_of(to, in, c, tile);
        }
    }
}

/// The vectors of rows that are walked first: the longest, and half of them, and of these.
std::vector<int> line_vectors_of(const problem_specification &p) {
    std::vector<int> made;
    for (int vector = 16 / bytes_of(p.type); vector > 0 && made.size() < 3;
            vector /= 2)
        if (lines_are_aligned(p, vector)) made.push_back(vector);
    return made;
}

/// A block's part of the rows: whole ones of several outer positions, or some positions of the
/// middle axis or columns, of which words for all threads are read. Whether there is one, and
/// half of the threads have something to read.
bool take_part_of_rows(tiled_problem &in, cut &c) {
    const problem_specification &p = in.of.specification;
    const long long words = 1LL * c.threads * c.words;
    const long long row = elements_of_row(p);
    const long long of_row = (row + c.line_vector - 1) / c.line_vector;
    const auto busy = [&](long long used) {
        return 2 * used >= words || (c.threads == 32 && c.words == 1);
    };
    c.parts = ceil_div(p.column.written, c.columns);
    c.tile_read = p.column.read;
    c.middle_part = p.middle.written;
    c.middle_read = p.middle.read;
    c.planes = 1;
    if (of_row <= words) {
        const auto threads = static_cast<int>((of_row + c.words - 1) / c.words);
        c.planes = std::min(c.threads / threads, p.outer[0]);
        // Of several outer axes, parts of the first.
        while (outers_of(p) != p.outer[0] && p.outer[0] % c.planes != 0)
            --c.planes;
        return busy(c.planes * of_row);
    }
    const long long fit
            = words * c.line_vector - std::max(c.line_vector, line_margin);
    const bool by_middle = p.middle.is_there();
    const long long of_position
            = by_middle ? 1LL * p.column.read * p.inner : p.inner;
    const int positions = by_middle ? p.middle.written : c.parts;
    for (int parts = 2; parts <= positions; ++parts) {
        const int part = ceil_div(positions, parts);
        if (by_middle) {
            c.middle_part = part;
            c.middle_read = in.middle.most(c.middle_part);
        } else {
            c.parts = part;
            c.tile_read = in.column.most(part * c.columns);
        }
        const long long read
                = (by_middle ? c.middle_read : c.tile_read) * of_position;
        if (read <= fit) return busy(read / c.line_vector);
    }
    return false;
}

/// Threads walk first, and share rows of sums.
void add_lines_of(std::vector<cut> &to, tiled_problem &in, cut c) {
    const problem_specification &p = in.of.specification;
    const gpu_facts &gpu = in.gpu;
    const int bytes = bytes_of(p.type);
    const int most_sums = p.type == element::f64 ? 8 : 16;
    for (const int vector : line_vectors_of(p)) {
        c.line_vector = vector;
        for (const int words : {1, 2, 3, 4, 5, 6, 8, 12, 16})
            for (const int threads : {32, 64, 96, 128, 192, 256}) {
                if (words * vector > most_sums) break;
                c.words = words;
                c.threads = threads;
                if (!take_part_of_rows(in, c)) continue;
                c.strip = p.walk.written;
                c.ahead = 1;
                if (!geometry_of({p, c}).fits) continue;
                for (const int ahead : {4, 8}) {
                    c.ahead = ahead;
                    const geometry g = geometry_of({p, c});
                    if (ahead * words * vector * bytes > 256
                            || g.shared_bytes > gpu.block_shared_bytes)
                        break;
                    if (!set_blocks(c, p, g, gpu)) continue;
                    for (const int strip : parts_of(p.walk.written, true)) {
                        c.strip = strip;
                        to.push_back(c);
                    }
                }
            }
    }
}

} // namespace

std::vector<cut> all_cuts(const mapped_problem &of, const gpu_facts &gpu) {
    std::vector<cut> made;
    tiled_problem in(of, gpu);
    const axis &middle = of.specification.middle;
    const bool walks = of.specification.walk.is_there();
    if (walks && !of.maps[0].two_taps) return made;
    const bool walk_first = of.specification.walk_first;
    for (cut c : columns_of(walk_first ? rest_of_walk({of.specification, {}}).of
                                       : of.specification)) {
        if (walk_first) {
            add_lines_of(made, in, c);
            continue;
        }
        const bool adds_up = adds_up_rows(of.specification);
        // A walk that adds nothing up pays where columns are constants.
        if (!walks || adds_up || c.repeated) add_threads(made, of, gpu, c);
        // Bulk copies compute nothing.
        if (adds_up && of.specification.prologue == fused_op::none
                && !c.exchanged && (walks || !middle.is_there()))
            add_tiles(made, in, c);
    }
    return made;
}

} // namespace gradnn::gpu::resample
