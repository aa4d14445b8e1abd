// How far computed values are from what they should be.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <gradnn/op.hpp>

#include "reference/accuracy.hpp"

namespace gradnn::driver {

/// ||given - wanted|| / ||scale||; elements that are equal, or NaN in both,
/// differ by 0, and what is not finite in scale does not count. Infinity where
/// one of given and wanted is not finite and the other differs, and where
/// ||scale|| is 0 but not the difference.
double relative_error(std::span<const double> given,
        std::span<const double> wanted, std::span<const double> scale);

/// Whether an output keeps its promise in norm, with the exceptions of
/// doc/numerics.md, Accuracy. `exact` holds detail::exact_in_normal_range; what is
/// not finite is for the promise by element.
bool keeps_norm(const op &the_op, size_t port, const detail::promise &held,
        const std::vector<detail::reference_tensor> &inputs,
        const std::vector<double> &given, const std::vector<double> &exact);

/// The largest detail::ulps_of_sum of f16 or bf16 elements.
int64_t largest_ulps(logical_tensor::data_type type,
        std::span<const double> given, std::span<const double> wanted,
        std::span<const double> magnitudes);

} // namespace gradnn::driver
