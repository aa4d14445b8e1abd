#include <memory>
#include <string>
#include <utility>

#include "gpu/convolution/depthwise/plan.hpp"
#include "gpu/convolution/depthwise/walk/cut.hpp"

namespace gradnn::gpu {

namespace {

constexpr const char *takes
        = "windows of 3x3, 5x5 and 7x7 with dilations of 1: f64 in NXC alone, "
          "NXC with strides of 1 or (gradient of src) 2, NCX with strides of 1 "
          "and, of data, rows that are whole vectors of 16 bytes";

/// With tensors at multiples of 16 bytes, and without.
struct walk_cuts {
    depthwise_walk aligned, unaligned;

    const depthwise_walk &of(bool vectors) const {
        return vectors ? aligned : unaligned;
    }
};

class walk_plan final : public depthwise_plan {
public:
    walk_plan(depthwise_facts facts, const walk_cuts &cuts)
        : depthwise_plan(std::move(facts)), cuts_(cuts) {}

private:
    int64_t parts(bool vectors) const override {
        return cuts_.of(vectors).parts;
    }
    void launch_data(const depthwise_pointers &pointers,
            const depthwise_alignment &alignment,
            const launch_stream &stream) const override {
        launch_depthwise_walk_data(
                type(), shape(), cuts_.of(alignment.vectors), pointers, stream);
    }
    void launch_weights(const depthwise_pointers &pointers,
            const depthwise_alignment &alignment,
            const launch_stream &stream) const override {
        launch_depthwise_walk_weights(
                type(), shape(), cuts_.of(alignment.vectors), pointers, stream);
    }

    const walk_cuts cuts_;
};

bool cut(depthwise_walk &walk, const depthwise_facts &facts, bool vectors) {
    int widest = 1;
    walk.channels_last = facts.channels_last;
    walk.sum_bytes = static_cast<int>(facts.sum_bytes());
    if (facts.channels_last) {
        const int most = depthwise_walk_vector(
                facts.shape.axes[2].kernel, walk.sum_bytes);
        if (facts.both_divide(most, 1)) widest = most;
    } else {
        walk.dense = vectors && walk_rows_are_vectors(facts);
    }
    walk.vector = vectors ? widest : 1;
    return facts.of_weights()
            ? cut_walk_units(walk, facts.shape, widest, facts.multiprocessors,
                    depthwise_longest_chain)
            : cut_walk(walk, facts.shape, facts.multiprocessors);
}

} // namespace

bool walk_rows_are_vectors(const depthwise_facts &facts) {
    const auto contiguous = [](const detail::tensor_view &tensor) {
        return tensor.dims[4] == 1 || tensor.strides[4] == 1;
    };
    return facts.shape.base == -(facts.shape.taps / 2)
            && contiguous(facts.problem.src) && contiguous(facts.problem.dst)
            && facts.both_divide(16 / facts.element_bytes(), 4);
}

bool walk_takes(const depthwise_facts &facts) {
    const bool strided = facts.shape.axes[1].stride > 1;
    return (facts.sum_bytes() == 4 || facts.channels_last)
            && walk_takes(facts.shape)
            && (facts.channels_last
                    || (!strided
                            && (facts.of_weights()
                                    || walk_rows_are_vectors(facts))));
}

namespace {} // namespace

plan_or_refusal make_depthwise_walk(
        const convolution_problem &problem, const compile_options &options) {
    std::string refusal;
    auto facts = depthwise_facts_of(problem, options, refusal);
    if (!facts) return plan_or_refusal::refuse(refusal);
    walk_cuts cuts;
    if (!walk_takes(*facts) || !cut(cuts.aligned, *facts, true)
            || !cut(cuts.unaligned, *facts, false))
        return refuse_depthwise(takes, *facts);
    return depthwise_plan_or_refusal(
            std::make_unique<walk_plan>(std::move(*facts), cuts), options);
}

} // namespace gradnn::gpu
