#include "verdict.hpp"

#include <cmath>
#include <limits>
#include <sstream>

#include "accuracy.hpp"
#include "driver/comparison.hpp"
#include "graph_json.hpp"

namespace gradnn::fuzz {

namespace {

/// ||given - exact|| / ||scale||, of finite values: f16 may overflow.
double norm_error(const std::vector<double> &given,
        const std::vector<double> &exact, const std::vector<double> &scale) {
    double difference = 0;
    double norm = 0;
    for (size_t index = 0; index < given.size(); ++index) {
        if (!std::isfinite(given[index]) || !std::isfinite(exact[index]))
            continue; // held to it one by one
        const double d = given[index] - exact[index];
        difference += d * d;
        if (std::isfinite(scale[index])) norm += scale[index] * scale[index];
    }
    if (difference == 0) return 0;
    return norm == 0 ? std::numeric_limits<double>::infinity()
                     : std::sqrt(difference / norm);
}

} // namespace

std::string compare_with_reference(const op &the_op,
        const std::vector<detail::reference_tensor> &inputs,
        const std::vector<std::vector<double>> &outputs, fpmath_mode mode) {
    const auto exact = detail::reference(the_op, inputs);
    const auto magnitudes = detail::sum_magnitudes(the_op, inputs);
    for (size_t port = 0; port < exact.size(); ++port) {
        if (the_op.get_outputs()[port].is_absent()) continue;
        const detail::promise held = detail::promise_of(the_op, port, mode);
        const data_type type = held.type;
        const auto &given = outputs[port];
        const auto wanted = detail::exact_beside_padding(
                the_op, port, inputs, given, exact[port].values);
        const auto sums = detail::held_to(held, magnitudes[port].values);
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
            report << "output " << port << ": element " << at << " is "
                   << given[at] << ", not " << wanted[at] << ": beyond half an "
                   << "ulp by " << worst << " u*S (S " << sums[at] << "), "
                   << held.chain << " are allowed" << under;
            return report.str();
        }
        const auto normal = detail::exact_in_normal_range(type, given, wanted);
        const double norm = norm_error(given, normal, normal);
        const double most = held.norm;
        if (norm <= most) continue;
        bool few = true;
        for (const auto &input : inputs)
            few = few && driver::has_few_values(input.values);
        if (few) continue;
        const auto deviations = detail::sum_deviations(the_op, inputs);
        const double fair = norm_error(given, normal, deviations[port].values);
        if (fair <= most) continue;
        report << "output " << port << ": ||out - ref|| is " << norm
               << " of ||ref|| and " << fair
               << " of what terms of random sign would give, " << most
               << " is allowed for " << to_string(type) << under
               << "; the worst element is " << at << ": " << given[at]
               << ", not " << wanted[at];
        return report.str();
    }
    return {};
}

} // namespace gradnn::fuzz
