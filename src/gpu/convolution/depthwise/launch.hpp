// Depthwise: what the launches of all families are given at an execution.
#pragma once

#include "gpu/convolution/depthwise/shape.hpp"
#include "gpu/convolution/pointers.hpp"
#include "gpu/runtime/launch.hpp"

namespace gradnn::gpu::depthwise {

/// How src and dst lie.
struct tensor_alignment {
    bool vectors = false; ///< at multiples of 16 bytes
    bool pairs = false; ///< at multiples of two elements
};

/// One execution of a plan.
struct execution : tensor_pointers {
    detail::data_type type; ///< of src and dst
    const problem_shape &shape;
    tensor_alignment alignment;
    launch_stream stream;
};

/// Adds up the partial sums of an execution, so many for each weight.
void launch_parts(
        const execution &, int64_t parts, detail::data_type weights_type);

} // namespace gradnn::gpu::depthwise
