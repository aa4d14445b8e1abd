// The kernel that takes every interpolation.
#include <array>
#include <memory>
#include <vector>

#include "gpu/interpolation/strided.cuh"
#include "gpu/kernels.hpp"
#include "gpu/runtime/launch.hpp"
#include "gpu/runtime/with_type.hpp"
#include "kernel/axis_map.hpp"

namespace gradnn::gpu::interpolation {

plan_or_refusal make_strided(
        const interpolation_problem &problem, const compile_options &options) {
    const auto device = static_cast<int>(options.device);
    const auto tables = std::make_shared<std::array<device_buffer, 6>>();
    double taps = 1;
    for (size_t axis = 0; axis < 3; ++axis) {
        const detail::axis_map map = make_axis_map(
                problem.mode, problem.coordinates, problem.axes[axis]);
        taps *= static_cast<double>(map.max_count);
        std::vector<tap_range> ranges(static_cast<size_t>(map.src));
        for (size_t i = 0; i < ranges.size(); ++i)
            ranges[i] = {map.first(i), map.count(i), map.offset(i)};
        (*tables)[axis] = upload(device, ranges);
        (*tables)[axis + 3] = upload(device, map.all_weights<double>());
    }
    strided_work work = strided_work_of(problem, taps);
    for (size_t axis = 0; axis < 3; ++axis) {
        work.ranges[axis] = (*tables)[axis].as<tap_range>();
        work.weights[axis] = (*tables)[axis + 3].as<double>();
    }
    const int64_t partial = work.parts > 1 ? work.count * work.parts : 0;
    return with_float_type(problem.diff_src.type, [&]<typename Type>() {
        using total = long_sum<sum_of<Type>>;
        return std::make_unique<launched_plan>(
                // `work` points into the tables.
                [=, held = tables](std::span<void *const> args,
                        std::byte *workspace, const launch_stream &stream) {
                    const auto run = [&](int64_t blocks, const total *from,
                                             total *to) {
                        launch("interpolation.gpu_strided",
                                strided_kernel<Type>, blocks, strided_threads,
                                strided_threads * sizeof(total), stream,
                                static_cast<const Type *>(args[0]),
                                static_cast<Type *>(args[1]), from, to, work);
                    };
                    auto *const sums = partial > 0
                            ? reinterpret_cast<total *>(workspace)
                            : nullptr;
                    run(blocks_for(work.count, work.elements) * work.parts,
                            nullptr, sums);
                    if (sums)
                        run(blocks_for(work.count, strided_threads), sums,
                                nullptr);
                },
                static_cast<size_t>(partial) * sizeof(total));
    });
}

} // namespace gradnn::gpu::interpolation
