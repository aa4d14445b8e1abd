#include <algorithm>
#include <string>

#include "base/text.hpp"
#include "gpu/convolution/depthwise/plan.hpp"
#include "gpu/runtime/device.hpp"
#include "gpu/runtime/launch.hpp"

namespace gradnn::gpu::depthwise {

using detail::convolution_direction;
using detail::data_type;
using detail::size_of;
using detail::tensor_view;
using detail::text;

namespace {

constexpr int most_columns = 72; // of a window, gaps included
constexpr int64_t longest_data_chain = 4096;

/// Contiguous along an axis, or of one position there.
bool contiguous(const tensor_view &tensor, size_t axis) {
    return tensor.dims[axis] == 1 || tensor.strides[axis] == 1;
}

/// What no family takes.
std::string common_refusal(const convolution_problem &problem) {
    const auto &weights = problem.weights.dims;
    if (weights[1] != 1 || weights[2] != 1)
        return text("takes groups of one input and one output channel, given ",
                weights[2], " and ", weights[1]);
    constexpr int64_t most = int64_t {1} << 28;
    if (axes_exceed(problem, most))
        return "takes less than 2^28 points along an axis; " + given(problem);
    if (problem.strides[2] > 2)
        return text("takes strides of 1 and 2 along the last axis, given ",
                problem.strides[2]);
    const int64_t reach = (weights[5] - 1) * problem.dilations[2] + 1;
    if (reach > most_columns)
        return text("takes windows that reach over at most ", most_columns,
                " points of the last axis, given ", reach);
    // None of the three factors reaches 2^29.
    const int64_t of_planes
            = std::min(weights[3] * weights[4], longest_data_chain + 1);
    if (problem.direction != convolution_direction::backward_weights
            && of_planes * weights[5] > longest_data_chain)
        return text("takes sums of at most ", longest_data_chain,
                " terms, given windows of ", weights[3], "x", weights[4], "x",
                weights[5]);
    if (problem.src.dims[0] > most || problem.src.dims[1] > most >> 4)
        return text("takes at most 2^28 images and 2^24 channels, given ",
                problem.src.dims[0], " and ", problem.src.dims[1]);
    return {};
}

} // namespace

bool problem_facts::of_weights() const {
    return problem.direction == convolution_direction::backward_weights;
}

int64_t problem_facts::element_bytes() const {
    return size_of(problem.src.type);
}

int64_t problem_facts::sum_bytes() const {
    return problem.src.type == data_type::f64 ? 8 : 4;
}

bool problem_facts::tensor_cores_suit() const {
    return element_bytes() == 2 && problem.weights.type == problem.src.type;
}

std::optional<problem_facts> facts_of(const convolution_problem &problem,
        const compile_options &options, std::string &refusal) {
    refusal = common_refusal(problem);
    if (!refusal.empty()) return std::nullopt;
    const bool channels_last = problem.src.dims[1] > 1
            && problem.src.strides[1] == 1 && problem.dst.strides[1] == 1;
    if (!channels_last
            && !(contiguous(problem.src, 4) && contiguous(problem.dst, 4))) {
        refusal = "takes src and dst both with contiguous channels or both "
                  "with contiguous columns; "
                + given(problem);
        return std::nullopt;
    }
    const auto device = static_cast<int>(options.device);
    const device_properties &properties = properties_of(device);
    return problem_facts {problem, shape_of(problem), channels_last, device,
            properties.multiprocessors,
            static_cast<int64_t>(properties.block_shared_bytes), properties.sm};
}

family_plan::family_plan(
        const problem_facts &facts, launches_by_alignment by_alignment)
    : by_alignment_(std::move(by_alignment)),
      element_bytes_(static_cast<size_t>(facts.element_bytes())) {
    int64_t sums = 0;
    for (const launches &each : by_alignment_)
        sums = std::max(sums, each.sums);
    sums *= facts.shape.channels;
    if (facts.of_weights())
        for (const window_axis &axis : facts.shape.axes)
            sums *= axis.kernel;
    workspace_bytes_ = static_cast<size_t>(sums * facts.sum_bytes());
}

void family_plan::submit(std::span<void *const> args, std::byte *workspace,
        const launch_stream &stream) const {
    const auto both_at = [&](size_t bytes) {
        return is_aligned(args[0], bytes) && is_aligned(args[2], bytes);
    };
    constexpr size_t of_one = 0;
    constexpr size_t of_two = 1;
    constexpr size_t of_vectors = 2;
    const launches &chosen = by_alignment_[both_at(16) ? of_vectors
                    : both_at(2 * element_bytes_)      ? of_two
                                                       : of_one];
    const tensor_pointers at {args[0], args[1], args[2], workspace};
    chosen.first(at, stream);
    if (chosen.parts) chosen.parts(at, stream);
}

} // namespace gradnn::gpu::depthwise
