// Each thread has a dozen sums in registers, each of which takes one fused
// multiplication and addition a round, so that no unit waits for a result: CPUs
// have two units of four to five cycles. (Without such an instruction, on the
// baseline of x86, a multiplication and an addition.) Nothing is read from
// memory.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "driver/fma_loop.cpp"
#include "cpu/simd/simd_target.hpp"

#include <hwy/foreach_target.h>

#include <atomic>

#include <hwy/highway.h>

#include "base/parallel.hpp"
#include "driver/fma_loop.hpp"

HWY_BEFORE_NAMESPACE();
namespace gradnn::driver::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

constexpr int sums_of_a_thread = 12;

/// The sums tend to 2. Returns what depends on all of them.
template <typename T>
double fma_thread(int64_t rounds) {
    const hn::ScalableTag<T> d;
    const auto half = hn::Set(d, T {0.5});
    const auto one = hn::Set(d, T {1});
    auto s0 = hn::Set(d, static_cast<T>(rounds % 7));
    auto s1 = hn::Add(s0, one), s2 = hn::Add(s1, one), s3 = hn::Add(s2, one);
    auto s4 = hn::Add(s3, one), s5 = hn::Add(s4, one), s6 = hn::Add(s5, one);
    auto s7 = hn::Add(s6, one), s8 = hn::Add(s7, one), s9 = hn::Add(s8, one);
    auto s10 = hn::Add(s9, one), s11 = hn::Add(s10, one);
    for (int64_t round = 0; round < rounds; ++round) {
        s0 = hn::MulAdd(s0, half, one);
        s1 = hn::MulAdd(s1, half, one);
        s2 = hn::MulAdd(s2, half, one);
        s3 = hn::MulAdd(s3, half, one);
        s4 = hn::MulAdd(s4, half, one);
        s5 = hn::MulAdd(s5, half, one);
        s6 = hn::MulAdd(s6, half, one);
        s7 = hn::MulAdd(s7, half, one);
        s8 = hn::MulAdd(s8, half, one);
        s9 = hn::MulAdd(s9, half, one);
        s10 = hn::MulAdd(s10, half, one);
        s11 = hn::MulAdd(s11, half, one);
    }
    const auto sum = hn::Add(hn::Add(hn::Add(s0, s1), hn::Add(s2, s3)),
            hn::Add(hn::Add(hn::Add(s4, s5), hn::Add(s6, s7)),
                    hn::Add(hn::Add(s8, s9), hn::Add(s10, s11))));
    return static_cast<double>(hn::GetLane(hn::SumOfLanes(d, sum)));
}

double fma_f32(int64_t rounds) {
    return fma_thread<float>(rounds);
}

double fma_f64(int64_t rounds) {
    return fma_thread<double>(rounds);
}

/// Multiplications and additions of a round of a thread.
int64_t flops_f32() {
    return 2 * sums_of_a_thread
            * static_cast<int64_t>(hn::Lanes(hn::ScalableTag<float>()));
}

int64_t flops_f64() {
    return 2 * sums_of_a_thread
            * static_cast<int64_t>(hn::Lanes(hn::ScalableTag<double>()));
}

const char *fma_target() {
    return hwy::TargetName(HWY_TARGET);
}

} // namespace gradnn::driver::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gradnn::driver {

HWY_EXPORT(fma_f32);
HWY_EXPORT(fma_f64);
HWY_EXPORT(flops_f32);
HWY_EXPORT(flops_f64);
HWY_EXPORT(fma_target);

namespace {

/// Keeps the sums from being optimised away.
std::atomic<double> sink {0};

} // namespace

double run_fma_loop(logical_tensor::data_type type, int64_t rounds) {
    const bool wide = type == logical_tensor::data_type::f64;
    const int64_t threads = detail::max_threads();
    detail::parallel_for(threads, 1, [&](int64_t first, int64_t last) {
        for (int64_t share = first; share < last; ++share)
            sink.store(wide ? HWY_DYNAMIC_DISPATCH(fma_f64)(rounds)
                            : HWY_DYNAMIC_DISPATCH(fma_f32)(rounds),
                    std::memory_order_relaxed);
    });
    const int64_t flops = wide ? HWY_DYNAMIC_DISPATCH(flops_f64)()
                               : HWY_DYNAMIC_DISPATCH(flops_f32)();
    return static_cast<double>(flops) * static_cast<double>(rounds)
            * static_cast<double>(threads);
}

std::string fma_loop_target() {
    return HWY_DYNAMIC_DISPATCH(fma_target)();
}

} // namespace gradnn::driver
#endif
