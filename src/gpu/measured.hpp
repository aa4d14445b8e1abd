// Where a kernel can do a problem and another one of the list was measured to be
// faster: all such knowledge of the GPU, in one place. Each function is a row's
// `yields` (kernel.hpp): the reason, or an empty string.
#pragma once

#include <string>

#include "gpu/kernels.hpp"

namespace gradnn::gpu {

std::string depthwise_matrices_yields(
        const convolution_problem &, const compile_options &);
std::string depthwise_planes_yields(
        const convolution_problem &, const compile_options &);
std::string depthwise_rows_nxc_yields(
        const convolution_problem &, const compile_options &);
std::string narrow_groups_yields(
        const convolution_problem &, const compile_options &);
std::string f64_yields(const convolution_problem &, const compile_options &);
std::string wide_weights_yields(
        const convolution_problem &, const compile_options &);
std::string direct_yields(const convolution_problem &, const compile_options &);
std::string planes_yields(
        const interpolation_problem &, const compile_options &);
std::string small_images_yield(
        const interpolation_problem &, const compile_options &);
std::string bands_yields(
        const interpolation_problem &, const compile_options &);
std::string ncx_yields(const interpolation_problem &, const compile_options &);
std::string intervals_yields(
        const interpolation_problem &, const compile_options &);
std::string pixels_yields(
        const interpolation_problem &, const compile_options &);
std::string strided_yields(
        const interpolation_problem &, const compile_options &);
std::string nxc_yields(const interpolation_problem &, const compile_options &);

} // namespace gradnn::gpu
