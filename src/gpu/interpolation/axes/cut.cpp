#include "gpu/interpolation/axes/cut.hpp"

#include <cmath>

namespace gradnn::gpu::interpolation::axes {

namespace {

// What a multiprocessor does in a cycle: bytes that memory moves, instructions that
// its warps issue, with enough of them and each alone, and accesses of a warp to
// shared memory; and cycles from a load to its use.
constexpr double bytes_a_cycle = 13.0;
constexpr double issues_a_cycle = 2.8;
constexpr double issues_of_a_warp = 0.15;
constexpr double accesses_a_cycle = 0.9;
constexpr double latency = 1000.0;
constexpr double sector = 32.0;

/// Calls body with each size of parts that an axis can be cut into, longest
/// first. Of many parts it leaves sizes out: each is at least a tenth shorter than
/// the one before.
template <typename Body>
void each_cut(int64_t size, const Body &body) {
    for (int64_t each = size;;) {
        body(each);
        if (each == 1) return;
        const int64_t parts = ceil_div(size, each);
        const int64_t next
                = ceil_div(size, parts + std::max<int64_t>(1, parts / 10));
        each = std::min(next, each - 1);
    }
}

/// The least distance in a stage that has room for so many bytes and differs from
/// that in memory by a multiple of a piece.
int64_t stage_distance(int64_t in_memory, int64_t room) {
    const int64_t rest = (in_memory - room) % piece_bytes;
    return room + (rest + piece_bytes) % piece_bytes;
}

} // namespace

cut_search::cut_search(const layered_shape &problem, const search_facts &facts,
        const std::vector<int32_t> &first, const detail::axis_map &layers,
        const detail::axis_map &rows)
    : problem_(problem),
      facts_(facts),
      first_(first),
      layers_(layers),
      rows_(rows) {
    const int64_t row = int64_t {problem.src_columns} * problem.channels;
    for (const int threads : {64, 128, most_threads})
        each_cut(row, [&](int64_t width) {
            // Whole sectors of 16-bit elements, but for rows of one tile.
            constexpr int64_t together = 16;
            if (width < row) width = round_up(width, together);
            if (width <= threads && (width == row || 2 * width >= threads))
                try_width(width, threads);
        });
}

void cut_search::try_width(int64_t tile_width, int threads) {
    threads_ = threads;
    tile_width_ = tile_width;
    const int64_t inner = problem_.channels;
    const int64_t row = problem_.src_columns * inner;
    const int64_t dst_row = problem_.dst_columns * inner;
    staged_elements_ = 1;
    int64_t all = 0;
    for (int64_t from = 0; from < row; from += tile_width) {
        const int64_t last = std::min(from + tile_width, row) - 1;
        const int64_t begin = first_[static_cast<size_t>(from / inner)] * inner;
        const int64_t end
                = (first_[static_cast<size_t>(last / inner)] + facts_.taps)
                * inner;
        const int64_t staged = std::min(end, dst_row) - begin;
        staged_elements_ = std::max(staged_elements_, staged);
        all += staged;
    }
    staged_share_ = static_cast<double>(all) / static_cast<double>(dst_row);
    // Tiles that read most of a row twice are another kernel's.
    constexpr int64_t ends = 64;
    if (all > 2 * dst_row + ends) return;
    const int64_t at_once = threads / tile_width;
    const int most_outputs = outputs_of_thread(facts_.sum_bytes);
    for (const int outputs : {most_outputs, most_outputs / 2}) {
        outputs_ = outputs;
        const int64_t lines = at_once * outputs;
        each_cut(problem_.src_rows, [&](int64_t tile_rows) {
            if (tile_rows > lines) return;
            const int64_t groups = tile_rows == problem_.src_rows
                    ? std::min(lines / tile_rows, problem_.groups)
                    : 1;
            try_tile(tile_rows, groups);
        });
    }
}

void cut_search::try_tile(int64_t tile_rows, int64_t tile_groups) {
    work_cut made;
    work_shape &shape = made.shape;
    static_cast<layered_shape &>(shape) = problem_;
    int64_t band = 1;
    if (facts_.volume) {
        made.row_spans = spans_of(rows_, tile_rows);
        for (const dst_range &span : made.row_spans)
            band = std::max<int64_t>(band, span.end - span.first);
    }
    const int64_t row = int64_t {problem_.src_columns} * problem_.channels;
    shape.tile_groups = static_cast<int32_t>(tile_groups);
    shape.tile_rows = static_cast<int32_t>(tile_rows);
    shape.tile_width = static_cast<int32_t>(tile_width_);
    shape.row_tiles
            = static_cast<int32_t>(ceil_div(problem_.src_rows, tile_rows));
    shape.width_tiles = static_cast<int32_t>(ceil_div(row, tile_width_));
    shape.group_tiles = ceil_div(problem_.groups, tile_groups);
    shape.band = static_cast<int32_t>(band);
    shape.outputs = outputs_;
    shape.most_row_taps = static_cast<int32_t>(rows_.max_count);
    if (facts_.volume)
        shape.row_taps
                = static_cast<int32_t>(room_for_weights(rows_.max_count));
    made.threads = threads_;
    try_stage(made, 1);
    // Layers that follow each other, with little between them.
    const int64_t layer = std::max<int64_t>(
            (band - 1) * shape.dst_row_pitch + staged_elements_, 1);
    if (4 * shape.dst_layer_pitch > 5 * layer) return;
    for (int64_t parts = 1; parts < problem_.dst_layers; ++parts) {
        const int64_t layers = ceil_div(int64_t {problem_.dst_layers}, parts);
        constexpr int64_t most = 32;
        if (layers == 1 || (parts > 8 && layers > most)) break;
        if (layers <= most) try_stage(made, layers);
    }
}

void cut_search::try_stage(work_cut made, int64_t layers) {
    work_shape &shape = made.shape;
    if (!lay_out_stage(shape, layers)) return;
    made.shared_bytes = stage_count * int64_t {shape.stage.bytes};
    const int64_t at_once = threads_ / tile_width_;
    if (facts_.volume) {
        const int64_t together = facts_.sum_bytes == 8 ? rows_together<double>
                                                       : rows_together<float>;
        const int64_t sum_rows = round_up(
                layers * shape.tile_groups * shape.band, at_once * together);
        shape.sum_rows = static_cast<int32_t>(sum_rows);
        made.shared_bytes += facts_.sum_bytes
                        * (round_up(sum_rows * tile_width_, 4)
                                + shape.tile_rows * shape.row_taps)
                + static_cast<int64_t>(sizeof(tap_place)) * shape.outputs
                        * at_once
                + static_cast<int64_t>(sizeof(uint32_t)) * sum_rows;
    }
    if (made.shared_bytes <= facts_.shared_bytes) try_runs(made);
}

/// False where the tile is too large.
bool cut_search::lay_out_stage(work_shape &shape, int64_t layers) const {
    stage_layout &stage = shape.stage;
    const int64_t size = facts_.element_bytes;
    const int64_t row_pitch = shape.dst_row_pitch * size;
    int64_t segment = size * staged_elements_;
    // Wherever it begins.
    const auto pieces_of = [&](int64_t bytes) {
        return ceil_div(bytes + piece_bytes - size, int64_t {piece_bytes});
    };
    int64_t room = pieces_of(segment) * piece_bytes;
    int64_t rows = shape.band;
    int64_t row_bytes = stage_distance(row_pitch, room);
    const int64_t layer_pitch = shape.dst_layer_pitch * size;
    if (row_pitch > row_bytes && layers > 1) return false;
    if (row_pitch <= row_bytes) {
        // Rows, and layers, with what lies between them.
        segment += (rows - 1) * row_pitch + (layers - 1) * layer_pitch;
        room = pieces_of(segment) * piece_bytes;
        rows = 1;
        row_bytes = row_pitch;
    }
    room += (rows - 1) * row_bytes;
    const int64_t group_bytes
            = stage_distance(shape.dst_group_pitch * size, room);
    // Threads read groups of an image that they do not have.
    const int64_t groups = facts_.volume
            ? shape.tile_groups
            : std::max<int64_t>(
                    shape.tile_groups, threads_ / tile_width_ * shape.outputs);
    room += (groups - 1) * group_bytes;
    const int64_t reach = size
            * ((shape.tile_groups - 1) * shape.dst_group_pitch
                    + (shape.band - 1) * shape.dst_row_pitch
                    + (layers - 1) * shape.dst_layer_pitch + staged_elements_);
    const int64_t src_reach = size
            * ((shape.tile_groups - 1) * shape.src_group_pitch
                    + shape.src_rows * shape.src_row_pitch
                    + int64_t {shape.src_columns} * shape.channels);
    const int64_t pieces = pieces_of(segment);
    const int64_t thread_pieces
            = ceil_div(shape.tile_groups * rows * pieces, int64_t {threads_});
    // The bytes between a tile's elements are counted by 32 bits.
    constexpr int64_t longest = int64_t {1} << 32;
    if (thread_pieces > pieces_of_thread(facts_.volume) || reach >= longest
            || src_reach >= longest)
        return false;
    // Weights of 0 meet what lies beyond a row's end.
    const int64_t beyond = size * facts_.taps * shape.channels;
    stage.layers = static_cast<int32_t>(layers);
    stage.rows = static_cast<int32_t>(rows);
    stage.segment_pieces = static_cast<int32_t>(pieces);
    stage.thread_pieces = static_cast<int32_t>(thread_pieces);
    stage.row_bytes = static_cast<uint32_t>(row_bytes);
    stage.group_bytes = static_cast<uint32_t>(group_bytes);
    stage.bytes = static_cast<uint32_t>(
            round_up(room + beyond, int64_t {piece_bytes}) + piece_bytes);
    stage.reach = static_cast<uint32_t>(reach);
    return true;
}

/// Cuts the layers into runs, or the groups into passes, and keeps what has the lowest
/// estimate.
void cut_search::try_runs(work_cut &made) {
    const work_shape &shape = made.shape;
    const int64_t tiles
            = shape.group_tiles * shape.row_tiles * shape.width_tiles;
    made.resident = std::max<int64_t>(1,
            std::min({int64_t {65536}
                            / (round_up(facts_.registers, 8) * made.threads),
                    int64_t {227 * 1024} / (made.shared_bytes + 1024),
                    int64_t {2048} / made.threads}));
    each_cut(shape.src_layers, [&](int64_t run_layers) {
        const int64_t runs = ceil_div(shape.src_layers, run_layers);
        if (tiles * runs > (int64_t {1} << 30)) return;
        keep_if_best(made, run_layers, 1);
        if (runs > 1) return;
        for (int64_t waves = 1; waves <= 4; ++waves) {
            const int64_t blocks
                    = waves * made.resident * facts_.multiprocessors;
            const int64_t passes
                    = std::min(ceil_div(tiles, blocks), shape.group_tiles);
            if (passes > 1) keep_if_best(made, run_layers, passes);
        }
    });
}

void cut_search::keep_if_best(
        const work_cut &made, int64_t run_layers, int64_t passes) {
    const work_shape &shape = made.shape;
    const int64_t runs = ceil_div(shape.src_layers, run_layers);
    const int64_t blocks = ceil_div(shape.group_tiles, passes) * runs
            * shape.row_tiles * shape.width_tiles;
    const auto warps = static_cast<double>(made.threads / 32);
    // Of a warp, instructions and accesses to shared memory, for a layer of diff_dst
    // and for one of diff_src, as the machine code has them.
    const double size = facts_.element_bytes;
    const double taps = facts_.taps;
    const double outputs = shape.outputs;
    const double tap_issues = (facts_.element_bytes == 2 ? 3.0 : 2.0)
            + (shape.channels > 1 ? 1.0 : 0.0);
    // Neighbouring elements read at the distance that they have in diff_dst.
    const double stretch = shape.channels > 1
            ? 1.0
            : std::max(1.0,
                    static_cast<double>(shape.dst_columns) / shape.src_columns);
    const double conflicts = std::max(1.0, stretch * size / 4.0);
    const double stage_issues = 60.0 + 12.0 * shape.stage.thread_pieces;
    const double stage_accesses = shape.stage.thread_pieces * 4.0;
    double dst_issues = 25.0;
    double dst_accesses = 0;
    if (facts_.volume) {
        const int64_t sum_rows = int64_t {shape.tile_groups} * shape.band;
        const auto turns = static_cast<double>(
                ceil_div(sum_rows, made.threads / tile_width_));
        const auto row_taps = static_cast<double>(rows_.max_count);
        dst_issues += 30.0 + turns * (taps * tap_issues + 8.0)
                + outputs * (12.0 + 4.0 * row_taps);
        dst_accesses += turns * (taps * conflicts + 2.0)
                + outputs * (3.0 + row_taps);
    } else {
        dst_issues += outputs * (taps * tap_issues + 4.0);
        dst_accesses += outputs * taps * conflicts;
    }
    const double src_issues = 20.0 + outputs * 6.0;
    // Bytes: whole sectors, and what memory loses by every jump.
    constexpr double jump = 48.0;
    const stage_layout &stage = shape.stage;
    const double stage_bytes = static_cast<double>(shape.tile_groups)
            * stage.rows * (stage.segment_pieces * piece_bytes + jump);
    const bool whole_rows = shape.width_tiles == 1;
    const double src_row = static_cast<double>(tile_width_) * size;
    const double src_bytes = whole_rows
            ? shape.tile_groups * (shape.tile_rows * src_row + sector / 2)
            : static_cast<double>(shape.tile_groups) * shape.tile_rows
                    * (src_row + sector / 2);
    const auto src = static_cast<double>(run_layers);
    const double ratio = static_cast<double>(layers_.dst)
            / static_cast<double>(layers_.src);
    const double dst = runs == 1 ? static_cast<double>(layers_.dst)
                                 : ratio * (src + 1.0);
    const auto walks = static_cast<double>(passes);
    const double filled = std::ceil(dst / stage.layers);
    const double issues = warps
            * (700.0
                    + walks
                            * (filled * stage_issues + dst * dst_issues
                                    + src * src_issues));
    const double accesses
            = warps * walks * (filled * stage_accesses + dst * dst_accesses);
    const double bytes = walks * (filled * stage_bytes + src * src_bytes);
    const int64_t held
            = std::min(made.resident, ceil_div(blocks, facts_.multiprocessors));
    const auto at_once = static_cast<double>(held);
    const double rate
            = std::min(issues_a_cycle, issues_of_a_warp * warps * at_once);
    // As fast as memory, as the instructions, as shared memory, or as the layers
    // arrive one after the other.
    const double computing
            = at_once * std::max(issues / rate, accesses / accesses_a_cycle);
    const double moving = at_once * bytes / bytes_a_cycle;
    const double busy
            = std::max(computing, moving) + 0.3 * std::min(computing, moving);
    constexpr double ahead = stage_count - 1;
    const double chain = 2.0 * latency
            + walks
                    * (filled * std::max(latency / ahead, 200.0)
                            + dst * (facts_.volume ? 150.0 : 100.0));
    const double waves = static_cast<double>(blocks)
            / (at_once * static_cast<double>(facts_.multiprocessors));
    const double cycles
            = (0.5 * waves + 0.5 * std::ceil(waves)) * std::max(busy, chain);
    if (best_.threads != 0 && cycles >= best_.cycles) return;
    best_ = made;
    best_.cycles = cycles;
    best_.blocks = blocks;
    best_.shape.runs = static_cast<int32_t>(runs);
    best_.shape.run_layers = static_cast<int32_t>(run_layers);
    best_.shape.passes = passes;
    best_.shape.lets_start = held == made.resident ? 1 : 0;
}

} // namespace gradnn::gpu::interpolation::axes
