#include "cpu/kernels.hpp"

namespace gradnn::cpu {

namespace {

constexpr detail::kernel<interpolation_problem> interpolation_kernels[] = {
        {"interpolation.separable", make_interpolation_separable},
        {"interpolation.strided", make_interpolation_strided},
};

constexpr detail::kernel<convolution_problem> convolution_kernels[] = {
        {"convolution.onednn", make_convolution_onednn},
        {"convolution.depthwise", make_convolution_depthwise},
        {"convolution.planes", make_convolution_planes},
        {"convolution.gemm", make_convolution_gemm},
};

constexpr detail::kernel<bias_problem> bias_kernels[] = {
        {"bias.reduce", make_bias},
};

constexpr detail::kernel<elementwise_problem> elementwise_kernels[] = {
        {"elementwise.simd", make_elementwise},
};

} // namespace

const detail::kernel_lists &kernels() {
    static const detail::kernel_lists lists {interpolation_kernels,
            convolution_kernels, bias_kernels, elementwise_kernels};
    return lists;
}

} // namespace gradnn::cpu
