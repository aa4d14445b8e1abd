// What makes a kernel's plans: the functions of the lists (../kernels.cpp).
#pragma once

#include "kernel/fused_problem.hpp"
#include "kernel/kernel.hpp"

namespace gradnn::gpu {

using detail::bias_problem;
using detail::compile_options;
using detail::convolution_problem;
using detail::elementwise_problem;
using detail::interpolation_problem;
using detail::plan_or_refusal;

template <typename Problem>
using maker = plan_or_refusal(const Problem &, const compile_options &);
using interpolation_maker = maker<interpolation_problem>;
using convolution_maker = maker<convolution_problem>;

} // namespace gradnn::gpu
