// InterpolateBackward, NXC, columns enlarged 2 or 4 times: which problems the
// strips kernel (kernel.cuh) is faster for than gpu_intervals and
// gpu_nxc, by measurements on an H200 of the cases of bench/cases.json.
#include <utility>

#include "gpu/interpolation/strips/plan.cuh"
#include "problem_text.hpp"

namespace gradnn::gpu::interpolation::strips {

namespace {

/// Threads of few channels read from few banks of shared memory, unless they
/// have all three of them.
bool is_faster(int64_t ratio, int64_t channels, int64_t element) {
    if (ratio == 2) return channels >= 16 || channels == 3;
    return channels == 3 && element == 2;
}

} // namespace

plan_or_refusal make(
        const interpolation_problem &problem, const compile_options &options) {
    const auto [maps, walk, refusal] = walked_problem(problem, true);
    if (!refusal.empty()) return plan_or_refusal::refuse(refusal);
    if (problem.diff_src.type == detail::data_type::f64)
        return plan_or_refusal::refuse("takes f32, bf16 and f16, given f64");
    const int64_t channels = problem.diff_dst.dims[1];
    for (const detail::tensor_view *view :
            {&problem.diff_dst, &problem.diff_src})
        if (view->dims[4] != 1 && view->strides[4] != channels)
            return detail::refuse("rows of pixels without gaps", problem);
    if (walk.volume)
        return detail::refuse("a depth that is not resampled", problem);
    for (const int64_t ratio : {2, 4}) {
        if (!is_faster(ratio, channels, detail::size_of(problem.diff_src.type)))
            continue;
        const auto weights = weigh_taps(maps[2], ratio);
        if (!weights) continue;
        auto made = std::make_unique<strips_plan>(problem, maps, walk, ratio,
                *weights, static_cast<int>(options.device));
        if (made->fits() && (channels != 3 || made->has_chunks()))
            return plan_or_refusal(std::move(made));
    }
    return detail::refuse(
            "columns enlarged 2 times with inner taps alike, of 3 channels or "
            "of "
            "16 and more that fit shared memory, or in 16 bits 4 times, of 3 "
            "channels; of 3 channels rows at multiples of 16 bytes",
            problem);
}

} // namespace gradnn::gpu::interpolation::strips
