#include "kernel_steps.hpp"

#include <algorithm>

#include "compile/executable.hpp"
#include "files/tensor_data.hpp"
#include "kernel/engine_impl.hpp"
#include "kernel/problem.hpp"
#include "op/op_schema.hpp"
#include "op/shapes.hpp"

namespace gradnn::driver {

using detail::port_role;

namespace {

int64_t dense_bytes(const logical_tensor &lt) {
    return detail::element_count(lt) * detail::size_of(lt.get_data_type());
}

/// Multiplications and additions of one gradient of a partition's convolution, which is
/// one at most; all of its gradients have the same. (The op of a step is the last one that
/// its kernel computes.)
double flops_of_gradient(const std::vector<detail::checked_op> &ops) {
    const auto convolution
            = std::ranges::find_if(ops, [](const detail::checked_op &each) {
                  const detail::op_schema &schema = each.schema();
                  return detail::port_index(schema.inputs, port_role::weights)
                          >= 0
                          || detail::port_index(
                                     schema.outputs, port_role::weights)
                          >= 0;
              });
    if (convolution == ops.end()) return 0;
    const detail::checked_op &the_op = *convolution;
    const detail::op_schema &schema = the_op.schema();
    // Each is an input, or what is computed.
    const auto find = [&](port_role role) {
        const int input = detail::port_index(schema.inputs, role);
        const int output = detail::port_index(schema.outputs, role);
        return input >= 0 ? the_op.inputs[static_cast<size_t>(input)]
                          : the_op.outputs[static_cast<size_t>(output)];
    };
    const logical_tensor small = find(port_role::small);
    const logical_tensor weights = find(port_role::weights);
    const auto dims = small.get_dims();
    const int axis
            = detail::channel_axis(the_op, static_cast<int>(dims.size()));
    const int64_t channels
            = std::max<int64_t>(1, dims[static_cast<size_t>(axis)]);
    return 2.0 * static_cast<double>(detail::element_count(small))
            * static_cast<double>(detail::element_count(weights) / channels);
}

} // namespace

std::string graph_step::kernels() const {
    std::string names;
    for (const step_info &info : compiled.get_info().steps)
        names += (names.empty() ? "" : "+") + info.kernel;
    return names.empty() ? "none" : names;
}

std::string graph_step::backends() const {
    std::vector<std::string> seen;
    std::string names;
    for (const step_info &info : compiled.get_info().steps) {
        if (std::find(seen.begin(), seen.end(), info.backend) != seen.end())
            continue;
        names += (seen.empty() ? "" : ", ") + info.backend;
        seen.push_back(info.backend);
    }
    return seen.empty() ? "none" : names;
}

std::vector<kernel_step> kernel_steps(const graph_step &step) {
    const detail::compiled_impl &compiled
            = *detail::access::impl(step.compiled);
    std::vector<kernel_step> result;
    for (const detail::executable_step &each : compiled.program->steps) {
        kernel_step made;
        made.op = step.ops[each.op];
        made.kernel = each.kernel;
        made.backend = each.plan->backend();
        made.workspace_bytes = each.plan->workspace_bytes();
        const detail::checked_op &the_op = compiled.ops[each.op];
        if (each.makes != nullptr) {
            made.output_name = each.makes;
            made.output = compiled.tensor_of(each.arguments[1]).get_id();
        }
        for (const size_t port : each.arguments) {
            const logical_tensor &lt = compiled.tensor_of(port);
            const bool written = each.makes != nullptr
                    ? lt.get_id() == made.output
                    : lt.get_id() == the_op.outputs[each.output].get_id();
            if (!written) {
                made.traffic.read += dense_bytes(lt);
                made.type = lt.get_data_type();
                continue;
            }
            made.traffic.written += dense_bytes(lt);
            if (each.makes != nullptr) continue;
            made.output = lt.get_id();
            made.output_name = the_op.schema().outputs[each.output].name;
        }
        if (made.kernel.starts_with("convolution.")
                && !compiled.program->composed)
            made.flops = flops_of_gradient(compiled.ops);
        result.push_back(std::move(made));
    }
    return result;
}

step_traffic traffic_of(const loaded_graph &graph, const graph_step &step) {
    step_traffic result;
    for (const size_t id : step.inputs)
        if (graph.tensors.at(id).read)
            result.read += dense_bytes(graph.tensors.at(id).lt);
    for (const size_t id : step.outputs)
        result.written += dense_bytes(graph.tensors.at(id).lt);
    return result;
}

} // namespace gradnn::driver
