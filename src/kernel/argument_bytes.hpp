// How large the tensors of a problem are, for what times plans.
#pragma once

#include <cstddef>
#include <vector>

#include "kernel/fused_problem.hpp"

namespace gradnn::detail {

/// Bytes of each argument of a plan, from its first element to its last.
std::vector<size_t> argument_bytes(const interpolation_problem &problem);
std::vector<size_t> argument_bytes(const convolution_problem &problem);
std::vector<size_t> argument_bytes(const elementwise_problem &problem);
std::vector<size_t> argument_bytes(const fused_interpolation &problem);
std::vector<size_t> argument_bytes(const fused_convolution &problem);

} // namespace gradnn::detail
