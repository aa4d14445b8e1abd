// convolution.gpu_col2im in a build without CUTLASS's headers.
#include "gpu/convolution/col2im/cut.hpp"
#include "gpu/convolution/makers.hpp"

namespace gradnn::gpu::col2im {

namespace {

constexpr const char *no_cutlass
        = "this build has no CUTLASS (scripts/setup fetches its headers)";

} // namespace

std::optional<work_cut> cut_of(const convolution_problem &,
        const compile_options &, std::string &refusal) {
    refusal = no_cutlass;
    return std::nullopt;
}

plan_or_refusal make(const convolution_problem &, const compile_options &) {
    return plan_or_refusal::refuse(no_cutlass);
}

} // namespace gradnn::gpu::col2im
