// The gradient of an interpolation to equal sizes, where every output is its
// input: a copy, of any strides.
#include <algorithm>
#include <memory>

#include "gpu/interpolation/makers.hpp"
#include "gpu/runtime/copy.hpp"
#include "gpu/runtime/kernel_plan.hpp"
#include "kernel/axis_map.hpp"

namespace gradnn::gpu::interpolation {

namespace {

class copy_plan final : public kernel_plan {
public:
    explicit copy_plan(const interpolation_problem &problem) {
        copy_.src_type = copy_.dst_type = problem.diff_src.type;
        copy_.rank = 5;
        for (size_t axis = 0; axis < 5; ++axis) {
            copy_.dims[axis] = problem.diff_src.dims[axis];
            copy_.src_strides[axis] = problem.diff_dst.strides[axis];
            copy_.dst_strides[axis] = problem.diff_src.strides[axis];
        }
    }

private:
    void submit(std::span<void *const> args, std::byte *,
            const launch_stream &stream) const override {
        copy(copy_, args[0], args[1], stream);
    }

    strided_copy copy_;
};

} // namespace

plan_or_refusal make_copy(
        const interpolation_problem &problem, const compile_options &) {
    const auto is_kept = [&](const detail::interpolation_axis &axis) {
        return is_identity(problem.mode, problem.coordinates, axis);
    };
    if (!std::ranges::all_of(problem.axes, is_kept))
        return plan_or_refusal::refuse(
                "takes equal sizes, where every output is its own input");
    return std::make_unique<copy_plan>(problem);
}

} // namespace gradnn::gpu::interpolation
