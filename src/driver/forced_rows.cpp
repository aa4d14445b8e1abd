#include "forced_rows.hpp"

#include <memory>
#include <utility>

#include "compile/compile_settings.hpp"
#include "compile/executable.hpp"
#include "compile/kernel_choice.hpp"
#include "compile/lowering.hpp"
#include "kernel/engine_impl.hpp"

namespace gradnn::driver {

using detail::access;
using detail::kernel_opinion;

namespace {

/// The partition with this plan as its only step, in place of the one at
/// `index`. It shares no copy with other steps.
compiled_partition with_plan(const detail::compiled_impl &whole, size_t index,
        kernel_opinion &opinion) {
    const detail::executable &program = *whole.program;
    const detail::executable_step &taken = program.steps.at(index);
    auto made = std::make_shared<detail::executable>();
    made->ports = program.ports;
    made->workspace_bytes = opinion.plan->workspace_bytes();
    made->engine_kind = program.engine_kind;
    made->engine_index = program.engine_index;
    made->threads = program.threads;
    made->steps.push_back({opinion.kernel, std::move(opinion.plan),
            taken.arguments, taken.strides, taken.op, taken.output, taken.makes,
            {}, {}});
    auto result = std::make_shared<detail::compiled_impl>();
    result->program = std::move(made);
    result->ports = whole.ports;
    result->ops = whole.ops;
    result->partition_id = whole.partition_id;
    result->id = whole.id;
    return access::make<compiled_partition>(
            std::shared_ptr<const detail::compiled_impl>(std::move(result)));
}

} // namespace

std::vector<std::vector<forced_row>> forced_rows(
        const loaded_graph &graph, const graph_step &step) {
    const detail::compiled_impl &whole = *access::impl(step.compiled);
    const detail::compile_options options
            = detail::options_of(*access::impl(step.partition), graph.device);
    std::vector<std::vector<forced_row>> result;
    access::impl(graph.device)->while_compiling([&] {
        for (const detail::checked_op &the_op : whole.ops) {
            for (const detail::lowered_step &lowered : detail::lower(the_op)) {
                std::vector<forced_row> rows;
                for (kernel_opinion &opinion :
                        detail::opinions_of(lowered, graph.device.get_kind(),
                                options, the_op.identity())) {
                    if (!opinion.plan) continue;
                    forced_row row {opinion.kernel, opinion.backend,
                            opinion.yields, opinion.workspace_bytes, {}};
                    row.compiled = with_plan(whole, result.size(), opinion);
                    rows.push_back(std::move(row));
                }
                result.push_back(std::move(rows));
            }
        }
    });
    return result;
}

} // namespace gradnn::driver
