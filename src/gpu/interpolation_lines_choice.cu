#include "gpu/interpolation_lines_choice.hpp"

#include <algorithm>
#include <limits>

namespace gradnn::gpu {

namespace {

using detail::axis_map;
using detail::interpolation_problem;
using detail::tensor_view;
using axis_maps = std::array<axis_map, 3>;

constexpr int64_t usual_threads = 256;
constexpr int64_t most_threads = 512;
constexpr size_t most_shared_bytes = 48 * 1024;

int64_t thread_elements(const interpolation_problem &problem) {
    return 16 / detail::size_of(problem.diff_dst.type);
}

size_t sum_bytes(const interpolation_problem &problem) {
    return problem.diff_dst.type == detail::data_type::f64 ? 8 : 4;
}

/// The first output that one input of [begin, end) receives, and the one after
/// the last.
struct columns_range {
    int64_t first = 0;
    int64_t end = 0;
};

columns_range taps_of(const axis_map &map, int64_t begin, int64_t end) {
    columns_range range {std::numeric_limits<int64_t>::max(), 0};
    for (int64_t i = begin; i < end; ++i) {
        const auto input = static_cast<size_t>(i);
        if (map.count[input] == 0) continue;
        range.first = std::min(range.first, map.first[input]);
        range.end = std::max(range.end, map.first[input] + map.count[input]);
    }
    if (range.end == 0) range.first = 0;
    return range;
}

/// Cuts the source columns into `count` tiles of equal width. `inner` elements
/// a column, lines beginning at multiples of `align` elements of a row; in
/// blocks, a line has only channel_block of them.
std::vector<line_tile> cut(const axis_map &map, int64_t count, int64_t inner,
        int64_t channel_block, int64_t align) {
    std::vector<line_tile> tiles;
    const int64_t width = ceil_div(map.src, count);
    for (int64_t begin = 0; begin < map.src; begin += width) {
        const int64_t end = std::min(begin + width, map.src);
        const columns_range taps = taps_of(map, begin, end);
        line_tile tile;
        tile.first_column = static_cast<int32_t>(begin);
        tile.columns = static_cast<int32_t>(end - begin);
        int64_t elements = 0;
        if (channel_block != 0) {
            tile.begin = taps.first * inner;
            tile.line_origin = taps.first * channel_block;
            elements = (taps.end - taps.first) * channel_block;
        } else {
            tile.begin = taps.first * inner / align * align;
            tile.line_origin = tile.begin;
            elements = taps.end * inner - tile.begin;
        }
        // A tile without taps still has a line, of elements that none reads.
        if (elements <= 0) elements = channel_block != 0 ? channel_block : 1;
        tile.elements = static_cast<int32_t>(std::min<int64_t>(
                elements, std::numeric_limits<int32_t>::max()));
        tiles.push_back(tile);
    }
    return tiles;
}

int64_t widest(const std::vector<line_tile> &tiles) {
    int64_t most = 0;
    for (const line_tile &tile : tiles)
        most = std::max<int64_t>(most, tile.elements);
    return most;
}

int64_t most_columns(const std::vector<line_tile> &tiles) {
    int64_t most = 0;
    for (const line_tile &tile : tiles)
        most = std::max<int64_t>(most, tile.columns);
    return most;
}

/// The fewest tiles whose lines hold `capacity` elements; none where a single
/// column takes more.
std::vector<line_tile> cut_to_fit(const axis_map &map, int64_t capacity,
        int64_t inner, int64_t channel_block, int64_t align) {
    const int64_t line_inner = channel_block != 0 ? channel_block : inner;
    int64_t count = std::max<int64_t>(
            1, std::min(map.src, map.dst * line_inner / capacity));
    while (true) {
        std::vector<line_tile> tiles
                = cut(map, count, inner, channel_block, align);
        if (widest(tiles) <= capacity) return tiles;
        const int64_t width = ceil_div(map.src, count);
        if (width == 1) return {};
        count = ceil_div(map.src, width - 1);
    }
}

bool dense(const tensor_view &view, size_t axis, int64_t stride) {
    return view.dims[axis] == 1 || view.strides[axis] == stride;
}

/// Distance between neighbours along an axis, `otherwise` where it has none.
int64_t pitch(const tensor_view &view, size_t axis, int64_t otherwise) {
    return view.dims[axis] == 1 ? otherwise : view.strides[axis];
}

/// Merges axes, outermost first, into one: its size and stride, or nothing.
std::optional<std::pair<int64_t, int64_t>> merge(
        const tensor_view &view, std::initializer_list<size_t> axes) {
    int64_t size = 1;
    int64_t stride = 0;
    for (const size_t axis : axes) {
        const int64_t dim = view.dims[axis];
        if (dim == 1) continue;
        if (size != 1 && stride != dim * view.strides[axis]) return {};
        size *= dim;
        stride = view.strides[axis];
    }
    return std::pair {size, stride};
}

bool fits_int(std::initializer_list<int64_t> values) {
    return std::all_of(values.begin(), values.end(), [](int64_t value) {
        return value <= std::numeric_limits<int32_t>::max() / 2;
    });
}

/// Planes of both tensors and the pitches of their rows; false with a refusal
/// where the layout is another.
bool describe_planes(lines_choice &choice, const interpolation_problem &problem,
        const axis_maps &maps, bool nxc, std::string &why) {
    const tensor_view &dst = problem.diff_dst;
    const tensor_view &src = problem.diff_src;
    size_t h = 3;
    if (!maps[0].identity) {
        if (src.dims[3] != 1 || dst.dims[3] != 1) {
            why = "wants two axes that are resampled";
            return false;
        }
        h = 2;
    }
    // Depth that is not resampled makes planes of its own.
    const size_t plane_axis = h == 2 ? 3 : 2;
    const auto dst_planes = nxc ? merge(dst, {0, plane_axis})
                                : merge(dst, {0, 1, plane_axis});
    const auto src_planes = nxc ? merge(src, {0, plane_axis})
                                : merge(src, {0, 1, plane_axis});
    if (!dst_planes || !src_planes) {
        why = "wants planes at even distances";
        return false;
    }
    lines_shape &shape = choice.shape;
    choice.row_axis = h;
    shape.planes = dst_planes->first;
    shape.dst_plane_pitch = dst_planes->second;
    shape.src_plane_pitch = src_planes->second;
    shape.dst_row_pitch = pitch(dst, h, 0);
    shape.src_row_pitch = pitch(src, h, 0);
    if (!fits_int({dst.dims[h], src.dims[h], dst.dims[4] * dst.dims[1],
                src.dims[4] * dst.dims[1]})) {
        why = "wants rows of less than 2^30 elements";
        return false;
    }
    shape.dst_rows = static_cast<int32_t>(dst.dims[h]);
    shape.src_rows = static_cast<int32_t>(src.dims[h]);
    return true;
}

bool shared_memory_fits(
        const lines_choice &choice, const interpolation_problem &problem) {
    const lines_shape &shape = choice.shape;
    return (2 * static_cast<size_t>(choice.threads)
                           * static_cast<size_t>(thread_elements(problem))
                   + static_cast<size_t>(shape.most_columns)
                           * static_cast<size_t>(shape.most_taps))
                    * sum_bytes(problem)
            + static_cast<size_t>(shape.most_columns) * sizeof(int2)
            <= most_shared_bytes;
}

int round_to_warp(int64_t threads) {
    return static_cast<int>(ceil_div(threads, 32) * 32);
}

/// What short runs of memory cost: sectors of 32 bytes that are read in part,
/// and DRAM's bursts of 64.
double run_cost(int64_t bytes, bool aligned) {
    if (!aligned) return 1.0 + 16.0 / static_cast<double>(bytes);
    return bytes >= 128 ? 1.0 : bytes >= 64 ? 1.05 : bytes >= 32 ? 1.25 : 2.0;
}

} // namespace

std::optional<lines_choice> choose_lines_ncx(
        const interpolation_problem &problem, const axis_maps &maps,
        std::string &why) {
    const tensor_view &dst = problem.diff_dst;
    const tensor_view &src = problem.diff_src;
    if (!dense(dst, 4, 1) || !dense(src, 4, 1)) {
        why = "wants the elements of a row side by side";
        return {};
    }
    lines_choice choice;
    if (!describe_planes(choice, problem, maps, false, why)) return {};
    lines_shape &shape = choice.shape;
    const axis_map &map = maps[2];
    const int64_t own = thread_elements(problem);
    choice.vector = widest_vector(detail::size_of(dst.type),
            shape.dst_row_pitch, shape.dst_plane_pitch, dst.dims[4]);
    // One tile where a block can have the whole row, or else tiles of the
    // usual size.
    int64_t capacity = usual_threads * own;
    if (map.dst <= (usual_threads + 64) * own) capacity += 64 * own;
    choice.tiles = cut_to_fit(map, capacity, 1, 0, choice.vector);
    if (choice.tiles.empty()) {
        why = "wants less than a few thousand taps for a column";
        return {};
    }
    shape.most_columns = static_cast<int32_t>(most_columns(choice.tiles));
    shape.most_taps = static_cast<int32_t>(map.max_count);
    shape.slot_threads
            = static_cast<int32_t>(ceil_div(widest(choice.tiles), own));
    shape.slots = static_cast<int32_t>(std::clamp<int64_t>(
            usual_threads / shape.slot_threads, 1, shape.planes));
    choice.threads = round_to_warp(int64_t {shape.slots} * shape.slot_threads);
    // Wide ratios: lanes share an output, so that most threads have taps.
    const int64_t outputs = int64_t {shape.slots} * shape.most_columns;
    shape.lanes = 1;
    while (shape.lanes < 32 && shape.lanes * 4 <= shape.most_taps
            && outputs * shape.lanes * 2 <= choice.threads)
        shape.lanes *= 2;
    if (shape.lanes > 1) choice.items = line_items::shared_columns;
    if (!shared_memory_fits(choice, problem)) {
        why = "wants fewer columns times taps";
        return {};
    }
    return choice;
}

std::optional<lines_choice> choose_lines_nxc(
        const interpolation_problem &problem, const axis_maps &maps,
        std::string &why) {
    const tensor_view &dst = problem.diff_dst;
    const tensor_view &src = problem.diff_src;
    const int64_t channels = dst.dims[1];
    if (!dense(dst, 1, 1) || !dense(src, 1, 1) || !dense(dst, 4, channels)
            || !dense(src, 4, channels)) {
        why = "wants the channels of a pixel, and the pixels of a row, side by "
              "side";
        return {};
    }
    lines_choice base;
    if (!describe_planes(base, problem, maps, true, why)) return {};
    const axis_map &map = maps[2];
    const int64_t own = thread_elements(problem);
    const int64_t bytes = detail::size_of(dst.type);
    const int64_t wide = bytes == 8 ? 2 : 4;
    const bool channels_wide = channels % wide == 0
            && base.shape.src_row_pitch % wide == 0
            && base.shape.src_plane_pitch % wide == 0;

    std::optional<lines_choice> best;
    double best_cost = 0;
    // Whole pixels, or blocks of channels.
    for (int64_t block = 0; block <= 256; block = block == 0 ? 8 : block * 2) {
        if (block >= channels) continue;
        for (const int64_t threads : {usual_threads, most_threads}) {
            lines_choice choice = base;
            lines_shape &shape = choice.shape;
            choice.items = line_items::channels;
            choice.wide = channels_wide;
            const int64_t line_inner = block == 0 ? channels : block;
            const int64_t units = choice.wide ? line_inner / wide : line_inner;
            // Where the pointers allow no vectors, a thread has one channel.
            if (line_inner > threads) continue;
            choice.vector = widest_vector(bytes, shape.dst_row_pitch,
                    shape.dst_plane_pitch,
                    block == 0 ? dst.dims[4] * channels : channels);
            choice.tiles = cut_to_fit(
                    map, threads * own, channels, block, choice.vector);
            if (choice.tiles.empty()) continue;
            choice.threads = round_to_warp(
                    std::max(ceil_div(widest(choice.tiles), own), line_inner));
            shape.slots = 1;
            shape.slot_threads = choice.threads;
            shape.inner = static_cast<int32_t>(channels);
            shape.channel_block = static_cast<int32_t>(block);
            shape.tap_stride = static_cast<int32_t>(line_inner);
            shape.units = static_cast<int32_t>(units);
            shape.most_columns
                    = static_cast<int32_t>(most_columns(choice.tiles));
            shape.most_taps = static_cast<int32_t>(map.max_count);
            choice.channel_tiles = block == 0
                    ? 1
                    : static_cast<int>(ceil_div(channels, block));
            if (!shared_memory_fits(choice, problem)) continue;

            int64_t read = 0;
            for (const line_tile &tile : choice.tiles)
                read += tile.elements;
            const auto tiles = static_cast<double>(choice.tiles.size());
            const double elements
                    = static_cast<double>(read) * choice.channel_tiles;
            const double idle = 1.0
                    - static_cast<double>(read)
                            / (tiles * choice.threads
                                    * static_cast<double>(own));
            double cost = elements / static_cast<double>(map.dst * channels)
                    * (1.0 + 0.2 * idle);
            if (block != 0)
                cost *= run_cost(block * bytes, channels * bytes % 32 == 0);
            // Of equals, the smaller block.
            cost *= threads == usual_threads ? 1.0 : 1.02;
            if (!best || cost < best_cost) {
                best = choice;
                best_cost = cost;
            }
        }
    }
    if (!best) why = "wants fewer taps for a column";
    return best;
}

void spread_rows(lines_choice &choice, int64_t resident) {
    lines_shape &shape = choice.shape;
    shape.row_total = ceil_div(shape.planes, shape.slots) * shape.src_rows;
    const int64_t tiles = static_cast<int64_t>(choice.tiles.size())
            * choice.channel_tiles;
    const double again = shape.src_rows > 1 ? 1.0 : 0.0;
    // A block of few rows is all start and end.
    const int64_t fewest = std::min<int64_t>(shape.row_total, 4);
    const int64_t most_blocks = std::min(ceil_div(shape.row_total, fewest),
            std::max<int64_t>(1, ceil_div(6 * resident, tiles)));
    double best_cost = 0;
    for (int64_t blocks = 1; blocks <= most_blocks; ++blocks) {
        const int64_t rows = ceil_div(shape.row_total, blocks);
        const int64_t made = ceil_div(shape.row_total, rows) * tiles;
        const auto waves = static_cast<double>(ceil_div(made, resident));
        // Each wave has a start that nothing overlaps: two rows' worth.
        const double cost = waves * (static_cast<double>(rows) + again + 2.0);
        if (best_cost == 0 || cost < best_cost) {
            best_cost = cost;
            shape.rows_per_block = rows;
        }
    }
}

std::vector<line_reach> make_reach(const axis_map &rows) {
    std::vector<line_reach> reach(static_cast<size_t>(rows.src));
    size_t first = 0;
    size_t end = 0;
    const size_t outputs = rows.low.size();
    for (size_t i = 0; i < reach.size(); ++i) {
        const auto input = static_cast<int64_t>(i);
        while (first < outputs && rows.low[first] < input
                && rows.high[first] < input)
            ++first;
        while (end < outputs && rows.low[end] <= input)
            ++end;
        reach[i] = {static_cast<int32_t>(first), static_cast<int32_t>(end)};
    }
    return reach;
}

std::vector<line_column> make_columns(const axis_map &columns) {
    std::vector<line_column> made(static_cast<size_t>(columns.src));
    for (size_t j = 0; j < made.size(); ++j)
        made[j] = {static_cast<int32_t>(columns.first[j]),
                static_cast<int32_t>(columns.count[j]), columns.offset[j]};
    return made;
}

} // namespace gradnn::gpu
