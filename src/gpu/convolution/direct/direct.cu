// Convolution, all directions, straight from the definition (../README.md): the kernel that
// takes everything. README.md says what threads and blocks have, and how they add.
#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <numeric>

#include "gpu/convolution/direct/kernels.cuh"
#include "gpu/convolution/facts.hpp"
#include "gpu/convolution/operands.hpp"
#include "gpu/device/dtype.cuh"
#include "gpu/kernels.hpp"
#include "gpu/runtime/launch.hpp"
#include "gpu/runtime/with_type.hpp"

namespace gradnn::gpu::direct {

bool is_small(const convolution_problem &problem) {
    // Sums of two are below 2^31.
    constexpr double most = 0x1p30;
    const auto &[direction, src, weights, dst, strides, dilations, pads]
            = problem;
    // The elements or the last offset of a tensor, whichever is more.
    const auto last_of = [](const auto &tensor) {
        double last = 0;
        for (size_t axis = 0; axis < tensor.dims.size(); ++axis)
            last += 1.0 * (tensor.dims[axis] - 1) * tensor.strides[axis];
        return std::max(last, elements_of(tensor));
    };
    double reach = std::max({last_of(src), last_of(weights), last_of(dst)});
    for (size_t axis = 0; axis < 3; ++axis) {
        const double stride = strides[axis];
        const double dilation = dilations[axis];
        const double step = std::max({src.strides[axis + 2],
                dst.strides[axis + 2], weights.strides[axis + 3]});
        // Of one tap or position to the next, also where there is none.
        reach = std::max(reach, std::max(stride, dilation) * step);
        reach = std::max(reach,
                stride * dst.dims[axis + 2] + dilation * weights.dims[axis + 3]
                        + std::abs(1.0 * pads[axis]));
    }
    return reach < most;
}

template <typename Index>
problem_shape<Index> shape_of(
        const convolution_problem &problem, int together) {
    const auto index
            = [](int64_t number) { return static_cast<Index>(number); };
    const auto &[direction, src, weights, dst, strides, dilations, pads]
            = problem;
    const bool forward = direction == detail::convolution_direction::forward;
    problem_shape<Index> shape;
    for (size_t i = 0; i < 3; ++i) {
        // Of a position of src: y * stride + k * dilation is its place in the padded
        // axis, for a k and then for the next one.
        const int64_t common = std::gcd(strides[i], dilations[i]);
        const int64_t step = forward ? 1 : strides[i] / common;
        const int64_t move = forward
                ? dilations[i] * src.strides[i + 2]
                : -(dilations[i] / common) * dst.strides[i + 2];
        shape.axes[i] = {index(src.dims[i + 2]), index(dst.dims[i + 2]),
                index(weights.dims[i + 3]), index(pads[i]),
                divisor<Index>(strides[i]), divisor<Index>(dilations[i]),
                index(src.strides[i + 2]), index(dst.strides[i + 2]),
                index(weights.strides[i + 3]), index(step), index(move),
                index(step * weights.strides[i + 3])};
    }
    for (size_t i = 0; i < 2; ++i) {
        shape.src_strides[i] = index(src.strides[i]);
        shape.dst_strides[i] = index(dst.strides[i]);
    }
    for (size_t i = 0; i < 3; ++i)
        shape.weights_strides[i] = index(weights.strides[i]);
    shape.images = index(src.dims[0]);
    shape.outputs = divisor<Index>(weights.dims[1]);
    shape.inputs = divisor<Index>(weights.dims[2]);

    if (is_of_weights(problem)) {
        for (const int64_t dim : weights.dims)
            shape.count *= dim;
        return shape;
    }
    const detail::tensor_view &written = forward ? dst : src;
    std::array<size_t, 5> order {4, 3, 2, 1, 0};
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
        return written.strides[a] < written.strides[b];
    });
    for (const size_t axis : order) {
        const int64_t dim = ceil_div(
                written.dims[axis], int64_t {axis == 0 ? together : 1});
        shape.dims[axis] = divisor<Index>(dim);
        shape.inner[axis] = divisor<Index>(shape.count);
        shape.count *= dim;
    }
    // With more, few blocks would fit beside one another.
    constexpr int64_t most_entries = 2048;
    if (written.dims[2] + written.dims[3] + written.dims[4] <= most_entries)
        for (size_t i = 0; i < 3; ++i) {
            shape.axes[i].table = shape.table;
            shape.table += static_cast<int>(written.dims[i + 2]);
        }
    return shape;
}

template problem_shape<int32_t> shape_of<int32_t>(
        const convolution_problem &, int);
template problem_shape<int64_t> shape_of<int64_t>(
        const convolution_problem &, int);

weights_cut cut_weights(
        const convolution_problem &problem, int multiprocessors) {
    const auto &weights = problem.weights.dims;
    const auto &dst = problem.dst;
    weights_cut cut;
    cut.channels = dst.dims[1];
    if (dst.strides[1] == 1) {
        // As many lanes as leave the fewest idle, and of those the most.
        int64_t fewest = INT64_MAX;
        for (int lanes = 32; lanes >= 1; lanes /= 2) {
            const int64_t used = round_up(cut.channels, lanes);
            if (used < fewest && (lanes >= 8 || cut.channels < 8)) {
                fewest = used;
                cut.lanes = lanes;
            }
        }
    }
    const auto in_pairs = [](const detail::tensor_view &tensor) {
        const auto is_odd = [](int64_t stride) { return stride % 2 != 0; };
        return tensor.strides[1] == 1
                && std::ranges::count_if(tensor.strides, is_odd) == 1;
    };
    cut.pairs = weights[1] * weights[2] == 1 && cut.channels % 2 == 0
            && in_pairs(problem.src) && in_pairs(dst);
    cut.channel_tiles = ceil_div(cut.channels, int64_t {cut.lanes});
    constexpr int64_t longest_run = 32;
    const int of_block = weights[5] > 2 * few_taps ? most_taps : few_taps;
    cut.tap_groups = static_cast<int>(ceil_div(weights[5], int64_t {of_block}));
    cut.taps_w
            = static_cast<int>(ceil_div(weights[5], int64_t {cut.tap_groups}));
    cut.tap_rows = weights[2] * weights[3] * weights[4];
    cut.tiles = cut.channel_tiles * cut.tap_rows * cut.tap_groups;
    const std::array<int64_t, 4> positions {
            dst.dims[4], dst.dims[3], dst.dims[2], dst.dims[0]};
    const auto longest
            = std::max_element(positions.begin() + 1, positions.end());
    cut.along = static_cast<int>(longest - positions.begin());
    cut.run = static_cast<int>(std::min(*longest, longest_run));
    const int64_t runs = dst.dims[0] * positions_of(dst) / *longest
            * ceil_div(*longest, int64_t {cut.run});
    // Enough blocks to fill the device, with at most 2048 products of a thread: longer f32 sums
    // lose digits.
    const int64_t rows = threads / cut.lanes;
    const int64_t least = ceil_div(runs, rows * (2048 / cut.run));
    cut.parts = std::clamp<int64_t>(
            ceil_div(int64_t {multiprocessors} * 16, cut.tiles), least,
            std::max(least, ceil_div(runs, rows)));
    return cut;
}

namespace {

/// Whether a sum over the taps of a channel, or over channels, is longer than plain
/// sums should be.
bool sums_are_long(const convolution_problem &problem) {
    constexpr int64_t most = 2048;
    const auto &weights = problem.weights.dims;
    return 1.0 * weights[3] * weights[4] * weights[5] > most
            || weights[is_to_src(problem) ? 1 : 2] > most;
}

template <typename Type, int together, typename Index>
std::unique_ptr<detail::plan> data_plan(
        const convolution_problem &problem, int multiprocessors) {
    const auto shape = shape_of<Index>(problem, together);
    const bool backward = is_to_src(problem);
    auto *kernel = backward
            ? gather_kernel<Type, false, plain_sum, together, Index>
            : gather_kernel<Type, true, plain_sum, together, Index>;
    if constexpr (together == 1)
        if (sums_are_long(problem))
            kernel = backward ? gather_kernel<Type, false, long_sum, 1, Index>
                              : gather_kernel<Type, true, long_sum, 1, Index>;
    // Each block makes a table of its own.
    constexpr int64_t of_multiprocessor = 8;
    const int64_t blocks = std::min(ceil_div(shape.count, int64_t {threads}),
            of_multiprocessor * multiprocessors);
    const size_t table
            = static_cast<size_t>(shape.table) * sizeof(axis_taps<Index>);
    const auto launches = [=](const tensor_pointers &at,
                                  const launch_stream &stream) {
        launch("convolution.gpu_direct", kernel, blocks, threads, table, stream,
                at.read(backward), at.weights, at.written(backward), shape);
    };
    return plan_of(launches, 0);
}

template <typename Type, typename Index>
std::unique_ptr<detail::plan> plan_by(
        const convolution_problem &problem, int multiprocessors) {
    if (!is_of_weights(problem)) {
        // At most a third more images than there are, by threads that fill the device.
        const auto are_together = [&](int some) {
            constexpr int resident = 2048;
            const auto &written
                    = is_to_src(problem) ? problem.src : problem.dst;
            const int64_t images = written.dims[0];
            return !sums_are_long(problem)
                    && 4 * images >= 3 * round_up(images, some)
                    && elements_of(written)
                    >= 1.0 * some * resident * multiprocessors;
        };
        if constexpr (sizeof(Index) == 4) {
            if (are_together(4))
                return data_plan<Type, 4, Index>(problem, multiprocessors);
            if (are_together(2))
                return data_plan<Type, 2, Index>(problem, multiprocessors);
        }
        return data_plan<Type, 1, Index>(problem, multiprocessors);
    }
    const auto shape = shape_of<Index>(problem);
    const weights_cut cut = cut_weights(problem, multiprocessors);
    const dim3 blocks(
            static_cast<unsigned>(std::min<int64_t>(cut.tiles, 1 << 30)),
            static_cast<unsigned>(std::min<int64_t>(cut.parts, 1 << 15)));
    const launcher add = weights_sum_launcher(
            "convolution.gpu_direct (parts)", problem, cut.parts, false);
    const bool few = cut.taps_w <= few_taps;
    const auto kernel_of = [&]<int each>() {
        return few ? weights_kernel<Type, few_taps, each, Index>
                   : weights_kernel<Type, most_taps, each, Index>;
    };
    auto *const kernel = kernel_of.template operator()<1>();
    auto *of_pairs = kernel;
    if constexpr (sizeof(Type) <= 4 && sizeof(Index) == 4)
        if (cut.pairs) of_pairs = kernel_of.template operator()<2>();
    const size_t shared
            = (few ? few_taps : most_taps) * threads * sizeof(sum_of<Type>);
    const auto launches = [=](const tensor_pointers &at,
                                  const launch_stream &stream) {
        const bool pairs = of_pairs != kernel
                && is_aligned(at.src.data, 2 * sizeof(Type))
                && is_aligned(at.dst.data, 2 * sizeof(Type));
        launch("convolution.gpu_direct (weights)", pairs ? of_pairs : kernel,
                blocks, pairs ? threads / 2 : threads, shared, stream, at.src,
                at.dst, at.workspace, shape, cut);
        add(at, stream);
    };
    return plan_of(launches, partial_weights_bytes(problem, cut.parts));
}

} // namespace

plan_or_refusal make(
        const convolution_problem &problem, const compile_options &options) {
    const int multiprocessors = properties_of(options.device).multiprocessors;
    return with_float_type(problem.src.type, [&]<typename Type>() {
        return is_small(problem)
                ? plan_by<Type, int32_t>(problem, multiprocessors)
                : plan_by<Type, int64_t>(problem, multiprocessors);
    });
}

} // namespace gradnn::gpu::direct
