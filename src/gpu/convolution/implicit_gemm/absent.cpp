// convolution.gpu_tf32x3, convolution.gpu_f64 and convolution.gpu_wide_weights
// in a build without CUTLASS's headers.
#include "gpu/kernels.hpp"

namespace gradnn::gpu {

namespace {

plan_or_refusal no_cutlass() {
    return plan_or_refusal::refuse(
            "this build has no CUTLASS (scripts/setup fetches its headers)");
}

} // namespace

plan_or_refusal make_convolution_tf32x3(
        const convolution_problem &, const compile_options &) {
    return no_cutlass();
}

plan_or_refusal make_convolution_f64(
        const convolution_problem &, const compile_options &) {
    return no_cutlass();
}

plan_or_refusal make_convolution_wide_weights(
        const convolution_problem &, const compile_options &) {
    return no_cutlass();
}

bool has_implicit_gemm() {
    return false;
}

} // namespace gradnn::gpu
