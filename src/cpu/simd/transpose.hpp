// Transposition of a square of vectors. Included once for each of Highway's
// targets (simd.hpp).
#if defined(GRADNN_CPU_TRANSPOSE_TOGGLE) == defined(HWY_TARGET_TOGGLE)
#ifdef GRADNN_CPU_TRANSPOSE_TOGGLE
#undef GRADNN_CPU_TRANSPOSE_TOGGLE
#else
#define GRADNN_CPU_TRANSPOSE_TOGGLE
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace gradnn::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// Lanes of a full vector of T, a constant on the targets that we compile.
template <typename T>
constexpr size_t lanes_of = hn::MaxLanes(hn::ScalableTag<T>());

/// Transposes a square of vectors, as many as a vector has lanes, in place.
template <typename T>
HWY_INLINE void transpose(
        [[maybe_unused]] hn::VFromD<hn::ScalableTag<T>> *rows) {
#if HWY_TARGET != HWY_SCALAR
    const hn::ScalableTag<T> d;
    constexpr size_t lanes = lanes_of<T>;
    constexpr size_t block = 16 / sizeof(T);
    // Loops are unrolled by name, or the rows would go through memory at -O2.
    // Within 128-bit blocks.
    if constexpr (block == 4) {
        const hn::Repartition<double, decltype(d)> dw;
#pragma GCC unroll 16
        for (size_t r = 0; r < lanes; r += 4) {
            const auto a = hn::BitCast(
                    dw, hn::InterleaveLower(d, rows[r], rows[r + 1]));
            const auto b = hn::BitCast(
                    dw, hn::InterleaveUpper(d, rows[r], rows[r + 1]));
            const auto e = hn::BitCast(
                    dw, hn::InterleaveLower(d, rows[r + 2], rows[r + 3]));
            const auto f = hn::BitCast(
                    dw, hn::InterleaveUpper(d, rows[r + 2], rows[r + 3]));
            rows[r] = hn::BitCast(d, hn::InterleaveLower(dw, a, e));
            rows[r + 1] = hn::BitCast(d, hn::InterleaveUpper(dw, a, e));
            rows[r + 2] = hn::BitCast(d, hn::InterleaveLower(dw, b, f));
            rows[r + 3] = hn::BitCast(d, hn::InterleaveUpper(dw, b, f));
        }
    } else if constexpr (block == 2) {
#pragma GCC unroll 16
        for (size_t r = 0; r < lanes; r += 2) {
            const auto a = rows[r];
            rows[r] = hn::InterleaveLower(d, a, rows[r + 1]);
            rows[r + 1] = hn::InterleaveUpper(d, a, rows[r + 1]);
        }
    }
    // Blocks against blocks: halves first, then, in vectors of four blocks,
    // neighbours.
    if constexpr (lanes >= 2 * block) {
        constexpr size_t step = lanes / 2;
#pragma GCC unroll 16
        for (size_t r = 0; r < step; ++r) {
            const auto a = rows[r];
            const auto b = rows[r + step];
            rows[r] = hn::ConcatLowerLower(d, b, a);
            rows[r + step] = hn::ConcatUpperUpper(d, b, a);
        }
    }
    if constexpr (lanes >= 4 * block) {
#pragma GCC unroll 16
        for (size_t r = 0; r < lanes; ++r) {
            if ((r & block) != 0) continue;
            const auto a = rows[r];
            const auto b = rows[r + block];
            rows[r] = hn::OddEvenBlocks(hn::SwapAdjacentBlocks(b), a);
            rows[r + block] = hn::OddEvenBlocks(b, hn::SwapAdjacentBlocks(a));
        }
    }
#endif
}

} // namespace gradnn::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
