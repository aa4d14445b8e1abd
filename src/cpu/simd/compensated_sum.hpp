// Sums that keep what their additions round off.
//
// Included once for each of Highway's targets, like simd.hpp.
#include "cpu/simd/simd.hpp"

#if defined(GRADNN_CPU_COMPENSATED_SUM_TOGGLE) == defined(HWY_TARGET_TOGGLE)
#ifdef GRADNN_CPU_COMPENSATED_SUM_TOGGLE
#undef GRADNN_CPU_COMPENSATED_SUM_TOGGLE
#else
#define GRADNN_CPU_COMPENSATED_SUM_TOGGLE
#endif

HWY_BEFORE_NAMESPACE();
namespace gradnn::cpu::HWY_NAMESPACE {

/// sum += addend, and low += what that rounds off: sum + low is as exact as if
/// sums had twice the digits, however many are added.
template <class D>
HWY_INLINE void add_compensated([[maybe_unused]] D d, hn::VFromD<D> &sum,
        hn::VFromD<D> &low, hn::VFromD<D> addend) {
    const auto total = hn::Add(sum, addend);
    const auto taken = hn::Sub(total, sum);
    const auto rest = hn::Add(
            hn::Sub(sum, hn::Sub(total, taken)), hn::Sub(addend, taken));
    // An infinity has no rest.
    low = hn::Add(low, hn::IfThenElseZero(hn::IsFinite(total), rest));
    sum = total;
}

/// The same of `count` elements that lie one after the other.
template <typename T>
void add_compensated(const T *addends, int64_t count, T *sums, T *lows) {
    const hn::ScalableTag<T> d;
    constexpr auto lanes = static_cast<int64_t>(lanes_of<T>);
    int64_t i = 0;
    for (; i + lanes <= count; i += lanes) {
        auto sum = hn::LoadU(d, sums + i);
        auto low = hn::LoadU(d, lows + i);
        add_compensated(d, sum, low, hn::LoadU(d, addends + i));
        hn::StoreU(sum, d, sums + i);
        hn::StoreU(low, d, lows + i);
    }
    const hn::CappedTag<T, 1> one;
    for (; i < count; ++i) {
        auto sum = hn::LoadU(one, sums + i);
        auto low = hn::LoadU(one, lows + i);
        add_compensated(one, sum, low, hn::LoadU(one, addends + i));
        hn::StoreU(sum, one, sums + i);
        hn::StoreU(low, one, lows + i);
    }
}

} // namespace gradnn::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
