#include "gpu/convolution/depthwise/plan.hpp"

#include <algorithm>
#include <array>

#include "gpu/convolution/facts.hpp"
#include "gpu/convolution/makers.hpp"
#include "gpu/convolution/operands.hpp"
#include "gpu/convolution/weights_sum.hpp"
#include "kernel/problem_text.hpp"

namespace gradnn::gpu::depthwise {

namespace {

problem_shape shape_of(const convolution_problem &problem) {
    problem_shape shape;
    shape.to_src = is_to_src(problem);
    const detail::tensor_view &read = shape.to_src ? problem.dst : problem.src;
    const detail::tensor_view &written
            = shape.to_src ? problem.src : problem.dst;
    shape.images = read.dims[0];
    shape.channels = read.dims[1];
    std::ranges::copy(read.strides, shape.read_strides);
    std::ranges::copy(written.strides, shape.written_strides);
    shape.weights_strides[0] = problem.weights.strides[0];
    for (size_t i = 0; i < 3; ++i) {
        shape.weights_strides[i + 1] = problem.weights.strides[i + 3];
        window_axis &axis = shape.axes[i];
        axis.read = static_cast<int>(read.dims[i + 2]);
        axis.written = static_cast<int>(written.dims[i + 2]);
        axis.kernel = static_cast<int>(problem.weights.dims[i + 3]);
        axis.stride = static_cast<int>(problem.strides[i]);
        axis.dilation = static_cast<int>(problem.dilations[i]);
        axis.pad = static_cast<int>(problem.pads_begin[i]);
    }
    return shape;
}

/// What is launched where src and dst are aligned in one way; `most_parts` becomes the
/// partial sums of a weight if it is less.
template <typename Cut>
launcher launcher_of(const problem_facts &facts, const Cut &work, bool pairs,
        int64_t &most_parts) {
    if (!facts.of_weights()) return data_launcher(facts, work, pairs);
    int64_t parts = 0;
    if constexpr (requires { work.parts(); })
        parts = work.parts();
    else
        parts = work.parts;
    most_parts = std::max(most_parts, parts);
    return [first = weights_launcher(facts, work, pairs),
                   add
                   = weights_sum_launcher("convolution.gpu_depthwise (parts)",
                           facts.problem, parts, true)](
                   const tensor_pointers &at, const launch_stream &stream) {
        first(at, stream);
        add(at, stream);
    };
}

} // namespace

int positions_after(const window_axis &axis, bool to_src) {
    return axis.written - axis.read + axis.kernel - 1
            - taps_before(axis, to_src);
}

bool pads_are_short(const window_axis &axis, bool to_src) {
    const int before = taps_before(axis, to_src);
    return before >= 0 && before < axis.kernel
            && positions_after(axis, to_src) < axis.kernel;
}

bool rows_are_wide(const problem_shape &shape, int pads) {
    const window_axis &along = shape.axes[2];
    return along.read % 2 == 0 && along.written % 2 == 0
            && (along.pad - usual_pad(along.kernel)) % pads == 0;
}

std::optional<problem_facts> facts_of(
        const convolution_problem &problem, int64_t multiprocessors) {
    constexpr int64_t most = int64_t {1} << 28;
    const auto &[direction, src, weights, dst, strides, dilations, pads]
            = problem;
    const bool channels_last
            = src.dims[1] > 1 && src.strides[1] == 1 && dst.strides[1] == 1;
    // Tensor cores truncate when they add: they are not used for f32 weights.
    if (detail::size_of(src.type) != 2 || weights.type != src.type
            || weights.dims[1] != 1 || weights.dims[2] != 1 || channels_last
            || axes_exceed(problem, most) || src.dims[0] > most
            || src.dims[1] > most >> 4)
        return std::nullopt;
    // Offsets within a plane are 32-bit.
    if (std::max(src.dims[3], dst.dims[3]) * std::max(src.dims[4], dst.dims[4])
                    > INT32_MAX
            || !are_dense(src, {4, 3, 1, 0}) || !are_dense(dst, {4, 3, 1, 0}))
        return std::nullopt;
    return problem_facts {problem, shape_of(problem), multiprocessors};
}

template <typename Cut>
plan_or_refusal make(
        const convolution_problem &problem, const compile_options &options) {
    const auto facts = facts_of(problem,
            properties_of(static_cast<int>(options.device)).multiprocessors);
    std::array<Cut, 2> work; // by whether tensors are at multiples of 16 bytes
    if (!facts || !cut(work[0], *facts, false) || !cut(work[1], *facts, true))
        return detail::refuse(Cut::takes, problem);
    int64_t parts = 0;
    // By tensors at multiples of one element, of two, of 16 bytes.
    const std::array by_alignment {launcher_of(*facts, work[0], false, parts),
            launcher_of(*facts, work[0], true, parts),
            launcher_of(*facts, work[1], true, parts)};
    const auto launch = [=](const tensor_pointers &at,
                                const launch_stream &stream) {
        const auto both_at = [&](size_t bytes) {
            return is_aligned(at.src, bytes) && is_aligned(at.dst, bytes);
        };
        by_alignment[both_at(16) ? 2 : both_at(4) ? 1 : 0](at, stream);
    };
    return within_workspace_limit(
            plan_of(launch, partial_weights_bytes(problem, parts)), options,
            "its sums");
}
template convolution_maker make<lines::work_cut>;
template convolution_maker make<matrices::work_cut>;

} // namespace gradnn::gpu::depthwise
