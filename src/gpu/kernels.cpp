#include "gpu/kernels.hpp"

#include "gpu/backend.hpp"
#include "gpu/convolution/cudnn/library.hpp"
#include "gpu/convolution/depthwise/any/cut.hpp"
#include "gpu/convolution/depthwise/diagonals/cut.hpp"
#include "gpu/convolution/depthwise/lines/cut.hpp"
#include "gpu/convolution/depthwise/matrices/cut.hpp"
#include "gpu/convolution/depthwise/plan.hpp"
#include "gpu/convolution/depthwise/planes/cut.hpp"
#include "gpu/convolution/depthwise/rows_ncx/cut.hpp"
#include "gpu/convolution/depthwise/rows_nxc/cut.hpp"
#include "gpu/convolution/depthwise/walk/cut.hpp"
#include "gpu/interpolation/by_images.hpp"
#include "gpu/measured.hpp"
#include "gpu/runtime/plan_timer.hpp"
#include "text.hpp"

namespace gradnn::gpu {

namespace {

constexpr detail::kernel<interpolation_problem> interpolation_kernels[] = {
        {"interpolation.copy", "equal sizes, any layout: a copy",
                interpolation::make_copy},
        {"interpolation.gpu_whole",
                "dense NCX and NXC: whole small volumes or images in shared "
                "memory",
                interpolation::whole::make, whole_yields},
        {"interpolation.gpu_planes",
                "NCX: whole small planes in shared memory, depth not resampled",
                interpolation::by_images<interpolation::planes::make>,
                planes_yields},
        {"interpolation.gpu_bands",
                "NCX: rows enlarged 2, 4 or 8 times, a thread a band of "
                "columns",
                interpolation::by_images<interpolation::bands::make>,
                bands_yields},
        {"interpolation.gpu_pixels",
                "NXC, channels in vectors of 16 bytes, at most 8 taps a column",
                interpolation::pixels::make, pixels_yields},
        {"interpolation.gpu_rows",
                "one axis resampled, at most 16 taps: rows in shared memory",
                interpolation::by_images<interpolation::rows::make>,
                rows_yields},
        {"interpolation.gpu_ncx",
                "NCX, any ratio and alignment: a warp a tile of columns",
                interpolation::by_images<interpolation::columns::make_ncx>,
                ncx_yields},
        {"interpolation.gpu_intervals",
                "NXC, any number of channels: a thread the columns between two",
                interpolation::intervals::make, intervals_yields},
        {"interpolation.gpu_nxc",
                "dense NXC: rows of (column, channel) as gpu_ncx takes columns",
                interpolation::columns::make_nxc, nxc_yields},
        {"interpolation.gpu_layers",
                "dense NCX and NXC: whole layers added in registers first",
                interpolation::by_images<interpolation::layers::make>,
                small_images_yield},
        {"interpolation.gpu_strided", "everything: a thread an element",
                interpolation::make_strided, strided_yields, true},
};

constexpr detail::kernel<convolution_problem> convolution_kernels[] = {
        {"convolution.gpu_depthwise_diagonals",
                "16-bit NXC, 5x5 and 7x7: sparse tensor cores",
                depthwise::make<depthwise::diagonals::work_cut>},
        {"convolution.gpu_depthwise_lines",
                "16-bit NCX, 5 to 63 points along W alone: tensor cores",
                depthwise::make<depthwise::lines::work_cut>},
        {"convolution.gpu_depthwise_matrices",
                "16-bit NCX, 5x5 and 7x7: tensor cores",
                depthwise::make<depthwise::matrices::work_cut>,
                depthwise_matrices_yields},
        {"convolution.gpu_depthwise_planes",
                "NCX, 3x3, 5x5 and 7x7: planes in shared memory",
                depthwise::make<depthwise::planes::work_cut>,
                depthwise_planes_yields},
        {"convolution.gpu_depthwise_rows_ncx",
                "f32 and f64 NCX, 3 to 64 points along W: rows in shared "
                "memory",
                depthwise::make<depthwise::rows_ncx::work_cut>},
        {"convolution.gpu_depthwise_rows_nxc",
                "NXC, 9 points and more along W alone: window in registers",
                depthwise::make<depthwise::rows_nxc::work_cut>,
                depthwise_rows_nxc_yields},
        {"convolution.gpu_depthwise_walk",
                "3x3, 5x5, 7x7 and 3x3x3: threads walk along H in global "
                "memory",
                depthwise::make<depthwise::walk::work_cut>},
        {"convolution.gpu_depthwise_tiles",
                "NCX, any window: tiles of rows in shared memory",
                depthwise::make<depthwise::any::tiles_cut>,
                depthwise_tiles_yields},
        {"convolution.gpu_depthwise_blocks",
                "NXC, any window: threads along the channels",
                depthwise::make<depthwise::any::blocks_cut>},
        {"convolution.gpu_col2im",
                "gradient of src of one group: a product, then sums of its "
                "results",
                col2im::make, col2im_yields},
        {"convolution.gpu_few_channels",
                "strict f32 gradient of src of at most 4 channels, any layout",
                few_channels::make, few_channels_yields},
        {"convolution.gpu_pointwise",
                "16-bit windows of one point, few channels: tensor cores, no "
                "copies",
                pointwise::make, pointwise_yields},
        {"convolution.gpu_narrow_groups",
                "few channels, of one group or each of several: plain products",
                narrow_groups::make, narrow_groups_yields},
        {"convolution.gpu_tf32x3",
                "strict f32: three TF32 products for one, by CUTLASS",
                implicit_gemm::make_tf32x3},
        {"convolution.gpu_f64", "f64 tensor cores, by CUTLASS",
                implicit_gemm::make_f64, f64_yields},
        {"convolution.gpu_wide_weights",
                "gradients of weights of 16-bit data, sums in f32, by CUTLASS",
                implicit_gemm::make_wide_weights, wide_weights_yields},
        {"convolution.cudnn",
                "what cuDNN has a deterministic and exact engine for",
                cudnn::make, cudnn_yields},
        {"convolution.gpu_direct", "everything, from the definition",
                direct::make, direct_yields, true},
};

constexpr detail::kernel<bias_problem> bias_kernels[] = {
        {"bias.gpu_reduce", "everything", bias::make},
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

std::string convolution_libraries() {
    return detail::text("cuDNN ", cudnn::library_version());
}

} // namespace gradnn::gpu
