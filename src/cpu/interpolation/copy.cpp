// The gradient of an interpolation to equal sizes, where every output is its
// input: a copy, of any strides.
#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>

#include "cpu/copies/convert.hpp"
#include "cpu/kernels.hpp"
#include "cpu/simd/simd_target.hpp"
#include "kernel/axis_map.hpp"

namespace gradnn::cpu {

namespace {

class copy_plan final : public detail::plan {
public:
    explicit copy_plan(const interpolation_problem &problem)
        : target_(simd_target()) {
        copy_.src_type = problem.diff_dst.type;
        copy_.dst_type = problem.diff_src.type;
        copy_.rank = 5;
        for (size_t a = 0; a < 5; ++a) {
            copy_.dims[a] = problem.diff_src.dims[a];
            copy_.src_strides[a] = problem.diff_dst.strides[a];
            copy_.dst_strides[a] = problem.diff_src.strides[a];
        }
    }

    void execute(std::span<void *const> args, std::byte *,
            detail::stream_impl &) const override {
        convert(copy_, args[0], args[1]);
    }
    std::string backend() const override { return "Highway " + target_; }

private:
    conversion copy_;
    const std::string target_;
};

} // namespace

plan_or_refusal make_interpolation_copy(
        const interpolation_problem &problem, const compile_options &) {
    const auto is_copied = [&](const detail::interpolation_axis &axis) {
        return detail::is_identity(problem.mode, problem.coordinates, axis);
    };
    if (!std::all_of(problem.axes.begin(), problem.axes.end(), is_copied))
        return plan_or_refusal::refuse(
                "takes equal sizes, where every output is its own input");
    return plan_or_refusal(std::make_unique<copy_plan>(problem));
}

} // namespace gradnn::cpu
