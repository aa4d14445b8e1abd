// Positions: whether they are inside, and numbers taken apart into them, axis by axis,
// the innermost first.
#pragma once

#include <cstdint>

#include "gpu/device/divider.hpp"

namespace gradnn::gpu {

/// Whether a position is one of so many.
__device__ __forceinline__ bool is_inside(int position, int count) {
    return static_cast<unsigned>(position) < static_cast<unsigned>(count);
}

/// rest % count; `rest` goes on to rest / count.
__device__ __forceinline__ int take(int &rest, int count) {
    const int taken = rest % count;
    rest /= count;
    return taken;
}
__device__ __forceinline__ int take(uint32_t &rest, uint32_t count) {
    const uint32_t taken = rest % count;
    rest /= count;
    return static_cast<int>(taken);
}
__device__ __forceinline__ int take(
        uint32_t &rest, const exact_divider &divider) {
    const uint32_t quotient = divider.quotient(rest);
    const uint32_t taken = rest - quotient * divider.by;
    rest = quotient;
    return static_cast<int>(taken);
}
template <typename Index>
__device__ __forceinline__ Index take(
        Index &rest, const divisor<Index> &divider) {
    const Index quotient = divider.quotient(rest);
    const Index taken = rest - quotient * divider.by;
    rest = quotient;
    return taken;
}
/// Of any size; most numbers are small.
__device__ __forceinline__ int64_t take(int64_t &rest, int64_t count) {
    if (count == 1) return 0;
    if ((rest | count) >> 31 != 0) {
        const int64_t taken = rest % count;
        rest /= count;
        return taken;
    }
    auto narrow = static_cast<uint32_t>(rest);
    const int taken = take(narrow, static_cast<uint32_t>(count));
    rest = narrow;
    return taken;
}

} // namespace gradnn::gpu
