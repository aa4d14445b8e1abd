// interpolation.strided where weights of convolutions are composed.
#pragma once

#include "cpu/kernels.hpp"

namespace gradnn::cpu {

/// Of interpolation_mode::box.
plan_or_refusal make_box(
        const interpolation_problem &problem, const compile_options &options);

} // namespace gradnn::cpu
