// interpolation.gpu_axes: which problems, and the plan. The kernel: kernel.cuh; how a
// problem is cut: cut.hpp.
#include <memory>
#include <string>

#include "gpu/interpolation/axes/kernel.cuh"
#include "gpu/interpolation/layered.hpp"
#include "gpu/kernels.hpp"
#include "gpu/runtime/kernel_plan.hpp"
#include "gpu/runtime/residency.hpp"
#include "gpu/runtime/tensor_kernel.hpp"
#include "problem_text.hpp"

namespace gradnn::gpu::interpolation::axes {

namespace {

template <typename Sum>
class axes_plan final : public kernel_plan {
public:
    /// Check fits() before use.
    axes_plan(detail::data_type type, const layered_problem &layers,
            const axis_maps &maps, int device) {
        const tap_table<Sum> columns = make_taps<Sum>(maps[2]);
        const allocation_guard current(device);
        with_type_of_sum<Sum>(type, [&]<typename Type>() {
            with_kernel<Type>(columns.taps, layers, [&](auto *kernel) {
                arrange(kernel, layers, maps, columns, sizeof(Type), device);
            });
        });
        if (!fits()) return;
        layers_ = upload(device, make_rows<Sum>(maps[layers.layer_axis]));
        reach_ = upload(device, make_reach(maps[layers.layer_axis]));
        first_columns_ = upload(device, columns.first);
        column_weights_ = upload(device, columns.weights);
        rows_ = upload(device, make_columns(maps[1]));
        row_weights_ = upload(device, weights_of<Sum>(maps[1]));
    }

    /// Whether a tile fits in shared memory and tiles share little of what they read.
    bool fits() const { return kernel_.blocks > 0; }

private:
    void submit(std::span<void *const> args, std::byte *,
            const launch_stream &stream) const override {
        kernel_.launch_early("interpolation (axes)", stream, args[0], args[1],
                shape_,
                kernel_tables<Sum> {layers_.template as<line_row<Sum>>(),
                        reach_.template as<line_reach>(),
                        first_columns_.template as<int32_t>(),
                        column_weights_.template as<Sum>(),
                        rows_.template as<line_column>(),
                        row_weights_.template as<Sum>(),
                        row_spans_.template as<dst_range>()});
    }

    template <typename Kernel>
    void arrange(Kernel *kernel, const layered_problem &layers,
            const axis_maps &maps, const tap_table<Sum> &columns,
            int element_bytes, int device) {
        const device_properties &properties = properties_of(device);
        search_facts facts;
        facts.volume = layers.volume;
        facts.taps = columns.taps;
        facts.element_bytes = element_bytes;
        facts.sum_bytes = sizeof(Sum);
        facts.registers = attributes_of(kernel).numRegs;
        facts.shared_bytes
                = static_cast<int64_t>(properties.block_shared_bytes);
        facts.multiprocessors = properties.multiprocessors;
        const work_cut cut = cut_search(layers.shape, facts, columns.first,
                maps[layers.layer_axis], maps[1])
                                     .best();
        if (cut.threads == 0) return;
        // The same for all plans: they share the kernel.
        allow_shared_bytes(kernel, properties.block_shared_bytes);
        shape_ = cut.shape;
        kernel_ = {nullptr, cut.blocks, cut.threads,
                static_cast<size_t>(cut.shared_bytes)};
        kernel_.set(kernel);
        row_spans_ = upload(device, cut.row_spans);
    }

    template <typename Type, typename Body>
    static void with_kernel(
            int taps, const layered_problem &layers, const Body &body) {
        with_padded_taps(taps, [&]<int held>() {
            const bool single = layers.shape.channels == 1;
            if (layers.volume)
                single ? body(axes_kernel<Type, held, true, true>)
                       : body(axes_kernel<Type, held, false, true>);
            else
                single ? body(axes_kernel<Type, held, true, false>)
                       : body(axes_kernel<Type, held, false, false>);
        });
    }

    work_shape shape_;
    tensor_kernel<work_shape, kernel_tables<Sum>> kernel_;
    device_buffer layers_, reach_;
    device_buffer first_columns_, column_weights_;
    device_buffer rows_, row_weights_, row_spans_;
};

} // namespace

plan_or_refusal make(
        const interpolation_problem &problem, const compile_options &options) {
    const axis_maps maps = make_axis_maps(problem);
    if (is_copy(maps)) return refuse_copy();
    std::string why;
    const auto layers = describe_layers(problem, maps, why);
    if (!layers) return plan_or_refusal::refuse(why);
    if (maps[2].max_count > most_padded_taps)
        return plan_or_refusal::refuse(detail::text("takes at most ",
                most_padded_taps, " columns that feed an element, given ",
                maps[2].max_count));
    const auto device = static_cast<int>(options.device);
    const auto made = [&]<typename Sum>() -> plan_or_refusal {
        auto plan = std::make_unique<axes_plan<Sum>>(
                problem.diff_src.type, *layers, maps, device);
        if (!plan->fits())
            return detail::refuse("layers whose parts in shared memory overlap "
                                  "by less than they are long",
                    problem);
        return plan_or_refusal(std::move(plan));
    };
    return problem.diff_src.type == detail::data_type::f64
            ? made.operator()<double>()
            : made.operator()<float>();
}

} // namespace gradnn::gpu::interpolation::axes
