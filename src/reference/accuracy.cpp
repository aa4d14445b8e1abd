#include "reference/accuracy.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernel/problem.hpp"
#include "op/op_schema.hpp"
#include "reference/ops.hpp"
#include "tensor/layout.hpp"

namespace gradnn::detail {

namespace {

using data_type = logical_tensor::data_type;

constexpr double infinity = std::numeric_limits<double>::infinity();

/// Of the floating point types: digits with the leading one, the exponent of
/// the smallest normal number, and the first power of two that is too large.
struct float_format {
    int digits;
    int lowest;
    int beyond;
};

float_format format_of(data_type type) {
    switch (type) {
        case data_type::f64: return {53, -1022, 1024};
        case data_type::f16: return {11, -14, 16};
        case data_type::bf16: return {8, -126, 128};
        default: return {24, -126, 128};
    }
}

/// Half the distance of the values of a type about `value`.
double half_ulp(const float_format &format, double value) {
    int exponent = 0;
    std::frexp(value, &exponent); // value = [0.5, 1) * 2^exponent
    exponent = std::clamp(exponent - 1, format.lowest, format.beyond - 1);
    return std::ldexp(0.5, exponent - format.digits + 1);
}

/// Where rounding to nearest gives an infinity.
double overflow_at(const float_format &format) {
    const double limit
            = std::ldexp(1 - std::ldexp(0.5, -format.digits), format.beyond);
    return std::min(limit, std::numeric_limits<double>::max());
}

/// Of ReLUBackward the sign of src decides which terms there are.
size_t first_factor(const op &the_op) {
    return the_op.get_kind() == op::kind::ReLUBackward ? 1 : 0;
}

/// Whether an output's sums are of a convolution's products, which fpmath_mode
/// speaks of.
bool has_products(const op &the_op, size_t port) {
    switch (the_op.get_kind()) {
        case op::kind::ConvBackward:
        case op::kind::ConvTransposeBackward: return port != 2; // diff_bias
        case op::kind::ConvolutionBackwardData:
        case op::kind::ConvolutionBackwardWeights:
        case op::kind::ConvTransposeBackwardData:
        case op::kind::ConvTransposeBackwardWeights: return true;
        default: return false;
    }
}

/// The mean length of runs of equal values along an axis. Zeros do not count:
/// they change no sum.
double run_length(const reference_tensor &tensor, size_t axis) {
    const auto &dims = tensor.dims;
    int64_t step = 1;
    for (size_t inner = axis + 1; inner < dims.size(); ++inner)
        step *= dims[inner];
    double elements = 0;
    double runs = 0;
    const auto count = static_cast<int64_t>(tensor.values.size());
    for (int64_t index = 0; index < count; ++index) {
        const double value = tensor.values[static_cast<size_t>(index)];
        if (value == 0) continue;
        ++elements;
        const bool first = index / step % dims[axis] == 0;
        if (first || tensor.values[static_cast<size_t>(index - step)] != value)
            ++runs;
    }
    return runs > 0 ? elements / runs : 1;
}

/// How many elements of a tensor have the same value, where strides let them
/// share memory or equal values follow one another.
double equal_elements(
        const logical_tensor &lt, const reference_tensor &tensor) {
    double runs = 1;
    for (size_t axis = 0; axis < tensor.dims.size(); ++axis)
        runs *= run_length(tensor, axis);
    if (lt.get_layout_type() != logical_tensor::layout_type::strided)
        return runs;
    const auto bytes = static_cast<double>(lt.get_mem_size());
    const auto places
            = bytes / static_cast<double>(size_of(lt.get_data_type()));
    const auto elements = static_cast<double>(tensor.values.size());
    return places > 0 ? std::max(runs, elements / places) : runs;
}

/// v: the unit roundoff of the narrowest type that a mode lets factors have.
double factor_roundoff(fpmath_mode mode) {
    switch (mode) {
        case fpmath_mode::strict: return 0;
        case fpmath_mode::f16:
        case fpmath_mode::tf32: return 0x1p-11;
        case fpmath_mode::bf16:
        case fpmath_mode::any: break;
    }
    return 0x1p-8;
}

/// The reference, but an interpolation's weights, of which some of a cubic one are
/// negative, count by their magnitude.
std::vector<reference_tensor> with_magnitudes_of_weights(
        const op &the_op, const std::vector<reference_tensor> &inputs) {
    return find_schema(the_op.get_kind())->family == op_family::interpolation
            ? reference_interpolation(the_op, inputs, true)
            : reference(the_op, inputs);
}

} // namespace

double unit_roundoff(data_type output) {
    return output == data_type::f64 ? 0x1p-53 : 0x1p-24;
}

double norm_tolerance(data_type output) {
    switch (output) {
        case data_type::f64: return 1e-12;
        case data_type::f16: return 6e-4;
        case data_type::bf16: return 5e-3;
        default: return 2e-6;
    }
}

promise promise_of(const op &the_op, size_t port, fpmath_mode mode) {
    const data_type type = the_op.get_outputs()[port].get_data_type();
    promise result = promise_of_products(
            type, has_products(the_op, port) ? mode : fpmath_mode::strict);
    const op::kind kind = the_op.get_kind();
    if (kind == op::kind::Add || kind == op::kind::ReLUBackward)
        result.chain = 0;
    return result;
}

promise promise_of_products(data_type output, fpmath_mode mode) {
    promise result;
    result.type = output;
    result.norm = norm_tolerance(result.type);
    const double v = factor_roundoff(mode);
    if (v == 0 || result.type != data_type::f32) return result;
    result.relaxed = true;
    // Hardware may cut factors instead of rounding them: each is off by 2 v.
    result.chain += 4 * v / unit_roundoff(result.type);
    result.share = 0.25;
    result.norm += 8 * v;
    return result;
}

std::vector<double> held_to(
        const promise &of, std::span<const double> magnitudes) {
    std::vector<double> result(magnitudes.begin(), magnitudes.end());
    if (of.share == 0) return result;
    double largest = 0;
    for (const double magnitude : magnitudes)
        if (std::isfinite(magnitude)) largest = std::max(largest, magnitude);
    for (double &magnitude : result)
        magnitude += of.share * largest;
    return result;
}

std::vector<double> allowed_errors(const promise &of,
        std::span<const double> exact, std::span<const double> magnitudes) {
    std::vector<double> errors;
    errors.reserve(exact.size());
    for (size_t index = 0; index < exact.size(); ++index) {
        const double of_sum
                = of.chain * unit_roundoff(of.type) * magnitudes[index];
        errors.push_back(of_sum
                + half_ulp(
                        format_of(of.type), std::fabs(exact[index]) + of_sum));
    }
    return errors;
}

void allow_more(promise &of, std::vector<double> &magnitudes,
        std::span<const double> errors) {
    const double chain = std::max(of.chain, longest_chain);
    for (size_t index = 0; index < magnitudes.size(); ++index) {
        magnitudes[index] *= of.chain / chain;
        if (std::isfinite(errors[index]))
            magnitudes[index]
                    += errors[index] / (chain * unit_roundoff(of.type));
    }
    of.chain = chain;
}

std::vector<reference_tensor> sum_magnitudes(
        const op &the_op, std::vector<reference_tensor> inputs) {
    for (size_t index = first_factor(the_op); index < inputs.size(); ++index)
        for (double &value : inputs[index].values)
            value = std::fabs(value);
    return with_magnitudes_of_weights(the_op, inputs);
}

std::vector<reference_tensor> sum_deviations(
        const op &the_op, std::vector<reference_tensor> inputs) {
    for (size_t index = first_factor(the_op); index < inputs.size(); ++index)
        for (double &value : inputs[index].values)
            value *= value;
    auto outputs = with_magnitudes_of_weights(the_op, inputs);
    for (reference_tensor &output : outputs)
        for (double &value : output.values)
            value = std::sqrt(value);
    return outputs;
}

double norm_of_equal_terms(const op &the_op, size_t port,
        std::span<const reference_tensor> inputs) {
    const op_schema &schema = *find_schema(the_op.get_kind());
    const port_role output = schema.outputs[port].role;
    double least = infinity;
    for (size_t index = 0; index < inputs.size(); ++index) {
        // An output's own values are no factor of its gradient.
        const port_role role = schema.inputs[index].role;
        if (role == port_role::shape || role == output) continue;
        least = std::min(least,
                equal_elements(the_op.get_inputs()[index], inputs[index]));
        if (output == port_role::bias) break; // diff_dst alone
    }
    if (!std::isfinite(least)) return 0;
    const auto type = the_op.get_outputs()[port].get_data_type();
    const auto sums = type == data_type::f64 ? data_type::f64 : data_type::f32;
    return (std::sqrt(least) - 1) * norm_tolerance(sums);
}

std::vector<double> exact_in_normal_range(data_type type,
        std::span<const double> given, std::span<const double> exact) {
    const float_format format = format_of(type);
    const double least = std::ldexp(1, format.lowest);
    const double most = overflow_at(format);
    std::vector<double> result(exact.begin(), exact.end());
    for (size_t index = 0; index < std::min(given.size(), exact.size());
            ++index) {
        const double a = std::fabs(given[index]);
        const double b = std::fabs(exact[index]);
        const bool small = a < least && b < least;
        const bool large
                = std::isfinite(b) && std::isinf(a) && b >= most * 0.99;
        if (small || large) result[index] = given[index];
    }
    return result;
}

std::vector<double> exact_beside_padding(const op &the_op, size_t port,
        std::span<const reference_tensor> inputs, std::span<const double> given,
        std::span<const double> exact) {
    std::vector<double> result(exact.begin(), exact.end());
    if (!has_products(the_op, port)) return result;
    const auto is_finite = [](const reference_tensor &input) {
        return std::all_of(input.values.begin(), input.values.end(),
                [](double value) { return std::isfinite(value); });
    };
    if (std::all_of(inputs.begin(), inputs.end(), is_finite)) return result;
    for (size_t index = 0; index < std::min(given.size(), result.size());
            ++index)
        if (std::isnan(given[index])) result[index] = given[index];
    return result;
}

double sum_error(data_type type, double given, double exact, double magnitude) {
    if (given == exact || (std::isnan(given) && std::isnan(exact))) return 0;
    if (!std::isfinite(exact)) return infinity;
    const float_format format = format_of(type);
    if (!std::isfinite(given)) {
        // A sum that passes the range of its own type may be anything.
        const auto sums = type == data_type::f64 ? type : data_type::f32;
        if (magnitude >= overflow_at(format_of(sums))) return 0;
        if (std::isnan(given)) return infinity;
        // An infinity stands for what rounds to it.
        given = std::copysign(
                std::max(std::fabs(exact), overflow_at(format)), given);
    }
    const double larger = std::max(std::fabs(given), std::fabs(exact));
    const double beyond = std::fabs(given - exact) - half_ulp(format, larger);
    if (beyond <= 0) return 0;
    if (magnitude == 0) return infinity;
    const double smallest = type == data_type::f64 ? 0x1p-960 : 0x1p-100;
    return beyond / (unit_roundoff(type) * std::max(magnitude, smallest));
}

double largest_sum_error(data_type type, std::span<const double> given,
        std::span<const double> exact, std::span<const double> magnitudes) {
    if (given.size() != exact.size()) return infinity;
    double largest = 0;
    for (size_t index = 0; index < given.size(); ++index)
        largest = std::max(largest,
                sum_error(type, given[index], exact[index], magnitudes[index]));
    return largest;
}

} // namespace gradnn::detail
