// A convolution as the sliding kernels see it, and their specifications as source text.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "gpu/convolution/sliding/data_specification.hpp"
#include "gpu/convolution/sliding/weights_specification.hpp"
#include "kernel/fused_problem.hpp"

namespace gradnn::gpu::sliding {

/// The problem of tensors whose first elements are at multiples of so many bytes. In more
/// than one form where there are ways to walk: the first serves as any. Empty, and the
/// reason in `refusal`, where the kernels do not take it.
std::vector<problem_specification> specifications_of(
        const detail::fused_convolution &, int alignment, bool bulk_copies,
        std::string &refusal);

/// The text of the header that a kernel is compiled with.
std::string text_of(const data_specification &);
std::string text_of(const weights_specification &);

} // namespace gradnn::gpu::sliding
