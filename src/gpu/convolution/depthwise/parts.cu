// Depthwise convolution, gradient of the weights: the sum of the parts.
//
// A warp has one weight: its lanes add up every 32nd partial sum, then each
// other's, in f64 and in a fixed order. Where that is infinite or NaN, which
// zeros in place of what lies outside may have caused, the warp takes the sum
// again from src and dst, over nothing but the formula's terms.
#include "gpu/convolution/depthwise/plan.hpp"
#include "gpu/convolution/depthwise/taps.cuh"
#include "gpu/device/early_start.cuh"
#include "gpu/device/warp.cuh"
#include "gpu/runtime/with_type.hpp"

namespace gradnn::gpu::depthwise {

namespace {

template <typename Type>
__global__ void __launch_bounds__(threads_of_block) depthwise_parts_kernel(
        const float *partials, const Type *src, const Type *dst,
        Type *diff_weights, const __grid_constant__ problem_shape shape,
        int64_t parts, int64_t count) {
    wait_and_let_later_work_start();
    const int64_t weight
            = (blockIdx.x * int64_t {threads_of_block} + threadIdx.x) / 32;
    const auto lane = static_cast<int>(threadIdx.x % 32);
    if (weight >= count) return;
    double total = 0;
    for (int64_t part = lane; part < parts; part += 32)
        total += static_cast<double>(partials[weight * parts + part]);
    total = sum_of_warp(total);
    const auto &[deep, down, along] = shape.axes;
    const auto kw = static_cast<int>(weight % along.kernel);
    const auto kh = static_cast<int>(weight / along.kernel % down.kernel);
    const int64_t channel = weight / along.kernel / down.kernel;
    if (!is_finite(total)) {
        // Every lane has the same sum, so they all are here.
        const auto &src_strides = shape.read_strides;
        const auto &dst_strides = shape.written_strides;
        src += channel * src_strides[1];
        dst += channel * dst_strides[1];
        total = 0;
        for (int64_t row = 0; row < shape.images * down.written; ++row) {
            const int64_t image = row / down.written;
            const auto h = static_cast<int>(row % down.written);
            const int src_row = h - down.pad + kh;
            if (!is_inside(src_row, down.read)) continue;
            for (int w = lane; w < along.written; w += 32) {
                const int column = w - along.pad + kw;
                if (!is_inside(column, along.read)) continue;
                total += static_cast<double>(widen(src[image * src_strides[0]
                                 + src_row * src_strides[3]
                                 + column * src_strides[4]]))
                        * static_cast<double>(widen(dst[image * dst_strides[0]
                                + h * dst_strides[3] + w * dst_strides[4]]));
            }
        }
        total = sum_of_warp(total);
    }
    if (lane == 0)
        diff_weights[channel * shape.weights_strides[0]
                + kh * shape.weights_strides[2] + kw * shape.weights_strides[3]]
                = narrow<Type>(total);
}

} // namespace

launcher parts_launcher(const launch_facts &facts, int64_t parts) {
    const problem_shape shape = facts.shape;
    const int64_t count
            = shape.channels * shape.axes[1].kernel * shape.axes[2].kernel;
    return with_half_precision_type(
            facts.type, [&]<typename Type>() -> launcher {
                return [=](const tensor_pointers &at,
                               const launch_stream &stream) {
                    launch_early("convolution.gpu_depthwise (parts)",
                            depthwise_parts_kernel<Type>,
                            ceil_div(count * 32, threads_of_block),
                            threads_of_block, 0, stream, at.workspace, at.src,
                            at.dst, at.weights, shape, parts, count);
                };
            });
}

} // namespace gradnn::gpu::depthwise
