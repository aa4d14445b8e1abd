#include "c_api/objects.hpp"

#include <algorithm>
#include <iterator>

#include "base/text.hpp"
#include "base/unique_ids.hpp"
#include "c_api/conversions.hpp"
#include "c_api/fence.hpp"
#include "compile/compile.hpp"
#include "kernel/executable_cache.hpp"
#include "op/op_check.hpp"

using namespace gradnn;
using namespace gradnn::c_api;
using detail::access;

namespace {

/// Ids of tensors: inputs count from 0, outputs from there.
constexpr size_t first_output_id = gradnn_compiled::first_output_id;

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
    partition.id = detail::new_partition_ids(1);
    partition.engine_kind = e.engine.get_kind();
    partition.ops.front()
            = detail::checked(partition.ops.front().identity(), ins, outs);

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
