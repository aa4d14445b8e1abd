#include "gpu/convolution/depthwise/plan.hpp"
#include "gpu/convolution/depthwise/diagonals/cut.hpp"
#include "gpu/runtime/device.hpp"

namespace gradnn::gpu::depthwise::diagonals {

namespace {

bool cut(work_cut &diagonals, const problem_facts &facts, bool) {
    const problem_shape &shape = facts.shape;
    if (!facts.channels_last || !facts.tensor_cores_suit()
            || !facts.both_divide(group_channels, 1) || !takes(shape))
        return false;
    const int64_t most_bytes = facts.block_shared_bytes;
    const auto cut_one = [&](auto &one) {
        return cut_work(one, shape, facts.multiprocessors, most_bytes);
    };
    if (!(facts.of_weights() ? cut_one(diagonals.weights)
                             : cut_one(diagonals.data)))
        return false;
    const device_guard current(facts.device);
    const capture_mode_guard relaxed; // attributes load the kernel
    (facts.of_weights() ? prepare_weights : prepare_data)(
            facts.problem.src.type, shape, static_cast<size_t>(most_bytes));
    return true;
}

constexpr family<work_cut> kernels {.takes
        = "bf16 and f16 in NXC, weights alike, channels in vectors of 16 "
          "bytes, windows of 5x5 and 7x7 on planes with strides and "
          "dilations of 1 and pads smaller than the window, rows that "
          "fit in shared memory",
        .cut = cut,
        .cuts_by_alignment = false,
        .launch_data = launch_data,
        .launch_weights = launch_weights};

} // namespace

plan_or_refusal make(
        const convolution_problem &problem, const compile_options &options) {
    return make_plan(kernels, problem, options);
}

} // namespace gradnn::gpu::depthwise::diagonals
