// Convolution, all directions, straight from the definition: the kernel that
// takes everything.
//
// forward:          dst[n,o,y] = sum i,k of src[n,i,z] * weights[o,i,k]
// backward_data:    src[n,i,z] = sum o,k of dst[n,o,y] * weights[o,i,k]
// backward_weights: weights[o,i,k] = sum n,y of src[n,i,z] * dst[n,o,y]
// where z = y * stride - pad + k * dilation on every axis and lies inside src.
//
// README.md says what threads and blocks have of them, and how they add.
#include <algorithm>
#include <cstdint>

#include "gpu/convolution/direct/kernels.cuh"
#include "gpu/convolution/makers.hpp"
#include "gpu/convolution/weights_sum.hpp"
#include "gpu/device/dtype.cuh"
#include "gpu/runtime/launch.hpp"
#include "gpu/runtime/with_type.hpp"

namespace gradnn::gpu::direct {

namespace {

using detail::convolution_direction;

/// Whether a sum over the taps of a channel, or over channels, is longer than plain
/// sums should be.
bool sums_are_long(const convolution_problem &problem) {
    constexpr int64_t most = 2048;
    const auto &weights = problem.weights.dims;
    int64_t taps = 1; // at most `most` times what an axis of memory holds
    for (size_t axis = 3; axis < 6; ++axis)
        if (taps <= most) taps *= weights[axis];
    const bool forward = problem.direction == convolution_direction::forward;
    return taps > most || weights[forward ? 2 : 1] > most;
}

template <typename Type, bool forward, typename Index>
launcher data_launcher(const problem_shape<Index> &shape, bool long_sums,
        int multiprocessors) {
    auto *const kernel = long_sums
            ? gather_kernel<Type, forward, long_sum, Index>
            : gather_kernel<Type, forward, plain_sum, Index>;
    // Each block makes a table of its own.
    constexpr int64_t of_multiprocessor = 8;
    const int64_t blocks = std::min(ceil_div(shape.count, int64_t {threads}),
            of_multiprocessor * multiprocessors);
    const size_t table
            = static_cast<size_t>(shape.table) * sizeof(axis_taps<Index>);
    return [=](const tensor_pointers &at, const launch_stream &stream) {
        launch("convolution.gpu_direct", kernel, blocks, threads, table, stream,
                at.read(!forward), at.weights, at.written(!forward), shape);
    };
}

template <typename Type, typename Index>
launcher weights_launcher(const convolution_problem &problem,
        const problem_shape<Index> &shape, const weights_cut &cut) {
    using sum = sum_of<Type>;
    const dim3 blocks(static_cast<unsigned>(std::min<int64_t>(
                              cut.taps * cut.channel_tiles, 1 << 30)),
            static_cast<unsigned>(std::min<int64_t>(cut.parts, 1 << 15)));
    return [=,
                   add = weights_sum_launcher("convolution.gpu_direct (parts)",
                           problem, cut.parts, false)](
                   const tensor_pointers &at, const launch_stream &stream) {
        launch("convolution.gpu_direct (weights)", weights_kernel<Type, Index>,
                blocks, threads, threads * sizeof(sum), stream, at.src, at.dst,
                at.workspace, shape, cut);
        add(at, stream);
    };
}

template <typename Type, typename Index>
launcher launcher_of(const convolution_problem &problem, int multiprocessors,
        size_t &workspace_bytes) {
    const auto shape = shape_of<Index>(problem);
    const bool long_sums = sums_are_long(problem);
    switch (problem.direction) {
        case convolution_direction::forward:
            return data_launcher<Type, true>(shape, long_sums, multiprocessors);
        case convolution_direction::backward_data:
            return data_launcher<Type, false>(
                    shape, long_sums, multiprocessors);
        case convolution_direction::backward_weights: break;
    }
    const weights_cut cut = cut_weights(problem, multiprocessors);
    workspace_bytes = partial_weights_bytes(problem, cut.parts);
    return weights_launcher<Type>(problem, shape, cut);
}

} // namespace

plan_or_refusal make(
        const convolution_problem &problem, const compile_options &options) {
    const int multiprocessors
            = properties_of(static_cast<int>(options.device)).multiprocessors;
    size_t workspace_bytes = 0;
    const launcher chosen
            = with_float_type(problem.src.type, [&]<typename Type>() {
                  return is_small(problem)
                          ? launcher_of<Type, int32_t>(
                                  problem, multiprocessors, workspace_bytes)
                          : launcher_of<Type, int64_t>(
                                  problem, multiprocessors, workspace_bytes);
              });
    return plan_of(chosen, workspace_bytes);
}

} // namespace gradnn::gpu::direct
