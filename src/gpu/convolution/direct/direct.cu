// Convolution, all directions, straight from the definition (../README.md): the kernel that
// takes everything. README.md says what threads and blocks have, and how they add.
#include <algorithm>
#include <cstdint>
#include <memory>

#include "gpu/convolution/direct/kernels.cuh"
#include "gpu/convolution/facts.hpp"
#include "gpu/convolution/weights_sum.hpp"
#include "gpu/device/dtype.cuh"
#include "gpu/kernels.hpp"
#include "gpu/runtime/launch.hpp"
#include "gpu/runtime/with_type.hpp"

namespace gradnn::gpu::direct {

namespace {

/// Whether a sum over the taps of a channel, or over channels, is longer than plain
/// sums should be.
bool sums_are_long(const convolution_problem &problem) {
    constexpr int64_t most = 2048;
    const auto &weights = problem.weights.dims;
    int64_t taps = 1; // at most `most` times what an axis of memory holds
    for (size_t axis = 3; axis < 6; ++axis)
        if (taps <= most) taps *= weights[axis];
    return taps > most || weights[is_to_src(problem) ? 1 : 2] > most;
}

template <typename Type, bool forward, typename Index>
launcher data_launcher(const convolution_problem &problem,
        const problem_shape<Index> &shape, int multiprocessors) {
    auto *const kernel = sums_are_long(problem)
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
std::unique_ptr<detail::plan> plan_by(
        const convolution_problem &problem, int multiprocessors) {
    const auto shape = shape_of<Index>(problem);
    if (!is_of_weights(problem))
        return plan_of(is_to_src(problem) ? data_launcher<Type, false>(
                               problem, shape, multiprocessors)
                                          : data_launcher<Type, true>(problem,
                                                  shape, multiprocessors),
                0);
    const weights_cut cut = cut_weights(problem, multiprocessors);
    const dim3 blocks(static_cast<unsigned>(std::min<int64_t>(
                              cut.taps * cut.channel_tiles, 1 << 30)),
            static_cast<unsigned>(std::min<int64_t>(cut.parts, 1 << 15)));
    const launcher add = weights_sum_launcher(
            "convolution.gpu_direct (parts)", problem, cut.parts, false);
    const auto launches = [=](const tensor_pointers &at,
                                  const launch_stream &stream) {
        launch("convolution.gpu_direct (weights)", weights_kernel<Type, Index>,
                blocks, threads, threads * sizeof(sum_of<Type>), stream, at.src,
                at.dst, at.workspace, shape, cut);
        add(at, stream);
    };
    return plan_of(launches, partial_weights_bytes(problem, cut.parts));
}

} // namespace

plan_or_refusal make(
        const convolution_problem &problem, const compile_options &options) {
    const int multiprocessors
            = properties_of(static_cast<int>(options.device)).multiprocessors;
    return with_float_type(problem.src.type, [&]<typename Type>() {
        return is_small(problem)
                ? plan_by<Type, int32_t>(problem, multiprocessors)
                : plan_by<Type, int64_t>(problem, multiprocessors);
    });
}

} // namespace gradnn::gpu::direct
