#include "evaluation.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "op/op_schema.hpp"

namespace gradnn::driver {

using detail::reference_tensor;

partition_reference::partition_reference(
        const compiled_partition &compiled, fpmath_mode mode)
    : mode_(mode) {
    const compiled_partition_info info = compiled.get_info();
    composed_ = info.composed;
    for (const logical_tensor &lt : info.inner)
        inner_ids_.insert(lt.get_id());
}

/// Composed weights of 16 bits are rounded to the type, and so are their gradients:
/// `sums` is S from the partition's inputs on.
void partition_reference::allow_for_composing(const op &the_op, size_t port,
        const std::vector<double> &sums, held_output &held) const {
    using data_type = logical_tensor::data_type;
    const data_type type = held.promise.type;
    const bool small = type == data_type::f16 || type == data_type::bf16;
    const detail::port_role role
            = detail::find_schema(the_op.get_kind())->outputs[port].role;
    if (!composed_ || !small || role == detail::port_role::bias) return;
    const double roundoff = type == data_type::f16 ? 0x1p-11 : 0x1p-8;
    std::vector<double> errors = sums;
    for (double &error : errors)
        error *= roundoff;
    detail::allow_more(held.promise, held.magnitudes, errors);
    held.ulps
            = std::numeric_limits<int64_t>::max(); // what was asked of one sum
}

evaluation partition_reference::evaluate(const op &the_op,
        const std::function<reference_tensor(const logical_tensor &)> &values) {
    evaluation result;
    // The inputs, those from inside as large as they may be.
    std::vector<reference_tensor> largest;
    std::vector<reference_tensor> all; ///< with S in the place of those
    double norm = 0;
    int64_t ulps = 0;
    for (const logical_tensor &lt : the_op.get_inputs()) {
        const auto found
                = lt.is_absent() ? inner_.end() : inner_.find(lt.get_id());
        if (found == inner_.end()) {
            result.inputs.push_back(values(lt));
            largest.push_back(result.inputs.back());
            all.push_back(result.inputs.back());
            continue;
        }
        const inner_tensor &inner = found->second;
        result.inputs.push_back(inner.exact);
        largest.push_back(inner.exact);
        for (size_t index = 0; index < inner.errors.size(); ++index)
            largest.back().values[index] = std::fabs(inner.exact.values[index])
                    + inner.errors[index];
        all.push_back({inner.exact.dims, inner.sums});
        norm += inner.norm;
        ulps += inner.ulps;
    }
    result.outputs = detail::reference(the_op, result.inputs);
    const auto sums = detail::sum_magnitudes(the_op, result.inputs);
    all = composed_ ? detail::sum_magnitudes(the_op, std::move(all)) : sums;
    if (ulps > 0) largest = detail::sum_magnitudes(the_op, std::move(largest));
    for (size_t port = 0; port < the_op.get_outputs().size(); ++port) {
        held_output &held = result.held.emplace_back();
        const logical_tensor &lt = the_op.get_outputs()[port];
        if (lt.is_absent()) continue;
        held.promise = detail::promise_of(the_op, port, mode_);
        held.magnitudes = detail::held_to(held.promise, sums[port].values);
        if (ulps > 0) {
            held.promise.norm += norm;
            // It may be any number already.
            held.ulps += std::min(
                    ulps, std::numeric_limits<int64_t>::max() - held.ulps);
            // An op is linear in what comes from inside.
            std::vector<double> &errors = largest[port].values;
            for (size_t index = 0; index < errors.size(); ++index)
                errors[index] -= sums[port].values[index];
            detail::allow_more(held.promise, held.magnitudes, errors);
        }
        allow_for_composing(the_op, port, all[port].values, held);
        if (inner_ids_.contains(lt.get_id()))
            inner_[lt.get_id()] = {result.outputs[port],
                    detail::allowed_errors(held.promise,
                            result.outputs[port].values, held.magnitudes),
                    all[port].values, held.promise.norm, held.ulps};
    }
    return result;
}

} // namespace gradnn::driver
