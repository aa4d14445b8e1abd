// gradnn kernels: the kernel lists, and what each row says of a graph's problems.
#include <iostream>
#include <span>
#include <string>
#include <string_view>

#include <gradnn/graph.hpp>

#include "base/text.hpp"
#include "commands.hpp"
#include "compile/compile_settings.hpp"
#include "compile/composed.hpp"
#include "compile/executable.hpp"
#include "compile/fused.hpp"
#include "compile/kernel_choice.hpp"
#include "compile/slices.hpp"
#include "kernel/engine_impl.hpp"
#include "kernel_steps.hpp"
#include "loaded_graph.hpp"
#include "table.hpp"

namespace gradnn::driver {

using detail::kernel_opinion;
using detail::text;

namespace {

void write_lists() {
    table rows({"engine", "kernel", "takes"});
    for (const auto kind : {engine::kind::cpu, engine::kind::gpu})
        for (const detail::kernel_row &row : detail::kernel_rows(kind))
            rows.add({kind == engine::kind::cpu ? "cpu" : "gpu", row.name,
                    row.takes});
    rows.write(std::cout);
}

std::string text_of(const kernel_opinion &opinion, bool taken,
        std::span<const detail::kernel_remark> timings) {
    if (!opinion.refusal.empty()) return opinion.refusal;
    std::string says = opinion.backend;
    if (opinion.workspace_bytes != 0)
        says += text(", ", opinion.workspace_bytes, " bytes of workspace");
    if (!taken && !opinion.yields.empty()) says += "; " + opinion.yields;
    for (const detail::kernel_remark &timing : timings)
        if (std::string_view(timing.kernel) == opinion.kernel)
            says += "; " + timing.text;
    return says;
}

void write_opinions(const loaded_graph &graph, const graph_step &step) {
    const detail::partition_impl &partition
            = *detail::access::impl(step.partition);
    const detail::compile_options options
            = detail::options_of(partition, graph.device);
    const auto &compiled = *detail::access::impl(step.compiled);
    const detail::executable &program = *compiled.program;
    std::vector<logical_tensor> tensors = compiled.ports;
    tensors.insert(tensors.end(), compiled.inner.begin(), compiled.inner.end());
    std::vector<detail::placed_step> steps;
    for (size_t index = 0; index < compiled.ops.size(); ++index) {
        // What was compiled.
        const detail::checked_op &whole = compiled.ops[index];
        const detail::checked_op the_op = program.slices.count() > 1
                ? detail::first_slice(whole, program.slices)
                : whole;
        place(steps, detail::lower(the_op), the_op, index, tensors);
    }
    leave_out_unread(steps, compiled.ports.size());
    if (program.composed)
        steps = composed(compiled.ops, steps, tensors.size())->steps;
    if (program.fused)
        steps = fused(steps, tensors, compiled.ports.size())->steps();
    const auto taken = kernel_steps(step);
    for (size_t index = 0; index < steps.size(); ++index) {
        const auto &timings = program.steps.at(index).timings;
        const kernel_step &chosen = taken.at(index);
        const op &identity = compiled.ops[steps[index].op].identity();
        std::cout << to_string(identity.get_kind()) << ' '
                  << identity.get_name() << ", " << chosen.output_name << ":\n";
        table rows({"kernel", "", "says"});
        for (const kernel_opinion &opinion :
                detail::opinions_of(steps[index].lowered,
                        graph.device.get_kind(), options, identity)) {
            const bool is_taken = opinion.kernel == chosen.kernel;
            const char *verdict = "can";
            if (is_taken)
                verdict = "taken";
            else if (!opinion.refusal.empty())
                verdict = "cannot";
            else if (!opinion.yields.empty())
                verdict = "yields";
            rows.add({opinion.kernel, verdict,
                    text_of(opinion, is_taken, timings)});
        }
        rows.write(std::cout);
    }
}

} // namespace

int show_kernels(const kernels_options &options) {
    if (options.graph.empty()) {
        write_lists();
        return 0;
    }
    const loaded_graph graph = load_graph(options.graph, options.engine);
    for (const graph_step &step : graph.steps)
        write_opinions(graph, step);
    return 0;
}

} // namespace gradnn::driver
