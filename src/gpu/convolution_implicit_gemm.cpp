// Convolution on tensor cores, forward and backward, by CUTLASS's implicit
// GEMM: the plan of convolution.gpu_tf32x3 and convolution.gpu_f64, which
// differ in their tiles and in the arithmetic of these.
//
// Zeros are multiplied for what a window meets outside src, as by cuDNN.
// Deterministic: every sum has one order, which follows from the problem, the
// device and the workspace limit (convolution_implicit_gemm_choice.cpp); sums
// that are cut into slices are added up by a second launch.
//
// The tensors must be dense, channels last, channels in whole 16 bytes: others
// are copied through the workspace (convolution_implicit_gemm_mapping.cpp).
#include <array>
#include <memory>
#include <utility>

#include "gpu/convolution_implicit_gemm.hpp"
#include "gpu/launch.hpp"
#include "text.hpp"

namespace gradnn::gpu::implicit_gemm {

namespace {

using detail::plan_or_refusal;
using detail::stream_impl;
using detail::text;

class implicit_gemm_plan final : public detail::plan {
public:
    implicit_gemm_plan(const char *name, const dense_mapping &mapping,
            const tile_choice &choice, std::unique_ptr<tile_kernel> kernel)
        : name_(name),
          mapping_(mapping),
          operands_(mapping.operands[0], mapping.operands[1],
                  mapping.operands[2], mapping.order[2]),
          choice_(choice),
          kernel_(std::move(kernel)) {}

    void execute(std::span<void *const> args, std::byte *workspace,
            stream_impl &stream) const override {
        const launch_scope scope(stream);
        const std::array<void *, 3> data
                = operands_.bring(args, workspace, stream);
        const auto [first, second, output] = mapping_.order;
        void *const partials = choice_.slices > 1
                ? workspace + mapping_.staged_bytes
                : data[output];
        kernel_->run(data[first], data[second], partials, scope.stream());
        if (choice_.slices > 1)
            add_slices(name_, mapping_.problem, partials, choice_.slices,
                    data[output], scope.stream());
        operands_.take_back(data, args, nullptr, stream);
    }

    size_t workspace_bytes() const override {
        if (choice_.slices == 1) return mapping_.staged_bytes;
        return mapping_.staged_bytes
                + static_cast<size_t>(choice_.slices)
                * mapping_.problem.output_bytes();
    }

    std::string backend() const override {
        const std::string copies = copies_of(mapping_.operands);
        return text("CUTLASS (", choice_.tile->name,
                choice_.slices > 1 ? text(", ", choice_.slices, " slices")
                                   : std::string(),
                copies.empty() ? "" : "; ", copies, ")");
    }

private:
    const char *const name_;
    const dense_mapping mapping_;
    const convolution_operands operands_;
    const tile_choice choice_;
    const std::unique_ptr<tile_kernel> kernel_;
};

/// Channels far fewer than a tile's columns leave most of it idle: cuDNN has
/// kernels for those. Small problems are no matter.
bool wasteful(const tile_choice &choice) {
    constexpr double least_useful = 0.2;
    constexpr double small_problem = 5e8;
    return choice.useful < least_useful && choice.products > small_problem;
}

} // namespace

plan_or_refusal make_plan(const tile_set &set,
        const detail::convolution_problem &problem,
        const detail::compile_options &options) {
    std::string refusal;
    const auto mapping = dense_mapping_of(problem, set.type, refusal);
    if (!mapping) return plan_or_refusal::refuse(refusal);
    const auto device = static_cast<int>(options.device);
    const device_properties &properties = properties_of(device);
    if (properties.major < 8)
        return plan_or_refusal::refuse(
                text("wants compute capability 8.0 or later, given ",
                        properties.major, ".", properties.minor));
    const size_t limit = convolution_workspace_limit(device);
    const size_t staged = mapping->staged_bytes;
    if (staged > limit)
        return plan_or_refusal::refuse(text("copies in another layout want ",
                staged, " bytes of workspace; ", limit, " are allowed"));
    const tile_choice choice = choose_tile(
            set, mapping->problem, properties.multiprocessors, limit - staged);
    if (choice.tile == nullptr)
        return plan_or_refusal::refuse(
                "sums so long must be cut, for which there is no workspace");
    if (wasteful(choice))
        return plan_or_refusal::refuse(text("of ", choice.tile->name,
                ", the best tile for these channels, ",
                static_cast<int>(100.0 * choice.useful), " % would be used"));
    const device_guard current(device);
    const capture_mode_guard relaxed;
    auto kernel = choice.tile->make(mapping->problem, choice.slices);
    if (!kernel)
        return plan_or_refusal::refuse(
                text("CUTLASS's ", choice.tile->name, " refuses this shape"));
    return std::make_unique<implicit_gemm_plan>(
            set.kernel, *mapping, choice, std::move(kernel));
}

} // namespace gradnn::gpu::implicit_gemm
