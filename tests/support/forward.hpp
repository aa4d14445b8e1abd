// Forward operations in float64, for the adjoint identity: gathers written
// from design section 1, independent of the library and of its reference.
// Everything is dense, N, C, spatial; weights are OIX or IOX.
#pragma once

#include <string>
#include <vector>

#include "cases.hpp"

namespace gradnn::test {

std::vector<double> forward_interpolation(const interpolation_case &c,
        const std::string &mode, const std::string &coordinates,
        const std::vector<double> &src);

/// dst of a convolution from src (large) and weights.
std::vector<double> forward_convolution(const convolution_case &c,
        const std::vector<double> &src, const std::vector<double> &weights);

/// dst (large) of a transposed convolution from src (small) and weights.
std::vector<double> forward_transposed(const convolution_case &c,
        const std::vector<double> &src, const std::vector<double> &weights);

} // namespace gradnn::test
