// How the bias gradient is cut into parts, by columns of dense memory or by rows of any.
// Host arithmetic; by the kernels' constants, so for CUDA's compiler or for tests with
// emulated/simt.hpp.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>

#include "gpu/bias/kernels.cuh"
#include "gpu/convolution/facts.hpp"
#include "gpu/device/rounding.hpp"
#include "kernel/problem.hpp"

namespace gradnn::gpu::bias {

/// Into how many parts, at most `most`, work goes that has `each` blocks (or
/// warps) a part, so that it fills what the device holds at a time, `wave`, a
/// whole number of times, with at most a tenth left empty: a small rest would run
/// alone at the end.
inline int64_t parts_of(int64_t each, int64_t wave, int64_t most) {
    int64_t best = 1;
    double best_share = 0;
    for (int64_t waves = 1; waves <= 8; ++waves) {
        const int64_t parts = std::min(waves * wave / each, most);
        if (parts == 0) continue;
        const double share = 1.0 * parts * each / (waves * wave);
        if (share > best_share) {
            best = parts;
            best_share = share;
        }
        if (share >= 0.9 || parts == most) break;
    }
    return best;
}

/// For columns_kernel: diff_dst as a matrix of `rows` of `row_elements`.
struct columns_cut {
    int64_t elements = 0;
    int64_t row_elements = 0;
    int64_t rows = 0;
    int lanes = 1; ///< rows that a block has at a time
    int64_t parts = 1;
    partial_shape sums;
};

/// For rows_kernel.
struct rows_cut {
    channel_shape shape;
    partial_shape sums; ///< a run for each channel, of its parts
};

/// Threads that share a channel in final_kernel: about 8 sums each.
inline int final_lanes(const partial_shape &shape) {
    int lanes = least_lanes;
    while (lanes < final_threads && shape.count * shape.run.by > 8 * lanes)
        lanes *= 2;
    return lanes;
}

/// Dense memory, channels repeating: NXC (period C, runs of 1), or NCX with planes too
/// small for a warp (period C * plane, runs of a plane). Nothing for what is not. A device
/// holds `wave` blocks at a time.
inline std::optional<columns_cut> cut_columns(
        const detail::bias_problem &problem, int64_t wave) {
    columns_cut cut;
    const detail::tensor_view &diff_dst = problem.diff_dst;
    const int64_t channels = diff_dst.dims[1];
    const int64_t space = positions_of(diff_dst);
    const bool channels_last
            = channels > 1 && are_dense(diff_dst, {1, 4, 3, 2, 0});
    if (!channels_last
            && (space >= 512 || diff_dst.dims[0] < 4
                    || !are_dense(diff_dst, {4, 3, 2, 1, 0})))
        return {};
    const int64_t run = channels_last ? 1 : space; // of a channel
    const int64_t period = channels * run;
    cut.elements = diff_dst.dims[0] * channels * space;
    const int64_t bytes = detail::size_of(diff_dst.type);
    const int64_t vector = 16 / bytes;
    cut.row_elements = std::lcm(period, vector);
    cut.rows = ceil_div(cut.elements, cut.row_elements);
    const int64_t vectors = cut.row_elements / vector;
    const int64_t column_blocks = ceil_div(vectors, threads);
    if (column_blocks > 65535) return {}; // a grid's second axis
    cut.lanes = static_cast<int>(std::max<int64_t>(1, threads / vectors));
    // A batch of loads a thread, since its sums are written and read; two
    // of 16 bits, whose sums are twice as long as they.
    const int64_t least = in_flight * (bytes == 2 ? 2 : 1);
    cut.parts = parts_of(
            column_blocks, wave, ceil_div(cut.rows, cut.lanes * least));
    cut.sums = {channels, run, cut.parts * cut.row_elements / period, period,
            exact_divider(run)};
    if (cut.sums.total() >= int64_t {1} << 31) return {};
    return cut;
}

/// A device holds `wave` warps at a time.
inline rows_cut cut_rows(const detail::bias_problem &problem, int64_t wave) {
    rows_cut cut;
    channel_shape &shape = cut.shape;
    const auto &dims = problem.diff_dst.dims;
    const auto &strides = problem.diff_dst.strides;
    shape.channel_stride = strides[1];
    int last = -1;
    for (const size_t axis : {size_t {4}, size_t {3}, size_t {2}, size_t {0}}) {
        if (dims[axis] == 1) continue;
        if (last >= 0
                && strides[axis] == shape.strides[last] * shape.dims[last]) {
            shape.dims[last] *= dims[axis];
            continue;
        }
        ++last;
        shape.dims[last] = dims[axis];
        shape.strides[last] = strides[axis];
    }
    shape.rows = shape.dims[1] * shape.dims[2] * shape.dims[3];
    const int64_t length = shape.dims[0];
    const int64_t vector = 16 / detail::size_of(problem.diff_dst.type);
    bool alike = length % vector == 0; // all rows begin with a pack
    for (const int64_t stride : {shape.strides[1], shape.strides[2],
                 shape.strides[3], shape.channel_stride})
        alike = alike && stride % vector == 0;
    if (shape.strides[0] == 1 && length >= vector)
        shape.packs = (alike ? length : length - vector + 1) / vector;
    shape.singles = length - shape.packs * vector;
    // A batch of loads each.
    const int64_t items = shape.packs > 0 ? shape.packs : shape.singles;
    const int64_t most = ceil_div(items * shape.rows, 32 * in_flight);
    const int64_t channels = dims[1];
    const int64_t parts = parts_of(channels, wave, most);
    cut.sums = {channels, parts, 1, 0, exact_divider(parts)};
    return cut;
}

} // namespace gradnn::gpu::bias
