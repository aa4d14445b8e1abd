// The kernels of the bias gradient: partial sums by columns, of dense memory that repeats the
// channels, or by rows, of any tensor; and the sum of these.
#pragma once

#include "gpu/bias/batches.cuh"
#include "gpu/device/early_start.cuh"
#include "gpu/device/long_sum.cuh"
#include "gpu/device/positions.cuh"

namespace gradnn::gpu::bias {

/// Dense memory as a matrix of rows of `vectors` packs, the last of which may
/// end early, even within a pack. A block has `lanes` rows at a time, or
/// blockIdx.y names its columns where a row has more of them than a block has
/// threads. partials[part][vectors * vector].
template <typename Type, bool masks>
__global__ void __launch_bounds__(threads, masks ? resident - 1 : resident)
        columns_kernel(summed<Type> of, sum_of<Type> *partials,
                int64_t elements, int64_t rows, int64_t vectors, int lanes,
                bool whole) {
    using sum = sum_of<Type>;
    constexpr int vector = elements_of_16_bytes<Type>;
    __shared__ __align__(16) sum lane_sums[threads * vector];
    const auto thread = static_cast<int>(threadIdx.x);
    const int width = lanes == 1 ? threads : static_cast<int>(vectors);
    const int lane = thread / width;
    const int first_column = static_cast<int>(blockIdx.y) * threads;
    const int64_t column = first_column + thread % width;
    const int64_t parts = gridDim.x;
    const int64_t begin = blockIdx.x * rows / parts;
    const int64_t end = (blockIdx.x + 1) * rows / parts;
    const int64_t packs = elements / vector; // whole ones
    const int64_t limit = end * vectors;
    const int64_t first = (begin + lane) * vectors + column;
    const int64_t step = lanes * vectors;
    const Type *from = of.diff_dst + first * vector;
    // Short, as are rows (65535 blocks of columns), for cheap addresses.
    const auto pitch = static_cast<int>(step) * vector;
    // Loads of this thread: an int, since no memory holds more.
    const auto left
            = static_cast<int>((min(limit, packs) - first + step - 1) / step);
    sum *const sums = lane_sums + thread * vector; // registers are scarce
#pragma unroll
    for (int e = 0; e < vector; ++e)
        sums[e] = 0;
    wait_and_let_later_work_start();
    const auto walk = [&]<bool aligned>() {
        const auto load = [&](auto &words, int left) {
            typename summed<Type>::template batch<masks, aligned, vector>
                    batch {of};
            // By a branch, at whose end the compiler has issued all loads.
            if (left >= in_flight)
#pragma unroll
                for (int i = 0; i < in_flight; ++i)
                    batch.load(words, i, in_flight, from + i * pitch);
            else
#pragma unroll
                for (int i = 0; i < in_flight; ++i)
                    batch.load(words, i, left, from + i * pitch);
            from += in_flight * pitch;
        };
        const auto keep = [&](const sum(&of_chain)[vector]) {
#pragma unroll
            for (int e = 0; e < vector; ++e)
                sums[e] += of_chain[e];
        };
        add_words<Type, vector>(left, load, keep);
    };
    const bool mine = lane < lanes && column < vectors;
    if (mine) {
        if (whole)
            walk.template operator()<true>();
        else
            walk.template operator()<false>();
        const auto rest = static_cast<int>(elements % vector);
        if (rest > 0 && packs >= first && packs < limit
                && (packs - first) % step == 0)
#pragma unroll
            for (int e = 0; e < vector - 1; ++e)
                if (e < rest)
                    sums[e] += widen(of.template element<masks>(
                            of.diff_dst + packs * vector + e));
    }
    sum *to = partials + (blockIdx.x * vectors + first_column) * vector;
    __syncthreads();
    const int row_elements
            = min(static_cast<int>(vectors) - first_column, width) * vector;
#pragma unroll 1
    for (int e = thread; e < row_elements; e += threads) {
        sum total = 0;
        for (int other = 0; other < lanes; other += in_flight) {
            sum some[in_flight];
#pragma unroll
            for (int i = 0; i < in_flight; ++i)
                some[i] = other + i < lanes
                        ? lane_sums[(other + i) * row_elements + e]
                        : sum {0};
            total += sum_tree(some);
        }
        to[e] = total;
    }
}

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
template <bool masks, bool whole, int count, typename Type, typename Place>
__device__ void add_items(const summed<Type> &of, const channel_shape &shape,
        item_walk &walk, const Place &place, long_sum<sum_of<Type>> &total) {
    const Type *from = of.diff_dst + place(walk);
    const auto load = [&](auto &words, int left) {
        typename summed<Type>::template batch<masks, whole, count> batch {of};
#pragma unroll
        for (int i = 0; i < in_flight; ++i) {
            batch.load(words, i, left, from);
            from += 32 * count;
            if (walk.next(shape) || count == 1)
                from = of.diff_dst + place(walk);
        }
    };
    const auto keep = [&](sum_of<Type>(&of_chain)[count]) {
        total.add(sum_tree(of_chain));
    };
    add_words<Type, count>(walk.left, load, keep);
}

/// A warp sums one part of one channel: partials[channel][part].
template <typename Type, bool masks>
__global__ void __launch_bounds__(threads, masks ? resident - 1 : resident)
        rows_kernel(const __grid_constant__ summed<Type> of,
                sum_of<Type> *partials,
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
        add_items<masks, true, 1>(of, shape, singles, of_single, sum_of_lane);
    }
    if (whole)
        add_items<masks, true, vector>(of, shape, packs, of_pack, sum_of_lane);
    else
        add_items<masks, false, vector>(of, shape, packs, of_pack, sum_of_lane);
    double total = sum_of_lane.value();
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2)
        total += __shfl_xor_sync(0xffffffffU, total, distance);
    if (thread % 32 == 0) partials[unit] = static_cast<sum>(total);
}

/// Where the partial sums of a channel are.
struct partial_shape {
    int64_t channels = 0;
    int64_t channel_stride = 1;
    int64_t count = 1; ///< groups of `run` neighbouring sums
    int64_t stride = 0;
    exact_divider run;

    /// Of all channels: what the workspace holds.
    int64_t total() const { return channels * count * run.by; }
};

constexpr int final_threads = 512;
constexpr int least_lanes = 16; ///< of a channel

/// `lanes` threads (a power of two) share a channel; a block has as many
/// channels as that leaves, 32 at most. Neighbouring threads read neighbouring
/// sums: of channels that are neighbours, else of one channel.
template <typename Sum, typename Result>
__global__ void __launch_bounds__(final_threads, 3) final_kernel(
        const Sum *partials, Result *diff_bias, int64_t diff_bias_stride,
        const __grid_constant__ partial_shape shape, int lanes) {
    constexpr int final_warps = final_threads / 32;
    __shared__ double warp_sums[final_threads];
    const auto thread = static_cast<int>(threadIdx.x);
    const int width = final_threads / lanes; // channels of a block
    const bool neighbours = shape.channel_stride == 1;
    const int of_block = neighbours ? thread % width : thread / lanes;
    const int lane = neighbours ? thread / width : thread % lanes;
    const int64_t channel = blockIdx.x * int64_t {width} + of_block;
    const Sum *from = partials + channel * shape.channel_stride;
    const auto items = channel < shape.channels
            ? static_cast<uint32_t>(shape.count) * shape.run.by
            : 0U;
    const auto place = [&](uint32_t item) {
        const int in_run = take(item, shape.run);
        return item * shape.stride + in_run;
    };
    wait_and_let_later_work_start();
    long_sum<Sum> sum_of_lane;
    for (auto item = static_cast<uint32_t>(lane); item < items;
            item += static_cast<uint32_t>(in_flight * lanes)) {
        Sum some[in_flight];
#pragma unroll
        for (int i = 0; i < in_flight; ++i) {
            const uint32_t at = item + static_cast<uint32_t>(i * lanes);
            some[i] = at < items ? from[place(at)] : Sum {0};
        }
        sum_of_lane.add(sum_tree(some));
    }
    double total = sum_of_lane.value();
    // Across a warp, then across the warps of a channel.
    const int apart = neighbours ? width : 1;
    for (int distance = (neighbours ? 32 : min(lanes, 32)) / 2;
            distance >= apart; distance /= 2)
        total += __shfl_down_sync(0xffffffffU, total, distance);
    const int count = neighbours ? final_warps : max(lanes / 32, 1);
    if (neighbours) {
        if (thread % 32 < width)
            warp_sums[thread / 32 * width + thread % 32] = total;
    } else if (lane % 32 == 0) {
        warp_sums[of_block * count + lane / 32] = total;
    }
    __syncthreads();
    const int64_t own = blockIdx.x * int64_t {width} + thread;
    if (thread >= width || own >= shape.channels) return;
    const double *sums = warp_sums + thread * (neighbours ? 1 : count);
    total = 0;
#pragma unroll
    for (int i = 0; i < final_warps; ++i)
        if (i < count) total += sums[i * (neighbours ? width : 1)];
    diff_bias[own * diff_bias_stride] = narrow<Result>(total);
}

} // namespace gradnn::gpu::bias
