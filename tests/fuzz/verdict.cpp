#include "verdict.hpp"

#include <sstream>

#include "driver/comparison.hpp"
#include "op/graph_json.hpp"
#include "reference/accuracy.hpp"

namespace gradnn::fuzz {

std::string compare_output(const op &the_op, size_t port,
        const std::vector<detail::reference_tensor> &inputs,
        const std::vector<double> &given, const std::vector<double> &exact,
        const detail::promise &held, const std::vector<double> &sums,
        fpmath_mode mode) {
    const data_type type = held.type;
    const auto wanted
            = detail::exact_beside_padding(the_op, port, inputs, given, exact);
    double worst = 0;
    size_t at = 0;
    for (size_t index = 0; index < wanted.size(); ++index) {
        const double error = detail::sum_error(
                type, given[index], wanted[index], sums[index]);
        if (error > worst) {
            worst = error;
            at = index;
        }
    }
    const std::string under = held.relaxed
            ? std::string(" under fpmath_mode ") + detail::name_of(mode)
            : std::string();
    std::ostringstream report;
    report.precision(9);
    if (worst > held.chain) {
        report << "output " << port << ": element " << at << " is " << given[at]
               << ", not " << wanted[at] << ": beyond half an "
               << "ulp by " << worst << " u*S (S " << sums[at] << "), "
               << held.chain << " are allowed" << under;
        return report.str();
    }
    const auto normal = detail::exact_in_normal_range(type, given, wanted);
    if (driver::keeps_norm(the_op, port, held, inputs, given, normal))
        return {};
    report << "output " << port << ": ||out - ref|| is "
           << driver::relative_error(given, normal, normal) << " of ||ref||, "
           << held.norm << " is allowed for " << to_string(type) << under
           << "; the worst element is " << at << ": " << given[at] << ", not "
           << wanted[at];
    return report.str();
}

std::string compare_with_reference(const op &the_op,
        const std::vector<detail::reference_tensor> &inputs,
        const std::vector<std::vector<double>> &outputs, fpmath_mode mode) {
    const auto exact = detail::reference(the_op, inputs);
    const auto magnitudes = detail::sum_magnitudes(the_op, inputs);
    for (size_t port = 0; port < exact.size(); ++port) {
        if (the_op.get_outputs()[port].is_absent()) continue;
        const detail::promise held = detail::promise_of(the_op, port, mode);
        const std::string wrong = compare_output(the_op, port, inputs,
                outputs[port], exact[port].values, held,
                detail::held_to(held, magnitudes[port].values), mode);
        if (!wrong.empty()) return wrong;
    }
    return {};
}

} // namespace gradnn::fuzz
