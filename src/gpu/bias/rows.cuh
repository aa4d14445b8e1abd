// The bias gradient of any tensor: partial sums by runs of elements.
#pragma once

#include "gpu/bias/batches.cuh"
#include "gpu/device/early_start.cuh"
#include "gpu/device/long_sum.cuh"

namespace gradnn::gpu::bias {

/// Axes of one channel, innermost first; what can be merged is. A row (along
/// dims[0]) has `packs` packs whose first element is, counted from the start of
/// the tensor, a multiple of their length, and `singles` elements before and
/// after these: both numbers are the same for all rows, wherever they begin.
struct channel_shape {
    int64_t dims[4] = {1, 1, 1, 1};
    int64_t strides[4] = {};
    int64_t channel_stride = 0;
    int64_t rows = 1;
    int64_t packs = 0;
    int64_t singles = 1;
};

/// A lane's walk over its part of the items (packs or singles) of a channel, in
/// steps of a warp: neighbouring lanes have neighbouring items.
class item_walk {
public:
    __device__ item_walk(const channel_shape &shape, int64_t items,
            int64_t channel, int64_t part, int64_t parts, int lane)
        : items_(items), offset(channel * shape.channel_stride) {
        if (items == 0) return;
        const int64_t all = items * shape.rows;
        const int64_t steps = ceil_div(all, 32);
        const int64_t begin = part * steps / parts * 32 + lane;
        const int64_t end = min((part + 1) * steps / parts * 32, all);
        left = static_cast<int>((end - begin + 31) / 32);
        const bool long_rows = items > 32;
        rows_a_step_ = long_rows ? 0 : 32 / static_cast<int>(items);
        items_a_step_ = long_rows ? 32 : 32 % static_cast<int>(items);
        int64_t rest = begin / items;
        item = begin - rest * items;
#pragma unroll
        for (int axis = 1; axis < 4; ++axis) {
            const int64_t quotient = rest / shape.dims[axis];
            index_[axis - 1] = rest - quotient * shape.dims[axis];
            offset += index_[axis - 1] * shape.strides[axis];
            rest = quotient;
        }
    }

    /// Returns whether the walk has come to another row.
    __device__ bool next(const channel_shape &shape) {
        item += items_a_step_;
        if (item < items_ && rows_a_step_ == 0) return false;
        int64_t rows = rows_a_step_;
        if (item >= items_) {
            item -= items_;
            ++rows;
        }
#pragma unroll
        for (int axis = 1; axis < 4; ++axis) {
            const int64_t dim = shape.dims[axis];
            index_[axis - 1] += rows;
            offset += rows * shape.strides[axis];
            if (index_[axis - 1] < dim) break;
            for (rows = 0; index_[axis - 1] >= dim; ++rows) {
                index_[axis - 1] -= dim;
                offset -= dim * shape.strides[axis];
            }
        }
        return true;
    }

private:
    int64_t items_; ///< of a row
    int rows_a_step_ = 0; ///< 32 items are so many rows
    int items_a_step_ = 0; ///< and so many items
    int64_t index_[3] = {}; ///< along axes 1, 2, 3

public:
    int left = 0; ///< items that are left to this lane
    int64_t item = 0; ///< within the row
    int64_t offset; ///< of the row
};

/// Adds what is left of a walk to `total`; place(walk) is where an item begins.
/// Items of more than one element follow each other in a row.
template <bool whole, int count, typename Type, typename Place>
__device__ void add_items(const Type *diff_dst, const channel_shape &shape,
        item_walk &walk, const Place &place, long_sum<sum_of<Type>> &total) {
    const Type *from = diff_dst + place(walk);
    const auto load = [&](auto &words, int left) {
#pragma unroll
        for (int i = 0; i < in_flight; ++i) {
            if (i < left) load_into<whole>(words[i], from);
            from += 32 * count;
            if (walk.next(shape) || count == 1) from = diff_dst + place(walk);
        }
    };
    const auto keep = [&](sum_of<Type>(&of_chain)[count]) {
        total.add(sum_tree(of_chain));
    };
    add_words<Type, count>(walk.left, load, keep);
}

/// A warp sums one part of one channel: partials[channel][part].
template <typename Type>
__global__ void __launch_bounds__(threads, resident)
        rows_kernel(const Type *diff_dst, sum_of<Type> *partials,
                const __grid_constant__ channel_shape shape, int64_t channels,
                int64_t parts, bool whole) {
    using sum = sum_of<Type>;
    constexpr int vector = elements_of_16_bytes<Type>;
    const auto thread = static_cast<int>(threadIdx.x);
    const int64_t unit = blockIdx.x * int64_t {warps} + thread / 32;
    if (unit >= channels * parts) return; // whole warps
    const int64_t channel = unit / parts;
    const int64_t part = unit % parts;
    item_walk packs(shape, shape.packs, channel, part, parts, thread % 32);
    wait_and_let_later_work_start();
    const auto before = [](int64_t offset) { // singles before the first pack
        return -offset & (vector - 1);
    };
    const auto of_pack = [&](const item_walk &walk) {
        return walk.offset + before(walk.offset) + walk.item * vector;
    };
    // Singles first: what they alone need is out of the registers then.
    long_sum<sum> sum_of_lane;
    if (shape.singles > 0) {
        item_walk singles(
                shape, shape.singles, channel, part, parts, thread % 32);
        const int64_t between = shape.packs * vector;
        const auto of_single = [&](const item_walk &walk) {
            const bool after = walk.item >= before(walk.offset);
            return walk.offset
                    + (walk.item + (after ? between : 0)) * shape.strides[0];
        };
        add_items<true, 1>(diff_dst, shape, singles, of_single, sum_of_lane);
    }
    if (whole)
        add_items<true, vector>(diff_dst, shape, packs, of_pack, sum_of_lane);
    else
        add_items<false, vector>(diff_dst, shape, packs, of_pack, sum_of_lane);
    double total = sum_of_lane.value();
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2)
        total += __shfl_xor_sync(0xffffffffU, total, distance);
    if (thread % 32 == 0) partials[unit] = static_cast<sum>(total);
}

} // namespace gradnn::gpu::bias
