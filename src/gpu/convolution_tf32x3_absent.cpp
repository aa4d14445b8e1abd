// convolution.gpu_tf32x3 in a build without CUTLASS's headers.
#include "gpu/kernels.hpp"

namespace gradnn::gpu {

plan_or_refusal make_convolution_tf32x3(
        const convolution_problem &, const compile_options &) {
    return plan_or_refusal::refuse(
            "this build has no CUTLASS (scripts/setup fetches its headers)");
}

} // namespace gradnn::gpu
