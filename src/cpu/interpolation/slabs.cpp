// The kernel of slabs.hpp.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/interpolation/slabs.cpp"
#include "cpu/simd/simd_target.hpp"

#include <hwy/foreach_target.h>

#include "cpu/interpolation/separable.hpp"
#include "cpu/interpolation/slabs.hpp"

HWY_BEFORE_NAMESPACE();
namespace gradnn::cpu::HWY_NAMESPACE {

template <typename T>
void run_slab_share(const separable_job &job, const void *diff_dst,
        void *diff_src, std::byte *scratch, int64_t share) {
    slab_worker<T>(job, static_cast<const T *>(diff_dst),
            static_cast<T *>(diff_src), scratch)
            .run(share);
}

separable_share slab_share_of(detail::data_type type) {
    separable_share share = nullptr;
    with_type(type, [&](auto t) { share = run_slab_share<decltype(t)>; });
    return share;
}

} // namespace gradnn::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gradnn::cpu {

HWY_EXPORT(slab_share_of);

separable_share find_slab_share(detail::data_type type) {
    return HWY_DYNAMIC_DISPATCH(slab_share_of)(type);
}

} // namespace gradnn::cpu
#endif
