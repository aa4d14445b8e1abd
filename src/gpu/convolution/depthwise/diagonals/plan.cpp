#include <memory>
#include <string>
#include <utility>

#include "gpu/convolution/depthwise/diagonals/cut.hpp"
#include "gpu/convolution/depthwise/plan.hpp"
#include "gpu/runtime/device.hpp"

namespace gradnn::gpu {

namespace {

constexpr const char *takes
        = "bf16 and f16 in NXC, weights alike, channels in vectors of 16 "
          "bytes, windows of 5x5 and 7x7 on planes with strides and dilations "
          "of 1 and pads smaller than the window, rows that fit in shared "
          "memory";

class diagonals_plan final : public depthwise_plan {
public:
    diagonals_plan(depthwise_facts facts, const depthwise_diagonals_data &data,
            const depthwise_diagonals_weights &weights)
        : depthwise_plan(std::move(facts)), data_(data), weights_(weights) {}

private:
    int64_t parts(bool) const override { return weights_.parts; }
    void launch_data(const depthwise_pointers &pointers,
            const depthwise_alignment &alignment,
            const launch_stream &stream) const override {
        launch_depthwise_diagonals_data(
                type(), shape(), data_, alignment.vectors, pointers, stream);
    }
    void launch_weights(const depthwise_pointers &pointers,
            const depthwise_alignment &alignment,
            const launch_stream &stream) const override {
        launch_depthwise_diagonals_weights(
                type(), shape(), weights_, alignment.vectors, pointers, stream);
    }

    // One of the two has been cut.
    const depthwise_diagonals_data data_;
    const depthwise_diagonals_weights weights_;
};

} // namespace

plan_or_refusal make_depthwise_diagonals(
        const convolution_problem &problem, const compile_options &options) {
    std::string refusal;
    auto facts = depthwise_facts_of(problem, options, refusal);
    if (!facts) return plan_or_refusal::refuse(refusal);
    depthwise_diagonals_data data;
    depthwise_diagonals_weights weights;
    const bool suits = facts->channels_last && facts->tensor_cores_suit()
            && facts->both_divide(diagonals_channels, 1)
            && diagonals_take(facts->shape);
    if (!suits
            || !(facts->of_weights() ? cut_diagonals(weights, facts->shape,
                         facts->multiprocessors, facts->block_shared_bytes)
                                     : cut_diagonals(data, facts->shape,
                                             facts->multiprocessors,
                                             facts->block_shared_bytes)))
        return refuse_depthwise(takes, *facts);
    const device_guard current(facts->device);
    const capture_mode_guard relaxed; // attributes load the kernel
    const auto most = static_cast<size_t>(facts->block_shared_bytes);
    if (facts->of_weights())
        prepare_depthwise_diagonals_weights(
                problem.src.type, facts->shape, most);
    else
        prepare_depthwise_diagonals_data(problem.src.type, facts->shape, most);
    return depthwise_plan_or_refusal(
            std::make_unique<diagonals_plan>(std::move(*facts), data, weights),
            options);
}

} // namespace gradnn::gpu
