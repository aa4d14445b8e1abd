// The plan of convolution.gpu_tf32x3, convolution.gpu_f64 and convolution.gpu_wide_weights,
// which differ in their tiles and in the arithmetic of these (README.md).
#include <algorithm>
#include <memory>

#include "base/text.hpp"
#include "gpu/convolution/facts.hpp"
#include "gpu/convolution/implicit_gemm/implicit_gemm.hpp"
#include "gpu/jit/specification_text.hpp"
#include "gpu/runtime/launch.hpp"
#include "kernel/problem_text.hpp"

namespace gradnn::gpu::implicit_gemm {

namespace {

using detail::fused_convolution;
using detail::text;

/// Channels far fewer than a tile's columns leave most of it idle. Small
/// problems are no matter, unless they are many; nor are sums that are too long for
/// cuDNN, which leaves them to gpu_direct.
bool wasteful(const tile_set &set, const tile_choice &choice, size_t parts,
        const convolution_problem &problem) {
    constexpr double small_problem = 5e8;
    const bool too_long = !is_of_weights(problem)
            && terms_of_data(problem) > most_cudnn_terms(problem.src.type);
    return choice.useful < set.least_useful && !too_long
            && (parts > 1 || choice.products > small_problem);
}

/// Of a convolution of one group, one of so many parts. `is_slice`: of tensors for which
/// 1 GiB of workspace should do.
plan_or_refusal make_part(const tile_set &set, const fused_convolution &whole,
        size_t parts, bool is_slice, const compile_options &options) {
    const convolution_problem &problem = whole.problem;
    std::string refusal;
    auto mapping = dense_mapping_of(problem, set.types, refusal);
    if (!mapping) return plan_or_refusal::refuse(refusal);
    const size_t others = whole.epilogue.size();
    // With strides in f64 a multiprocessor has one block, and too few loads on their way.
    if (others != 0
            && (mapping->operands[mapping->order[2]].staged
                    || (set.types.input == detail::data_type::f64
                            && mapping->problem.operation
                                    == operation::strided_data)))
        return plan_or_refusal::refuse(
                "takes ops behind where the output is channels last and of "
                "whole 16 bytes (f64: without strides)");
    std::ranges::transform(
            whole.epilogue, mapping->problem.epilogue, jit::fused_op_of);
    const device_properties &properties = properties_of(options.device);
    const auto left = convolution_workspace_left(
            options, staged_bytes_of(mapping->operands), refusal);
    if (!left) return plan_or_refusal::refuse(refusal);
    const auto choose = [&](size_t most_sums) {
        return choose_tile(set, mapping->problem, properties.multiprocessors,
                std::min(*left, most_sums));
    };
    constexpr size_t most_sums_of_slice = size_t {1} << 26;
    tile_choice choice = choose(is_slice ? most_sums_of_slice : *left);
    if (choice.tile == nullptr) choice = choose(*left);
    if (choice.tile == nullptr)
        return plan_or_refusal::refuse(
                text("takes sums so long in parts, or sums of another type "
                     "than the output's, for which ",
                        *left, " bytes of workspace are too few"));
    if (wasteful(set, choice, parts, problem))
        return plan_or_refusal::refuse(text("of ", choice.tile->name(),
                ", the best tile for these channels, ",
                static_cast<int>(100.0 * choice.useful), " % would be used"));
    const allocation_guard current(options.device);
    const auto launch = launcher_of(set.kernel, choice, mapping->problem);
    if (!launch)
        return detail::refuse(
                text("sizes, strides and dilations that CUTLASS's ",
                        choice.tile->name(),
                        " counts in, and at most 65535 of its blocks on a "
                        "side"),
                problem);
    return plan_of(staged_work {mapping->operands, mapping->order[2],
            partial_bytes(mapping->problem, choice.slices),
            [launch, others, order = mapping->order](const operand_data &data,
                    std::byte *partials, const launch_stream &stream) {
                jit::fused_places places {};
                for (size_t e = 0; e < others; ++e)
                    places.epilogue[e]
                            = static_cast<const char *>(data[order.size() + e])
                            - static_cast<const char *>(data[order[2]]);
                launch(data[order[0]], data[order[1]], data[order[2]], places,
                        partials, stream);
            },
            "CUTLASS", choice.name(), {}, others});
}

/// Slices of which each has tensors and copies of few enough bytes.
detail::convolution_slices slices_for(
        const tile_set &set, const convolution_problem &problem) {
    constexpr size_t most_slices = 64;
    const auto fits = [&](const convolution_problem &slice) {
        std::string refusal;
        const auto mapping = dense_mapping_of(slice, set.types, refusal);
        return mapping
                && staged_bytes_of(mapping->operands) <= most_staged_bytes;
    };
    // Else it is not for its size that kernels cannot do it.
    const double bytes = (elements_of(problem.src) + elements_of(problem.dst))
            * static_cast<double>(detail::size_of(problem.src.type));
    if (bytes <= static_cast<double>(most_staged_bytes) && !fits(problem))
        return {{{problem, {}}}};
    return detail::slices_of(problem, most_slices, fits, true);
}

} // namespace

convolution_parts parts_for(const convolution_problem &problem) {
    constexpr size_t most_parts = 32;
    bool apart = has_depth(problem); // no kernel has these strides
    for (size_t i = 0; i < 3; ++i)
        apart = apart || problem.pads_begin[i] < 0
                || (problem.weights.dims[3 + i] != 1
                        && problem.dilations[i] != 1);
    return parts_of(problem, true, {apart, apart, apart}, most_parts);
}

plan_or_refusal make_plan(const tile_set &set, const fused_convolution &whole,
        const compile_options &options) {
    const convolution_problem &problem = whole.problem;
    const convolution_parts parts = parts_for(problem);
    if (!whole.epilogue.empty()
            && !(parts.is_whole()
                    && slices_for(set, parts.parts.front().problem).is_whole()))
        return plan_or_refusal::refuse(
                "takes ops behind a convolution in one part");
    return make_of_parts(problem, parts, [&](const convolution_problem &part) {
        const auto slices = slices_for(set, part);
        tile_set of_slices = set;
        if (slices.sums) of_slices.types.output = set.types.sums();
        return make_of_parts(
                part, {slices, {}}, [&](const convolution_problem &slice) {
                    return make_part(of_slices, {slice, {}, whole.epilogue},
                            parts.parts.size(), slices.parts.size() > 1,
                            options);
                });
    });
}

} // namespace gradnn::gpu::implicit_gemm
