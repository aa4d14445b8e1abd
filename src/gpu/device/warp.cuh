// What the threads of a warp have together.
#pragma once

namespace gradnn::gpu {

/// The sum of a warp's values, in every lane.
template <typename Sum>
__device__ __forceinline__ Sum sum_of_warp(Sum value) {
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2)
        value += __shfl_xor_sync(0xffffffffU, value, distance);
    return value;
}

} // namespace gradnn::gpu
