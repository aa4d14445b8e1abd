// Graphs and partitions: adding ops, the partitions that they make.
#include <gradnn/graph.hpp>

#include <algorithm>

#include "base/text.hpp"
#include "base/unique_ids.hpp"
#include "compile/compile.hpp"
#include "compile/compile_settings.hpp"
#include "compile/executable.hpp"
#include "compile/graph_dump.hpp"
#include "compile/log_text.hpp"
#include "compile/partition.hpp"
#include "compile/ports.hpp"
#include "graph/edges.hpp"
#include "graph/grouping.hpp"
#include "kernel/backend.hpp"
#include "op/labels.hpp"
#include "op/op_check.hpp"
#include "op/op_schema.hpp"

namespace gradnn {

namespace detail {

namespace {

std::string why_unsupported(engine::kind kind, op::kind op_kind) {
    if (!find_schema(op_kind)) {
        if (op_kind == op::kind::End)
            return "End marks the end of a graph; there is nothing to run";
        if (op_kind == op::kind::Wildcard)
            return "Wildcard stands for an op that is not gradnn's";
        return text(to_string(op_kind), " is not one of gradnn's ops");
    }
    if (const backend *row = find_backend(kind))
        return row->unavailable_reason();
    return "engine kind any is not one that a partition can run on; "
            + allowed_kinds();
}

/// Where nothing can run each op is alone, with the reason.
std::vector<std::vector<size_t>> groups_of(const graph_impl &graph) {
    const backend *const row = find_backend(graph.engine_kind);
    if (row != nullptr && row->unavailable_reason().empty())
        return grouped(graph.ops);
    std::vector<std::vector<size_t>> groups(graph.ops.size());
    for (size_t index = 0; index < groups.size(); ++index)
        groups[index] = {index};
    return groups;
}

void log_creation(const partition_impl &partition) {
    if (log_level() < log_events) return;
    log_line line;
    line.event = "create";
    line.engine = to_string(partition.engine_kind);
    line.partition = std::to_string(partition.id);
    line.ops = ops_text(partition.ops);
    line.inputs = ports_text(partition.ops, input_ports(partition.ops), false);
    line.outputs = ports_text(partition.ops, output_ports(partition.ops), true);
    if (!partition.unsupported.empty())
        line.note = "not supported: " + partition.unsupported;
    write_log(line);
}

} // namespace

} // namespace detail

using detail::access;
using detail::graph_impl;
using detail::partition_impl;
using detail::text;

graph::graph(engine::kind engine_kind)
    : graph(engine_kind, fpmath_mode::strict) {}

graph::graph(engine::kind engine_kind, fpmath_mode mode)
    : impl_(std::make_shared<graph_impl>()) {
    if (detail::find_backend(engine_kind) == nullptr)
        throw error(status::invalid_arguments,
                detail::text("graph: engine kind ", to_string(engine_kind),
                        "; ", detail::allowed_kinds()));
    impl_->engine_kind = engine_kind;
    impl_->fpmath = mode;
}

status graph::add_op(const op &op, bool allow_exception) {
    try {
        if (impl_->finalized)
            throw error(status::invalid_graph,
                    detail::op_label(op)
                            + ": the graph is finalized, no op can be added");
        for (const auto &other : impl_->ops)
            if (other.identity().get_id() == op.get_id())
                throw error(status::invalid_graph,
                        text(detail::op_label(op), ": its id ", op.get_id(),
                                " is also that of ",
                                detail::op_label(other.identity())));
        impl_->ops.push_back(detail::checked(op));
    } catch (const error &failure) {
        if (allow_exception) throw;
        return failure.status;
    }
    return status::success;
}

void graph::finalize() {
    if (impl_->finalized) return;
    const std::vector<size_t> order = detail::execution_order(impl_->ops);
    std::vector<detail::checked_op> ordered;
    ordered.reserve(order.size());
    for (const size_t index : order)
        ordered.push_back(std::move(impl_->ops[index]));
    impl_->ops = std::move(ordered);
    impl_->groups = detail::groups_of(*impl_);
    impl_->first_partition_id = detail::new_partition_ids(
            impl_->groups.size() + impl_->ops.size());
    impl_->finalized = true;
    detail::dump_graph(*impl_);
}

bool graph::is_finalized() const {
    return impl_->finalized;
}

void graph::set_deterministic(bool deterministic) {
    impl_->deterministic = deterministic;
}

bool graph::get_deterministic() const {
    return impl_->deterministic;
}

void graph::set_compile_settings(const compile_settings &settings) {
    detail::check_settings(settings);
    impl_->settings = settings;
}

compile_settings graph::get_compile_settings() const {
    return impl_->settings;
}

void graph::set_fpmath_mode(fpmath_mode mode, bool apply_to_int) {
    impl_->fpmath = mode;
    impl_->fpmath_of_int = apply_to_int;
}

fpmath_mode graph::get_fpmath_mode() const {
    return impl_->fpmath;
}

void graph::get_fpmath_mode(fpmath_mode &mode, bool &apply_to_int) const {
    mode = impl_->fpmath;
    apply_to_int = impl_->fpmath_of_int;
}

std::vector<partition> graph::get_partitions(partition::policy policy) {
    if (!impl_->finalized)
        throw error(status::invalid_graph,
                "graph: not finalized; call finalize before get_partitions");
    std::vector<partition> partitions;
    const auto add = [&](const std::vector<size_t> &group, size_t id) {
        auto impl = std::make_shared<partition_impl>();
        impl->id = id;
        impl->engine_kind = impl_->engine_kind;
        impl->fpmath = impl_->fpmath;
        impl->deterministic = impl_->deterministic;
        impl->settings = impl_->settings;
        for (const size_t index : group)
            impl->ops.push_back(impl_->ops[index]);
        impl->unsupported = detail::why_unsupported(
                impl_->engine_kind, impl->ops[0].identity().get_kind());
        detail::log_creation(*impl);
        partitions.push_back(access::make<partition>(
                std::shared_ptr<const partition_impl>(std::move(impl))));
    };
    size_t id = impl_->first_partition_id;
    if (policy == partition::policy::fusion) {
        for (const std::vector<size_t> &group : impl_->groups)
            add(group, id++);
        return partitions;
    }
    if (policy != partition::policy::debug)
        throw error(status::invalid_arguments,
                text("get_partitions: given policy ", static_cast<int>(policy),
                        "; fusion and debug are allowed"));
    id += impl_->groups.size();
    for (size_t index = 0; index < impl_->ops.size(); ++index)
        add({index}, id++);
    return partitions;
}

size_t graph::get_partition_count() const {
    if (!impl_->finalized)
        throw error(status::invalid_graph,
                "graph: not finalized; call finalize before "
                "get_partition_count");
    return impl_->groups.size();
}

partition::partition(const op &aop, engine::kind ekind)
    : partition(aop, ekind, compile_settings()) {}

partition::partition(
        const op &aop, engine::kind ekind, const compile_settings &settings) {
    detail::check_settings(settings);
    auto impl = std::make_shared<partition_impl>();
    impl->id = detail::new_partition_ids(1);
    impl->engine_kind = ekind;
    impl->settings = settings;
    impl->alone = true;
    impl->unsupported = detail::why_unsupported(ekind, aop.get_kind());
    try {
        impl->ops.push_back(detail::checked(aop));
    } catch (const error &failure) {
        impl->ops.push_back(detail::unchecked(aop));
        impl->unsupported = failure.what();
    }
    detail::log_creation(*impl);
    impl_ = std::move(impl);
}

namespace {

const partition_impl &filled(
        const std::shared_ptr<const partition_impl> &impl) {
    if (!impl)
        throw error(
                status::invalid_arguments, "partition: the handle is empty");
    return *impl;
}

} // namespace

size_t partition::get_id() const {
    return filled(impl_).id;
}

size_t partition::get_ops_num() const {
    return filled(impl_).ops.size();
}

std::vector<size_t> partition::get_ops() const {
    std::vector<size_t> ids;
    for (const detail::checked_op &the_op : filled(impl_).ops)
        ids.push_back(the_op.identity().get_id());
    return ids;
}

engine::kind partition::get_engine_kind() const {
    return filled(impl_).engine_kind;
}

bool partition::is_supported() const {
    return filled(impl_).unsupported.empty();
}

std::string partition::unsupported_reason() const {
    return filled(impl_).unsupported;
}

std::vector<logical_tensor> partition::get_input_ports() const {
    return detail::input_ports(filled(impl_).ops);
}

std::vector<logical_tensor> partition::get_output_ports() const {
    return detail::output_ports(filled(impl_).ops);
}

compiled_partition partition::compile(const std::vector<logical_tensor> &inputs,
        const std::vector<logical_tensor> &outputs, const engine &e) const {
    return access::make<compiled_partition>(
            detail::compile(filled(impl_), inputs, outputs, e));
}

} // namespace gradnn
