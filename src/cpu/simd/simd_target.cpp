#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/simd/simd_target.cpp"
#include "cpu/simd/simd_target.hpp"

#include <hwy/foreach_target.h>

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace gradnn::cpu::HWY_NAMESPACE {

const char *target_name() {
    return hwy::TargetName(HWY_TARGET);
}

} // namespace gradnn::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gradnn::cpu {

HWY_EXPORT(target_name);

std::string simd_target() {
    return HWY_DYNAMIC_DISPATCH(target_name)();
}

std::vector<std::string> simd_targets() {
    std::vector<std::string> names;
    // The baseline is always there, also where a library of Highway that was
    // compiled with other options leaves it out of its mask.
    const int64_t supported = hwy::SupportedTargets() | HWY_STATIC_TARGET;
    for (int64_t rest = supported & HWY_TARGETS; rest != 0; rest &= rest - 1)
        names.emplace_back(hwy::TargetName(rest & -rest));
    return names;
}

bool set_simd_target(const std::string &name) {
    hwy::SetSupportedTargetsForTest(0);
    int64_t mask = 0;
    if (!name.empty()) {
        const int64_t supported = hwy::SupportedTargets() | HWY_STATIC_TARGET;
        for (int64_t rest = supported & HWY_TARGETS; rest != 0;
                rest &= rest - 1)
            if (name == hwy::TargetName(rest & -rest)) mask = rest & -rest;
        if (mask == 0) return false;
    }
    hwy::SetSupportedTargetsForTest(mask);
    return true;
}

} // namespace gradnn::cpu
#endif
