// convolution.gpu_col2im in a build without CUTLASS's headers.
#include "gpu/kernels.hpp"

namespace gradnn::gpu::col2im {

plan_or_refusal make(const convolution_problem &, const compile_options &) {
    return plan_or_refusal::refuse(
            "this build has no CUTLASS (scripts/setup fetches its headers)");
}

} // namespace gradnn::gpu::col2im
