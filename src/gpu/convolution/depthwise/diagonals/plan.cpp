#include <memory>
#include <string>
#include <utility>

#include "gpu/convolution/depthwise/diagonals/cut.hpp"
#include "gpu/convolution/depthwise/plan.hpp"
#include "gpu/runtime/device.hpp"

namespace gradnn::gpu::depthwise::diagonals {

namespace {

constexpr const char *what_it_takes
        = "bf16 and f16 in NXC, weights alike, channels in vectors of 16 "
          "bytes, windows of 5x5 and 7x7 on planes with strides and dilations "
          "of 1 and pads smaller than the window, rows that fit in shared "
          "memory";

class plan final : public family_plan {
public:
    plan(problem_facts facts, const data_cut &data, const weights_cut &weights)
        : family_plan(std::move(facts)), data_(data), weights_(weights) {}

private:
    int64_t parts(bool) const override { return weights_.parts; }
    void launch_data(const tensor_pointers &pointers,
            const tensor_alignment &alignment,
            const launch_stream &stream) const override {
        diagonals::launch_data(
                type(), shape(), data_, alignment.vectors, pointers, stream);
    }
    void launch_weights(const tensor_pointers &pointers,
            const tensor_alignment &alignment,
            const launch_stream &stream) const override {
        diagonals::launch_weights(
                type(), shape(), weights_, alignment.vectors, pointers, stream);
    }

    // One of the two has been cut.
    const data_cut data_;
    const weights_cut weights_;
};

} // namespace

plan_or_refusal make(
        const convolution_problem &problem, const compile_options &options) {
    std::string refusal;
    auto facts = facts_of(problem, options, refusal);
    if (!facts) return plan_or_refusal::refuse(refusal);
    data_cut data;
    weights_cut weights;
    const bool suits = facts->channels_last && facts->tensor_cores_suit()
            && facts->both_divide(group_channels, 1) && takes(facts->shape);
    if (!suits
            || !(facts->of_weights() ? cut_work(weights, facts->shape,
                         facts->multiprocessors, facts->block_shared_bytes)
                                     : cut_work(data, facts->shape,
                                             facts->multiprocessors,
                                             facts->block_shared_bytes)))
        return refuse(what_it_takes, *facts);
    const device_guard current(facts->device);
    const capture_mode_guard relaxed; // attributes load the kernel
    const auto most = static_cast<size_t>(facts->block_shared_bytes);
    if (facts->of_weights())
        prepare_weights(problem.src.type, facts->shape, most);
    else
        prepare_data(problem.src.type, facts->shape, most);
    return plan_within_limit(
            std::make_unique<plan>(std::move(*facts), data, weights), options);
}

} // namespace gradnn::gpu::depthwise::diagonals
