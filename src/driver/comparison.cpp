#include "comparison.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "files/tensor_data.hpp"

namespace gradnn::driver {

namespace {

/// Whether values are so few different ones (constants, masks) that roundings
/// of their sums do not fall either way.
bool has_few_values(std::span<const double> values) {
    constexpr size_t few = 16;
    std::set<double> seen;
    for (const double value : values) {
        if (std::isnan(value)) continue;
        seen.insert(value);
        if (seen.size() > few) return false;
    }
    return true;
}

} // namespace

double relative_error(std::span<const double> given,
        std::span<const double> wanted, std::span<const double> scale) {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    if (given.size() != wanted.size()) return infinity;
    // Over the largest, so that no square overflows.
    double largest = 0;
    for (const double value : scale)
        if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
    if (largest == 0) largest = 1;
    double norm = 0;
    for (const double value : scale)
        if (std::isfinite(value)) norm += value / largest * (value / largest);
    double difference = 0;
    for (size_t index = 0; index < given.size(); ++index) {
        const double a = given[index] / largest;
        const double b = wanted[index] / largest;
        if (a == b || (std::isnan(a) && std::isnan(b))) continue;
        if (!std::isfinite(a) || !std::isfinite(b)) return infinity;
        difference += (a - b) * (a - b);
    }
    if (difference == 0) return 0;
    return norm == 0 ? infinity : std::sqrt(difference / norm);
}

bool keeps_norm(const op &the_op, size_t port, const detail::promise &held,
        const std::vector<detail::reference_tensor> &inputs,
        const std::vector<double> &given, const std::vector<double> &exact) {
    std::vector<double> finite = given;
    for (size_t index = 0; index < finite.size(); ++index)
        if (!std::isfinite(given[index]) || !std::isfinite(exact[index]))
            finite[index] = exact[index];
    if (relative_error(finite, exact, exact) <= held.norm) return true;
    if (std::all_of(inputs.begin(), inputs.end(),
                [](const detail::reference_tensor &input) {
                    return has_few_values(input.values);
                }))
        return true;
    // The errors of few elements scatter around their mean.
    const auto elements = static_cast<double>(given.size());
    const double most = held.norm * (1 + 1 / std::sqrt(elements))
            + detail::norm_of_equal_terms(the_op, port, inputs);
    if (relative_error(finite, exact, exact) <= most) return true;
    // The terms may cancel more than by chance.
    const auto deviations = detail::sum_deviations(the_op, inputs);
    return relative_error(finite, exact, deviations[port].values) <= most;
}

int64_t largest_ulps(logical_tensor::data_type type,
        std::span<const double> given, std::span<const double> wanted,
        std::span<const double> magnitudes) {
    int64_t largest = 0;
    for (size_t index = 0; index < given.size(); ++index)
        largest = std::max(largest,
                detail::ulps_of_sum(
                        type, given[index], wanted[index], magnitudes[index]));
    return largest;
}

} // namespace gradnn::driver
