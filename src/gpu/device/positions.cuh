// Positions: whether they are inside, and numbers taken apart into them, axis by axis,
// the innermost first.
#pragma once

#include <cstdint>
#include <type_traits>

#include "gpu/device/rounding.hpp"

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
/// By an exact_divider or a divisor.
template <typename Number, typename Divider>
__device__ __forceinline__ auto take(Number &rest, const Divider &divider)
        -> std::make_signed_t<decltype(divider.quotient(rest))> {
    const Number quotient = divider.quotient(rest);
    const Number taken = rest - quotient * divider.by;
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
    const auto narrow = static_cast<uint32_t>(rest);
    const auto by = static_cast<uint32_t>(count);
    const uint32_t taken = narrow % by;
    rest = narrow / by;
    return static_cast<int>(taken);
}

} // namespace gradnn::gpu
