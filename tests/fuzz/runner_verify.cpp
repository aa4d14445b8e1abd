#include "runner.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <set>

#include "driver/evaluation.hpp"
#include "files/tensor_data.hpp"
#include "verdict.hpp"

namespace gradnn::fuzz {

namespace {

/// In all bits, but for what a NaN holds.
bool are_same(const logical_tensor &lt, const std::vector<std::byte> &a,
        const std::vector<std::byte> &b) {
    const auto left = detail::load(lt, a.data());
    const auto right = detail::load(lt, b.data());
    return std::equal(left.begin(), left.end(), right.begin(), right.end(),
            [](double l, double r) {
                return std::bit_cast<uint64_t>(l) == std::bit_cast<uint64_t>(r)
                        || (std::isnan(l) && std::isnan(r));
            });
}

} // namespace

void run::verify_group(
        const partition &each, const compiled_partition &compiled) {
    driver::partition_reference reference(compiled, problem_.fpmath);
    const auto values = [&](const logical_tensor &lt) {
        return detail::reference_tensor {lt.get_dims(),
                detail::load(lt, tensors_.at(lt.get_id()).image.data())};
    };
    std::set<size_t> made;
    for (const logical_tensor &lt : each.get_output_ports())
        made.insert(lt.get_id());
    for (const size_t id : each.get_ops()) {
        const op the_op = known(*std::find_if(problem_.ops.begin(),
                problem_.ops.end(),
                [&](const op &declared) { return declared.get_id() == id; }));
        const driver::evaluation exact = reference.evaluate(the_op, values);
        for (size_t port = 0; port < the_op.get_outputs().size(); ++port) {
            const logical_tensor &lt = the_op.get_outputs()[port];
            if (lt.is_absent() || !made.contains(lt.get_id())) continue;
            const std::string wrong = compare_output(the_op, port, exact.inputs,
                    values(lt).values, exact.outputs[port].values,
                    exact.held[port].promise, exact.held[port].magnitudes,
                    problem_.fpmath);
            if (!wrong.empty())
                fail(std::string("as a group: ") + to_string(the_op.get_kind())
                        + ": " + wrong);
        }
    }
}

op run::known(const op &declared) const {
    const auto complete = [&](std::vector<logical_tensor> ports) {
        for (logical_tensor &lt : ports)
            if (!lt.is_absent()) lt = tensors_.at(lt.get_id()).lt;
        return ports;
    };
    op result(declared.get_id(), declared.get_kind(),
            complete(declared.get_inputs()), complete(declared.get_outputs()),
            declared.get_name());
    for (const auto &[name, value] : declared.get_attrs())
        std::visit([&, key = name](const auto &v) { result.set_attr(key, v); },
                value);
    return result;
}

bool run::verify_op(const op &declared) {
    const op the_op = known(declared);
    std::vector<detail::reference_tensor> inputs;
    for (const logical_tensor &lt : the_op.get_inputs()) {
        if (lt.is_absent()) {
            inputs.emplace_back();
            continue;
        }
        const entry &given = tensors_.at(lt.get_id());
        inputs.push_back({lt.get_dims(), detail::load(lt, given.image.data())});
    }
    std::vector<std::vector<double>> outputs;
    for (const logical_tensor &lt : the_op.get_outputs()) {
        outputs.emplace_back();
        if (!lt.is_absent())
            outputs.back()
                    = detail::load(lt, tensors_.at(lt.get_id()).image.data());
    }
    const std::string wrong
            = compare_with_reference(the_op, inputs, outputs, problem_.fpmath);
    if (!wrong.empty())
        fail(std::string(to_string(the_op.get_kind())) + " (op "
                + std::to_string(the_op.get_id()) + "): " + wrong);
    return wrong.empty();
}

void run::verify() {
    if (refused_ || !finding_.empty()) return;
    for (const op &each : problem_.ops)
        if (!verify_op(each)) return;
    if (ahead_of_time_) verify_ahead_of_time();
}

/// Interpolations have the same bits where the same rows of the list took them; a
/// convolution has sums of another order, in the same row too.
void run::verify_ahead_of_time() {
    run &other = *ahead_of_time_;
    const bool same_bits = other.kernels_ == kernels_
            && std::none_of(kernels_.begin(), kernels_.end(),
                    [](const std::string &kernel) {
                        return kernel.starts_with("convolution.");
                    });
    if (!same_bits) other.verify();
    for (const auto &[id, each] : tensors_)
        if (same_bits && each.computed
                && !are_same(each.lt, each.image, other.tensors_.at(id).image))
            other.fail("tensor " + std::to_string(id) + " has other bits");
    if (!other.finding_.empty()) fail("with specialise off: " + other.finding_);
    kernels_.insert(
            kernels_.end(), other.kernels_.begin(), other.kernels_.end());
}

} // namespace gradnn::fuzz
