#include "gpu/interpolation/layers/cut.hpp"

#include "gpu/interpolation/layers/order.hpp"

namespace gradnn::gpu::interpolation::layers {

namespace {

// What a multiprocessor does in a cycle: bytes that memory moves, instructions that
// its warps issue, with enough of them and each alone; and cycles from a load to its
// use. Instructions are counted in the machine code. Fitted to 456 times of 76 random
// problems, each by up to six cuts, on an H200 (bench/sweep's seeds 1103 to 1106): the
// logarithm of estimate by time spreads by 0.074 within a problem, and what has the
// lowest estimate takes 1.03 times as long as the fastest cut, in the mean.
constexpr double bytes_a_cycle = 25.0;
constexpr double issues_a_cycle = 3.6;
constexpr double issues_of_a_warp = 0.15;
constexpr double latency = 900.0;
// What memory moves beside a run of neighbouring bytes that is read, or written: half
// a sector; with writes of parts of sectors, and of lines, four times as much.
constexpr double beside_reads = 16.0;
constexpr double beside_writes = 64.0;

/// Calls body with each size of parts that an axis can be cut into, longest
/// first, while it returns true. Of many parts it leaves sizes out: each is at
/// least a tenth shorter than the one before.
template <typename Body>
void each_cut(int64_t size, const Body &body) {
    for (int64_t each = size; body(each) && each > 1;) {
        const int64_t parts = ceil_div(size, each);
        const int64_t next
                = ceil_div(size, parts + std::max<int64_t>(1, parts / 10));
        each = std::min(next, each - 1);
    }
}

/// Instructions of a warp, for all warps of a block: cells of a rectangle as
/// shared_out shares them out.
double turns(int64_t width, int64_t height, int64_t threads) {
    const shared_out cells(width, threads);
    return static_cast<double>(ceil_div(width, int64_t {cells.x_step.by})
            * ceil_div(height, int64_t {cells.y_step}));
}

int64_t room_for(int64_t taps) {
    return round_up(std::max<int64_t>(taps, 1), weights_at_once);
}

/// Positions of diff_src that diff_dst feeds.
int64_t fed_positions(const detail::axis_map &map) {
    return map.fed();
}

} // namespace

cut_search::cut_search(const work_shape &problem, const search_facts &facts,
        const detail::axis_map &layers, const detail::axis_map &rows,
        const detail::axis_map &columns)
    : problem_(problem),
      facts_(facts),
      layers_(layers),
      rows_(rows),
      columns_(columns),
      columns_first_(facts.volume
              && are_columns_first(problem, facts, layers, rows, columns)),
      fed_layers_(fed_positions(layers)) {
    const int64_t channels = problem.channels;
    if (facts.as_they_lie) {
        // With rows first they would have to begin at 16 bytes of sums.
        if (columns_first_) try_columns(problem.src_columns, channels);
        return;
    }
    // Parts of the channels: whole sectors of memory, and whole words.
    const int64_t multiple = std::max<int64_t>(
            facts.vector, int64_t {32} / facts.element_bytes);
    each_cut(channels, [&](int64_t tile_channels) {
        const bool all = tile_channels == channels;
        if (!all) {
            if (channels % facts.vector != 0) return false;
            tile_channels = round_up(tile_channels, multiple);
            if (tile_channels >= channels) return true;
        }
        each_cut(problem.src_columns, [&](int64_t tile_columns) {
            try_columns(tile_columns, tile_channels);
            return true;
        });
        return tile_channels > multiple;
    });
}

void cut_search::try_columns(int64_t tile_columns, int64_t tile_channels) {
    column_spans_ = spans_of(columns_, tile_columns);
    const int vector = facts_.vector;
    int64_t elements = 1;
    for (const dst_range &span : column_spans_)
        elements = std::max<int64_t>(elements,
                span.end * tile_channels
                        - first_element(span.first,
                                static_cast<int>(tile_channels), vector));
    int64_t pitch = round_up(
            elements, std::max<int64_t>(vector, 16 / facts_.sum_bytes));
    int64_t layer_elements = 1;
    if (facts_.as_they_lie) {
        pitch = int64_t {problem_.dst_columns} * problem_.channels;
        layer_elements = pitch * problem_.dst_rows;
        column_spans_ = {{0, problem_.dst_columns}};
    }
    if (pitch > int64_t {facts_.most_threads} * facts_.elements) return;
    columns_cut_ = problem_;
    columns_cut_.tile_columns = static_cast<int32_t>(tile_columns);
    columns_cut_.tile_channels = static_cast<int32_t>(tile_channels);
    columns_cut_.column_tiles
            = exact_divider(ceil_div(problem_.src_columns, tile_columns));
    columns_cut_.channel_tiles
            = exact_divider(ceil_div(problem_.channels, tile_channels));
    columns_cut_.columns_of_channels = exact_divider(tile_channels);
    columns_cut_.pitch = static_cast<int32_t>(pitch);
    columns_cut_.as_they_lie = facts_.as_they_lie ? 1 : 0;
    columns_cut_.layer_elements = static_cast<int32_t>(layer_elements);
    columns_cut_.columns_first = columns_first_ ? 1 : 0;
    const int64_t outputs = tile_columns * tile_channels;
    columns_cut_.second_pitch = static_cast<int32_t>(columns_first_
                    ? round_up(outputs, int64_t {16} / facts_.sum_bytes)
                    : pitch);
    columns_cut_.most_column_taps = static_cast<int32_t>(columns_.max_count);
    columns_cut_.most_row_taps = static_cast<int32_t>(rows_.max_count);
    columns_cut_.column_taps
            = static_cast<int32_t>(room_for(columns_.max_count));
    columns_cut_.row_taps = facts_.volume
            ? static_cast<int32_t>(room_for(rows_.max_count))
            : 0;
    each_cut(problem_.src_rows, [&](int64_t tile_rows) {
        if (!try_tile(tile_rows, 1)) return true;
        // Whole layers of several groups side by side.
        if (tile_rows == problem_.src_rows)
            for (int64_t groups = 2;
                    groups <= problem_.groups && try_tile(tile_rows, groups);
                    groups += std::max<int64_t>(1, groups / 8))
                ;
        return true;
    });
}

/// The most elements, up to 16 bytes of sums, that divide `neighbours` and all distances
/// in diff_src.
int cut_search::widest_of(int neighbours, int written_vector) const {
    return widest_vector(facts_.sum_bytes, neighbours, written_vector);
}

int64_t cut_search::tiles_of(const work_shape &shape) const {
    return ceil_div(problem_.groups, int64_t {shape.tile_groups})
            * shape.row_tiles.by * shape.column_tiles.by
            * shape.channel_tiles.by;
}

/// False where the tile is too large.
bool cut_search::try_tile(int64_t tile_rows, int64_t tile_groups) {
    work_cut made;
    work_shape &shape = made.shape;
    shape = columns_cut_;
    int64_t band = 1;
    if (facts_.volume) {
        made.row_spans = spans_of(rows_, tile_rows);
        for (const dst_range &span : made.row_spans)
            band = std::max<int64_t>(band, span.end - span.first);
    }
    const int64_t row_tiles = ceil_div(problem_.src_rows, tile_rows);
    // Where a tile begins amid the rows, its first word may begin before them.
    const int64_t slack
            = facts_.as_they_lie && row_tiles > 1 ? facts_.vector - 1 : 0;
    const int64_t stretch = facts_.as_they_lie
            ? round_up(band * shape.pitch + slack, facts_.vector)
            : int64_t {shape.pitch};
    const int64_t stretches
            = facts_.as_they_lie ? tile_groups : tile_groups * band;
    const int64_t words = stretches * stretch / facts_.vector;
    const int64_t words_of_thread = facts_.elements / facts_.vector;
    const int64_t threads = round_up(ceil_div(words, words_of_thread), 32);
    if (threads > facts_.most_threads) return false;
    // The bytes between a tile's elements are counted by 32 bits.
    constexpr int64_t reach = int64_t {1} << 32;
    const int64_t dst_reach = (tile_groups - 1) * shape.dst_group_pitch
            + (shape.dst_rows - 1) * shape.dst_row_pitch
            + int64_t {shape.dst_columns} * shape.channels;
    const int64_t src_reach = (tile_groups - 1) * shape.src_group_pitch
            + (shape.src_rows - 1) * shape.src_row_pitch;
    if (std::max(dst_reach, src_reach) * facts_.element_bytes >= reach)
        return false;
    shape.tile_rows = static_cast<int32_t>(tile_rows);
    shape.tile_groups = static_cast<int32_t>(tile_groups);
    shape.row_tiles = exact_divider(row_tiles);
    shape.rows_of_tile = exact_divider(tile_rows);
    shape.band = static_cast<int32_t>(band);
    shape.bands = exact_divider(band);
    shape.tile_words = static_cast<int32_t>(words);
    shape.stretch_words = exact_divider(stretch / facts_.vector);
    // A thread stores all of its words.
    shape.line_elements = static_cast<int32_t>(threads * facts_.elements);
    const int64_t lines = tile_groups * tile_rows;
    shape.second_elements = shape.line_elements;
    if (facts_.volume)
        shape.second_elements = static_cast<int32_t>(
                (columns_first_ ? tile_groups * band : lines)
                * shape.second_pitch);
    shape.zeros_width = widest_of(
            shape.tile_channels > 1 ? shape.tile_channels : shape.tile_columns,
            facts_.written_vector);
    // Two columns, or two channels, at a time: with more taps slower (README.md).
    constexpr int few_taps = 2;
    shape.width = shape.tile_channels > 1 ? shape.zeros_width
                                          : std::min(shape.zeros_width, 2);
    if (shape.width == 2 && facts_.sum_bytes == 4
            && columns_.max_count > few_taps)
        shape.width = 1;
    if (shape.tile_channels == 1 && facts_.sum_bytes == 8) shape.width = 1;
    shape.columns_width = shape.width;
    if (columns_first_) {
        constexpr int none = 1;
        const int wide = 16 / facts_.sum_bytes;
        shape.columns_width = shape.tile_channels % wide == 0 ? wide : none;
        // Whole columns lie one right after the other.
        shape.width = shape.tile_channels == shape.channels
                ? widest_of(shape.tile_columns * shape.channels,
                        facts_.written_row_vector)
                : widest_of(shape.tile_channels, facts_.written_vector);
        shape.zeros_width = shape.width;
    }
    // No zeros, no alignment for them.
    if (fed_layers_ == layers_.src) shape.zeros_width = shape.width;
    const int64_t outputs = int64_t {shape.tile_columns} * shape.tile_channels;
    shape.row_cells
            = shared_out(columns_first_ ? outputs / shape.width
                                        : shape.pitch * facts_.sum_bytes / 16,
                    threads);
    shape.column_cells = shared_out(outputs / shape.columns_width, threads);
    shape.zero_cells = shared_out(outputs / shape.zeros_width, threads);
    made.shared_bytes = facts_.sum_bytes
                    * (int64_t {shape.line_elements} + shape.second_elements
                            + int64_t {shape.tile_columns} * shape.column_taps
                            + tile_rows * shape.row_taps)
            + static_cast<int64_t>(sizeof(tap_place)) * (lines + outputs)
            + static_cast<int64_t>(sizeof(uint32_t)) * lines
            + queue_bytes(facts_.element_bytes, facts_.vector,
                    static_cast<int>(threads));
    if (made.shared_bytes > facts_.shared_bytes) return false;
    made.threads = static_cast<int>(threads);
    try_runs(made, tiles_of(shape));
    return true;
}

/// Cuts the layers into runs and keeps what has the lowest estimate.
void cut_search::try_runs(work_cut &made, int64_t tiles) {
    // The estimate was fitted to an SM with no more shared memory than a block may have.
    multiprocessor sm = facts_.sm;
    sm.shared_bytes -= sm.reserved_bytes;
    made.resident = std::max<int64_t>(1,
            sm.blocks_held(made.threads, round_up(facts_.registers, 8),
                    made.shared_bytes));
    const layer_issues issues = issues_of(made);
    each_cut(made.shape.src_layers, [&](int64_t run_layers) {
        const int64_t blocks
                = tiles * ceil_div(made.shape.src_layers, run_layers);
        if (blocks > (int64_t {1} << 30)) return false;
        keep_if_best(made, issues, run_layers, blocks);
        return true;
    });
}

/// As the machine code has them.
cut_search::layer_issues cut_search::issues_of(const work_cut &made) const {
    const work_shape &shape = made.shape;
    const int64_t threads = made.threads;
    const auto warps = static_cast<double>(threads / 32);
    const auto elements = static_cast<double>(facts_.elements);
    const double words = elements / facts_.vector;
    // The loop, loads and their addresses, conversions, products.
    const double conversion = facts_.element_bytes == 2 ? 1.0 : 0.0;
    const double word_issues = is_queued(facts_.element_bytes) ? 4.0 : 3.0;
    layer_issues issues;
    issues.dst = warps
            * (25.0 + word_issues * words + (2.0 + conversion) * elements);
    // Sums moved and to shared memory, rows, columns.
    const int64_t lines = int64_t {shape.tile_groups} * shape.tile_rows;
    const int64_t outputs = int64_t {shape.tile_columns} * shape.tile_channels;
    const auto column_taps = static_cast<double>(columns_.max_count);
    const double wide = 16.0 / facts_.sum_bytes;
    const auto width = static_cast<double>(shape.width);
    const auto columns_width = static_cast<double>(shape.columns_width);
    const bool of_columns = shape.tile_channels == 1;
    const auto row_taps = static_cast<double>(rows_.max_count);
    const double moves = 2.0 * elements;
    double sums = 40.0 + moves + words
            + turns(outputs / shape.columns_width, 1, threads) * 20.0
            + turns(outputs / shape.columns_width,
                      columns_first_ ? int64_t {shape.tile_groups} * shape.band
                                     : lines,
                      threads)
                    * column_cell(columns_width, column_taps, of_columns,
                            !columns_first_);
    if (columns_first_)
        sums += 20.0
                + turns(outputs / shape.width, lines, threads)
                        * row_cell(width, row_taps, true);
    else if (facts_.volume)
        sums += 20.0
                + turns(shape.pitch * facts_.sum_bytes / 16, lines, threads)
                        * row_cell(wide, row_taps, false);
    issues.src = warps * sums;
    issues.empty = warps
            * (20.0 + moves
                    + 6.0 * turns(outputs / shape.zeros_width, lines, threads));
    return issues;
}

void cut_search::keep_if_best(const work_cut &made, const layer_issues &issues,
        int64_t run_layers, int64_t blocks) {
    const work_shape &shape = made.shape;
    const int64_t runs = ceil_div(shape.src_layers, run_layers);
    const auto warps = static_cast<double>(made.threads / 32);
    const auto size = static_cast<double>(facts_.element_bytes);
    const bool whole_pixels = shape.tile_channels == shape.channels;
    const bool whole_rows = whole_pixels && shape.column_tiles.by == 1;
    // Bytes of runs of neighbours, and beside them.
    const auto moved = [&](int64_t groups, int64_t rows, int64_t columns,
                               double beside) {
        const int64_t elements
                = groups * rows * columns * int64_t {shape.tile_channels};
        int64_t parts = groups;
        if (!whole_rows) parts *= rows;
        if (!whole_pixels) parts *= columns;
        return static_cast<double>(elements) * size
                + static_cast<double>(parts) * beside;
    };
    const double dst_bytes = moved(shape.tile_groups, shape.band,
            shape.pitch / shape.tile_channels, beside_reads);
    const double src_bytes = moved(shape.tile_groups, shape.tile_rows,
            shape.tile_columns, beside_writes);
    const auto src = static_cast<double>(run_layers);
    const double ratio = static_cast<double>(layers_.dst)
            / static_cast<double>(layers_.src);
    const double dst = runs == 1 ? static_cast<double>(layers_.dst)
                                 : ratio * (src + 1.0);
    const double fed = src * static_cast<double>(fed_layers_)
            / static_cast<double>(layers_.src);
    const double instructions = 100.0 * warps + dst * issues.dst
            + fed * issues.src + (src - fed) * issues.empty;
    const double bytes = dst * dst_bytes + src * src_bytes;
    const int64_t held
            = std::min(made.resident, ceil_div(blocks, facts_.multiprocessors));
    const auto at_once = static_cast<double>(held);
    const double rate
            = std::min(issues_a_cycle, issues_of_a_warp * warps * at_once);
    // Memory and instructions, which hardly overlap, or as fast as the layers arrive
    // one after the other.
    const double busy = at_once * (instructions / rate + bytes / bytes_a_cycle);
    const int ahead = layers_ahead(facts_.element_bytes);
    const double chain = 2.0 * latency + dst * latency / ahead
            + src * (facts_.volume ? 300.0 : 150.0);
    const double waves = static_cast<double>(blocks)
            / (at_once * static_cast<double>(facts_.multiprocessors));
    const double cycles
            = (0.5 * waves + 0.5 * std::ceil(waves)) * std::max(busy, chain);
    if (best_.threads != 0 && cycles >= best_.cycles) return;
    best_ = made;
    best_.column_spans = column_spans_;
    best_.cycles = cycles;
    best_.blocks = blocks;
    best_.shape.runs = exact_divider(runs);
    best_.shape.run_layers = static_cast<int32_t>(run_layers);
    best_.shape.lets_start = held == made.resident ? 1 : 0;
}

} // namespace gradnn::gpu::interpolation::layers
