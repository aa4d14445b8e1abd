// Depthwise windows along W alone, in NCX of f32 and f64: which windows, and how
// the work is cut. Plain host arithmetic.
#include <algorithm>
#include <cstdint>

#include "gpu/convolution/depthwise/plan.hpp"
#include "gpu/convolution/depthwise/rows_ncx/cut.hpp"
#include "gpu/device/rounding.hpp"

namespace gradnn::gpu::depthwise::rows_ncx {

namespace {

constexpr int least_taps = 3;
/// Threads' columns of a channel: with fewer, blocks would be small ones.
constexpr int64_t least_groups = 32;
/// Of a multiprocessor's shared memory what blocks' tiles do not have: reserved for each
/// of up to 28 blocks.
constexpr int64_t reserved_bytes = 28 << 10;
/// Bytes after which shared memory's banks repeat.
constexpr int bank_bytes = 128;
/// A row is cut into at most so many pieces more than it takes.
constexpr int more_pieces = 4;
/// More parts than so many waves of blocks are no use.
constexpr int64_t most_waves = 8;

int lead_of(const problem_shape &shape, int64_t element_bytes) {
    const int before = taps_before(shape.axes[2], shape.to_src);
    return round_up(before, static_cast<int>(16 / element_bytes)) - before;
}

int64_t channel_rows_of(const problem_shape &shape) {
    return shape.images * shape.axes[0].read * shape.axes[1].read;
}

/// Sets rows, threads and shared_bytes for the pieces; false where nothing fits.
bool cut_tile(work_cut &cut, int64_t element_bytes, bool of_weights) {
    const int run = run_of(element_bytes);
    const int halo = cut.jobs * cut.chunks * chunk_taps;
    // Threads of the next row as if they had the next columns.
    const int banks = static_cast<int>(bank_bytes / element_bytes);
    cut.pitch = cut.columns(run)
            + (cut.groups > 1 ? round_up(halo, banks) : halo);
    const int64_t stages = of_weights ? tile_buffers : 1;
    const int64_t held = cut.pitch + (of_weights ? cut.columns(run) : 0);
    const int64_t row_bytes = stages * (held * element_bytes + row_note_bytes);
    const int64_t other_bytes = of_weights ? tile_buffers * tile_note_bytes
                                           : halo * element_bytes;
    const int most_threads = of_weights ? weights_threads : data_threads;
    const int64_t most_rows
            = std::min<int64_t>({most_threads / cut.groups, cut.channel_rows,
                    (default_block_shared_bytes - other_bytes) / row_bytes});
    if (most_rows < 1) return false;
    cut.row_tiles
            = static_cast<int>(ceil_div(int64_t {cut.channel_rows}, most_rows));
    cut.rows = ceil_div(cut.channel_rows, cut.row_tiles);
    cut.threads = round_up(cut.rows * cut.groups, 32);
    const int64_t sums_bytes = of_weights
            ? cut.jobs * cut.threads * chunk_taps * element_bytes
            : 0;
    cut.shared_bytes = static_cast<size_t>(
            std::max(other_bytes + cut.rows * row_bytes, sums_bytes));
    cut.by_groups = small_divider(cut.groups);
    return true;
}

/// Parts with the shortest waves of tiles, and of what is to be added up.
bool cut_parts(work_cut &cut, const problem_facts &facts) {
    const int64_t channels = facts.shape.channels;
    const int64_t element_bytes = facts.element_bytes();
    const int64_t units = int64_t {cut.row_tiles} * cut.pieces;
    const int64_t by_threads = facts.sm.blocks_held(cut.jobs * cut.threads,
            facts.sm.registers_for(
                    weights_resident(element_bytes) * weights_block_threads),
            0);
    const int64_t by_shared = (facts.sm.shared_bytes - reserved_bytes)
            / static_cast<int64_t>(cut.shared_bytes);
    const int64_t at_once = facts.multiprocessors
            * std::max<int64_t>(1, std::min(by_threads, by_shared));
    const int64_t least = ceil_div(units,
            std::max<int64_t>(1, longest_f32_chain / run_of(element_bytes)));
    int64_t best = 0;
    int64_t best_time = 0;
    for (int64_t wanted = 1; wanted <= most_waves; ++wanted) {
        const int64_t most = std::clamp<int64_t>(
                wanted * at_once / channels, least, units);
        const int64_t tiles = ceil_div(units, most);
        const int64_t parts = ceil_div(units, tiles);
        const int64_t waves = ceil_div(channels * parts, at_once);
        const int64_t time = waves * (tiles + 1);
        if (best != 0 && time >= best_time) continue;
        best = parts;
        best_time = time;
    }
    if (units + 2 * best >= INT32_MAX || channels * best >= INT32_MAX)
        return false;
    cut.parts = static_cast<int>(best);
    return true;
}

bool takes(const problem_facts &facts) {
    const problem_shape &shape = facts.shape;
    const int64_t element_bytes = facts.element_bytes();
    const window_axis &along = shape.axes[2];
    if (facts.channels_last || element_bytes < 4 || !window_is_a_row(shape)
            || along.kernel < least_taps
            || along.kernel > most_chunks * chunk_taps)
        return false;
    const int64_t rows = channel_rows_of(shape);
    const int64_t groups = ceil_div(along.written, run_of(element_bytes));
    return pads_are_short(along, shape.to_src)
            && along.kernel + lead_of(shape, element_bytes)
            <= most_chunks * chunk_taps
            && rows < INT32_MAX / 2 && rows * groups >= least_groups;
}

} // namespace

bool cut(work_cut &cut, const problem_facts &facts) {
    if (!takes(facts)) return false;
    const problem_shape &shape = facts.shape;
    const int64_t element_bytes = facts.element_bytes();
    const bool of_weights = facts.of_weights();
    const window_axis &along = shape.axes[2];
    const int run = run_of(element_bytes);
    cut.lead = lead_of(shape, element_bytes);
    cut.chunks = ceil_div(along.kernel + cut.lead, chunk_taps);
    if (of_weights) {
        cut.jobs = ceil_div(cut.chunks, weights_chunks);
        cut.chunks = ceil_div(cut.chunks, cut.jobs);
    }
    cut.channel_rows = static_cast<int>(channel_rows_of(shape));
    const int64_t vector = 16 / element_bytes;
    cut.wide_read = rows_of_read_divide(shape, vector);
    cut.wide_written = rows_of_written_divide(shape, vector);

    // The pieces with the fewest threads, counted with what they copy.
    const int groups = ceil_div(along.written, run);
    const int least_pieces
            = ceil_div(groups, of_weights ? weights_threads : data_threads);
    work_cut best;
    double best_work = 0;
    for (int pieces = least_pieces;
            pieces <= std::min(groups, least_pieces + more_pieces); ++pieces) {
        cut.groups = ceil_div(groups, pieces);
        cut.pieces = ceil_div(groups, cut.groups);
        if (!cut_tile(cut, element_bytes, of_weights)) continue;
        const double copied = 1. * cut.columns_met(run) / cut.columns(run);
        const double work = copied * cut.threads * cut.row_tiles * cut.pieces;
        if (best_work > 0 && work >= best_work) continue;
        best = cut;
        best_work = work;
    }
    cut = best;
    if (best_work == 0 || int64_t {cut.row_tiles} * cut.pieces >= INT32_MAX)
        return false;
    if (of_weights) return cut_parts(cut, facts);
    return cut.data_blocks(shape.channels) < INT32_MAX;
}

row_copies row_copies_of(int columns, int64_t element_bytes, bool whole) {
    row_copies copies;
    copies.each = whole ? static_cast<int>(16 / element_bytes) : 1;
    copies.count = columns / copies.each;
    copies.by = small_divider(copies.count);
    return copies;
}

} // namespace gradnn::gpu::depthwise::rows_ncx
