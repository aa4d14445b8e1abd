// What the SIMD kernels share: loads that widen to the accumulator's type,
// stores that round to nearest even, partial vectors; and transposition.
//
// Included once for each of Highway's targets. Tensors' elements are float,
// double, bf16 or f16; vectors hold float or double. Highway's own narrowing
// is not used: in 1.0.3 it truncates (bf16 everywhere, f16 before F16C).
#include <cstring>

#include "cpu/simd/float_types.hpp"

#if defined(GRADNN_CPU_SIMD_TOGGLE) == defined(HWY_TARGET_TOGGLE)
#ifdef GRADNN_CPU_SIMD_TOGGLE
#undef GRADNN_CPU_SIMD_TOGGLE
#else
#define GRADNN_CPU_SIMD_TOGGLE
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "cpu/simd/half_bits.hpp"
#include "cpu/simd/transpose.hpp"

// After the parameters of a lambda in an inner loop: compilers stop inlining
// them where a function has many.
#ifndef GRADNN_SIMD_INLINE
#define GRADNN_SIMD_INLINE HWY_ATTR __attribute__((always_inline))
#endif

HWY_BEFORE_NAMESPACE();
namespace gradnn::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// whole vectors

template <class D>
HWY_INLINE hn::VFromD<D> load(D d, const hn::TFromD<D> *from) {
    return hn::LoadU(d, from);
}

template <class D>
HWY_INLINE hn::VFromD<D> load(D d, const bf16 *from) {
    const hn::Rebind<uint16_t, D> narrow;
    const hn::Rebind<uint32_t, D> wide;
    const auto bits
            = hn::LoadU(narrow, reinterpret_cast<const uint16_t *>(from));
    return from_bf16(d, hn::PromoteTo(wide, bits));
}

template <class D>
HWY_INLINE hn::VFromD<D> load(D d, const f16 *from) {
    const hn::Rebind<uint16_t, D> narrow;
    const auto bits
            = hn::LoadU(narrow, reinterpret_cast<const uint16_t *>(from));
    if constexpr (has_f16_conversion) {
        const hn::Rebind<hwy::float16_t, D> half;
        return hn::PromoteTo(d, hn::BitCast(half, bits));
    } else {
        return from_f16(d, hn::PromoteTo(hn::Rebind<uint32_t, D>(), bits));
    }
}

template <class D>
HWY_INLINE hn::VFromD<hn::Rebind<uint16_t, D>> narrow_bits(
        D, hn::VFromD<hn::Rebind<uint32_t, D>> bits) {
    const hn::Rebind<int32_t, D> di;
    return hn::DemoteTo(hn::Rebind<uint16_t, D>(), hn::BitCast(di, bits));
}

/// Of two vectors in memory, the elements of even or of odd places, where that
/// is less work than two loads.
template <typename T>
constexpr bool has_load_half
        = std::is_same_v<T, bf16> &&HWY_TARGET != HWY_SCALAR;

template <class D>
HWY_INLINE hn::VFromD<hn::Rebind<uint32_t, D>> load_pairs(D, const bf16 *from) {
    return hn::BitCast(hn::Rebind<uint32_t, D>(),
            hn::LoadU(hn::Repartition<uint16_t, D>(),
                    reinterpret_cast<const uint16_t *>(from)));
}

template <class D>
HWY_INLINE hn::VFromD<D> half_of(
        D d, hn::VFromD<hn::Rebind<uint32_t, D>> pairs, bool even) {
    const hn::Rebind<uint32_t, D> du;
    return even ? from_bf16(d, pairs)
                : hn::BitCast(d, hn::And(pairs, hn::Set(du, 0xFFFF0000U)));
}

template <class D>
HWY_INLINE hn::VFromD<D> load_half(D d, const bf16 *from, bool even) {
    return half_of(d, load_pairs(d, from), even);
}

/// From elements of even places and those of odd places, two vectors in order.
template <class D>
HWY_INLINE void interleave(
        [[maybe_unused]] D d, hn::VFromD<D> &a, hn::VFromD<D> &b) {
#if HWY_TARGET == HWY_AVX3
    const auto order = [&](int begin) HWY_ATTR {
        alignas(64) int32_t index[16];
        for (int l = 0; l < 16; ++l)
            index[l] = begin + l / 2 + l % 2 * 16;
        return hn::Load(hn::RebindToSigned<D>(), index).raw;
    };
    const auto even = a;
    a = hn::VFromD<D> {_mm512_permutex2var_ps(even.raw, order(0), b.raw)};
    b = hn::VFromD<D> {_mm512_permutex2var_ps(even.raw, order(8), b.raw)};
#elif HWY_TARGET != HWY_SCALAR
    const auto low = hn::InterleaveLower(d, a, b);
    const auto high = hn::InterleaveUpper(d, a, b);
    if constexpr (hn::MaxLanes(D()) * sizeof(hn::TFromD<D>) == 16) {
        a = low;
        b = high;
    } else {
        a = hn::ConcatLowerLower(d, high, low);
        b = hn::ConcatUpperUpper(d, high, low);
    }
#endif
}

template <class D>
HWY_INLINE bool any_nan(D d, hn::VFromD<D> a, hn::VFromD<D> b) {
#if HWY_TARGET == HWY_AVX2
    if constexpr (std::is_same_v<hn::TFromD<D>, float>)
        return _mm256_movemask_ps(_mm256_cmp_ps(a.raw, b.raw, _CMP_UNORD_Q))
                != 0;
#elif HWY_TARGET == HWY_AVX3
    if constexpr (std::is_same_v<hn::TFromD<D>, float>)
        return _mm512_cmp_ps_mask(a.raw, b.raw, _CMP_UNORD_Q) != 0;
#endif
    return !hn::AllFalse(d, hn::Or(hn::IsNaN(a), hn::IsNaN(b)));
}

/// The bits of numbers, rounded to nearest even at bit 16.
template <class D>
HWY_INLINE hn::VFromD<hn::Rebind<uint32_t, D>> rounded_bits(
        D, hn::VFromD<D> v) {
    const hn::RebindToUnsigned<D> du;
    const auto bits = hn::BitCast(du, v);
    const auto last = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1));
    return hn::Add(hn::Add(bits, hn::Set(du, 0x7FFF)), last);
}

/// Elements of even and of odd places as pairs of bf16, to nearest even: what
/// load_pairs reads. Vectors with a NaN, which are few, take more steps.
template <class D>
HWY_INLINE hn::VFromD<hn::Rebind<uint32_t, D>> pairs_of_bf16(
        D d, hn::VFromD<D> even, hn::VFromD<D> odd) {
    const hn::Rebind<uint32_t, D> du;
    const hn::Repartition<uint16_t, D> halves;
    auto low = hn::ShiftRight<16>(rounded_bits(d, even));
    auto high = rounded_bits(d, odd);
    if (HWY_UNLIKELY(any_nan(d, even, odd))) {
        low = bits_of_bf16(d, even);
        high = hn::ShiftLeft<16>(bits_of_bf16(d, odd));
    }
    return hn::BitCast(du,
            hn::OddEven(hn::BitCast(halves, high), hn::BitCast(halves, low)));
}

/// What a vector is in memory as T: itself, or 16 bits a lane.
template <typename T, class D>
HWY_INLINE auto rounded(D d, hn::VFromD<D> v) {
    if constexpr (std::is_same_v<T, hn::TFromD<D>>) {
        return v;
    } else if constexpr (std::is_same_v<T, bf16>) {
        return narrow_bits(d, bits_of_bf16(d, v));
    } else if constexpr (has_f16_conversion) {
        const hn::Rebind<hwy::float16_t, D> half;
        return hn::BitCast(hn::Rebind<uint16_t, D>(), hn::DemoteTo(half, v));
    } else {
        return narrow_bits(d, bits_of_f16(d, v));
    }
}

template <typename T>
using storage_of = std::conditional_t<sizeof(T) == 2, uint16_t, T>;

template <class D, typename T>
HWY_INLINE void store(D d, hn::VFromD<D> v, T *to) {
    hn::StoreU(rounded<T>(d, v), hn::Rebind<storage_of<T>, D>(),
            reinterpret_cast<storage_of<T> *>(to));
}

/// Past the caches, to where a vector is aligned. See stream_copy.
template <class D, typename T>
HWY_INLINE void stream(D d, hn::VFromD<D> v, T *to) {
    hn::Stream(rounded<T>(d, v), hn::Rebind<storage_of<T>, D>(),
            reinterpret_cast<storage_of<T> *>(to));
}

/// Two vectors that follow one another, past the caches or not. Of bf16 they are
/// rounded together where that takes fewer steps.
template <bool past_caches, class D, typename T>
HWY_INLINE void store_two(D d, hn::VFromD<D> a, hn::VFromD<D> b, T *to) {
    constexpr size_t lanes = lanes_of<hn::TFromD<D>>;
#if HWY_TARGET == HWY_AVX2
    if constexpr (std::is_same_v<T, bf16>) {
        // In a pair's halves, and then in the order of memory.
        const auto pairs = pairs_of_bf16(d, hn::ConcatLowerLower(d, b, a),
                hn::ConcatUpperUpper(d, b, a));
        const auto order = _mm256_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6,
                7, 10, 11, 14, 15, 0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11,
                14, 15);
        const hn::Repartition<uint16_t, D> halves;
        const hn::VFromD<decltype(halves)> ordered {
                _mm256_shuffle_epi8(pairs.raw, order)};
        auto *const out = reinterpret_cast<uint16_t *>(to);
        if (!past_caches) {
            hn::StoreU(ordered, halves, out);
        } else if (reinterpret_cast<uintptr_t>(to) % 32 == 0) {
            hn::Stream(ordered, halves, out);
        } else {
            const hn::Half<decltype(halves)> half;
            hn::Stream(hn::LowerHalf(half, ordered), half, out);
            hn::Stream(hn::UpperHalf(half, ordered), half, out + lanes);
        }
        return;
    }
#elif HWY_TARGET == HWY_AVX3
    if constexpr (std::is_same_v<T, bf16>) {
        const hn::Repartition<uint16_t, D> halves;
        // The upper halves of a and then of b.
        alignas(64) static constexpr uint16_t order[32] = {1, 3, 5, 7, 9, 11,
                13, 15, 17, 19, 21, 23, 25, 27, 29, 31, 33, 35, 37, 39, 41, 43,
                45, 47, 49, 51, 53, 55, 57, 59, 61, 63};
        auto low = rounded_bits(d, a);
        auto high = rounded_bits(d, b);
        if (HWY_UNLIKELY(any_nan(d, a, b))) {
            low = hn::ShiftLeft<16>(bits_of_bf16(d, a));
            high = hn::ShiftLeft<16>(bits_of_bf16(d, b));
        }
        const hn::VFromD<decltype(halves)> ordered {_mm512_permutex2var_epi16(
                low.raw, hn::Load(halves, order).raw, high.raw)};
        auto *const out = reinterpret_cast<uint16_t *>(to);
        if (!past_caches) {
            hn::StoreU(ordered, halves, out);
        } else if (reinterpret_cast<uintptr_t>(to) % 64 == 0) {
            hn::Stream(ordered, halves, out);
        } else {
            const hn::Half<decltype(halves)> half;
            hn::Stream(hn::LowerHalf(half, ordered), half, out);
            hn::Stream(hn::UpperHalf(half, ordered), half, out + lanes);
        }
        return;
    }
#endif
    if constexpr (past_caches) {
        stream(d, a, to);
        stream(d, b, to + lanes);
    } else {
        store(d, a, to);
        store(d, b, to + lanes);
    }
}

// the first `count` lanes, 0 < count < lanes; no other memory is touched

template <class D, typename T>
HWY_INLINE hn::VFromD<D> load_first(D d, const T *from, size_t count) {
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2
    if constexpr (std::is_same_v<T, hn::TFromD<D>>)
        return hn::MaskedLoad(hn::FirstN(d, count), d, from);
#endif
    alignas(64) T buffer[lanes_of<hn::TFromD<D>>] = {};
    std::memcpy(buffer, from, count * sizeof(T));
    return load(d, buffer);
}

/// Whether store_first takes few steps.
template <typename T>
constexpr bool has_store_first
        = HWY_TARGET == HWY_AVX3 || (HWY_TARGET == HWY_AVX2 && sizeof(T) > 2);

template <class D, typename T>
HWY_INLINE void store_first(D d, hn::VFromD<D> v, T *to, size_t count) {
    if constexpr (has_store_first<T>) {
        const hn::Rebind<storage_of<T>, D> stored;
        hn::BlendedStore(rounded<T>(d, v), hn::FirstN(stored, count), stored,
                reinterpret_cast<storage_of<T> *>(to));
        return;
    }
    alignas(64) T buffer[lanes_of<hn::TFromD<D>>];
    store(d, v, buffer);
    std::memcpy(to, buffer, count * sizeof(T));
}

/// out[i] = T(in[i]).
template <typename In, typename Out>
HWY_INLINE void convert_row(const In *in, Out *out, size_t count) {
    if constexpr (std::is_same_v<In, Out>) {
        std::memcpy(out, in, count * sizeof(In));
    } else if constexpr (std::is_same_v<accumulator_of<In>,
                                 accumulator_of<Out>>) {
        const hn::ScalableTag<accumulator_of<In>> d;
        const size_t lanes = hn::Lanes(d);
        size_t i = 0;
        for (; i + lanes <= count; i += lanes)
            store(d, load(d, in + i), out + i);
        if (i < count)
            store_first(
                    d, load_first(d, in + i, count - i), out + i, count - i);
    } else {
        for (size_t i = 0; i < count; ++i)
            out[i] = convert_scalar<Out>(in[i]);
    }
}

/// Copies to memory that will not be read soon, past the caches where the
/// target can. Whole lines go by streaming stores, so parts of a line at
/// either end should be few. To be followed, before the thread is joined, by
/// hwy::FlushStream().
inline void stream_copy(const void *from, void *to, size_t bytes) {
    const hn::ScalableTag<float> d;
    constexpr size_t line = 64;
    constexpr size_t vector = lanes_of<float> * sizeof(float);
    const auto *in = static_cast<const std::byte *>(from);
    auto *out = static_cast<std::byte *>(to);
    const size_t start
            = (line - reinterpret_cast<uintptr_t>(out) % line) % line;
    if (bytes < start + line) {
        std::memcpy(out, in, bytes);
        return;
    }
    std::memcpy(out, in, start);
    size_t at = start;
    for (; at + line <= bytes; at += line)
        for (size_t part = 0; part < line; part += vector)
            hn::Stream(hn::LoadU(d,
                               reinterpret_cast<const float *>(in + at + part)),
                    d, reinterpret_cast<float *>(out + at + part));
    std::memcpy(out + at, in + at, bytes - at);
}

/// Zeros past the caches in whole cache lines.
inline void stream_zeros(void *to, size_t bytes) {
    const hn::ScalableTag<float> d;
    constexpr size_t line = 64;
    constexpr size_t vector = lanes_of<float> * sizeof(float);
    auto *out = static_cast<std::byte *>(to);
    const size_t start
            = (line - reinterpret_cast<uintptr_t>(out) % line) % line;
    if (bytes < start + line) {
        std::memset(out, 0, bytes);
        return;
    }
    std::memset(out, 0, start);
    size_t at = start;
    for (; at + line <= bytes; at += line)
        for (size_t part = 0; part < line; part += vector)
            hn::Stream(
                    hn::Zero(d), d, reinterpret_cast<float *>(out + at + part));
    std::memset(out + at, 0, bytes - at);
}

} // namespace gradnn::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
