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
        src += channel * shape.read_strides[1];
        dst += channel * shape.written_strides[1];
        total = 0;
        const int64_t rows
                = shape.images * shape.axes[0].written * shape.axes[1].written;
        for (int64_t row = 0; row < rows; ++row) {
            const int h = static_cast<int>(row % shape.axes[1].written);
            const int d = static_cast<int>(
                    row / shape.axes[1].written % shape.axes[0].written);
            const int64_t image
                    = row / shape.axes[1].written / shape.axes[0].written;
            const int at[2] = {d * shape.axes[0].stride - shape.axes[0].pad
                            + k[0] * shape.axes[0].dilation,
                    h * shape.axes[1].stride - shape.axes[1].pad
                            + k[1] * shape.axes[1].dilation};
            if (at[0] < 0 || at[0] >= shape.axes[0].read || at[1] < 0
                    || at[1] >= shape.axes[1].read)
                continue;
            for (int w = lane; w < shape.axes[2].written; w += 32) {
                const int column = w * shape.axes[2].stride - shape.axes[2].pad
                        + k[2] * shape.axes[2].dilation;
                if (column < 0 || column >= shape.axes[2].read) continue;
                total += static_cast<double>(
                                 widen(src[image * shape.read_strides[0]
                                         + at[0] * shape.read_strides[2]
                                         + at[1] * shape.read_strides[3]
                                         + column * shape.read_strides[4]]))
                        * static_cast<double>(
                                widen(dst[image * shape.written_strides[0]
                                        + d * shape.written_strides[2]
                                        + h * shape.written_strides[3]
                                        + w * shape.written_strides[4]]));
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
