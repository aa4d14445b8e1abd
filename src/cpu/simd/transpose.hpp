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

#if HWY_TARGET == HWY_AVX3
/// The 128-bit blocks of even or of odd places, of a and then of b.
HWY_INLINE hn::Vec512<float> even_blocks(
        hn::Vec512<float> a, hn::Vec512<float> b) {
    return {_mm512_shuffle_f32x4(a.raw, b.raw, 0x88)};
}
HWY_INLINE hn::Vec512<float> odd_blocks(
        hn::Vec512<float> a, hn::Vec512<float> b) {
    return {_mm512_shuffle_f32x4(a.raw, b.raw, 0xDD)};
}
HWY_INLINE hn::Vec512<double> even_blocks(
        hn::Vec512<double> a, hn::Vec512<double> b) {
    return {_mm512_shuffle_f64x2(a.raw, b.raw, 0x88)};
}
HWY_INLINE hn::Vec512<double> odd_blocks(
        hn::Vec512<double> a, hn::Vec512<double> b) {
    return {_mm512_shuffle_f64x2(a.raw, b.raw, 0xDD)};
}
#endif

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
    // Blocks against blocks: of four by shuffles of two vectors, a result each;
    // else halves.
#if HWY_TARGET == HWY_AVX3
#pragma GCC unroll 16
    for (size_t r = 0; r < block; ++r) {
        const auto a = even_blocks(rows[r], rows[r + block]);
        const auto b = odd_blocks(rows[r], rows[r + block]);
        const auto e = even_blocks(rows[r + 2 * block], rows[r + 3 * block]);
        const auto f = odd_blocks(rows[r + 2 * block], rows[r + 3 * block]);
        rows[r] = even_blocks(a, e);
        rows[r + block] = even_blocks(b, f);
        rows[r + 2 * block] = odd_blocks(a, e);
        rows[r + 3 * block] = odd_blocks(b, f);
    }
#else
    static_assert(lanes <= 2 * block);
    if constexpr (lanes == 2 * block) {
#pragma GCC unroll 16
        for (size_t r = 0; r < block; ++r) {
            const auto a = rows[r];
            const auto b = rows[r + block];
            rows[r] = hn::ConcatLowerLower(d, b, a);
            rows[r + block] = hn::ConcatUpperUpper(d, b, a);
        }
    }
#endif
#endif
}

} // namespace gradnn::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
