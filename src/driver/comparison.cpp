#include "comparison.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tensor_data.hpp"

namespace gradnn::driver {

double relative_error(
        std::span<const double> given, std::span<const double> wanted) {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    if (given.size() != wanted.size()) return infinity;
    // Scaled by the largest, so that no square overflows.
    double scale = 0;
    for (const double value : wanted)
        if (std::isfinite(value)) scale = std::max(scale, std::abs(value));
    if (scale == 0) scale = 1;
    double difference = 0;
    double norm = 0;
    for (size_t index = 0; index < given.size(); ++index) {
        const double a = given[index] / scale;
        const double b = wanted[index] / scale;
        if (a == b || (std::isnan(a) && std::isnan(b))) {
            if (std::isfinite(b)) norm += b * b;
            continue;
        }
        if (!std::isfinite(a) || !std::isfinite(b)) return infinity;
        difference += (a - b) * (a - b);
        norm += b * b;
    }
    if (difference == 0) return 0;
    return norm == 0 ? infinity : std::sqrt(difference / norm);
}

int64_t largest_ulps(logical_tensor::data_type type,
        std::span<const double> given, std::span<const double> wanted,
        std::span<const double> magnitudes) {
    int64_t largest = 0;
    for (size_t index = 0; index < given.size(); ++index)
        largest = std::max(largest,
                detail::ulps_of_sum(type, given[index], wanted[index],
                        magnitudes[index]));
    return largest;
}

double tolerance_of(logical_tensor::data_type type) {
    switch (type) {
        case logical_tensor::data_type::f64: return 1e-12;
        case logical_tensor::data_type::f16: return 6e-4;
        case logical_tensor::data_type::bf16: return 5e-3;
        default: return 2e-6;
    }
}

} // namespace gradnn::driver
