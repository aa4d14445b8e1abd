// The bias gradient: diff_bias[c] = sum over n and space of diff_dst.
//
// Two launches. The first leaves partial sums in the workspace, one of two
// ways; the second adds them up:
// - columns_kernel, where diff_dst is dense memory that repeats the channels
//   every `period` elements (NXC; NCX with small planes, whose period is C
//   times the plane): memory is a matrix of rows of lcm(period, vector)
//   elements, a thread owns one 16-byte column of it and walks down the rows
//   of its part, so that every element of the vector belongs to one channel
//   however odd C is.
// - rows_kernel, for all else (NCX, any strides): a warp or a block sums runs
//   of elements along the innermost axes of one channel.
// diff_dst is read once, in contiguous pieces. Which elements a thread adds,
// and in which order, follows from the shape and the device alone; sums of
// threads and parts are added in order of their number. No atomics.
#include <algorithm>
#include <numeric>

#include "gpu/dtype.cuh"
#include "gpu/early_start.cuh"
#include "gpu/kernels.hpp"
#include "gpu/launch.hpp"

namespace gradnn::gpu {

namespace {

constexpr int threads = 256;
constexpr int unroll = 4; ///< vectors that a thread has in flight

/// A pack from an address that need not be a multiple of its size. Where the
/// caller's memory lies must not decide which thread sums what, or the bits
/// would depend on it.
template <typename Type, int vector>
__device__ pack<Type, vector> load_from(const Type *from, bool whole) {
    auto words = pack<Type, vector> {};
    if constexpr (vector > 1) {
        if (!whole) {
            Type elements[vector];
#pragma unroll
            for (int e = 0; e < vector; ++e)
                elements[e] = from[e];
            memcpy(&words.bits, elements, sizeof elements);
            return words;
        }
    }
    return pack<Type, vector>::load(from);
}

/// `vectors` columns a row; a block has `lanes` rows at a time, or blockIdx.y
/// names its columns where a row has more of them than a block has threads.
/// partials[part][vectors * vector].
template <typename Type, int vector>
__global__ void __launch_bounds__(threads) columns_kernel(const Type *diff_dst,
        sum_of<Type> *partials, int64_t rows, int64_t vectors, int lanes,
        int64_t rows_per_part, bool whole) {
    using sum = sum_of<Type>;
    __shared__ sum lane_sums[threads * vector];
    wait_for_earlier_work();
    let_later_work_start();
    const auto thread = static_cast<int>(threadIdx.x);
    const int width = lanes == 1 ? threads : static_cast<int>(vectors);
    const int lane = thread / width;
    const int64_t column = blockIdx.y * int64_t(threads) + thread % width;
    const int64_t begin = blockIdx.x * rows_per_part;
    const int64_t end = min(begin + rows_per_part, rows);
    sum sums[vector] = {};
    if (lane < lanes && column < vectors) {
        const Type *from = diff_dst + (begin + lane) * vectors * vector
                + column * vector;
        const int64_t pitch = lanes * vectors * vector;
        int64_t row = begin + lane;
        for (; row + (unroll - 1) * lanes < end; row += unroll * lanes) {
            pack<Type, vector> words[unroll];
#pragma unroll
            for (int i = 0; i < unroll; ++i)
                words[i] = load_from<Type, vector>(from + i * pitch, whole);
            from += unroll * pitch;
#pragma unroll
            for (int i = 0; i < unroll; ++i) {
                sum values[vector];
                words[i].unpack(values);
#pragma unroll
                for (int e = 0; e < vector; ++e)
                    sums[e] += values[e];
            }
        }
        for (; row < end; row += lanes, from += pitch) {
            sum values[vector];
            load_from<Type, vector>(from, whole).unpack(values);
#pragma unroll
            for (int e = 0; e < vector; ++e)
                sums[e] += values[e];
        }
    }
    sum *to = partials + blockIdx.x * vectors * vector;
    if (lanes == 1) {
        // A row of partial sums begins at a multiple of 16 bytes where a vector
        // of them is so long.
        constexpr int most = 16 / static_cast<int>(sizeof(sum));
        constexpr int together = vector < most ? 1 : most;
        if (column < vectors)
#pragma unroll
            for (int e = 0; e < vector; e += together) {
                sum some[together];
#pragma unroll
                for (int i = 0; i < together; ++i)
                    some[i] = sums[e + i];
                pack<sum, together>::of(some).store(to + column * vector + e);
            }
        return;
    }
#pragma unroll
    for (int e = 0; e < vector; ++e)
        lane_sums[thread * vector + e] = sums[e];
    __syncthreads();
    const int row_elements = width * vector;
    for (int e = thread; e < row_elements; e += threads) {
        sum total = 0;
        for (int other = 0; other < lanes; ++other)
            total += lane_sums[other * row_elements + e];
        to[e] = total;
    }
}

/// Axes of one channel, innermost first; what can be merged is.
struct channel_shape {
    int64_t dims[4] = {1, 1, 1, 1};
    int64_t strides[4] = {};
    int64_t channel_stride = 0;
    int64_t piece = 1; ///< elements of dims[0] that make one piece
    int64_t pieces_per_row = 1;
    int64_t pieces = 1; ///< of a channel
};

template <typename Sum>
__device__ Sum add_across_warp(Sum value) {
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2)
        value += __shfl_down_sync(0xffffffffU, value, distance);
    return value;
}

/// A group of threads (a warp or a block) sums the pieces of one part of one
/// channel. partials[channel][part].
template <typename Type, int vector, int group>
__global__ void __launch_bounds__(threads) rows_kernel(const Type *diff_dst,
        sum_of<Type> *partials, const __grid_constant__ channel_shape shape,
        int64_t channels, int64_t parts, bool whole) {
    using sum = sum_of<Type>;
    __shared__ sum warp_sums[threads / 32];
    wait_for_earlier_work();
    let_later_work_start();
    const auto thread = static_cast<int>(threadIdx.x);
    const int member = thread % group;
    const int64_t unit = blockIdx.x * int64_t(threads / group) + thread / group;
    if (unit >= channels * parts) return; // whole warps or the whole block
    const int64_t channel = unit / parts;
    const int64_t part = unit % parts;
    const int64_t begin = part * shape.pieces / parts;
    const int64_t end = (part + 1) * shape.pieces / parts;
    // Where the next piece is: divided once, then counted.
    int64_t rest = begin / shape.pieces_per_row;
    int64_t at = begin % shape.pieces_per_row * shape.piece;
    int64_t index[3] = {}; // along axes 1, 2, 3
    const Type *base = diff_dst + channel * shape.channel_stride;
#pragma unroll
    for (int axis = 1; axis < 4; ++axis) {
        index[axis - 1] = rest % shape.dims[axis];
        base += index[axis - 1] * shape.strides[axis];
        rest /= shape.dims[axis];
    }
    const auto next_piece = [&] {
        at += shape.piece;
        if (at < shape.dims[0]) return;
        at = 0;
#pragma unroll
        for (int axis = 1; axis < 4; ++axis) {
            base += shape.strides[axis];
            if (++index[axis - 1] < shape.dims[axis]) return;
            base -= shape.dims[axis] * shape.strides[axis];
            index[axis - 1] = 0;
        }
    };
    constexpr int in_flight = vector == 1 ? 8 : unroll;
    sum sums[vector] = {};
    for (int64_t number = begin; number < end; ++number, next_piece()) {
        const int64_t length = min(shape.piece, shape.dims[0] - at);
        const Type *row = base + at * shape.strides[0];
        int64_t e = member * vector;
        constexpr int64_t step = group * vector;
        for (; e + (in_flight - 1) * step < length; e += in_flight * step) {
            pack<Type, vector> words[in_flight];
#pragma unroll
            for (int i = 0; i < in_flight; ++i)
                words[i] = load_from<Type, vector>(
                        row + (e + i * step) * shape.strides[0], whole);
#pragma unroll
            for (int i = 0; i < in_flight; ++i) {
                sum values[vector];
                words[i].unpack(values);
#pragma unroll
                for (int v = 0; v < vector; ++v)
                    sums[v] += values[v];
            }
        }
        for (; e < length; e += step) {
            sum values[vector];
            load_from<Type, vector>(row + e * shape.strides[0], whole)
                    .unpack(values);
#pragma unroll
            for (int v = 0; v < vector; ++v)
                sums[v] += values[v];
        }
    }
    sum total = 0;
#pragma unroll
    for (int v = 0; v < vector; ++v)
        total += sums[v];
    total = add_across_warp(total);
    if constexpr (group > 32) {
        if (thread % 32 == 0) warp_sums[thread / 32] = total;
        __syncthreads();
        total = 0;
        for (const sum of_warp : warp_sums)
            total += of_warp;
    }
    if (member == 0) partials[unit] = total;
}

/// Where the partial sums of a channel are.
struct partial_shape {
    int64_t channels = 0;
    int64_t channel_stride = 1;
    int64_t count = 1; ///< groups of `run` neighbouring sums
    int64_t stride = 0;
    int64_t run = 1;
};

constexpr int final_threads = 512;
constexpr int least_lanes = 16; ///< of a channel

/// `lanes` threads (a power of two) share a channel; a block has as many
/// channels as that leaves. Neighbouring threads read neighbouring sums: of
/// channels that are neighbours, else of one channel.
template <typename Sum, typename Result>
__global__ void __launch_bounds__(final_threads) final_kernel(
        const Sum *partials, Result *diff_bias, int64_t diff_bias_stride,
        const __grid_constant__ partial_shape shape, int lanes) {
    // One place between channels, for distinct banks.
    __shared__ Sum lane_sums[final_threads + final_threads / least_lanes];
    wait_for_earlier_work();
    let_later_work_start();
    const auto thread = static_cast<int>(threadIdx.x);
    const int width = final_threads / lanes; // channels of a block
    const bool neighbours = shape.channel_stride == 1;
    const int of_block = neighbours ? thread % width : thread / lanes;
    const int lane = neighbours ? thread / width : thread % lanes;
    const int64_t channel = blockIdx.x * int64_t {width} + of_block;
    Sum total = 0;
    if (channel < shape.channels) {
        const Sum *from = partials + channel * shape.channel_stride;
        const auto run = static_cast<uint32_t>(shape.run);
        const auto items = static_cast<uint32_t>(shape.count) * run;
#pragma unroll 4
        for (auto item = static_cast<uint32_t>(lane); item < items;
                item += static_cast<uint32_t>(lanes))
            total += from[item / run * shape.stride + item % run];
    }
    Sum *const sums = lane_sums + of_block * (lanes + 1);
    sums[lane] = total;
    for (int half = lanes / 2; half > 0; half /= 2) {
        __syncthreads();
        if (lane < half) sums[lane] += sums[lane + half];
    }
    __syncthreads();
    if (lane == 0 && channel < shape.channels)
        diff_bias[channel * diff_bias_stride] = narrow<Result>(sums[0]);
}

class bias_plan final : public detail::plan {
public:
    bias_plan(const bias_problem &problem, int device) : problem_(problem) {
        const int64_t blocks
                = int64_t {properties_of(device).multiprocessors} * 8;
        if (!plan_columns(blocks)) plan_rows(blocks);
    }

    size_t workspace_bytes() const override {
        const size_t bytes
                = problem_.diff_dst.type == detail::data_type::f64 ? 8 : 4;
        return static_cast<size_t>(partials_) * bytes;
    }

    void execute(std::span<void *const> args, std::byte *workspace,
            detail::stream_impl &stream) const override {
        const launch_scope scope(stream);
        with_float_type(problem_.diff_dst.type, [&]<typename Type>() {
            auto *partials = reinterpret_cast<sum_of<Type> *>(workspace);
            const auto *from = static_cast<const Type *>(args[0]);
            partial_shape final_shape;
            final_shape.channels = problem_.diff_dst.dims[1];
            if (columns_) {
                run_columns(from, partials, scope.stream());
                final_shape.channel_stride = run_;
                final_shape.count = partials_ / period_;
                final_shape.stride = period_;
                final_shape.run = run_;
            } else {
                run_rows(from, partials, scope.stream());
                // Even where there is one part, channels are `parts_` apart.
                final_shape.channel_stride = parts_;
                final_shape.count = 1;
                final_shape.run = parts_;
            }
            const bool wide = problem_.diff_bias_type != problem_.diff_dst.type;
            if (wide)
                finish(partials, static_cast<float *>(args[1]), final_shape,
                        scope.stream());
            else
                finish(partials, static_cast<Type *>(args[1]), final_shape,
                        scope.stream());
        });
    }

    std::string backend() const override { return "CUDA"; }

private:
    // Dense memory, channels repeating: NXC (period C, runs of 1), or NCX with
    // planes too small for a warp (period C * plane, runs of a plane).
    bool plan_columns(int64_t blocks) {
        const auto &dims = problem_.diff_dst.dims;
        const auto &strides = problem_.diff_dst.strides;
        const int64_t channels = dims[1];
        const int64_t space = dims[2] * dims[3] * dims[4];
        const auto dense_from = [&](int64_t stride,
                                        std::initializer_list<size_t> axes) {
            for (const size_t axis : axes) {
                if (dims[axis] != 1 && strides[axis] != stride) return false;
                stride *= dims[axis];
            }
            return true;
        };
        int64_t rows = 0;
        if (channels > 1 && strides[1] == 1
                && dense_from(channels, {4, 3, 2, 0})) {
            period_ = channels;
            run_ = 1;
            rows = dims[0] * space;
        } else if (space < 512 && dims[0] >= 4
                && dense_from(1, {4, 3, 2, 1, 0})) {
            period_ = channels * space;
            run_ = space;
            rows = dims[0];
        } else {
            return false;
        }
        const int64_t bytes = detail::size_of(problem_.diff_dst.type);
        vector_ = widest_vector(bytes, rows * period_);
        row_elements_ = std::lcm(period_, int64_t {vector_});
        rows_ = rows * period_ / row_elements_;
        // A last row that is not whole would need a mask: give up the vector.
        if (rows * period_ % row_elements_ != 0) {
            vector_ = 1;
            row_elements_ = period_;
            rows_ = rows;
        }
        const int64_t vectors = row_elements_ / vector_;
        const int64_t lanes = std::max<int64_t>(1, threads / vectors);
        const int64_t column_blocks = ceil_div(vectors, threads);
        if (column_blocks > 65535) return false; // a grid's second axis
        // Two turns of loads a thread, since its sums are written and read;
        // four of 16 bits, whose sums are twice as long as they.
        const int64_t turns = bytes == 2 ? 4 : 2;
        const int64_t wanted = std::clamp<int64_t>(
                ceil_div(rows_, lanes * unroll * turns), 1,
                std::max<int64_t>(1, blocks / column_blocks));
        rows_per_part_ = ceil_div(rows_, wanted);
        parts_ = ceil_div(rows_, rows_per_part_);
        partials_ = parts_ * row_elements_;
        columns_ = partials_ < int64_t {1} << 31;
        return columns_;
    }

    template <typename Type>
    void run_columns(const Type *from, sum_of<Type> *partials,
            const launch_stream &stream) const {
        constexpr int widest = 16 / sizeof(Type);
        const bool whole
                = is_aligned(from, static_cast<size_t>(vector_) * sizeof(Type));
        with_vector<widest>(vector_, [&]<int count>() {
            const int64_t vectors = row_elements_ / count;
            const int lanes = static_cast<int>(
                    std::max<int64_t>(1, threads / vectors));
            const dim3 grid(static_cast<unsigned>(parts_),
                    static_cast<unsigned>(
                            lanes > 1 ? 1 : ceil_div(vectors, threads)));
            launch_early("bias (columns)", columns_kernel<Type, count>, grid,
                    threads, 0, stream, from, partials, rows_, vectors, lanes,
                    rows_per_part_, whole);
        });
    }

    void plan_rows(int64_t blocks) {
        const auto &dims = problem_.diff_dst.dims;
        const auto &strides = problem_.diff_dst.strides;
        shape_.channel_stride = strides[1];
        int last = -1;
        for (const size_t axis :
                {size_t {4}, size_t {3}, size_t {2}, size_t {0}}) {
            if (dims[axis] == 1) continue;
            if (last >= 0
                    && strides[axis]
                            == shape_.strides[last] * shape_.dims[last]) {
                shape_.dims[last] *= dims[axis];
                continue;
            }
            ++last;
            shape_.dims[last] = dims[axis];
            shape_.strides[last] = strides[axis];
        }
        const int64_t bytes = detail::size_of(problem_.diff_dst.type);
        vector_ = shape_.strides[0] == 1
                ? widest_vector(bytes, shape_.dims[0], shape_.strides[1],
                          shape_.strides[2], shape_.strides[3],
                          shape_.channel_stride)
                : 1;
        group_ = shape_.dims[0] >= 2048 ? threads : 32;
        shape_.piece = std::min<int64_t>(shape_.dims[0],
                int64_t {group_} * unroll * 16 / bytes);
        shape_.pieces_per_row = ceil_div(shape_.dims[0], shape_.piece);
        shape_.pieces = shape_.pieces_per_row * shape_.dims[1] * shape_.dims[2]
                * shape_.dims[3];
        const int64_t groups = blocks * (threads / group_);
        parts_ = std::clamp<int64_t>(
                ceil_div(groups, dims[1]), 1, shape_.pieces);
        partials_ = parts_ * dims[1];
    }

    template <typename Type>
    void run_rows(const Type *from, sum_of<Type> *partials,
            const launch_stream &stream) const {
        constexpr int widest = 16 / sizeof(Type);
        const bool whole
                = is_aligned(from, static_cast<size_t>(vector_) * sizeof(Type));
        const int64_t units = partials_;
        const auto blocks = static_cast<unsigned>(
                ceil_div(units, threads / group_));
        with_vector<widest>(vector_, [&]<int count>() {
            launch_early("bias (rows)",
                    group_ == 32 ? rows_kernel<Type, count, 32>
                                 : rows_kernel<Type, count, threads>,
                    blocks, threads, 0, stream, from, partials, shape_,
                    problem_.diff_dst.dims[1], parts_, whole);
        });
    }

    template <int widest, typename Body>
    static void with_vector(int vector, const Body &body) {
        if constexpr (widest == 1)
            body.template operator()<1>();
        else if (vector >= widest)
            body.template operator()<widest>();
        else
            with_vector<widest / 2>(vector, body);
    }

    template <typename Sum, typename Result>
    void finish(const Sum *partials, Result *diff_bias,
            const partial_shape &shape, const launch_stream &stream) const {
        // About 8 sums a thread.
        int lanes = least_lanes;
        while (lanes < final_threads && shape.count * shape.run > 8 * lanes)
            lanes *= 2;
        launch_early("bias (final)", final_kernel<Sum, Result>,
                static_cast<unsigned>(
                        ceil_div(shape.channels, final_threads / lanes)),
                final_threads, 0, stream, partials, diff_bias,
                problem_.diff_bias_stride, shape, lanes);
    }

    bias_problem problem_;
    bool columns_ = false;
    int vector_ = 1;
    int64_t parts_ = 1;
    int64_t partials_ = 0;
    // columns
    int64_t period_ = 0;
    int64_t run_ = 1;
    int64_t row_elements_ = 0;
    int64_t rows_ = 0;
    int64_t rows_per_part_ = 0;
    // rows
    channel_shape shape_;
    int group_ = 32;
};

} // namespace

plan_or_refusal make_bias(
        const bias_problem &problem, const compile_options &options) {
    return std::make_unique<bias_plan>(
            problem, static_cast<int>(options.device));
}

} // namespace gradnn::gpu
