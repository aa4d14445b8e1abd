// interpolation.gpu_whole: which problems, and the plan. The kernel: kernel.cuh; how a
// problem is cut: cut.hpp.
#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "gpu/interpolation/estimates.hpp"
#include "gpu/interpolation/makers.hpp"
#include "gpu/interpolation/tables.hpp"
#include "gpu/interpolation/whole/cut.hpp"
#include "gpu/interpolation/whole/described.hpp"
#include "gpu/interpolation/whole/kernel.cuh"
#include "gpu/runtime/kernel_plan.hpp"
#include "gpu/runtime/residency.hpp"
#include "gpu/runtime/tensor_kernel.hpp"
#include "kernel/problem_text.hpp"

namespace gradnn::gpu::interpolation::whole {

namespace {

template <typename Sum>
class whole_plan final : public kernel_plan {
public:
    whole_plan(detail::data_type type, const work_cut &cut, int device)
        : shape_(cut.shape),
          positions_(upload(device, cut.positions)),
          weights_(upload(device,
                  std::vector<Sum>(cut.weights.begin(), cut.weights.end()))) {
        const allocation_guard current(device); // attributes load the kernel
        with_type_of_sum<Sum>(type, [&]<typename Type>() {
            auto *const kernel = whole_kernel<Type>;
            // The same for all plans: they share the kernel.
            allow_shared_bytes(
                    kernel, properties_of(device).block_shared_bytes);
            kernel_ = {nullptr, static_cast<unsigned>(cut.blocks),
                    static_cast<unsigned>(cut.threads),
                    static_cast<size_t>(cut.shared_bytes)};
            kernel_.set(kernel);
        });
    }

private:
    void submit(std::span<void *const> args, std::byte *,
            const launch_stream &stream) const override {
        const bool aligned = is_aligned(args[0], 16) && is_aligned(args[1], 16);
        kernel_.launch_early("interpolation (whole)", stream, args[0], args[1],
                shape_,
                kernel_tables<Sum> {positions_.template as<position_taps>(),
                        weights_.template as<Sum>()},
                aligned ? 1 : 0);
    }

    work_shape shape_;
    tensor_kernel<work_shape, kernel_tables<Sum>, int> kernel_;
    device_buffer positions_;
    device_buffer weights_;
};

} // namespace

plan_or_refusal make(
        const interpolation_problem &problem, const compile_options &options) {
    const axis_maps maps = make_axis_maps(problem);
    if (is_copy(maps)) return refuse_copy();
    if (std::string why = why_too_long(maps); !why.empty())
        return plan_or_refusal::refuse(std::move(why));
    const auto device = static_cast<int>(options.device);
    const auto facts = describe(problem, properties_of(device));
    if (!facts)
        return detail::refuse("tensors without gaps in NCX or NXC", problem);
    const work_cut cut = cut_problem(*facts, maps);
    if (cut.threads == 0)
        return detail::refuse(
                "volumes or images that fit in shared memory", problem);
    const detail::data_type type = problem.diff_src.type;
    if (type == detail::data_type::f64)
        return std::make_unique<whole_plan<double>>(type, cut, device);
    return std::make_unique<whole_plan<float>>(type, cut, device);
}

double estimated_cycles(const detail::interpolation_problem &problem,
        const device_properties &device) {
    const auto facts = describe(problem, device);
    return facts ? cut_problem(*facts, make_axis_maps(problem)).cycles : 0;
}

} // namespace gradnn::gpu::interpolation::whole
