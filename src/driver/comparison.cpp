#include "comparison.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "files/tensor_data.hpp"

namespace gradnn::driver {

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
