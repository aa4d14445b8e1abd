#include "cpu/kernels.hpp"

namespace gradnn::cpu {

namespace {

constexpr detail::kernel<interpolation_problem> interpolation_kernels[] = {
        {"interpolation.copy", "equal sizes, any layout: a copy",
                make_interpolation_copy},
        {"interpolation.scatter",
                "elements that go to one place each (nearest, reduced)",
                make_interpolation_scatter},
        {"interpolation.separable", "contiguous rows or channels, any ratio",
                make_interpolation_separable},
        {"interpolation.strided", "everything", make_interpolation_strided,
                nullptr, true},
};

constexpr detail::kernel<convolution_problem> convolution_kernels[] = {
        {"convolution.parts", "windows beside the tensor, long sums: in parts",
                make_convolution_parts},
        {"convolution.onednn", "what oneDNN has fast, correct kernels for",
                make_convolution_onednn},
        {"convolution.depthwise", "groups of one channel, channels contiguous",
                make_convolution_depthwise},
        {"convolution.planes", "few channels to a group, any layout",
                make_convolution_planes},
        {"convolution.gemm", "everything, as a matrix product",
                make_convolution_gemm},
};

constexpr detail::kernel<bias_problem> bias_kernels[] = {
        {"bias.reduce", "everything", make_bias},
};

constexpr detail::kernel<elementwise_problem> elementwise_kernels[] = {
        {"elementwise.simd", "everything", make_elementwise},
};

} // namespace

const detail::kernel_lists &kernels() {
    static const detail::kernel_lists lists {interpolation_kernels,
            convolution_kernels, bias_kernels, elementwise_kernels};
    return lists;
}

} // namespace gradnn::cpu
