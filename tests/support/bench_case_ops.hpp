// Ops of the benchmark's cases (bench/cases.json), at their own sizes or cut down.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "bench/cases.hpp"
#include "engines.hpp"
#include "kernel/problem.hpp"
#include "op_builders.hpp"

namespace gradnn::test {

inline interpolation_case sizes_of(const bench::interpolation_case &c) {
    return {c.name, c.batch, c.channels, c.src, c.dst};
}

inline convolution_case sizes_of(const bench::convolution_case &c) {
    sizes large = c.src;
    if (c.transposed)
        for (size_t i = 0; i < large.size(); ++i)
            large[i] = (large[i] - 1) * c.stride[i]
                    + (c.kernel[i] - 1) * c.dilation + 1 - 2 * c.pad
                    + c.output_padding;
    const auto list = [&](int64_t value) { return sizes(c.src.size(), value); };
    return {c.name, c.batch, c.groups, c.transposed ? c.out : c.in,
            c.transposed ? c.in : c.out, large, c.kernel, c.stride,
            list(c.dilation), list(c.pad), list(c.pad)};
}

/// Everything but the sizes is the case's.
inline op op_of(const bench::interpolation_case &c,
        const interpolation_case &of_sizes, const layout &l, data_type type) {
    interpolation_choice choice {c.mode, c.coordinates,
            c.scales.empty() ? size_source::sizes_attribute
                             : size_source::scales_attribute};
    choice.antialias = c.antialias;
    op result = interpolation_op(of_sizes, choice, l, type);
    if (!c.scales.empty()) {
        result.set_attr(op::attr::scales, c.scales);
        result.set_attr<std::string>(op::attr::scale_rule, "given");
    }
    return result;
}

inline op op_of(const bench::convolution_case &c,
        const convolution_case &of_sizes, const layout &l, data_type type) {
    wanted_outputs wanted;
    wanted.f32_gradients = c.f32_gradients && detail::size_of(type) == 2;
    return convolution_op(c.transposed ? op::kind::ConvTransposeBackward
                                       : op::kind::ConvBackward,
            of_sizes, l, type, wanted);
}

/// The rows of an engine's lists that are not among the kernels that cases chose,
/// a line each. A last resort needs no case. A list of one row offers
/// no choice, and a second row needs cases: bench/cases.json has no elementwise
/// operations, whose list is such a one.
inline std::string rows_without_case(
        engine::kind kind, const std::set<std::string> &chosen) {
    std::string missing;
    for (const char *problem :
            {"interpolation", "convolution", "bias", "elementwise"}) {
        if (kernel_names(kind, problem).size() == 1) continue;
        const std::vector<std::string> rows
                = kernel_names(kind, problem, false);
        for (const std::string &row : rows)
            if (!chosen.contains(row)) missing += row + '\n';
    }
    return missing;
}

} // namespace gradnn::test
