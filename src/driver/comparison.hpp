// How far computed values are from what they should be.
#pragma once

#include <cstdint>
#include <span>

#include <gradnn/tensor.hpp>

namespace gradnn::driver {

/// ||given - wanted|| / ||wanted||; elements that are equal, or NaN in both,
/// differ by 0. Infinity where one is not finite and the other differs, and
/// where ||wanted|| is 0 but not the difference.
double relative_error(
        std::span<const double> given, std::span<const double> wanted);

/// The largest detail::ulps_of_sum of f16 or bf16 elements.
int64_t largest_ulps(logical_tensor::data_type type,
        std::span<const double> given, std::span<const double> wanted,
        std::span<const double> magnitudes);

/// What relative_error may reach for results of a type.
double tolerance_of(logical_tensor::data_type type);

} // namespace gradnn::driver
