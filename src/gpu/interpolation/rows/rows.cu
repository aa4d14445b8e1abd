// interpolation.gpu_rows: which problems, and the plan. The kernel: kernel.cuh; how
// a problem is cut: cut.hpp.
#include <memory>
#include <string>

#include "gpu/interpolation/makers.hpp"
#include "gpu/interpolation/rows/described.hpp"
#include "gpu/interpolation/rows/kernel.cuh"
#include "gpu/runtime/kernel_plan.hpp"
#include "gpu/runtime/residency.hpp"
#include "gpu/runtime/tensor_kernel.hpp"
#include "gpu/runtime/with_type.hpp"
#include "kernel/problem_text.hpp"

namespace gradnn::gpu::interpolation::rows {

namespace {

template <typename Sum>
class rows_plan final : public kernel_plan {
public:
    /// Check fits() before use.
    rows_plan(const interpolation_problem &problem, const described_rows &rows,
            int device)
        : cut_(rows.cut) {
        const auto table = detail::pad_taps<Sum>(problem.mode,
                problem.coordinates, problem.axes[rows.axis], rows.taps);
        const allocation_guard current(device);
        with_type_of_sum<Sum>(problem.diff_src.type, [&]<typename Type>() {
            with_kernel<Type>(rows.taps, [&](auto *kernel) {
                arrange(kernel, table, sizeof(Type), device);
            });
        });
        if (!fits()) return;
        first_ = upload(device, table.first.data(),
                table.first.size() * sizeof(int32_t));
        weights_ = upload(device, table.weights.data(),
                table.weights.size() * sizeof(Sum));
    }

    /// Whether tiles fit in shared memory and share little of what they read.
    bool fits() const { return kernel_.blocks > 0; }

private:
    void submit(std::span<void *const> args, std::byte *,
            const launch_stream &stream) const override {
        kernel_.launch_early("interpolation (rows)", stream, args[0], args[1],
                cut_, first_.template as<int32_t>(),
                weights_.template as<Sum>());
    }

    template <typename Kernel>
    void arrange(Kernel *kernel, const detail::padded_taps<Sum> &table,
            int64_t element_bytes, int device) {
        const device_properties &properties = properties_of(device);
        const auto most = static_cast<int64_t>(properties.block_shared_bytes);
        const tile_choice chosen
                = choose_tiles(cut_, table.first, static_cast<int>(table.taps),
                        sizeof(Sum), element_bytes, most / stages);
        if (chosen.threads == 0) return;
        cut_ = chosen.cut;
        kernel_.threads = chosen.threads;
        // The same for all plans: they share the kernel.
        allow_shared_bytes(kernel, properties.block_shared_bytes);
        kernel_.shared_bytes = static_cast<size_t>(stages)
                * static_cast<size_t>(cut_.stage_bytes);
        const int64_t held = std::max(
                blocks_held(kernel, chosen.threads, kernel_.shared_bytes), 1);
        cut_.lets_start = 1;
        kernel_.blocks = cut_runs(cut_, held * properties.multiprocessors);
        kernel_.set(kernel);
    }

    template <typename Type, typename Body>
    void with_kernel(int taps, const Body &body) const {
        const auto chosen = [&]<int held>() {
            cut_.inner == 1 ? body(rows_kernel<Type, held, true>)
                            : body(rows_kernel<Type, held, false>);
        };
        switch (taps) {
            case 1: return chosen.template operator()<1>();
            case 2: return chosen.template operator()<2>();
            case 3: return chosen.template operator()<3>();
            case 4: return chosen.template operator()<4>();
            case 6: return chosen.template operator()<6>();
            case 8: return chosen.template operator()<8>();
            case 12: return chosen.template operator()<12>();
            default: return chosen.template operator()<most_taps>();
        }
    }

    work_cut cut_;
    tensor_kernel<work_cut, const int32_t *, const Sum *> kernel_;
    device_buffer first_;
    device_buffer weights_;
};

} // namespace

plan_or_refusal make(
        const interpolation_problem &problem, const compile_options &options) {
    std::string why;
    const auto described = describe(problem, why);
    if (!described) return plan_or_refusal::refuse(why);
    const auto device = static_cast<int>(options.device);
    const auto made = [&]<typename Sum>() -> plan_or_refusal {
        auto plan
                = std::make_unique<rows_plan<Sum>>(problem, *described, device);
        if (!plan->fits())
            return detail::refuse("rows whose parts in shared memory overlap "
                                  "by less than they are long",
                    problem);
        return plan_or_refusal(std::move(plan));
    };
    return problem.diff_src.type == detail::data_type::f64
            ? made.operator()<double>()
            : made.operator()<float>();
}

} // namespace gradnn::gpu::interpolation::rows
