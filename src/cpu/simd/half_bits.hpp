// The bits of bf16 and f16 in 32-bit lanes, to and from float. Included once for
// each of Highway's targets (simd.hpp).
#if defined(GRADNN_CPU_HALF_BITS_TOGGLE) == defined(HWY_TARGET_TOGGLE)
#ifdef GRADNN_CPU_HALF_BITS_TOGGLE
#undef GRADNN_CPU_HALF_BITS_TOGGLE
#else
#define GRADNN_CPU_HALF_BITS_TOGGLE
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace gradnn::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class D>
HWY_INLINE hn::VFromD<D> from_bf16(D d, hn::VFromD<hn::Rebind<uint32_t, D>> v) {
    return hn::BitCast(d, hn::ShiftLeft<16>(v));
}

template <class D>
HWY_INLINE hn::VFromD<hn::Rebind<uint32_t, D>> bits_of_bf16(
        D, hn::VFromD<D> v) {
    const hn::Rebind<uint32_t, D> du;
    const auto bits = hn::BitCast(du, v);
    const auto high = hn::ShiftRight<16>(bits);
    const auto odd = hn::And(high, hn::Set(du, 1));
    const auto rounded = hn::ShiftRight<16>(
            hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7FFF))));
    const auto quiet = hn::Or(high, hn::Set(du, 0x40));
    // By integers: whether Ne is true of a NaN differs between targets.
    const hn::Rebind<int32_t, D> di;
    const auto magnitude
            = hn::BitCast(di, hn::And(bits, hn::Set(du, 0x7FFFFFFF)));
    const auto nan = hn::Gt(magnitude, hn::Set(di, 0x7F800000));
    return hn::IfThenElse(hn::RebindMask(du, nan), quiet, rounded);
}

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON
constexpr bool has_f16_conversion = true;
#else
constexpr bool has_f16_conversion = false;
#endif

// The same steps as to_f32(f16) and to_f16.
template <class D>
HWY_INLINE hn::VFromD<D> from_f16(D d, hn::VFromD<hn::Rebind<uint32_t, D>> v) {
    const hn::Rebind<uint32_t, D> du;
    const auto sign = hn::ShiftLeft<16>(hn::And(v, hn::Set(du, 0x8000)));
    const auto magnitude = hn::And(v, hn::Set(du, 0x7FFF));
    const auto shifted = hn::ShiftLeft<13>(magnitude);
    const hn::Rebind<int32_t, D> di;
    const auto ordered = hn::BitCast(di, magnitude);
    const auto above = [&](int32_t limit) HWY_ATTR {
        return hn::RebindMask(du, hn::Gt(ordered, hn::Set(di, limit)));
    };
    auto result = hn::BitCast(
            du, hn::Mul(hn::ConvertTo(d, ordered), hn::Set(d, 0x1p-24F)));
    result = hn::IfThenElse(
            above(0x3FF), hn::Add(shifted, hn::Set(du, 112U << 23)), result);
    const auto special = hn::Or(hn::Or(shifted, hn::Set(du, 0x7F800000)),
            hn::IfThenElseZero(above(0x7C00), hn::Set(du, 0x400000)));
    result = hn::IfThenElse(above(0x7BFF), special, result);
    return hn::BitCast(d, hn::Or(sign, result));
}

template <class D>
HWY_INLINE hn::VFromD<hn::Rebind<uint32_t, D>> bits_of_f16(
        D d, hn::VFromD<D> v) {
    const hn::Rebind<uint32_t, D> du;
    const hn::Rebind<int32_t, D> di;
    const auto bits = hn::BitCast(du, v);
    const auto sign = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 0x8000));
    const auto magnitude = hn::And(bits, hn::Set(du, 0x7FFFFFFF));
    const auto ordered = hn::BitCast(di, magnitude);
    const auto above = [&](int32_t limit) HWY_ATTR {
        return hn::RebindMask(du, hn::Gt(ordered, hn::Set(di, limit)));
    };
    const auto half = hn::Set(d, 0.5F);
    auto result = hn::Sub(
            hn::BitCast(du, hn::Add(hn::Abs(v), half)), hn::BitCast(du, half));
    const auto odd = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(du, 1));
    const auto normal = hn::ShiftRight<13>(hn::Add(
            odd, hn::Add(magnitude, hn::Set(du, 0xFFFU - 0x38000000U))));
    result = hn::IfThenElse(above(0x387FFFFF), normal, result);
    result = hn::IfThenElse(above(0x477FFFFF), hn::Set(du, 0x7C00), result);
    const auto nan = hn::Or(hn::Set(du, 0x7E00),
            hn::And(hn::ShiftRight<13>(magnitude), hn::Set(du, 0x1FF)));
    result = hn::IfThenElse(above(0x7F800000), nan, result);
    return hn::Or(sign, result);
}

} // namespace gradnn::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
