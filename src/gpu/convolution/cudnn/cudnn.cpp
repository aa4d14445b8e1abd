// Convolution, forward and backward, by cuDNN, and ops of single elements behind its data.
// Everything is chosen at compile; execute submits the copies and one call of cuDNN.
#include <algorithm>
#include <cstdint>

#include "base/text.hpp"
#include "gpu/convolution/cudnn/plan.hpp"
#include "gpu/convolution/facts.hpp"
#include "gpu/convolution/parts.hpp"
#include "gpu/kernels.hpp"
#include "gpu/runtime/launch.hpp"
#include "kernel/problem_text.hpp"

namespace gradnn::gpu::cudnn {

namespace {

using detail::data_type;
using detail::text;

/// Why cuDNN is not trusted with the sums of a problem whose type has no digits
/// to spare; empty where it is. How long its chains are it does not say.
std::string why_sums_too_long(
        const convolution_problem &problem, const compile_options &options) {
    const auto &weights = problem.weights.dims;
    const bool to_weights = is_of_weights(problem);
    const bool depthwise
            = weights[0] > 1 && (weights[1] == 1 || weights[2] == 1);
    // Off by 1.3e-3 of the terms' magnitudes, as sums of f16 would be.
    if (to_weights && depthwise && problem.weights.type == data_type::f16)
        return "cuDNN's sums of a depthwise f16 weights gradient are not sums "
               "in f32";
    const bool f64 = problem.src.type == data_type::f64;
    const bool f32 = options.fpmath == fpmath_mode::strict
            && problem.weights.type == data_type::f32;
    if (!f64 && !f32) return {};
    if (!to_weights) {
        const int64_t most_terms = most_cudnn_terms(problem.src.type);
        const int64_t terms = terms_of_data(problem);
        if (terms <= most_terms) return {};
        return text("cuDNN's sums are trusted for up to ", most_terms,
                " terms in ", to_string(problem.src.type), ", given ", terms);
    }
    // cuDNN 9.14 sums the weights gradient of a depthwise convolution in f32 in
    // one long chain: 5e-5 off over 10^4 terms, where 2e-6 is promised.
    if (problem.src.type == data_type::f32 && depthwise)
        return "cuDNN's sums of a depthwise f32 weights gradient are not as "
               "exact as fpmath_mode strict promises";
    // Long sums for few weights are little work: a kernel that bounds its chains
    // does half a billion products in about a millisecond.
    // In f32 60,554 terms were 2.3e-6 off in norm; 2e-6 is promised.
    const int64_t most_terms = f64 ? 65536 : 32768;
    constexpr int64_t little_work = int64_t {1} << 29;
    const int64_t terms = problem.dst.dims[0] * positions_of(problem.dst);
    const auto count = static_cast<int64_t>(elements_of(problem.weights));
    if (terms <= most_terms || count > little_work / terms) return {};
    return text("cuDNN's sums for ", count, " weights are trusted for up to ",
            most_terms, " terms in ", to_string(problem.weights.type),
            ", given ", terms);
}

std::unique_ptr<detail::plan> plan_of(
        const problem_arrangement &arrangement, const built_plan &chosen) {
    const auto launches = [chosen](const operand_data &data, std::byte *own,
                                  const launch_stream &stream) {
        const borrowed_handle handle(stream.device, stream);
        chosen.execute(handle.get(), data, own);
    };
    return gpu::plan_of(staged_work {.operands = arrangement.operands,
            .output = arrangement.output(),
            .own_bytes = chosen.workspace_bytes,
            .launches = launches,
            .library = text("cuDNN ", version_text()),
            .kernel = chosen.tag,
            .copied_as = arrangement.widened ? " as f32" : "",
            .others = arrangement.epilogue.size(),
            .deterministic = chosen.deterministic,
            // Another kernel adds in another order.
            .bits_of_ops = arrangement.epilogue.empty()});
}

/// Where cuDNN 9.14, looking for engines, divides by zero, writes where it may not
/// or does not return: some gradients of src with strides and dilations along the
/// same axis; which ones is not known. make() takes such axes apart.
std::array<bool, 3> crashes_of(const convolution_problem &problem) {
    std::array<bool, 3> crashes {};
    for (size_t axis = 0; axis < crashes.size(); ++axis)
        crashes[axis] = is_to_src(problem) && problem.strides[axis] > 1
                && problem.dilations[axis] > 1;
    return crashes;
}

/// Where cuDNN (9.14 and 9.19) reads or writes beyond its operands: in convolutions of
/// data with groups by tensor cores, where dst has one position or, over all images,
/// few. What is computed then has NaN, or bits that change from run to run, and what
/// lies behind it is written (doc/notes/cudnn_faults.md). A window whose other taps lie
/// beside src comes here without its dilation.
bool leaves_operands(
        const convolution_problem &problem, const compile_options &options) {
    // The faults that are known had 30 at most.
    constexpr int64_t fewest_positions = 32;
    if (is_of_weights(problem) || multiplied_bytes(problem, options) != 2
            || problem.weights.dims[0] == 1)
        return false;
    const int64_t of_an_image = positions_of(problem.dst);
    return of_an_image == 1
            || problem.dst.dims[0] * of_an_image < fewest_positions;
}

/// Where more than one window at an end of an axis lies beside src, or where
/// strides or dilations are longer than in any network: kernels of cuDNN end with
/// an illegal instruction or an illegal address there (doc/notes/cudnn_faults.md).
bool strays(const convolution_problem &problem) {
    constexpr int64_t longest_step = 1 << 15;
    for (size_t i = 0; i < 3; ++i) {
        const spatial_axis axis = spatial_axis_of(problem, i);
        if (std::max(axis.stride, axis.dilation) > longest_step
                || axis.pad >= axis.reach() + axis.stride
                || (axis.dst - 1) * axis.stride - axis.pad
                        >= axis.src + axis.stride)
            return true;
    }
    return false;
}

/// Slices of what cuDNN does not take whole: of less than 2^31 elements in each tensor,
/// and, of data, with copies in the workspace that are within the bound.
detail::convolution_slices slices_for_cudnn(
        const convolution_problem &problem) {
    constexpr size_t most_slices = 64;
    return detail::slices_of(
            problem, most_slices, [&](const convolution_problem &slice) {
                const auto arrangements = arrangements_of(slice);
                return !arrangements.empty()
                        && (is_of_weights(problem)
                                || arrangements.front().staged_bytes
                                        <= most_staged_bytes);
            });
}

/// What was made of the slice before, which the next one mostly is like.
struct earlier_slice {
    convolution_problem problem;
    std::optional<problem_arrangement> arrangement;
    built_plan chosen;

    bool is_like(const convolution_problem &p) const {
        return arrangement && p.src.dims == problem.src.dims
                && p.weights.dims == problem.weights.dims
                && p.dst.dims == problem.dst.dims
                && p.pads_begin == problem.pads_begin;
    }
};

plan_or_refusal make_slice(const convolution_problem &problem,
        const compile_options &options, earlier_slice &earlier) {
    if (earlier.is_like(problem))
        return plan_of(*earlier.arrangement, earlier.chosen);
    const auto arrangements = arrangements_of(problem);
    plan_or_refusal refused = refusal_of(problem, options, arrangements);
    if (!refused.refusal.empty()) return refused;
    std::string reasons;
    for (const problem_arrangement &arrangement : arrangements) {
        std::string reason;
        built_plan found = find_plan(arrangement, options, reason);
        if (found) {
            earlier = {problem, arrangement, found};
            return plan_of(arrangement, found);
        }
        if (reasons.find(reason) == std::string::npos)
            reasons += (reasons.empty() ? "" : "; ") + reason;
    }
    return plan_or_refusal::refuse(reasons);
}

} // namespace

plan_or_refusal refusal_of(const convolution_problem &problem,
        const compile_options &options,
        std::span<const problem_arrangement> arrangements) {
    const std::string too_long = why_sums_too_long(problem, options);
    if (!too_long.empty()) return plan_or_refusal::refuse(too_long);
    if (arrangements.empty())
        return detail::refuse(
                "tensors and positions of windows of less than 2^31 elements, "
                "and windows that meet src and end near it",
                problem);
    if (std::ranges::count(crashes_of(problem), true) > 0)
        return detail::refuse(
                "no gradients of src with these strides and dilations along an "
                "axis, on which cuDNN crashes",
                problem);
    if (leaves_operands(problem, options))
        return detail::refuse("no data by tensor cores with groups and a dst "
                              "of one position, or of less than 32 over all "
                              "images: cuDNN reads and writes beyond them",
                problem);
    if (strays(problem))
        return detail::refuse(
                "steps of at most 2^15, and windows of which at most one at "
                "either end lies beside src: on others cuDNN crashes",
                problem);
    // An error and no refusal: without cuDNN the convolution may be a hundred
    // times slower, so the caller must ask for it.
    if (library().version == 0)
        throw error(status::unimplemented,
                text(library().missing,
                        "; GRADNN_KERNEL can name a kernel that needs no cuDNN "
                        "and may be a hundred times slower (`gradnn kernels` "
                        "lists them)"));
    return plan_or_refusal::refuse({});
}

std::vector<problem_arrangement> arrangements_taken(
        const convolution_problem &problem, const compile_options &options) {
    if (library().version == 0) return {};
    const auto slices = slices_for_cudnn(problem);
    const convolution_problem &first = slices.parts.front().problem;
    auto found = arrangements_of(first);
    if (!refusal_of(first, options, found).refusal.empty()) found.clear();
    return found;
}

plan_or_refusal make(
        const convolution_problem &problem, const compile_options &options) {
    constexpr size_t most_parts = 32;
    return make_of_parts(problem,
            parts_of(problem, false, crashes_of(problem), most_parts),
            [&](const convolution_problem &part) {
                earlier_slice earlier;
                return make_of_parts(part, {slices_for_cudnn(part), {}},
                        [&](const convolution_problem &slice) {
                            return make_slice(slice, options, earlier);
                        });
            });
}

plan_or_refusal make_fused(
        const detail::fused_convolution &all, const compile_options &options) {
    const convolution_problem &problem = all.problem;
    if (library().version == 0)
        return plan_or_refusal::refuse(library().missing);
    if (!options.specialise)
        return plan_or_refusal::refuse(
                "takes ops behind in a kernel that is compiled for them, and "
                "the setting `specialise` is off");
    if (detail::size_of(problem.src.type) != 2 || !are_channels_last(problem))
        return detail::refuse("16 bits, channels last", problem);
    if (is_to_src(problem) && std::ranges::max(problem.strides) > 1)
        return detail::refuse("no gradients of src by strides, between which "
                              "cuDNN's kernels with ops behind multiply zeros",
                problem);
    if (problem.src.dims[1] % channels_at_once != 0
            || problem.dst.dims[1] % channels_at_once != 0)
        return detail::refuse(
                "multiples of 8 channels: with others cuDNN was up to ten "
                "times slower than steps",
                problem);
    const auto arrangements = arrangements_of(problem);
    plan_or_refusal refused = refusal_of(problem, options, arrangements);
    if (!refused.refusal.empty()) return refused;
    problem_arrangement arrangement = arrangements.front();
    if (arrangement.operands[0].staged || arrangement.operands[2].staged)
        return detail::refuse(
                "src and dst that cuDNN reads and writes where they are",
                problem);
    arrangement.epilogue = all.epilogue;
    std::string reason;
    built_plan found = find_plan(arrangement, options, reason);
    if (!found) return plan_or_refusal::refuse(reason);
    return plan_of(arrangement, found);
}

} // namespace gradnn::gpu::cudnn
