// How far computed values are from what they should be.
#pragma once

#include <cstdint>
#include <span>

#include <gradnn/tensor.hpp>

namespace gradnn::driver {

/// ||given - wanted|| / ||scale||; elements that are equal, or NaN in both,
/// differ by 0, and what is not finite in scale does not count. Infinity where
/// one of given and wanted is not finite and the other differs, and where
/// ||scale|| is 0 but not the difference.
double relative_error(std::span<const double> given,
        std::span<const double> wanted, std::span<const double> scale);

/// Whether values are so few different ones (constants, masks) that roundings
/// of their sums do not fall either way.
bool has_few_values(std::span<const double> values);

/// The largest detail::ulps_of_sum of f16 or bf16 elements.
int64_t largest_ulps(logical_tensor::data_type type,
        std::span<const double> given, std::span<const double> wanted,
        std::span<const double> magnitudes);

} // namespace gradnn::driver
