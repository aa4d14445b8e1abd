#include "gpu/kernels.hpp"

#include "gpu/runtime/plan_timer.hpp"

namespace gradnn::gpu {

namespace {

/// Of a problem without ops around it.
template <auto make_fused, typename Problem>
plan_or_refusal alone(const Problem &problem, const compile_options &options) {
    return make_fused({problem}, options);
}

constexpr detail::kernel<interpolation_problem> interpolation_kernels[] = {
        {"interpolation.copy", "equal sizes, any layout: a copy",
                resample::make_copy},
        {"interpolation.gpu_resample",
                "up to 512 taps along an axis, compiled for the problem",
                alone<resample::make_fused>, nullptr, false, true},
        {"interpolation.gpu_strided", "everything", resample::make_strided,
                nullptr, true},
};

constexpr detail::kernel<convolution_problem> convolution_kernels[] = {
        {"convolution.gpu_depthwise_matrices",
                "16-bit NCX, 7x7, 16 to 63 points along W, tensor cores",
                depthwise::make},
        {"convolution.gpu_sliding",
                "few channels, of one group or each of several, compiled",
                alone<sliding::make_fused>, sliding_yields},
        {"convolution.gpu_col2im", "dX of one group: a product, then sums",
                col2im::make, col2im_yields},
        {"convolution.gpu_pointwise", "16-bit 1x1, few channels, no copies",
                pointwise::make, pointwise_yields},
        {"convolution.gpu_tf32x3", "strict f32 on tensor cores (CUTLASS)",
                alone<implicit_gemm::make_tf32x3>},
        {"convolution.gpu_f64", "f64 on tensor cores (CUTLASS)",
                alone<implicit_gemm::make_f64>, f64_yields},
        {"convolution.gpu_wide_weights",
                "dW of 16-bit data, sums in f32 (CUTLASS)",
                implicit_gemm::make_wide_weights, wide_weights_yields},
        {"convolution.cudnn",
                "what cuDNN has a deterministic, exact kernel for", cudnn::make,
                cudnn_yields},
        {"convolution.gpu_direct", "everything", direct::make, direct_yields,
                true},
};

constexpr detail::kernel<bias_problem> bias_kernels[] = {
        {"bias.gpu_reduce", "everything", alone<bias::make>},
};

constexpr detail::kernel<elementwise_problem> elementwise_kernels[] = {
        {"elementwise.gpu", "everything", make_elementwise},
};

} // namespace

const detail::kernel_lists &kernels() {
    static const detail::kernel_lists lists {interpolation_kernels,
            convolution_kernels, bias_kernels, elementwise_kernels,
            writes_channels_last, &plans_timer};
    return lists;
}

} // namespace gradnn::gpu
