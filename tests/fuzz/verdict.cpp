#include "verdict.hpp"

#include <cmath>
#include <limits>
#include <sstream>

#include "accuracy.hpp"
#include "driver/comparison.hpp"

namespace gradnn::fuzz {

namespace {

/// What a relaxed fpmath_mode may do to a product, in units of it; 0 for
/// strict. Only f32 is relaxed.
double relaxed_roundoff(fpmath_mode mode, data_type type) {
    if (type != data_type::f32) return 0;
    switch (mode) {
        case fpmath_mode::strict: return 0;
        case fpmath_mode::f16:
        case fpmath_mode::tf32: return 0x1p-9;
        default: return 0x1p-6;
    }
}

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

bool is_elementwise(op::kind kind) {
    return kind == op::kind::Add || kind == op::kind::ReLUBackward;
}

} // namespace

std::string compare_with_reference(const op &the_op,
        const std::vector<detail::reference_tensor> &inputs,
        const std::vector<std::vector<double>> &outputs, fpmath_mode mode) {
    const auto exact = detail::reference(the_op, inputs);
    const auto magnitudes = detail::sum_magnitudes(the_op, inputs);
    for (size_t port = 0; port < exact.size(); ++port) {
        const logical_tensor &lt = the_op.get_outputs()[port];
        if (lt.is_absent()) continue;
        const data_type type = lt.get_data_type();
        const auto &given = outputs[port];
        const auto &wanted = exact[port].values;
        const auto &sums = magnitudes[port].values;
        const double relaxed = relaxed_roundoff(mode, type);
        const double allowed = is_elementwise(the_op.get_kind()) ? 0
                : relaxed != 0 ? relaxed / detail::unit_roundoff(type)
                               : detail::longest_chain;
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
        std::ostringstream report;
        report.precision(9);
        if (worst > allowed) {
            report << "output " << port << ": element " << at << " is "
                   << given[at] << ", not " << wanted[at] << ": beyond half an "
                   << "ulp by " << worst << " u*S (S " << sums[at] << "), "
                   << allowed << " are allowed";
            return report.str();
        }
        const auto normal = detail::exact_in_normal_range(type, given, wanted);
        const double norm = norm_error(given, normal, normal);
        const double most = detail::norm_tolerance(type);
        if (relaxed != 0 || norm <= most) continue;
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
               << " is allowed for " << to_string(type)
               << "; the worst element is " << at << ": " << given[at]
               << ", not " << wanted[at];
        return report.str();
    }
    return {};
}

} // namespace gradnn::fuzz
