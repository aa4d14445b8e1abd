#include "gpu/kernels.hpp"

#include "gpu/backend.hpp"

namespace gradnn::gpu {

namespace {

constexpr detail::kernel<interpolation_problem> interpolation_kernels[] = {
        {"interpolation.gpu_planes", make_interpolation_planes},
        {"interpolation.gpu_bands", make_interpolation_bands},
        {"interpolation.gpu_ncx", make_interpolation_ncx},
        {"interpolation.gpu_pixels", make_interpolation_pixels},
        {"interpolation.gpu_strips", make_interpolation_strips},
        {"interpolation.gpu_intervals", make_interpolation_intervals},
        {"interpolation.gpu_nxc", make_interpolation_nxc},
        {"interpolation.gpu_strided", make_interpolation_strided},
};

constexpr detail::kernel<convolution_problem> convolution_kernels[] = {
        {"convolution.gpu_depthwise", make_convolution_depthwise},
        {"convolution.gpu_few_channels", make_convolution_few_channels},
        {"convolution.gpu_narrow_groups", make_convolution_narrow_groups},
        {"convolution.gpu_tf32x3", make_convolution_tf32x3},
        {"convolution.gpu_f64", make_convolution_f64},
        {"convolution.gpu_wide_weights", make_convolution_wide_weights},
        {"convolution.cudnn", make_convolution_cudnn},
        {"convolution.gpu_direct", make_convolution_direct},
};

constexpr detail::kernel<bias_problem> bias_kernels[] = {
        {"bias.gpu_reduce", make_bias},
};

constexpr detail::kernel<elementwise_problem> elementwise_kernels[] = {
        {"elementwise.gpu", make_elementwise},
};

} // namespace

const detail::kernel_lists &kernels() {
    static const detail::kernel_lists lists {interpolation_kernels,
            convolution_kernels, bias_kernels, elementwise_kernels,
            writes_channels_last};
    return lists;
}

} // namespace gradnn::gpu
