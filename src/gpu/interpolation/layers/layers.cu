// interpolation.gpu_layers: which problems, and the plan. The kernel: kernel.cuh;
// how a problem is cut: cut.hpp.
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gpu/interpolation/layers/cut.hpp"
#include "gpu/interpolation/layers/kernel.cuh"
#include "gpu/interpolation/layers/layered.hpp"
#include "gpu/interpolation/makers.hpp"
#include "gpu/interpolation/walk_plan.hpp"
#include "gpu/runtime/residency.hpp"
#include "gpu/runtime/tensor_kernel.hpp"
#include "gpu/runtime/with_type.hpp"
#include "kernel/problem_text.hpp"

namespace gradnn::gpu::interpolation::layers {

namespace {

template <typename Sum>
class layers_plan final : public detail::plan {
public:
    /// Check possible() before use.
    layers_plan(detail::data_type type, const layered_problem &layers,
            const axis_maps &maps, const word_widths &widths, int device)
        : type_(type),
          volume_(layers.volume),
          layers_(upload(device, make_layers<Sum>(maps[layers.layer_axis]))),
          reach_(upload(device, make_reach(maps[layers.layer_axis]))),
          columns_(upload(device, make_columns(maps[2]))),
          column_weights_(upload(device, weights_of<Sum>(maps[2]))),
          rows_(upload(device, make_columns(maps[1]))),
          row_weights_(upload(device, weights_of<Sum>(maps[1]))) {
        const device_guard current(device);
        const capture_mode_guard relaxed; // attributes load the kernel
        usual_ = arranged(layers, maps, widths, device);
        narrow_ = arranged(layers, maps, {}, device);
    }

    bool possible() const {
        return usual_.cut.threads != 0 && narrow_.cut.threads != 0;
    }

    void execute(std::span<void *const> args, std::byte *,
            detail::stream_impl &stream) const override {
        const launch_scope scope(stream);
        const auto element = static_cast<size_t>(detail::size_of(type_));
        const size_t read = static_cast<size_t>(usual_.vector) * element;
        const size_t written
                = static_cast<size_t>(usual_.cut.shape.zeros_width) * element;
        const arrangement &use
                = is_aligned(args[0], read) && is_aligned(args[1], written)
                ? usual_
                : narrow_;
        use.kernel.launch_early("interpolation (layers)", scope.stream(),
                args[0], args[1], use.cut.shape,
                kernel_tables<Sum> {layers_.template as<line_row<Sum>>(),
                        reach_.template as<line_reach>(),
                        columns_.template as<line_column>(),
                        column_weights_.template as<Sum>(),
                        use.column_spans.template as<dst_range>(),
                        rows_.template as<line_column>(),
                        row_weights_.template as<Sum>(),
                        use.row_spans.template as<dst_range>()});
    }

    std::string backend() const override { return "CUDA"; }

private:
    struct arrangement {
        int vector = 1;
        work_cut cut;
        tensor_kernel<work_shape, kernel_tables<Sum>> kernel;
        device_buffer column_spans, row_spans;
    };

    arrangement arranged(const layered_problem &layers, const axis_maps &maps,
            const word_widths &widths, int device) const {
        arrangement made = tried(layers, maps, widths, false, device);
        if (widths.as_they_lie == 0) return made;
        arrangement other = tried(layers, maps, widths, true, device);
        const bool better = other.cut.threads != 0
                && (made.cut.threads == 0
                        || other.cut.cycles < made.cut.cycles);
        return better ? std::move(other) : std::move(made);
    }

    arrangement tried(const layered_problem &layers, const axis_maps &maps,
            const word_widths &widths, bool as_they_lie, int device) const {
        arrangement made;
        made.vector = as_they_lie ? widths.as_they_lie : widths.read;
        with_kernel(made.vector, [&]<typename Type>(auto *kernel) {
            const device_properties &properties = properties_of(device);
            search_facts facts
                    = facts_of(layers, sizeof(Type), widths, as_they_lie);
            facts.registers = attributes_of(kernel).numRegs;
            facts.shared_bytes
                    = static_cast<int64_t>(properties.block_shared_bytes);
            facts.multiprocessors = properties.multiprocessors;
            facts.sm = properties.sm;
            made.cut = cut_search(layers.shape, facts, maps[layers.layer_axis],
                    maps[1], maps[2])
                               .best();
            if (made.cut.threads == 0) return;
            // The same for all plans: they share the kernel.
            allow_shared_bytes(kernel, properties.block_shared_bytes);
            made.kernel = {nullptr, static_cast<unsigned>(made.cut.blocks),
                    static_cast<unsigned>(made.cut.threads),
                    static_cast<size_t>(made.cut.shared_bytes)};
            made.kernel.set(kernel);
            made.column_spans = upload(device, made.cut.column_spans);
            made.row_spans = upload(device, made.cut.row_spans);
        });
        return made;
    }

    template <typename Body>
    void with_kernel(int vector, const Body &body) const {
        with_float_type(type_, [&]<typename Type>() {
            if constexpr (std::is_same_v<sum_of<Type>, Sum>) {
                if constexpr (sizeof(Type) < 8)
                    if (vector == 4) return with_vector<Type, 4>(body);
                if (vector == 2) return with_vector<Type, 2>(body);
                with_vector<Type, 1>(body);
            }
        });
    }

    template <typename Type, int vector, typename Body>
    void with_vector(const Body &body) const {
        if (volume_)
            body.template operator()<Type>(layers_kernel<Type, vector, true>);
        else
            body.template operator()<Type>(layers_kernel<Type, vector, false>);
    }

    detail::data_type type_;
    bool volume_;
    device_buffer layers_, reach_;
    device_buffer columns_, column_weights_;
    device_buffer rows_, row_weights_;
    arrangement usual_;
    arrangement narrow_; ///< for pointers that allow no wide words
};

} // namespace

plan_or_refusal make(
        const interpolation_problem &problem, const compile_options &options) {
    const axis_maps maps = make_axis_maps(problem);
    if (is_copy(maps)) return refuse_copy();
    const auto &src = problem.diff_src;
    std::string why;
    const auto layers = describe(problem, maps, why);
    if (!layers) return plan_or_refusal::refuse(why);
    const word_widths widths = widths_of(problem, *layers);
    const auto device = static_cast<int>(options.device);
    const auto made = [&]<typename Sum>() -> plan_or_refusal {
        auto plan = std::make_unique<layers_plan<Sum>>(
                src.type, *layers, maps, widths, device);
        if (!plan->possible())
            return detail::refuse(
                    "columns that are fed by at most 4,096 "
                    "elements (f64: 2,048; 16 bits: 3,072) and fit "
                    "in shared memory",
                    problem);
        return plan_or_refusal(std::move(plan));
    };
    return src.type == detail::data_type::f64 ? made.operator()<double>()
                                              : made.operator()<float>();
}

double estimated_cycles(const detail::interpolation_problem &problem,
        const device_properties &device) {
    const axis_maps maps = make_axis_maps(problem);
    std::string why;
    const auto layers = describe(problem, maps, why);
    if (!layers) return 0;
    const auto bytes = static_cast<int>(detail::size_of(problem.diff_src.type));
    const word_widths widths = widths_of(problem, *layers);
    double least = 0;
    for (const bool as_they_lie : {false, true}) {
        if (as_they_lie && widths.as_they_lie == 0) continue;
        search_facts facts = facts_of(*layers, bytes, widths, as_they_lie);
        // What the kernels are built for.
        facts.registers = bytes == 2 ? 80 : 64;
        facts.shared_bytes = static_cast<int64_t>(device.block_shared_bytes);
        facts.multiprocessors = device.multiprocessors;
        facts.sm = device.sm;
        const work_cut cut = cut_search(layers->shape, facts,
                maps[layers->layer_axis], maps[1], maps[2])
                                     .best();
        if (cut.threads != 0 && (least == 0 || cut.cycles < least))
            least = cut.cycles;
    }
    return least;
}

} // namespace gradnn::gpu::interpolation::layers
