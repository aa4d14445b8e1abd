// diff_src[n,x,i] = sum over the k of the window that meet x in some y of
// products[n,y][k,i], in f64, rounded once to diff_src's type.
//
// A thread has one to four channels of a position, neighbouring threads those of
// neighbouring positions: they read the same rows of products, which stay in the
// caches. Each product is in one sum at most.
#pragma once

#include "gpu/convolution/col2im/cut.hpp"
#include "gpu/device/dtype.cuh"
#include "gpu/device/early_start.cuh"
#include "gpu/device/positions.cuh"

namespace gradnn::gpu::col2im {

constexpr int block = 256;

/// Loads that a thread has on their way.
constexpr int batch = 4;

template <typename Type, int Held>
__global__ void __launch_bounds__(block) add_products_kernel(
        const __grid_constant__ problem_shape shape, const product_taps *taps,
        int64_t threads, const sum_of<Type> *products, Type *diff_src) {
    const int64_t thread = int64_t {blockIdx.x} * block + threadIdx.x;
    auto rest = static_cast<uint32_t>(thread);
    const int channel = take(rest, shape.groups) * Held;
    const int w = take(rest, shape.src[2]);
    const int h = take(rest, shape.src[1]);
    const int d = take(rest, shape.src[0]);
    const auto n = static_cast<int64_t>(rest);
    const auto taps_of = [&](int axis, int x) {
        return __ldg(
                reinterpret_cast<const int2 *>(taps + shape.table[axis] + x));
    };
    const int2 along_d = taps_of(0, d);
    const int2 along_h = taps_of(1, h);
    const int2 along_w = taps_of(2, w);
    wait_and_let_later_work_start();
    if (thread >= threads) return;

    double sums[Held] = {};
    const sum_of<Type> *from_d = products + n * shape.image + channel
            + (along_d.x + along_h.x + along_w.x);
    // From the last tap of a row to the first one of the next row.
    const int next_row = shape.next[1] - (along_w.y - 1) * shape.next[2];
    for (int i = 0; i < along_d.y; ++i, from_d += shape.next[0]) {
        const sum_of<Type> *from = from_d;
        int along = 0;
#pragma unroll 1
        for (int left = along_h.y * along_w.y; left > 0; left -= batch) {
            sum_of<Type> values[batch][Held] = {};
#pragma unroll
            for (int t = 0; t < batch; ++t) {
                if (t < left) {
                    if constexpr (Held == 3)
#pragma unroll
                        for (int c = 0; c < Held; ++c)
                            values[t][c] = from[c];
                    else
                        pack<sum_of<Type>, Held>::load(from).unpack(values[t]);
                }
                const bool ends_row = ++along == along_w.y;
                from += ends_row ? next_row : shape.next[2];
                if (ends_row) along = 0;
            }
#pragma unroll
            for (int t = 0; t < batch; ++t)
#pragma unroll
                for (int c = 0; c < Held; ++c)
                    sums[c] += static_cast<double>(values[t][c]);
        }
    }

    Type *const to = diff_src + n * shape.strides[0]
            + channel * shape.strides[1] + d * shape.strides[2]
            + h * shape.strides[3] + w * shape.strides[4];
    alignas(16) Type results[Held];
#pragma unroll
    for (int i = 0; i < Held; ++i)
        results[i] = narrow<Type>(sums[i]);
    if constexpr (Held == 2 || Held == 4)
        if (shape.strides[1] == 1
                && reinterpret_cast<uintptr_t>(to) % (Held * sizeof(Type)) == 0)
            return pack<Type, Held>::load(results).stream(to);
#pragma unroll
    for (int i = 0; i < Held; ++i)
        to[i * shape.strides[1]] = results[i];
}

} // namespace gradnn::gpu::col2im
