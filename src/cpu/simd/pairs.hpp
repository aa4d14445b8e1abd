// Pairs of 16-bit elements in 32-bit lanes, so that a step of a transposition
// serves two of them.
//
// Included once for each of Highway's targets, like simd.hpp.
#include "cpu/simd/simd.hpp"

#if defined(GRADNN_CPU_SIMD_PAIRS_TOGGLE) == defined(HWY_TARGET_TOGGLE)
#ifdef GRADNN_CPU_SIMD_PAIRS_TOGGLE
#undef GRADNN_CPU_SIMD_PAIRS_TOGGLE
#else
#define GRADNN_CPU_SIMD_PAIRS_TOGGLE
#endif

HWY_BEFORE_NAMESPACE();
namespace gradnn::cpu::HWY_NAMESPACE {

/// Whether pairs of T become vectors of floats, and floats pairs, in few steps.
template <typename T>
constexpr bool has_pairs
        = has_load_half<
                  T> || (std::is_same_v<T, f16> && HWY_TARGET == HWY_AVX3);

/// As many pairs as a vector has lanes.
template <class D, typename T>
HWY_INLINE hn::VFromD<D> load_pairs_of(D d, const T *from) {
    return hn::BitCast(d,
            hn::LoadU(hn::Repartition<uint16_t, D>(),
                    reinterpret_cast<const uint16_t *>(from)));
}

#if HWY_TARGET == HWY_AVX3
/// Words of even places in the lower half, those of odd places in the upper one.
HWY_INLINE __m512i part_words(__m512i v) {
    alignas(64) static constexpr uint16_t order[32]
            = {0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30, 1, 3,
                    5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31};
    return _mm512_permutexvar_epi16(_mm512_load_si512(order), v);
}

/// The reverse.
HWY_INLINE __m512i join_words(__m512i v) {
    alignas(64) static constexpr uint16_t order[32]
            = {0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23, 8, 24, 9,
                    25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
    return _mm512_permutexvar_epi16(_mm512_load_si512(order), v);
}
#endif

/// The pairs' first elements, and their second ones.
template <typename T, class D>
HWY_INLINE void part_pairs(
        D d, hn::VFromD<D> pairs, hn::VFromD<D> &first, hn::VFromD<D> &second) {
#if HWY_TARGET == HWY_AVX3
    if constexpr (std::is_same_v<T, f16>) {
        const __m512i parted = part_words(_mm512_castps_si512(pairs.raw));
        first = hn::VFromD<D> {_mm512_cvtph_ps(_mm512_castsi512_si256(parted))};
        second = hn::VFromD<D> {
                _mm512_cvtph_ps(_mm512_extracti64x4_epi64(parted, 1))};
        return;
    }
#endif
    const auto bits = hn::BitCast(hn::RebindToUnsigned<D>(), pairs);
    first = half_of(d, bits, true);
    second = half_of(d, bits, false);
}

/// Pairs of the elements of two vectors, rounded to nearest even.
template <typename T, class D>
HWY_INLINE hn::VFromD<D> join_pairs(
        D d, hn::VFromD<D> first, hn::VFromD<D> second) {
#if HWY_TARGET == HWY_AVX3
    if constexpr (std::is_same_v<T, f16>) {
        constexpr int nearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
        const __m512i both = _mm512_inserti64x4(
                _mm512_castsi256_si512(_mm512_cvtps_ph(first.raw, nearest)),
                _mm512_cvtps_ph(second.raw, nearest), 1);
        return hn::VFromD<D> {_mm512_castsi512_ps(join_words(both))};
    }
#endif
    return hn::BitCast(d, pairs_of_bf16(d, first, second));
}

/// Stores pairs, past the caches to where they fill an aligned vector.
template <bool past_caches, class D, typename T>
HWY_INLINE void store_pairs(D, hn::VFromD<D> pairs, T *to) {
    const hn::Repartition<uint16_t, D> halves;
    auto *const out = reinterpret_cast<uint16_t *>(to);
    if constexpr (past_caches)
        hn::Stream(hn::BitCast(halves, pairs), halves, out);
    else
        hn::StoreU(hn::BitCast(halves, pairs), halves, out);
}

} // namespace gradnn::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
