#include "c_api/objects.hpp"

#include <algorithm>
#include <array>
#include <iterator>

#include "base/text.hpp"
#include "base/unique_ids.hpp"
#include "c_api/conversions.hpp"
#include "c_api/fence.hpp"
#include "compile/compile.hpp"
#include "kernel/executable_cache.hpp"
#include "op/op_check.hpp"
#include "op/op_schema.hpp"

using namespace gradnn;
using namespace gradnn::c_api;
using detail::access;

namespace {

/// Ids of tensors: inputs count from 0, outputs from there.
constexpr size_t first_output_id = gradnn_compiled::first_output_id;

/// The ops of a group with their tensors, as the partition of a graph. Those between
/// the ops are of the first input's type, and the library lays them out.
partition partition_of(const gradnn_op &group, engine::kind kind,
        const std::vector<logical_tensor> &ins,
        const std::vector<logical_tensor> &outs) {
    using data_type = logical_tensor::data_type;
    // Of what lies between the ops: that of the data, not of sizes.
    const auto data = std::find_if(
            ins.begin(), ins.end(), [](const logical_tensor &each) {
                return each.get_data_type() != data_type::s32
                        && each.get_data_type() != data_type::s64;
            });
    const data_type inner
            = data == ins.end() ? data_type::undef : data->get_data_type();
    const auto tensor_numbered = [&](int32_t number) {
        if (number < 0) return logical_tensor();
        for (const auto &[numbers, list] : {std::pair(&group.coming_in, &ins),
                     {&group.going_out, &outs}}) {
            const auto at = std::find(numbers->begin(), numbers->end(), number)
                    - numbers->begin();
            if (at < static_cast<ptrdiff_t>(numbers->size()))
                return at < static_cast<ptrdiff_t>(list->size())
                        ? (*list)[static_cast<size_t>(at)]
                        : logical_tensor();
        }
        return logical_tensor(2 * first_output_id + static_cast<size_t>(number),
                inner, logical_tensor::layout_type::undef);
    };
    const detail::partition_impl &given = group.partition;
    graph whole(kind, given.fpmath);
    whole.set_deterministic(given.deterministic);
    whole.set_compile_settings(given.settings);
    for (size_t index = 0; index < given.ops.size(); ++index) {
        const op &identity = given.ops[index].identity();
        const size_t input_count
                = detail::find_schema(identity.get_kind())->inputs.size();
        std::array<std::vector<logical_tensor>, 2> sides;
        for (const int32_t number : group.ports[index]) {
            auto &side = sides[sides[0].size() < input_count ? 0 : 1];
            side.push_back(tensor_numbered(number));
        }
        op the_op(index, identity.get_kind(), sides[0], sides[1]);
        for (const auto &[name, value] : identity.get_attrs())
            std::visit(
                    [&, key = name](const auto &v) { the_op.set_attr(key, v); },
                    value);
        whole.add_op(the_op);
    }
    whole.finalize();
    const std::vector<partition> made = whole.get_partitions();
    if (made.size() != 1)
        throw error(status::invalid_graph,
                detail::text("gradnn_compile: the group's ops make ",
                        made.size(),
                        " partitions; chains that make one are allowed "
                        "(doc/partitions.md)"));
    return made[0];
}

compiled_reference compile_now(const gradnn_op &the_op, const gradnn_engine &e,
        std::span<const gradnn_tensor> inputs,
        std::span<const gradnn_tensor> outputs) {
    std::vector<logical_tensor> ins;
    std::vector<logical_tensor> outs;
    for (const gradnn_tensor &tensor : inputs)
        ins.push_back(tensor_of(tensor, ins.size(), "input", ins.size()));
    for (const gradnn_tensor &tensor : outputs)
        outs.push_back(tensor_of(
                tensor, first_output_id + outs.size(), "output", outs.size()));
    detail::partition_impl partition = the_op.partition;
    if (the_op.ports.empty()) {
        partition.id = detail::new_partition_ids(1);
        partition.engine_kind = e.engine.get_kind();
        partition.ops.front()
                = detail::checked(partition.ops.front().identity(), ins, outs);
    } else {
        const gradnn::partition whole
                = partition_of(the_op, e.engine.get_kind(), ins, outs);
        partition = *access::impl(whole);
    }

    auto compiled = std::make_unique<gradnn_compiled>();
    const auto present = [](const std::vector<logical_tensor> &list) {
        std::vector<logical_tensor> result;
        for (const logical_tensor &lt : list)
            if (!lt.is_absent()) result.push_back(lt);
        return result;
    };
    compiled->impl
            = detail::compile(partition, present(ins), present(outs), e.engine);
    compiled->engine = e.engine;
    for (const logical_tensor &port : compiled->impl->ports) {
        const size_t id = port.get_id();
        const bool output = id >= first_output_id;
        compiled->places.push_back(output ? id - first_output_id : id);
        size_t &count = output ? compiled->output_count : compiled->input_count;
        count = std::max(count, compiled->places.back() + 1);
    }
    compiled->info
            = access::make<compiled_partition>(compiled->impl).get_info();
    return compiled_reference(compiled.release());
}

} // namespace

/// With a reference for the caller; null where it is not kept.
const gradnn_compiled *gradnn_op::find(key_words key) {
    const std::lock_guard lock(mutex);
    const auto found = by_key.find(key);
    if (found == by_key.end()) return nullptr;
    if (found->second != by_use.begin())
        by_use.splice(by_use.begin(), by_use, found->second);
    const gradnn_compiled *compiled = found->second->compiled.get();
    retain(*compiled);
    return compiled;
}

void gradnn_op::keep(key_words key, const gradnn_compiled &compiled) {
    const auto capacity
            = static_cast<size_t>(get_compiled_partition_cache_capacity());
    std::list<kept> dropped; // freed when the mutex is not held
    const std::lock_guard lock(mutex);
    if (capacity == 0 || by_key.contains(key)) return;
    retain(compiled);
    by_use.push_front({std::vector<int64_t>(key.begin(), key.end()),
            compiled_reference(&compiled)});
    by_key.emplace(by_use.front().key, by_use.begin());
    table_bytes += gradnn_compiled_table_bytes(&compiled);
    while (by_use.size() > capacity
            || (table_bytes > detail::most_cached_table_bytes
                    && by_use.size() > 1)) {
        by_key.erase(by_use.back().key);
        table_bytes
                -= gradnn_compiled_table_bytes(by_use.back().compiled.get());
        dropped.splice(dropped.begin(), by_use, std::prev(by_use.end()));
    }
}

const gradnn_compiled &gradnn_op::compile(const gradnn_engine &engine,
        std::span<const gradnn_tensor> inputs,
        std::span<const gradnn_tensor> outputs) {
    const lookup_key key(engine, inputs, outputs);
    if (const gradnn_compiled *found = find(key.words())) return *found;
    auto made = compile_now(*this, engine, inputs, outputs);
    keep(key.words(), *made);
    return *made.release();
}
