// The gradient of an interpolation to equal sizes, where every output is its
// input: a copy, of any strides.
#include <algorithm>
#include <memory>

#include "gpu/kernels.hpp"
#include "gpu/runtime/copy.hpp"
#include "gpu/runtime/launch.hpp"
#include "kernel/axis_map.hpp"

namespace gradnn::gpu::interpolation {

plan_or_refusal make_copy(
        const interpolation_problem &problem, const compile_options &) {
    const auto is_kept = [&](const detail::interpolation_axis &axis) {
        return is_identity(problem.mode, problem.coordinates, axis);
    };
    if (!std::ranges::all_of(problem.axes, is_kept))
        return plan_or_refusal::refuse(
                "takes equal sizes, where every output is its own input");
    return std::make_unique<launched_plan>(
            [of = copy_of(problem.diff_dst, problem.diff_src)](
                    std::span<void *const> args, std::byte *,
                    const launch_stream &stream) {
                copy(of, args[0], args[1], stream);
            });
}

} // namespace gradnn::gpu::interpolation
