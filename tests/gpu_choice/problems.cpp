#include "problems.hpp"

#include "base/text.hpp"
#include "support/bench_case_ops.hpp"

namespace gradnn::test {

namespace {

using detail::text;

std::string joined(const std::vector<std::string> &words) {
    std::string all;
    for (const std::string &word : words)
        all += (all.empty() ? "" : " ") + word;
    return all;
}

} // namespace

std::vector<choice_problem> bench_problems() {
    const auto cases = bench::load_cases(CASES_FILE, bench::case_size::gpu);
    std::vector<choice_problem> all;
    const auto add = [&](const auto &c) {
        for (const size_t index : {0, 1}) {
            const layout &l = layouts()[index];
            for (const data_type type : float_types())
                all.push_back({joined({c.name, l.name}),
                        op_of(c, sizes_of(c), l, type), {}});
        }
    };
    for (const auto &c : cases.interpolation)
        add(c);
    for (const auto &c : cases.convolution)
        add(c);
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
