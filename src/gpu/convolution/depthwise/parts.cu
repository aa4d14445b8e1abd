// Depthwise convolution, gradient of the weights: the sum of the parts.
//
// A warp has one weight: its lanes add up every 32nd partial sum, then each
// other's, in f64 and in a fixed order. Where that is infinite or NaN, which
// zeros in place of what lies outside may have caused, the warp takes the sum
// again from src and dst, over nothing but the formula's terms.
#include "gpu/convolution/depthwise/launch.hpp"
#include "gpu/convolution/depthwise/taps.cuh"
#include "gpu/device/early_start.cuh"
#include "gpu/device/warp.cuh"
#include "gpu/runtime/with_type.hpp"

namespace gradnn::gpu::depthwise {

namespace {

template <typename Type, typename Result>
__global__ void __launch_bounds__(threads_of_block) depthwise_parts_kernel(
        const sum_of<Type> *partials, const Type *src, const Type *dst,
        Result *diff_weights, const __grid_constant__ problem_shape shape,
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
    int64_t rest = weight;
    int k[3];
#pragma unroll
    for (int axis = 2; axis >= 0; --axis) {
        k[axis] = static_cast<int>(rest % shape.axes[axis].kernel);
        rest /= shape.axes[axis].kernel;
    }
    const int64_t channel = rest;
    if (!is_finite(total)) {
        // Every lane has the same sum, so they all are here.
        const auto &src_strides = shape.read_strides;
        const auto &dst_strides = shape.written_strides;
        const auto &[deep, down, along] = shape.axes;
        src += channel * src_strides[1];
        dst += channel * dst_strides[1];
        total = 0;
        const int64_t rows = shape.images * deep.written * down.written;
        for (int64_t row = 0; row < rows; ++row) {
            const int h = static_cast<int>(row % down.written);
            const int d = static_cast<int>(row / down.written % deep.written);
            const int64_t image = row / down.written / deep.written;
            const int at[2]
                    = {d * deep.stride - deep.pad + k[0] * deep.dilation,
                            h * down.stride - down.pad + k[1] * down.dilation};
            if (at[0] < 0 || at[0] >= deep.read || at[1] < 0
                    || at[1] >= down.read)
                continue;
            for (int w = lane; w < along.written; w += 32) {
                const int column
                        = w * along.stride - along.pad + k[2] * along.dilation;
                if (column < 0 || column >= along.read) continue;
                total += static_cast<double>(widen(src[image * src_strides[0]
                                 + at[0] * src_strides[2]
                                 + at[1] * src_strides[3]
                                 + column * src_strides[4]]))
                        * static_cast<double>(widen(dst[image * dst_strides[0]
                                + d * dst_strides[2] + h * dst_strides[3]
                                + w * dst_strides[4]]));
            }
        }
        total = sum_of_warp(total);
    }
    if (lane == 0)
        diff_weights[channel * shape.weights_strides[0]
                + k[0] * shape.weights_strides[1]
                + k[1] * shape.weights_strides[2]
                + k[2] * shape.weights_strides[3]]
                = narrow<Result>(total);
}

template <typename Type, typename Result>
launcher parts_launcher(const problem_shape &shape, int64_t parts) {
    const int64_t count = shape.channels * shape.axes[0].kernel
            * shape.axes[1].kernel * shape.axes[2].kernel;
    return [=](const tensor_pointers &at, const launch_stream &stream) {
        launch_early("convolution.gpu_depthwise (parts)",
                depthwise_parts_kernel<Type, Result>,
                ceil_div(count * 32, threads_of_block), threads_of_block, 0,
                stream, at.workspace, at.src, at.dst, at.weights, shape, parts,
                count);
    };
}

} // namespace

launcher parts_launcher(const launch_facts &facts, int64_t parts,
        detail::data_type weights_type) {
    return with_float_type(facts.type, [&]<typename Type>() {
        return facts.type == weights_type
                ? parts_launcher<Type, Type>(facts.shape, parts)
                : parts_launcher<Type, float>(facts.shape, parts);
    });
}

} // namespace gradnn::gpu::depthwise
