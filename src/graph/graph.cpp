// Graphs and partitions: adding ops, the checks between ops, the order of
// execution, one partition an op.
#include <gradnn/graph.hpp>

#include <algorithm>
#include <limits>
#include <unordered_map>

#include "base/text.hpp"
#include "base/unique_ids.hpp"
#include "compile/compile.hpp"
#include "compile/compile_settings.hpp"
#include "compile/executable.hpp"
#include "compile/graph_dump.hpp"
#include "compile/log_text.hpp"
#include "compile/partition.hpp"
#include "kernel/backend.hpp"
#include "op/labels.hpp"
#include "op/op_check.hpp"
#include "op/op_schema.hpp"
#include "tensor/layout.hpp"

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
    return "engine kind any is not one that a partition can run on; cpu and "
           "gpu are allowed";
}

/// Which op makes a tensor, by the tensor's id.
class producers {
public:
    static constexpr size_t none = std::numeric_limits<size_t>::max();

    /// Checks the edges: every tensor has one producer, and one type and shape
    /// wherever it appears.
    explicit producers(const std::vector<checked_op> &ops) {
        for (size_t index = 0; index < ops.size(); ++index) {
            for (const logical_tensor &lt : ops[index].inputs)
                if (!lt.is_absent()) meet(ops[index], lt);
            for (const logical_tensor &lt : ops[index].outputs) {
                if (lt.is_absent()) continue;
                size_t &maker = meet(ops[index], lt).maker;
                if (maker != none)
                    throw error(status::invalid_graph,
                            text(op_label(ops[index].identity()), ": tensor ",
                                    lt.get_id(), " is also an output of ",
                                    op_label(ops[maker].identity())));
                maker = index;
            }
        }
    }

    size_t of(const logical_tensor &lt) const {
        return lt.is_absent() ? none : seen_.at(lt.get_id()).maker;
    }

private:
    struct tensor_entry {
        const logical_tensor *known; ///< with its dims, where any port has them
        size_t maker = none;
    };

    tensor_entry &meet(const checked_op &the_op, const logical_tensor &lt) {
        const auto [place, fresh]
                = seen_.try_emplace(lt.get_id(), tensor_entry {&lt});
        tensor_entry &entry = place->second;
        if (fresh) return entry;
        const logical_tensor &known = *entry.known;
        if (known.get_data_type() != lt.get_data_type())
            throw error(status::invalid_graph,
                    text(op_label(the_op.identity()), ": tensor ", lt.get_id(),
                            " is ", to_string(lt.get_data_type()), " here and ",
                            to_string(known.get_data_type()), " elsewhere"));
        if (!dims_known(known))
            entry.known = &lt;
        else if (dims_known(lt) && !same_dims(lt, known))
            throw error(status::invalid_graph,
                    text(op_label(the_op.identity()), ": tensor ", lt.get_id(),
                            " has dims ", text_of(dims_of(lt)), " here and ",
                            text_of(dims_of(known)), " elsewhere"));
        return entry;
    }

    std::unordered_map<size_t, tensor_entry> seen_;
};

/// Producers before consumers, otherwise in the order of adding.
std::vector<size_t> execution_order(const std::vector<checked_op> &ops) {
    const producers made_by(ops);
    std::vector<size_t> order;
    std::vector<bool> placed(ops.size(), false);
    const auto ready = [&](const checked_op &the_op) {
        return std::all_of(the_op.inputs.begin(), the_op.inputs.end(),
                [&](const logical_tensor &lt) {
                    const size_t maker = made_by.of(lt);
                    return maker == producers::none || placed[maker];
                });
    };
    while (order.size() < ops.size()) {
        bool progress = false;
        for (size_t index = 0; index < ops.size(); ++index) {
            if (placed[index] || !ready(ops[index])) continue;
            placed[index] = true;
            progress = true;
            order.push_back(index);
        }
        if (progress) continue;
        const auto stuck = static_cast<size_t>(
                std::find(placed.begin(), placed.end(), false)
                - placed.begin());
        throw error(status::invalid_graph,
                op_label(ops[stuck].identity())
                        + ": is part of a cycle or waits for one");
    }
    return order;
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
    if (engine_kind == engine::kind::any)
        throw error(status::invalid_arguments,
                "graph: engine kind any; cpu and gpu are allowed");
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
    impl_->first_partition_id = detail::new_partition_ids(impl_->ops.size());
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

std::vector<partition> graph::get_partitions(partition::policy) {
    if (!impl_->finalized)
        throw error(status::invalid_graph,
                "graph: not finalized; call finalize before get_partitions");
    std::vector<partition> partitions;
    for (const detail::checked_op &the_op : impl_->ops) {
        auto impl = std::make_shared<partition_impl>();
        impl->id = impl_->first_partition_id + partitions.size();
        impl->engine_kind = impl_->engine_kind;
        impl->fpmath = impl_->fpmath;
        impl->deterministic = impl_->deterministic;
        impl->settings = impl_->settings;
        impl->ops.push_back(the_op);
        impl->unsupported = detail::why_unsupported(
                impl_->engine_kind, the_op.identity().get_kind());
        detail::log_creation(*impl);
        partitions.push_back(access::make<partition>(
                std::shared_ptr<const partition_impl>(std::move(impl))));
    }
    return partitions;
}

size_t graph::get_partition_count() const {
    if (!impl_->finalized)
        throw error(status::invalid_graph,
                "graph: not finalized; call finalize before "
                "get_partition_count");
    return impl_->ops.size();
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
