// Depthwise on tensor cores: which tensors and windows, and how the work is cut.
// Plain host arithmetic.
#include <algorithm>
#include <cstdint>

#include "gpu/convolution/depthwise/plan.hpp"
#include "gpu/device/rounding.hpp"

namespace gradnn::gpu::depthwise::matrices {

namespace {

/// Shared memory of a block where there is a choice: five of them fit a multiprocessor of
/// 228 KiB, as many as its registers hold.
constexpr int64_t wanted_bytes = 40 << 10;
constexpr int64_t element_bytes = 2;
/// Of an image, where there are planes enough: what is read in a row.
constexpr int64_t run_bytes = 2 << 10;
/// Of a multiprocessor: twice what its registers hold.
constexpr int blocks_at_once = 10;
/// Products of matrices that are added up before sums leave the tensor cores, which
/// truncate each time.
constexpr int64_t longest_chain = 512;

/// Bytes between rows of so many columns, which are whole vectors of 16 bytes, that leave
/// neighbouring rows' columns in other banks. Eight rows at a time are read, of which those
/// meet whose distance is a multiple of eight vectors: none where a row has an odd number.
int gap_of(int columns) {
    return columns % 16 == 0 ? 16 : 0;
}

/// Where in shared memory what a block has is, given its planes, images and rows,
/// and how many bytes there are.
void lay_out(work_cut &cut, const problem_shape &shape, bool of_weights) {
    const auto &[deep, down, along] = shape.axes;
    const int64_t rows = cut.band_rows;
    const int64_t planes = cut.planes;
    const int64_t images = cut.images;
    const int64_t past = 16 - element_bytes; // of a plane, at most
    const int64_t met = rows == down.written
            ? int64_t {down.read}
            : std::min<int64_t>(down.read, rows + window_size - 1);
    const int64_t row_bytes = along.read * element_bytes + cut.read_gap;
    const int64_t zeros = std::max(taps_before(down, shape.to_src),
                                  positions_after(down, shape.to_src))
            * row_bytes;
    const int64_t lead = round_up(zeros + slack_bytes, 16);
    const int64_t distance = round_up(met * row_bytes + zeros + past, 16) + 16;
    const int64_t read = lead + planes * distance + slack_bytes;
    const int64_t written = rows * along.written * element_bytes;
    const int64_t written_distance
            = round_up(written + rows * cut.written_gap + past, 16) + 16;
    const int64_t written_bytes = of_weights
            ? 2 * slack_bytes + planes * written_distance
            : round_up(planes * written + past, 16);
    cut.read_lead = static_cast<int>(lead);
    cut.read_distance = static_cast<int>(distance);
    cut.read_bytes = static_cast<int>(read);
    cut.written_distance = static_cast<int>(written_distance);
    cut.written_bytes = static_cast<int>(written_bytes);
    int64_t bytes = 0;
    if (of_weights) {
        const int64_t sums = block_warps * window_size * tile_rows
                * dst_tile_rows * static_cast<int64_t>(sizeof(float));
        bytes = std::max(
                sums, zeros_bytes + images * 2 * (read + written_bytes));
    } else {
        const int64_t windows
                = window_size * 2 * window_row_elements * element_bytes;
        bytes = planes * windows + images * (2 * read + written_bytes);
    }
    cut.shared_bytes = static_cast<size_t>(bytes);
}

/// Of narrower planes a product's 16 columns are mostly empty: 5x5 on planes of 14x14 take
/// 54 us, gpu_sliding 42; 7x7 on planes of 56x56 take 44 us for either gradient, gpu_sliding
/// 64 and 71 (bf16, H100, b25b3c9).
constexpr int least_plane = 12;

/// A window of 7x7 on planes (one depth), with strides and dilations of 1 and short pads.
bool takes(const problem_facts &facts) {
    const problem_shape &shape = facts.shape;
    const auto &[deep, down, along] = shape.axes;
    if (deep.kernel != 1 || deep.pad != 0 || deep.read != 1
            || deep.written != 1)
        return false;
    for (const window_axis *axis : {&down, &along})
        if (axis->kernel != window_size || axis->stride != 1
                || axis->dilation != 1 || !pads_are_short(*axis, shape.to_src)
                || std::min(axis->read, axis->written) < least_plane)
            return false;
    // Threads load beyond the columns of a row. Of read these are 7 + 8 + 6 columns
    // at most, which the slack holds. Of dst, which is shifted, they may be more:
    // src may have much longer rows.
    constexpr int slack = slack_bytes / static_cast<int>(element_bytes) - 4;
    return !facts.of_weights()
            || round_up(along.read, tile_span) + along.pad + 2 - along.written
            <= slack;
}

} // namespace

bool cut(work_cut &cut, const problem_facts &facts, bool vectors) {
    if (!takes(facts)) return false;
    const problem_shape &shape = facts.shape;
    const bool of_weights = facts.of_weights();
    const window_axis &down = shape.axes[1];
    const window_axis &along = shape.axes[2];
    const int64_t most_planes = of_weights ? block_warps : 16;
    const int64_t plane_bytes = std::max(int64_t {down.read} * along.read,
                                        int64_t {down.written} * along.written)
            * element_bytes;
    cut.planes = cut.images = cut.bands = 1;
    cut.band_rows = down.written;
    cut.read_gap = gap_of(along.read);
    cut.by_read_vectors = exact_divider(std::max(1, along.read / 8));
    if (of_weights) cut.written_gap = gap_of(along.written);
    cut.by_written_vectors = exact_divider(std::max(1, along.written / 8));
    const auto lay_out_within = [&](int64_t bytes) {
        lay_out(cut, shape, of_weights);
        return static_cast<int64_t>(cut.shared_bytes) <= bytes;
    };
    // Warps that share a plane share its tiles of rows, or of columns.
    const auto tiles_of = [&](int rows) {
        return of_weights ? ceil_div(along.read, tile_span)
                          : ceil_div(rows, tile_rows);
    };
    if (!lay_out_within(default_block_shared_bytes)) {
        const int64_t row_bytes = along.written * element_bytes;
        cut.band_rows = static_cast<int>(std::min<int64_t>(
                down.written, ceil_div(wanted_bytes, row_bytes)));
        cut.band_rows = round_up(cut.band_rows, tile_rows);
        while (cut.band_rows > tile_rows && !lay_out_within(wanted_bytes))
            cut.band_rows -= tile_rows;
        if (cut.band_rows >= down.written
                || !lay_out_within(default_block_shared_bytes))
            return false;
        cut.bands = ceil_div(down.written, cut.band_rows);
    } else {
        const int tiles = tiles_of(down.written);
        const auto busy = [&](int planes) {
            const int shares = std::max(1, block_warps / planes);
            return static_cast<double>(tiles)
                    / (shares * ceil_div(tiles, shares));
        };
        int planes = 1;
        for (cut.planes = 1; cut.planes <= most_planes; cut.planes *= 2) {
            if (cut.planes > 1
                    && (!lay_out_within(wanted_bytes)
                            || cut.planes >= 2 * shape.channels))
                break;
            if (planes * plane_bytes < run_bytes
                    || busy(cut.planes) > busy(planes))
                planes = cut.planes;
        }
        cut.planes = planes;
        while (cut.images < shape.images) {
            ++cut.images;
            if (lay_out_within(wanted_bytes)) continue;
            --cut.images;
            break;
        }
    }
    lay_out(cut, shape, of_weights);
    cut.tiles = ceil_div(shape.channels, int64_t {cut.planes});
    const int64_t stages = ceil_div(shape.images, int64_t {cut.images});
    const int64_t at_once = facts.multiprocessors * blocks_at_once;
    const int64_t each = cut.tiles * cut.bands;
    const int shares = std::max(1, block_warps / cut.planes);
    const int64_t chain = int64_t {cut.images}
            * ceil_div(tiles_of(cut.band_rows), shares)
            * ceil_div(cut.band_rows, dst_tile_rows);
    const int64_t most = of_weights
            ? std::clamp<int64_t>(longest_chain / chain, 1, stages)
            : stages;
    // So many stages a block that the device is done soonest: in waves of blocks,
    // each of which waits for its first stage too.
    int64_t least = INT64_MAX;
    for (int64_t of_block = 1; of_block <= most;
            of_block += 1 + of_block / 16) {
        const int64_t parts = ceil_div(stages, of_block);
        const int64_t taken = ceil_div(each * parts, at_once) * (of_block + 1);
        if (taken > least) continue;
        least = taken;
        cut.image_parts = static_cast<int>(parts);
    }
    // Gaps between rows are for rows that are whole vectors.
    if (!vectors) cut.read_gap = cut.written_gap = 0;
    return cut.blocks() < INT32_MAX;
}

} // namespace gradnn::gpu::depthwise::matrices
