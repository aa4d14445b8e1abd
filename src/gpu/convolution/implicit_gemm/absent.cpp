// The kernels of the list that are implicit GEMMs in a build without CUTLASS's
// headers.
#include "gpu/convolution/implicit_gemm/implicit_gemm.hpp"
#include "gpu/convolution/makers.hpp"

namespace gradnn::gpu::implicit_gemm {

namespace {

plan_or_refusal no_cutlass() {
    return plan_or_refusal::refuse(
            "this build has no CUTLASS (scripts/setup fetches its headers)");
}

} // namespace

plan_or_refusal make_tf32x3(
        const convolution_problem &, const compile_options &) {
    return no_cutlass();
}

plan_or_refusal make_f64(const convolution_problem &, const compile_options &) {
    return no_cutlass();
}

plan_or_refusal make_wide_weights(
        const convolution_problem &, const compile_options &) {
    return no_cutlass();
}

const tile_set *products_of(detail::data_type, fpmath_mode) {
    return nullptr;
}

bool is_built() {
    return false;
}

} // namespace gradnn::gpu::implicit_gemm
