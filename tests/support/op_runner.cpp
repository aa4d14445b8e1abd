#include "op_runner.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <sstream>

#include <gtest/gtest.h>

#include "files/tensor_data.hpp"
#include "op/op_schema.hpp"
#include "random.hpp"
#include "reference/accuracy.hpp"

namespace gradnn::test {

namespace {

constexpr const char *kernel_variable = "GRADNN_KERNEL";

} // namespace

forced_kernel::forced_kernel(const std::string &name) {
    if (const char *const value = std::getenv(kernel_variable)) before_ = value;
    if (name.empty())
        unsetenv(kernel_variable);
    else
        setenv(kernel_variable, name.c_str(), 1);
}

forced_kernel::~forced_kernel() {
    if (before_)
        setenv(kernel_variable, before_->c_str(), 1);
    else
        unsetenv(kernel_variable);
}

partition partition_of(const op &the_op, engine::kind kind, fpmath_mode mode,
        bool deterministic) {
    graph g(kind, mode);
    g.set_deterministic(deterministic);
    g.add_op(the_op);
    g.finalize();
    return g.get_partitions().at(0);
}

std::vector<logical_tensor> present(const std::vector<logical_tensor> &ports) {
    std::vector<logical_tensor> result;
    for (const logical_tensor &lt : ports)
        if (!lt.is_absent()) result.push_back(lt);
    return result;
}

compiled_partition compile(const op &the_op, const engine &e) {
    return partition_of(the_op, e.get_kind())
            .compile(present(the_op.get_inputs()),
                    present(the_op.get_outputs()), e);
}

bool is_shape_input(const op &the_op, size_t index) {
    const detail::op_schema &schema = *detail::find_schema(the_op.get_kind());
    return detail::port_index(schema.inputs, detail::port_role::shape)
            == static_cast<int>(index);
}

namespace {

/// What a shape input must hold.
std::vector<double> shape_values(const op &the_op) {
    std::vector<int64_t> shape;
    const bool forward = the_op.get_kind() == op::kind::Interpolate;
    if (forward || the_op.get_kind() == op::kind::InterpolateBackward) {
        const auto resized = forward ? the_op.get_outputs()[0].get_dims()
                                     : the_op.get_inputs()[1].get_dims();
        const auto format = the_op.get_attrs().find(op::attr::data_format);
        const bool channels_second = format != the_op.get_attrs().end()
                && std::get<std::string>(format->second) == "NCX";
        const long first = channels_second ? 2 : 1;
        shape.assign(resized.begin() + first,
                resized.begin() + first + static_cast<long>(resized.size())
                        - 2);
    } else {
        shape = the_op.get_outputs()[0].get_dims();
    }
    return {shape.begin(), shape.end()};
}

} // namespace

values_list random_inputs(const op &the_op, uint64_t seed) {
    random_source numbers(seed);
    values_list result;
    for (size_t index = 0; index < the_op.get_inputs().size(); ++index) {
        const logical_tensor &lt = the_op.get_inputs()[index];
        if (lt.is_absent())
            result.emplace_back();
        else if (is_shape_input(the_op, index))
            result.push_back(shape_values(the_op));
        else
            result.push_back(numbers.values(
                    static_cast<size_t>(detail::element_count(lt))));
        // Of either sign, but mostly positive: sums of a few terms must not
        // cancel, or their relative error would be that of luck.
        if (!lt.is_absent() && !is_shape_input(the_op, index))
            for (double &value : result.back())
                value = 0.5 + 0.75 * value;
    }
    return result;
}

op_run::op_run(const op &the_op, const engine &e, const values_list &inputs,
        options how)
    : op_run(the_op, compile(the_op, e), e, inputs, how) {}

op_run::op_run(const op &the_op, const compiled_partition &compiled,
        const engine &e, const values_list &inputs, options how)
    : op_(the_op), engine_(e), compiled_(compiled) {
    prepare(inputs, how);
}

void op_run::prepare(const values_list &inputs, options how) {
    // The op with the layouts that the library chose.
    std::vector<logical_tensor> outputs;
    for (const logical_tensor &lt : op_.get_outputs())
        outputs.push_back(lt.is_absent()
                        ? lt
                        : compiled_.query_logical_tensor(lt.get_id()));
    op completed(op_.get_id(), op_.get_kind(), op_.get_inputs(), outputs,
            op_.get_name());
    for (const auto &[name, value] : op_.get_attrs())
        std::visit(
                [&, key = name](const auto &v) { completed.set_attr(key, v); },
                value);
    op_ = completed;

    for (size_t index = 0; index < op_.get_inputs().size(); ++index) {
        const logical_tensor &lt = op_.get_inputs()[index];
        if (lt.is_absent()) {
            inputs_.emplace_back();
            continue;
        }
        inputs_.push_back(std::make_shared<test_tensor>(lt, engine_,
                test_tensor::role::input, how.offset,
                is_shape_input(op_, index)));
        inputs_.back()->store(inputs[index]);
    }
    for (const logical_tensor &lt : op_.get_outputs()) {
        outputs_.emplace_back();
        if (!lt.is_absent())
            outputs_.back() = std::make_shared<test_tensor>(
                    lt, engine_, test_tensor::role::output, how.offset);
    }
}

std::vector<tensor> op_run::input_tensors() const {
    std::vector<tensor> tensors;
    for (const auto &input : inputs_)
        if (input) tensors.push_back(input->get());
    return tensors;
}

std::vector<tensor> op_run::output_tensors() const {
    std::vector<tensor> tensors;
    for (const auto &output : outputs_)
        if (output) tensors.push_back(output->get());
    return tensors;
}

void op_run::execute() {
    stream s(engine_);
    execute(s);
}

void op_run::execute(stream &s) {
    for (const auto &output : outputs_)
        if (output) output->poison();
    compiled_.execute(s, input_tensors(), output_tensors());
    s.wait();
}

std::vector<double> op_run::output(size_t index) const {
    return outputs_[index] ? outputs_[index]->load() : std::vector<double>();
}

std::vector<std::byte> op_run::output_bytes(size_t index) const {
    return outputs_[index] ? outputs_[index]->element_bytes()
                           : std::vector<std::byte>();
}

std::vector<std::byte> op_run::all_output_bytes() const {
    std::vector<std::byte> all;
    for (size_t index = 0; index < outputs_.size(); ++index) {
        const auto bytes = output_bytes(index);
        all.insert(all.end(), bytes.begin(), bytes.end());
    }
    return all;
}

std::vector<detail::reference_tensor> op_run::input_values() const {
    std::vector<detail::reference_tensor> values;
    for (size_t index = 0; index < inputs_.size(); ++index) {
        if (!inputs_[index])
            values.emplace_back();
        else
            values.push_back({op_.get_inputs()[index].get_dims(),
                    inputs_[index]->load()});
    }
    return values;
}

std::vector<detail::reference_tensor> op_run::reference() const {
    return detail::reference(op_, input_values());
}

expectation op_run::expected(fpmath_mode mode) const {
    return {reference(), detail::sum_magnitudes(op_, input_values()), mode};
}

void op_run::expect_right(const expectation &wanted) const {
    expect_near(wanted, true);
}

void op_run::expect_sums_right(const expectation &wanted) const {
    expect_near(wanted, false);
}

void op_run::expect_near(const expectation &wanted, bool norm) const {
    for (size_t index = 0; index < outputs_.size(); ++index) {
        if (!outputs_[index]) continue;
        const detail::promise held
                = detail::promise_of(op_, index, wanted.mode);
        const auto type = held.type;
        const std::vector<double> given = output(index);
        const auto &exact = wanted.exact[index].values;
        const auto &magnitudes = wanted.magnitudes[index].values;
        if (norm) {
            // The errors of few elements scatter (doc/numerics.md).
            const auto elements
                    = static_cast<double>(std::max<size_t>(1, given.size()));
            const double most = held.norm * (1 + 1 / std::sqrt(elements));
            EXPECT_EQ(
                    compare(most, given,
                            detail::exact_in_normal_range(type, given, exact)),
                    "")
                    << "output " << index;
        }
        EXPECT_LE(detail::largest_sum_error(type, given, exact,
                          detail::held_to(held, magnitudes)),
                held.chain)
                << "output " << index;
        if (op_.get_kind() == op::kind::InterpolateBackward
                || op_.get_kind() == op::kind::Interpolate) {
            EXPECT_EQ(compare_elements(type, given, exact, magnitudes), "")
                    << "output " << index;
        }
        EXPECT_EQ(outputs_[index]->outside_damage(), "") << "output " << index;
    }
}

std::vector<std::string> kernels_of(const compiled_partition &compiled) {
    std::vector<std::string> names;
    for (const step_info &step : compiled.get_info().steps)
        names.push_back(step.kernel);
    return names;
}

bool run_forced(const op &the_op, const engine &e, const std::string &kernel,
        uint64_t seed) {
    const forced_kernel forced(kernel);
    compiled_partition compiled;
    try {
        compiled = compile(the_op, e);
    } catch (const error &refusal) {
        const std::string message = refusal.what();
        EXPECT_FALSE(kernel.empty()) << "no kernel takes this: " << message;
        EXPECT_EQ(refusal.status, status::unimplemented) << message;
        // Who refuses, and why.
        const size_t named = message.find(kernel);
        EXPECT_NE(named, std::string::npos) << message;
        EXPECT_GT(message.size(), named + kernel.size() + 4) << message;
        return false;
    }
    op_run run(the_op, compiled, e, random_inputs(the_op, seed), {});
    run.execute();
    run.expect_right();
    if (!kernel.empty()) {
        const std::string problem = kernel.substr(0, kernel.find('.') + 1);
        bool concerned = false;
        for (const std::string &ran : kernels_of(compiled)) {
            if (ran.rfind(problem, 0) != 0) continue;
            concerned = true;
            EXPECT_EQ(ran, kernel);
        }
        EXPECT_TRUE(concerned || kernels_of(compiled).empty()
                || problem != "interpolation.")
                << kernel << " was forced and did not run";
    }
    return true;
}

bool accepts(const op &the_op, const engine &e, const std::string &kernel) {
    const forced_kernel forced(kernel);
    try {
        compile(the_op, e);
    } catch (const error &refusal) {
        if (refusal.status != status::unimplemented) throw;
        return false;
    }
    return true;
}

double tolerance_of(data_type type) {
    return detail::norm_tolerance(type);
}

std::string compare(double tolerance, const std::vector<double> &out,
        const std::vector<double> &expected) {
    std::ostringstream report;
    report.precision(17);
    if (out.size() != expected.size()) {
        report << out.size() << " elements instead of " << expected.size();
        return report.str();
    }
    double difference = 0;
    double norm = 0;
    size_t worst = 0;
    for (size_t i = 0; i < out.size(); ++i) {
        if (!std::isfinite(expected[i]) || !std::isfinite(out[i])) {
            if (std::isnan(expected[i]) ? std::isnan(out[i])
                                        : out[i] == expected[i])
                continue;
            report << "element " << i << " is " << out[i] << ", not "
                   << expected[i];
            return report.str();
        }
        const double d = out[i] - expected[i];
        if (std::fabs(d) > std::fabs(out[worst] - expected[worst])) worst = i;
        difference += d * d;
        norm += expected[i] * expected[i];
    }
    const double relative = norm == 0 ? (difference == 0 ? 0 : INFINITY)
                                      : std::sqrt(difference / norm);
    if (relative <= tolerance) return {};
    report << "relative error " << relative << " of " << out.size()
           << " elements, above " << tolerance << "; worst is element " << worst
           << ": " << out[worst] << ", not " << expected[worst];
    return report.str();
}

std::string compare_elements(data_type type, const std::vector<double> &out,
        const std::vector<double> &expected,
        const std::vector<double> &magnitudes) {
    if (type != data_type::f16 && type != data_type::bf16) return {};
    for (size_t i = 0; i < out.size(); ++i) {
        const int64_t ulps
                = detail::ulps_of_sum(type, out[i], expected[i], magnitudes[i]);
        if (ulps <= 1) continue;
        std::ostringstream report;
        report << "element " << i << " is " << out[i] << ", " << ulps
               << " ulp from the correctly rounded "
               << detail::rounded_to(type, expected[i]);
        return report.str();
    }
    return {};
}

} // namespace gradnn::test
