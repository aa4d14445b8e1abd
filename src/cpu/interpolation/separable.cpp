// The kernel of separable_worker.hpp for f32 and f64, and which function serves a
// job. Half-precision types and slabs of planes are compiled in files of their own:
// in one they would be by far the longest compilation of the build.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/interpolation/separable.cpp"
#include "cpu/simd/simd_target.hpp"

#include <hwy/foreach_target.h>

#include "cpu/interpolation/separable.hpp"
#include "cpu/interpolation/separable_worker.hpp"

HWY_BEFORE_NAMESPACE();
namespace gradnn::cpu::HWY_NAMESPACE {

separable_share wide_share_of(detail::data_type type) {
    return type == detail::data_type::f64 ? run_share<double>
                                          : run_share<float>;
}

int64_t lanes_of_type(detail::data_type type) {
    return static_cast<int64_t>(type == detail::data_type::f64
                    ? lanes_of<double>
                    : lanes_of<float>);
}

} // namespace gradnn::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gradnn::cpu {

HWY_EXPORT(wide_share_of);
HWY_EXPORT(lanes_of_type);

int64_t separable_lanes(detail::data_type type) {
    return HWY_DYNAMIC_DISPATCH(lanes_of_type)(type);
}

separable_share find_separable_share(detail::data_type type, tap_lanes lanes) {
    if (lanes == tap_lanes::slabs) return find_slab_share(type);
    if (lanes == tap_lanes::pieces) return find_piece_share(type);
    if (detail::size_of(type) == 2) return find_half_share(type);
    return HWY_DYNAMIC_DISPATCH(wide_share_of)(type);
}

} // namespace gradnn::cpu
#endif
