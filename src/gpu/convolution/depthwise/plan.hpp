// The host half of both depthwise families: which problems they take, their plan, and
// launches, which a plan chooses once.
#pragma once

#include <cstdint>
#include <optional>
#include <type_traits>

#include "gpu/convolution/depthwise/lines/cut.hpp"
#include "gpu/convolution/depthwise/matrices/cut.hpp"
#include "gpu/convolution/launcher.hpp"
#include "gpu/device/rounding.hpp"
#include "gpu/runtime/launch.hpp"
#include "kernel/kernel.hpp"
#include "kernel/problem.hpp"

namespace gradnn::gpu::depthwise {

/// Positions after the last of read that the last written one meets.
int positions_after(const window_axis &, bool to_src);
/// Whether on either side fewer positions outside are met than there are taps.
bool pads_are_short(const window_axis &, bool to_src);
/// Whether threads may load and store two columns at a time, of tensors that begin at
/// multiples of two elements, where the padding along W is to differ from usual_pad by
/// a multiple of `pads`.
bool rows_are_wide(const problem_shape &, int pads = 1);

/// A problem of groups of one channel in 16-bit NCX without gaps.
struct problem_facts {
    detail::convolution_problem problem;
    problem_shape shape;
    int64_t multiprocessors = 1;

    bool of_weights() const {
        return problem.direction
                == detail::convolution_direction::backward_weights;
    }
};

/// Nothing for what no family takes.
std::optional<problem_facts> facts_of(
        const detail::convolution_problem &, int64_t multiprocessors);

/// A family's plan, or a refusal, which says what it takes (Cut::takes).
template <typename Cut>
detail::plan_or_refusal make(
        const detail::convolution_problem &, const detail::compile_options &);

// What each family has. cut is false for a problem that it does not take; `vectors` are
// tensors at multiples of 16 bytes, `pairs` of two elements. The weights' launch leaves
// partial sums in the workspace (weights_sum.hpp).
namespace lines {
bool cut(work_cut &, const problem_facts &, bool vectors);
launcher data_launcher(const problem_facts &, const work_cut &, bool pairs);
launcher weights_launcher(const problem_facts &, const work_cut &, bool pairs);
} // namespace lines
namespace matrices {
/// False also where neither planes nor bands of at least 16 rows fit in shared
/// memory, or where there would be too many blocks.
bool cut(work_cut &, const problem_facts &, bool vectors);
launcher data_launcher(const problem_facts &, const work_cut &, bool pairs);
launcher weights_launcher(const problem_facts &, const work_cut &, bool pairs);
} // namespace matrices

/// The launch of a kernel of data, or of the weights' partial sums, which is given the
/// tensors, the shape and what else it takes.
template <typename Type, typename Written, typename... Others>
launcher launch_of(const problem_facts &facts, const char *name,
        void (*kernel)(const Type *, const Type *, Written *, problem_shape,
                Others...),
        int64_t blocks, int threads, size_t shared_bytes,
        const std::type_identity_t<Others> &...others) {
    return [=, shape = facts.shape](
                   const tensor_pointers &at, const launch_stream &stream) {
        constexpr bool sums = std::is_same_v<Written, float>;
        launch_early(name, kernel, blocks, threads, shared_bytes, stream,
                sums ? at.src : at.read(shape.to_src),
                sums ? at.dst : at.weights,
                sums ? at.workspace : at.written(shape.to_src), shape,
                others...);
    };
}

} // namespace gradnn::gpu::depthwise
