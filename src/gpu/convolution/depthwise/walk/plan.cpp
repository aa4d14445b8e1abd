#include "gpu/convolution/depthwise/plan.hpp"
#include "gpu/convolution/depthwise/walk/cut.hpp"

namespace gradnn::gpu::depthwise::walk {

namespace {

bool cut(work_cut &walk, const problem_facts &facts, bool vectors) {
    if (!takes(facts)) return false;
    int widest = 1;
    walk.channels_last = facts.channels_last;
    walk.sum_bytes = static_cast<int>(facts.sum_bytes());
    if (facts.channels_last) {
        const int most
                = widest_vector(facts.shape.axes[2].kernel, walk.sum_bytes);
        if (facts.both_divide(most, 1)) widest = most;
    } else {
        walk.dense = vectors && rows_are_vectors(facts);
    }
    walk.vector = vectors ? widest : 1;
    return facts.of_weights()
            ? cut_weights(walk, facts.shape, widest, facts.multiprocessors,
                    longest_f32_chain)
            : cut_data(walk, facts.shape, facts.multiprocessors);
}

constexpr family<work_cut> kernels {.takes
        = "windows of 3x3, 5x5 and 7x7 with dilations of 1: f64 in NXC "
          "alone, NXC with strides of 1 or (gradient of src) 2, NCX "
          "with strides of 1 and, of data, rows that are whole vectors "
          "of 16 bytes",
        .cut = cut,
        .cuts_by_alignment = true,
        .launch_data = launch_data,
        .launch_weights = launch_weights};

} // namespace

bool rows_are_vectors(const problem_facts &facts) {
    const auto contiguous = [](const detail::tensor_view &tensor) {
        return tensor.dims[4] == 1 || tensor.strides[4] == 1;
    };
    return facts.shape.base == -(facts.shape.taps / 2)
            && contiguous(facts.problem.src) && contiguous(facts.problem.dst)
            && facts.both_divide(16 / facts.element_bytes(), 4);
}

bool takes(const problem_facts &facts) {
    const bool strided = facts.shape.axes[1].stride > 1;
    return (facts.sum_bytes() == 4 || facts.channels_last) && takes(facts.shape)
            && (facts.channels_last
                    || (!strided
                            && (facts.of_weights()
                                    || rows_are_vectors(facts))));
}

plan_or_refusal make(
        const convolution_problem &problem, const compile_options &options) {
    return make_plan(kernels, problem, options);
}

} // namespace gradnn::gpu::depthwise::walk
