// diff_src[n,x,i] = sum over the k of the window that meet x in some y of
// products[n,y][k,i], in f64, rounded once to diff_src's type.
//
// A thread has one to four channels of a position, neighbouring threads those of
// neighbouring positions: they read the same rows of products, which stay in the
// caches. Each product is in one sum, so that all of them are read once.
#include "gpu/convolution/col2im/sum.hpp"
#include "gpu/device/dtype.cuh"
#include "gpu/device/early_start.cuh"
#include "gpu/runtime/launch.hpp"

namespace gradnn::gpu::col2im {

namespace {

constexpr int block = 256;

/// Products of one tap.
template <int Held, typename Sum>
__device__ __forceinline__ void add(double (&sums)[Held], const Sum *from) {
    Sum values[Held];
    if constexpr (Held == 3) {
#pragma unroll
        for (int i = 0; i < Held; ++i)
            values[i] = from[i];
    } else {
        pack<Sum, Held>::load(from).unpack(values);
    }
#pragma unroll
    for (int i = 0; i < Held; ++i)
        sums[i] += static_cast<double>(values[i]);
}

template <typename Type, int Held>
__global__ void __launch_bounds__(block)
        add_products_kernel(const __grid_constant__ problem_shape shape,
                const sum_of<Type> *products, Type *diff_src) {
    wait_and_let_later_work_start();
    const int64_t thread = int64_t {blockIdx.x} * block + threadIdx.x;
    if (thread >= shape.threads) return;
    auto rest = static_cast<uint32_t>(thread);
    const auto take = [&](const exact_divider &of) {
        const uint32_t all = rest;
        rest = of.quotient(all);
        return static_cast<int>(all - rest * of.by);
    };
    const int channel = take(shape.groups) * Held;
    const int w = take(shape.src[2]);
    const int h = take(shape.src[1]);
    const int d = take(shape.src[0]);
    const auto n = static_cast<int64_t>(rest);

    const axis_taps along_d = shape.axes[0].taps_of(d);
    const axis_taps along_h = shape.axes[1].taps_of(h);
    const axis_taps along_w = shape.axes[2].taps_of(w);
    const auto &[axis_d, axis_h, axis_w] = shape.axes;
    double sums[Held] = {};
    // From a tap to the next one along W.
    const int next = static_cast<int>(axis_w.step.by) * shape.channels
            - static_cast<int>(axis_w.back.by) * shape.pitch;
    for (int i = 0; i < along_d.count; ++i) {
        const int k_d = along_d.first + i * static_cast<int>(axis_d.step.by);
        const int y_d = along_d.position - i * static_cast<int>(axis_d.back.by);
        for (int j = 0; j < along_h.count; ++j) {
            const int k_h = along_h.first + j * static_cast<int>(axis_h.step.by);
            const int y_h
                    = along_h.position - j * static_cast<int>(axis_h.back.by);
            const int64_t y
                    = ((n * axis_d.dst + y_d) * axis_h.dst + y_h) * axis_w.dst
                    + along_w.position;
            const int k = (k_d * axis_h.window + k_h) * axis_w.window
                    + along_w.first;
            const sum_of<Type> *from = products + y * shape.pitch
                    + k * shape.channels + channel;
#pragma unroll 4
            for (int t = 0; t < along_w.count; ++t, from += next)
                add<Held>(sums, from);
        }
    }

    Type *const to = diff_src + n * shape.strides[0]
            + channel * shape.strides[1] + d * shape.strides[2]
            + h * shape.strides[3] + w * shape.strides[4];
    Type results[Held];
#pragma unroll
    for (int i = 0; i < Held; ++i)
        results[i] = narrow<Type>(sums[i]);
    if constexpr (Held == 2 || Held == 4)
        if (shape.strides[1] == 1
                && reinterpret_cast<uintptr_t>(to) % sizeof results == 0) {
            typename pack<Type, Held>::word_type bits;
            memcpy(&bits, results, sizeof bits);
            pack<Type, Held> {bits}.stream(to);
            return;
        }
#pragma unroll
    for (int i = 0; i < Held; ++i)
        to[i * shape.strides[1]] = results[i];
}

} // namespace

void add_products(detail::data_type type, const problem_shape &shape,
        const void *products, void *diff_src, const launch_stream &stream) {
    with_float_type(type, [&]<typename Type>() {
        using sum = sum_of<Type>;
        const auto start = [&](auto *kernel) {
            launch_early("convolution.gpu_col2im", kernel,
                    ceil_div(shape.threads, block), block, 0, stream, shape,
                    static_cast<const sum *>(products),
                    static_cast<Type *>(diff_src));
        };
        switch (held_channels(shape.channels, sizeof(sum))) {
            case 1: return start(add_products_kernel<Type, 1>);
            case 2: return start(add_products_kernel<Type, 2>);
            case 3: return start(add_products_kernel<Type, 3>);
            default:
                if constexpr (sizeof(sum) == 4)
                    start(add_products_kernel<Type, 4>);
        }
    });
}

} // namespace gradnn::gpu::col2im
