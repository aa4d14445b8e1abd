// Problems in words, for what kernels say when they refuse them.
#pragma once

#include <string>
#include <string_view>

#include "kernel/kernel.hpp"

namespace gradnn::detail {

/// "given bf16 NCX, 2 images of 64 channels, 1x14x14 -> 1x28x28, linear".
std::string given(const interpolation_problem &);
/// "given f32 NXC, 2 images of 64 channels, src 1x14x14, dst 1x14x14, ...".
std::string given(const convolution_problem &);

/// "takes TAKES; given ...".
template <typename Problem>
plan_or_refusal refuse(std::string_view takes, const Problem &problem) {
    return plan_or_refusal::refuse(
            std::string("takes ").append(takes).append("; ") + given(problem));
}

} // namespace gradnn::detail
