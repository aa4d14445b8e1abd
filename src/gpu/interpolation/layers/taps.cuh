// Device code of interpolation.gpu_layers: sums over the taps of an output, in shared
// memory.
#pragma once

#include "gpu/device/shared_memory.cuh"
#include "gpu/interpolation/layers/cut.hpp"
#include "gpu/interpolation/walk.cuh"

namespace gradnn::gpu::interpolation::layers {

/// As it is, in a register: the compiler would put it together again for each use.
__device__ __forceinline__ void keep(char *&address) {
    asm volatile("" : "+l"(address));
}

/// sums[i] += sum over k < count of by[k] * line[k * pitch + i], where `line` is
/// an address in shared memory; there is room for `taps` at most.
template <int taps, int width, typename Sum>
__device__ __forceinline__ void add_taps(Sum (&sums)[width],
        const Sum (&by)[taps], uint32_t line, int count, int pitch) {
    const auto step = pitch * static_cast<uint32_t>(sizeof(Sum));
#pragma unroll
    for (int k = 0; k < taps; ++k) {
        if (k < count) {
            Sum values[width];
            load_shared(values, line + k * step);
#pragma unroll
            for (int i = 0; i < width; ++i)
                sums[i] = add_product(sums[i], by[k], values[i]);
        }
    }
}

/// The same of any number of taps, with weights from shared memory.
template <int width, typename Sum>
__device__ __forceinline__ void add_all_taps(Sum (&sums)[width],
        const Sum *weights, uint32_t line, int count, int pitch) {
    constexpr int at_once = static_cast<int>(weights_at_once);
#pragma unroll 1
    for (int k = 0; k < count; k += at_once) {
        Sum by[at_once];
        load_weights(by, weights + k);
        add_taps(sums, by, line, count - k, pitch);
        line += at_once * pitch * static_cast<uint32_t>(sizeof(Sum));
    }
}

/// Calls body with 2, 4, 6 or 8, which is room for so many taps, or with 0 where
/// there are more. `two_at_most`: with 2. `four_at_most`: with 2, 4 or 0.
template <bool two_at_most, bool four_at_most, typename Body>
__device__ __forceinline__ void with_taps(int taps, const Body &body) {
    if (two_at_most || taps <= 2)
        body.template operator()<2>();
    else if (taps <= 4)
        body.template operator()<4>();
    else if (!four_at_most && taps <= 6)
        body.template operator()<6>();
    else if (!four_at_most && taps <= 8)
        body.template operator()<8>();
    else
        body.template operator()<0>();
}

} // namespace gradnn::gpu::interpolation::layers
