// Plain host arithmetic.
#include <algorithm>
#include <utility>

#include "gpu/convolution/depthwise/shape.hpp"
#include "gpu/convolution/facts.hpp"
#include "gpu/convolution/operands.hpp"
#include "gpu/device/rounding.hpp"
#include "gpu/runtime/multiprocessor.hpp"

namespace gradnn::gpu::depthwise {

namespace {

constexpr int element_bytes = 2;

/// Positions after the last of read that the last written one meets.
int positions_after(const window_axis &axis) {
    return axis.written - axis.read + axis.kernel - 1 - axis.before;
}

/// Nothing for what neither planes nor lines are.
std::optional<problem_shape> shape_of(const convolution_problem &problem) {
    constexpr int64_t most = int64_t {1} << 28;
    const auto &[direction, src, weights, dst, strides, dilations, pads]
            = problem;
    // Tensor cores truncate when they add: they are not used for f32 weights.
    if (detail::size_of(src.type) != 2 || weights.type != src.type
            || weights.dims[1] != 1 || weights.dims[2] != 1
            || has_depth(problem) || axes_exceed(problem, most)
            || src.dims[0] > most || src.dims[1] > most >> 4)
        return std::nullopt;
    // Offsets within a plane are 32-bit.
    if (std::max(src.dims[3], dst.dims[3]) * std::max(src.dims[4], dst.dims[4])
                    > INT32_MAX
            || !are_dense(src, {4, 3, 1, 0}) || !are_dense(dst, {4, 3, 1, 0}))
        return std::nullopt;
    problem_shape shape;
    shape.to_src = is_to_src(problem);
    shape.images = src.dims[0];
    shape.channels = src.dims[1];
    shape.weights_strides[0] = weights.strides[0];
    for (const size_t i : {1, 2}) {
        window_axis &axis = i == 1 ? shape.down : shape.along;
        axis = {static_cast<int>(src.dims[i + 2]),
                static_cast<int>(dst.dims[i + 2]),
                static_cast<int>(weights.dims[i + 3]),
                static_cast<int>(pads[i])};
        if (shape.to_src) {
            std::swap(axis.read, axis.written);
            axis.before = axis.kernel - 1 - axis.before;
        }
        shape.weights_strides[i] = weights.strides[i + 3];
        // On either side fewer positions outside are met than there are taps.
        if (strides[i] != 1 || (dilations[i] != 1 && axis.kernel != 1)
                || axis.before < 0 || axis.before >= axis.kernel
                || positions_after(axis) >= axis.kernel)
            return std::nullopt;
    }
    return shape;
}

/// A window along W, none of whose rows is outside. False for what cut_of takes not.
bool cut_lines(work_cut &cut, const problem_shape &shape, bool of_weights,
        int64_t multiprocessors) {
    // gpu_sliding reads shorter windows from memory no faster than it multiplies them: an
    // element of 16 bits moves 4 bytes, 175 of which a multiprocessor gets in the time of
    // its 128 products, twice that in what a product costs beside itself.
    constexpr int least_taps = 16;
    constexpr int most_taps = 63; // five matrices hold them
    // Of shorter rows most of a product of matrices would be zeros.
    constexpr int least_columns = 64;
    constexpr int blocks_at_once = 4; // on a multiprocessor
    // Pieces of a warp, whose sums for the weights it adds up in f32.
    constexpr int64_t longest_chain = 1024;
    const window_axis &down = shape.down;
    const window_axis &along = shape.along;
    if (down.kernel != 1 || down.read != down.written
            || along.kernel < least_taps || along.kernel > most_taps
            || std::min(along.read, along.written) < least_columns)
        return false;
    // Matrices of sixteen rows or columns hold the taps for eight neighbouring columns.
    const int zeros = zeros_before(along.before, of_weights ? 8 : 2);
    cut.steps = ceil_div(zeros + along.kernel + 7, 16);
    cut.pieces = ceil_div(along.written, piece_columns);
    cut.tiles = shape.channels;
    const int64_t pieces = shape.images * down.read * cut.pieces;
    const int64_t most_parts = ceil_div(pieces, int64_t {line_warps});
    const int64_t least_parts
            = of_weights ? ceil_div(most_parts, longest_chain) : 1;
    cut.image_parts = static_cast<int>(
            std::clamp<int64_t>(multiprocessors * blocks_at_once / cut.tiles,
                    least_parts, most_parts));
    return pieces + int64_t {2} * line_warps * cut.image_parts < INT32_MAX
            && cut.blocks() < INT32_MAX;
}

/// Shared memory of a block where there is a choice: five of them fit a multiprocessor of
/// 228 KiB, as many as its registers hold.
constexpr int wanted_bytes = 40 << 10;

/// Bytes between rows of so many columns, which are whole vectors of 16 bytes, that leave
/// neighbouring rows' columns in other banks. Eight rows at a time are read, of which those
/// meet whose distance is a multiple of eight vectors: none where a row has an odd number.
int gap_of(int columns) {
    return columns % 16 == 0 ? 16 : 0;
}

/// Where in shared memory what a block has is, given its planes, images and rows;
/// whether that is within so many bytes.
bool lay_out_within(int most_bytes, work_cut &cut, const problem_shape &shape,
        bool of_weights) {
    const window_axis &down = shape.down;
    const window_axis &along = shape.along;
    const int rows = cut.band_rows;
    const int past = 16 - element_bytes; // of a plane, at most
    const int met = rows == down.written
            ? down.read
            : std::min(down.read, rows + window_size - 1);
    // Which is too much in any case.
    if (int64_t {std::max(rows, met) + window_size}
                    * std::max(along.read, along.written)
            > 1 << 20)
        return false;
    const int row_bytes = along.read * element_bytes + cut.read.gap;
    const int zeros = std::max(down.before, positions_after(down)) * row_bytes;
    const int lead = round_up(zeros + slack_bytes, 16);
    cut.read.distance = round_up(met * row_bytes + zeros + past, 16) + 16;
    cut.image_bytes = lead + cut.planes * cut.read.distance + slack_bytes;
    const int written = rows * along.written * element_bytes;
    // First come the windows, or zeros, then images twice, then results.
    constexpr int windows
            = window_size * 2 * window_row_elements<1> * element_bytes;
    const int first = of_weights ? zeros_bytes : cut.planes * windows;
    cut.read.at = first + lead;
    if (of_weights) {
        cut.written.at = first + cut.image_bytes + slack_bytes;
        cut.written.distance
                = round_up(written + rows * cut.written.gap + past, 16) + 16;
        cut.image_bytes += 2 * slack_bytes + cut.planes * cut.written.distance;
    }
    int bytes = first + 2 * cut.images * cut.image_bytes;
    if (of_weights) {
        constexpr int sums = plane_warps * window_size * matrix_sums * 4;
        bytes = std::max(bytes, sums);
    } else {
        cut.written.at = bytes;
        cut.result_bytes = round_up(cut.planes * written + past, 16);
        bytes += cut.images * cut.result_bytes;
    }
    cut.shared_bytes = static_cast<size_t>(bytes);
    return bytes <= most_bytes;
}

/// A window of 7x7. False for what cut_of takes not.
bool cut_planes(work_cut &cut, const problem_shape &shape, bool of_weights,
        int64_t multiprocessors) {
    // Of narrower planes a product's 16 columns are mostly empty.
    constexpr int least_plane = 12;
    // Of an image, where there are planes enough: what is read in a row.
    constexpr int run_bytes = 2 << 10;
    // Of a multiprocessor: twice what its registers hold.
    constexpr int blocks_at_once = 10;
    // Products of matrices that are added up before sums leave the tensor cores, which
    // truncate each time.
    constexpr int64_t longest_chain = 512;
    // Threads load beyond the columns of a row. Of read these are 7 + 8 + 6 columns
    // at most, which the slack holds. Of dst, which is shifted, they may be more:
    // src may have much longer rows.
    constexpr int slack = slack_bytes / element_bytes - 4;
    const window_axis &down = shape.down;
    const window_axis &along = shape.along;
    for (const window_axis *axis : {&down, &along})
        if (axis->kernel != window_size
                || std::min(axis->read, axis->written) < least_plane)
            return false;
    if (of_weights
            && round_up(along.read, tile_span) + along.before + 2
                            - along.written
                    > slack)
        return false;
    const auto fits = [&](int bytes) {
        return lay_out_within(bytes, cut, shape, of_weights);
    };
    // Warps that share a plane share its tiles of rows, or of columns.
    const auto tiles_of = [&](int rows) {
        return of_weights ? ceil_div(along.read, tile_span)
                          : ceil_div(rows, tile_rows);
    };
    const auto shares_of
            = [](int planes) { return std::max(1, plane_warps / planes); };
    cut.band_rows = down.written;
    cut.read.gap = gap_of(along.read);
    cut.read.by_vectors = exact_divider(along.read / 8);
    if (of_weights) cut.written.gap = gap_of(along.written);
    cut.written.by_vectors = exact_divider(along.written / 8);
    if (!fits(default_block_shared_bytes)) {
        const int row_bytes = along.written * element_bytes;
        cut.band_rows = round_up(
                std::min(down.written, ceil_div(wanted_bytes, row_bytes)),
                tile_rows);
        while (cut.band_rows > tile_rows && !fits(wanted_bytes))
            cut.band_rows -= tile_rows;
        if (cut.band_rows >= down.written || !fits(default_block_shared_bytes))
            return false;
        cut.bands = ceil_div(down.written, cut.band_rows);
    } else {
        const int most_planes = of_weights ? plane_warps : 16;
        const int plane_bytes = element_bytes
                * std::max(
                        down.read * along.read, down.written * along.written);
        const int tiles = tiles_of(down.written);
        const auto busy = [&](int planes) {
            const int shares = shares_of(planes);
            return 1.0 * tiles / (shares * ceil_div(tiles, shares));
        };
        int planes = 1;
        for (cut.planes = 2; cut.planes <= most_planes && fits(wanted_bytes)
                && cut.planes < 2 * shape.channels;
                cut.planes *= 2)
            if (planes * plane_bytes < run_bytes
                    || busy(cut.planes) > busy(planes))
                planes = cut.planes;
        cut.planes = planes;
        do
            ++cut.images;
        while (cut.images <= shape.images && fits(wanted_bytes));
        --cut.images;
        fits(wanted_bytes);
    }
    cut.tiles = ceil_div(shape.channels, int64_t {cut.planes});
    const int64_t stages = ceil_div(shape.images, int64_t {cut.images});
    const int64_t at_once = multiprocessors * blocks_at_once;
    const int64_t each = cut.tiles * cut.bands;
    const int64_t chain = int64_t {cut.images}
            * ceil_div(tiles_of(cut.band_rows), shares_of(cut.planes))
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
    return cut.blocks() < INT32_MAX;
}

} // namespace

std::optional<cut_problem> cut_of(
        const convolution_problem &problem, int64_t multiprocessors) {
    const std::optional<problem_shape> shape = shape_of(problem);
    if (!shape) return std::nullopt;
    cut_problem of {*shape, {}, is_of_weights(problem)};
    const auto &cut = shape->down.kernel == 1 ? cut_lines : cut_planes;
    if (!cut(of.cut, *shape, of.of_weights, multiprocessors))
        return std::nullopt;
    return of;
}

} // namespace gradnn::gpu::depthwise
