#include "problems.hpp"

#include "bench/cases.hpp"
#include "support/op_builders.hpp"
#include "text.hpp"

namespace gradnn::test {

namespace {

using detail::text;

std::string joined(const std::vector<std::string> &words) {
    std::string all;
    for (const std::string &word : words)
        all += (all.empty() ? "" : " ") + word;
    return all;
}

op interpolation_op_of(
        const bench::interpolation_case &c, const layout &l, data_type type) {
    op result = interpolation_op({c.name, c.batch, c.channels, c.src, c.dst},
            {c.mode, c.coordinates,
                    c.scales.empty() ? size_source::sizes_attribute
                                     : size_source::scales_attribute},
            l, type);
    if (!c.scales.empty()) {
        result.set_attr(op::attr::scales, c.scales);
        result.set_attr<std::string>(op::attr::scale_rule, "given");
    }
    return result;
}

op convolution_op_of(
        const bench::convolution_case &c, const layout &l, data_type type) {
    sizes large = c.src;
    if (c.transposed)
        for (int64_t &size : large)
            size = (size - 1) * c.stride + (c.kernel - 1) * c.dilation + 1
                    - 2 * c.pad + c.output_padding;
    const auto list = [&](int64_t value) { return sizes(c.src.size(), value); };
    return convolution_op(c.transposed ? op::kind::ConvTransposeBackward
                                       : op::kind::ConvBackward,
            {c.name, c.batch, c.groups, c.transposed ? c.out : c.in,
                    c.transposed ? c.in : c.out, large, list(c.kernel),
                    list(c.stride), list(c.dilation), list(c.pad), list(c.pad)},
            l, type);
}

} // namespace

std::vector<choice_problem> bench_problems() {
    const auto cases = bench::load_cases(CASES_FILE, bench::case_size::gpu);
    std::vector<choice_problem> all;
    const auto add = [&](const auto &c, const auto &op_of) {
        for (const size_t index : {0, 1}) {
            const layout &l = layouts()[index];
            for (const data_type type : float_types())
                all.push_back(
                        {joined({c.name, l.name}), op_of(c, l, type), {}});
        }
    };
    for (const auto &c : cases.interpolation)
        add(c, interpolation_op_of);
    for (const auto &c : cases.convolution)
        add(c, convolution_op_of);
    return all;
}

std::vector<choice_problem> suite_problems() {
    std::vector<choice_problem> all;
    const auto add = [&](const auto &c, const auto &make) {
        for (size_t index = 0; index < layouts().size(); ++index) {
            const layout &l = layouts()[index];
            if ((index > 1 && !c.every_layout) || l.how == arrangement::any)
                continue;
            for (const data_type type : float_types())
                make(l, type);
        }
    };
    for (const interpolation_case &c : interpolation_cases())
        add(c, [&](const layout &l, data_type type) {
            for (const char *mode : {"linear", "nearest"})
                for (const char *coordinates :
                        {"half_pixel", "align_corners", "asymmetric"})
                    all.push_back({joined({c.name, l.name, mode, coordinates}),
                            interpolation_op(c, {mode, coordinates}, l, type),
                            {}});
        });
    for (const convolution_case &c : convolution_cases())
        add(c, [&](const layout &l, data_type type) {
            for (const op::kind kind :
                    {op::kind::ConvBackward, op::kind::ConvTransposeBackward})
                all.push_back({joined({c.name, l.name, to_string(kind)}),
                        convolution_op(kind, c, l, type), {}});
        });
    return all;
}

} // namespace gradnn::test
