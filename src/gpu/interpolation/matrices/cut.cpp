#include "gpu/interpolation/matrices/cut.hpp"

#include <algorithm>
#include <cmath>

namespace gradnn::gpu::interpolation::matrices {

namespace {

// What an H200 does in a cycle of a multiprocessor: bytes that memory moves and
// instructions that its warps issue; and what a product of matrices, whose unit
// several instructions wait for, counts as in these.
constexpr double bytes_a_cycle = 18.0;
constexpr double issues_a_cycle = 2.2;
constexpr double issues_of_product = 3.0;
constexpr double sector = 32.0;
constexpr double element_bytes = 2.0;
/// Cycles of a block beside its work, and of a tile: the tables, then the first
/// rows; the rows that are not on their way yet.
constexpr double start_latency = 3000.0;
constexpr double tile_latency = 900.0;

/// Outputs of a tile at most, so that small_quotient serves.
constexpr int64_t most_outputs = (int64_t {1} << 16) / few_outputs_parts - 1;

/// Calls body with sizes of parts that an axis can be cut into, longest first.
/// Of many parts it leaves sizes out.
template <typename Body>
void each_cut(int64_t size, const Body &body) {
    for (int64_t each = size;;) {
        body(each);
        if (each == 1) return;
        const int64_t parts = ceil_div(size, each);
        each = std::min(each - 1,
                ceil_div(size, parts + std::max<int64_t>(1, parts / 8)));
    }
}

/// Tiles of so many rows; the matrices and rows of diff_dst of them all.
struct row_cut {
    std::vector<row_tile> tiles;
    double matrices = 0;
    double read = 0;

    row_cut(const work_shape &problem, const detail::axis_map &rows,
            int64_t each) {
        const bool equal = problem.equal_rows != 0;
        for (int64_t at = 0; at < problem.src_rows; at += each) {
            const int64_t to = std::min<int64_t>(at + each, problem.src_rows);
            row_tile tile;
            tile.first_row = static_cast<int32_t>(at);
            tile.rows = static_cast<int32_t>(to - at);
            tile.span = equal
                    ? dst_range {tile.first_row, static_cast<int32_t>(to)}
                    : span_of(rows, at, to);
            const int32_t rows_read = tile.span.end - tile.span.first;
            tile.matrices = ceil_div(rows_read, matrix_side);
            tile.matrix = equal ? 0 : static_cast<int32_t>(matrices);
            matrices += tile.matrices;
            read += rows_read;
            tiles.push_back(tile);
        }
    }

    /// Cycles of a strip: its bytes, its products, its sums.
    double cost() const {
        return read * strip_segments * segment * element_bytes / bytes_a_cycle
                + matrices * 25.0 + static_cast<double>(tiles.size()) * 100.0;
    }
};

row_cut cut_rows(const work_shape &problem, const detail::axis_map &rows) {
    row_cut best(problem, rows, matrix_side);
    if (problem.equal_rows != 0) return best;
    for (int64_t each = matrix_side - 1; each > 0; --each) {
        row_cut other(problem, rows, each);
        if (other.cost() < best.cost()) best = std::move(other);
    }
    return best;
}

class search {
public:
    search(const work_shape &problem, const search_facts &facts,
            const detail::axis_map &rows, const detail::axis_map &columns)
        : problem_(problem),
          facts_(facts),
          rows_(cut_rows(problem, rows)),
          columns_(columns) {}

    work_cut run() {
        const int64_t channels = problem_.channels;
        try_channels(channels);
        if (channels % facts_.vector == 0)
            for (int64_t part = segment; part < channels && part <= 128;
                    part *= 2)
                try_channels(part);
        if (best_.blocks != 0) best_.row_tiles = rows_.tiles;
        return std::move(best_);
    }

private:
    void try_channels(int64_t tile_channels) {
        each_cut(problem_.src_columns, [&](int64_t tile_columns) {
            try_columns(tile_columns, tile_channels);
        });
    }

    void try_columns(int64_t tile_columns, int64_t tile_channels) {
        const std::vector<dst_range> spans = spans_of(columns_, tile_columns);
        const bool whole = tile_channels == problem_.channels;
        int64_t elements = 1;
        double read = 0;
        for (const dst_range &span : spans) {
            const int64_t lead = whole
                    ? int64_t {span.first} * problem_.channels % segment
                    : 0;
            const int64_t all = lead + (span.end - span.first) * tile_channels;
            elements = std::max(elements, all);
            read += static_cast<double>(all);
        }
        const int64_t group_segments = ceil_div(elements, segment);
        if (group_segments > segments_of_tile) return;
        const int64_t most_groups = std::min<int64_t>(
                problem_.groups, segments_of_tile / group_segments);
        for (int64_t groups = 1; groups <= most_groups; ++groups) {
            // As many as fill the segments, or as make the last tile whole.
            if (groups != most_groups
                    && ceil_div(problem_.groups, groups)
                            == ceil_div(problem_.groups, groups + 1))
                continue;
            const int64_t outputs = groups * tile_columns * tile_channels;
            if (outputs > most_outputs) return;
            work_shape shape = problem_;
            shape.tile_groups = static_cast<int32_t>(groups);
            shape.tile_columns = static_cast<int32_t>(tile_columns);
            shape.tile_channels = static_cast<int32_t>(tile_channels);
            shape.column_tiles = static_cast<int32_t>(spans.size());
            shape.channel_tiles = static_cast<int32_t>(
                    ceil_div(problem_.channels, tile_channels));
            shape.group_segments = static_cast<int32_t>(group_segments);
            try_tile(shape, spans, read / static_cast<double>(spans.size()));
        }
    }

    /// `read`: elements of a row of diff_dst of a tile and a group, on average.
    void try_tile(work_shape shape, const std::vector<dst_range> &spans,
            double read) {
        const auto tiles = static_cast<double>(rows_.tiles.size());
        shape.row_tiles = static_cast<int32_t>(rows_.tiles.size());
        // A matrix times a strip: loads, their addresses, the elements of two
        // rows put together, products.
        const double load = facts_.vector == 8 ? 3.0
                : facts_.vector == 2           ? 6.0
                                               : 20.0;
        const double product_issues = strips
                        * (4 * load + 16.0
                                + 8.0 * facts_.terms * issues_of_product)
                + 2.0 * facts_.terms + 12.0;
        const double outputs = static_cast<double>(shape.tile_columns)
                * shape.tile_channels * shape.tile_groups;
        const auto taps = static_cast<double>(columns_.max_count);
        const auto resample = [&](double parts) {
            const double part = matrix_side / parts;
            return std::ceil(outputs * parts / threads) * warps
                    * (50.0 + taps * (6.0 + 2.0 * part) + 5.0 * part);
        };
        shape.row_parts = resample(1) <= resample(few_outputs_parts)
                ? 1
                : few_outputs_parts;
        const double tile_issues = warps
                        * (rows_.matrices / tiles * product_issues
                                + strips * 64.0 + 60.0)
                + resample(shape.row_parts);
        // Bytes, in whole sectors.
        const bool whole = shape.tile_channels == shape.channels;
        const auto bytes = [&](double row_elements, double columns) {
            const double run = whole ? row_elements : row_elements / columns;
            const double runs = whole ? 1.0 : columns;
            return runs
                    * (std::max(run * element_bytes, sector)
                            + (facts_.vector == 8 ? 0.0 : sector / 2));
        };
        const double tile_bytes = shape.tile_groups
                * (rows_.read / tiles
                                * bytes(read,
                                        std::max(1.0,
                                                read / shape.tile_channels))
                        + static_cast<double>(shape.src_rows) / tiles
                                * bytes(static_cast<double>(shape.tile_columns)
                                                * shape.tile_channels,
                                        shape.tile_columns));
        // Those of a matrix come from the caches, for every warp.
        const double matrix_bytes
                = rows_.matrices / tiles * facts_.terms * 512.0 * warps / 4;
        const double walks = static_cast<double>(shape.column_tiles)
                * shape.channel_tiles
                * static_cast<double>(
                        ceil_div(problem_.groups, shape.tile_groups));
        each_cut(static_cast<int64_t>(rows_.tiles.size()),
                [&](int64_t run_tiles) {
                    const int64_t runs = ceil_div<int64_t>(
                            static_cast<int64_t>(rows_.tiles.size()),
                            run_tiles);
                    const double blocks = walks * static_cast<double>(runs);
                    if (blocks > 0x1p30) return;
                    const auto run = static_cast<double>(run_tiles);
                    const auto held = static_cast<double>(
                            std::min<int64_t>(facts_.resident_blocks,
                                    ceil_div(static_cast<int64_t>(blocks),
                                            facts_.multiprocessors)));
                    const double by_issues
                            = held * run * tile_issues / issues_a_cycle;
                    const double by_bytes = held * run
                            * (tile_bytes + matrix_bytes) / bytes_a_cycle;
                    const double busy = std::max(by_issues, by_bytes)
                            + 0.25 * std::min(by_issues, by_bytes);
                    const double chain = start_latency
                            + run
                                    * (tile_latency
                                            + tile_issues / issues_a_cycle);
                    const double waves = blocks
                            / (held
                                    * static_cast<double>(
                                            facts_.multiprocessors));
                    const double cycles = (0.5 * waves + 0.5 * std::ceil(waves))
                            * std::max(busy + start_latency / 2, chain);
                    if (best_.blocks != 0 && cycles >= best_.cycles) return;
                    best_.cycles = cycles;
                    best_.blocks = static_cast<int64_t>(blocks);
                    best_.column_spans = spans;
                    best_.shape = shape;
                    best_.shape.run_tiles = static_cast<int32_t>(run_tiles);
                    best_.shape.runs = static_cast<int32_t>(runs);
                    best_.shape.lets_start = held
                                    == static_cast<double>(
                                            facts_.resident_blocks)
                            ? 1
                            : 0;
                });
    }

    work_shape problem_;
    search_facts facts_;
    row_cut rows_;
    const detail::axis_map &columns_;
    work_cut best_;
};

} // namespace

work_cut find_cut(const work_shape &problem, const search_facts &facts,
        const detail::axis_map &rows, const detail::axis_map &columns) {
    work_cut made = search(problem, facts, rows, columns).run();
    work_shape &shape = made.shape;
    const int64_t group_outputs
            = int64_t {shape.tile_columns} * shape.tile_channels;
    shape.by_outputs = small_quotient(shape.tile_groups * group_outputs);
    shape.by_group_outputs = small_quotient(group_outputs);
    shape.by_channels = small_quotient(shape.tile_channels);
    shape.by_group_segments = small_quotient(shape.group_segments);
    shape.by_pixel_segments = small_quotient(
            std::max<int64_t>(1, shape.tile_channels / segment));
    return made;
}

int64_t matrices_of(const work_cut &cut) {
    int64_t count = 0;
    for (const row_tile &tile : cut.row_tiles)
        count = std::max<int64_t>(count, tile.matrix + tile.matrices);
    return count;
}

} // namespace gradnn::gpu::interpolation::matrices
