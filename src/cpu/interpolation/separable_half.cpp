// The kernel of separable_worker.hpp for bf16 and f16.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/interpolation/separable_half.cpp"
#include "cpu/simd/simd_target.hpp"

#include <hwy/foreach_target.h>

#include "cpu/interpolation/separable.hpp"
#include "cpu/interpolation/separable_worker.hpp"

HWY_BEFORE_NAMESPACE();
namespace gradnn::cpu::HWY_NAMESPACE {

separable_share half_share_of(detail::data_type type) {
    separable_share share = nullptr;
    with_type(type, [&](auto t) {
        if constexpr (sizeof(t) == 2) share = run_share<decltype(t)>;
    });
    return share;
}

} // namespace gradnn::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gradnn::cpu {

HWY_EXPORT(half_share_of);

separable_share find_half_share(detail::data_type type) {
    return HWY_DYNAMIC_DISPATCH(half_share_of)(type);
}

} // namespace gradnn::cpu
#endif
