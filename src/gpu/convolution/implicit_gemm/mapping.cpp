// A convolution_problem as a dense channels-last one: which tensors are copied
// and how. Plain host arithmetic, without CUDA.
#include <algorithm>
#include <cstdlib>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "gpu/convolution/facts.hpp"
#include "gpu/convolution/implicit_gemm/implicit_gemm.hpp"
#include "gpu/device/rounding.hpp"
#include "kernel/problem_text.hpp"

namespace gradnn::gpu::implicit_gemm {

namespace {

using detail::data_type;
using detail::text;

/// Sizes, and sums of sizes, that CUTLASS computes with in 32 bits.
constexpr int64_t largest_size = int64_t {1} << 30;
/// CUTLASS's limit of a tensor.
constexpr int64_t most_bytes = int64_t {1} << 31;

/// An axis of a caller's tensor.
struct axis {
    int64_t size;
    int64_t stride;
};

/// From the outermost to the innermost.
using axes = std::vector<axis>;

template <typename View>
axis axis_of(const View &tensor, size_t i) {
    return {tensor.dims[i], tensor.strides[i]};
}

/// Dense; the outer and the inner axes together are filled up to multiples.
convolution_operand operand_of(data_type type, const axes &outer,
        int64_t outer_multiple, const axes &middle, const axes &inner,
        int64_t inner_multiple, bool is_output) {
    six_axes callers {type, {1, 1, 1, 1, 1, 1}, {}};
    six_axes seen = callers;
    int64_t elements = 1;
    size_t axis = callers.dims.size();
    const auto add = [&](const axes &some, int64_t multiple) {
        const int64_t pitch = elements;
        for (auto each = some.rbegin(); each != some.rend(); ++each) {
            --axis;
            callers.dims[axis] = seen.dims[axis] = each->size;
            callers.strides[axis] = each->stride;
            seen.strides[axis] = elements;
            elements *= each->size;
        }
        elements = pitch * round_up(elements / pitch, multiple);
    };
    add(inner, inner_multiple);
    add(middle, 1);
    add(outer, outer_multiple);
    return gpu::operand_of(callers, seen, is_output, elements);
}

/// Windows of few channels that tile src, as a vision transformer's patches:
/// the positions of a window are channels like any other, and the convolution
/// is a product of matrices. In one and two dimensions.
bool is_of_patches(const convolution_problem &problem) {
    // Those of the narrowest tile: more fill it by themselves.
    constexpr int64_t many_channels = 32;
    if (problem.src.dims[1] >= many_channels || problem.src.dims[2] != 1
            || problem.weights.dims[3] != 1)
        return false;
    bool wide = false;
    for (size_t i = 0; i < 3; ++i) {
        const spatial_axis axis = spatial_axis_of(problem, i);
        const int64_t covered = axis.dst * axis.window;
        if (axis.pad != 0 || covered > axis.src
                || (axis.dst != 1 && axis.stride != axis.window)
                || (axis.window != 1 && axis.dilation != 1))
            return false;
        // What no window meets would have to be filled with zeros.
        if (is_to_src(problem) && covered != axis.src) return false;
        wide = wide || axis.window != 1;
    }
    return wide;
}

/// Channels and, with patches, the positions of a window: in the order that
/// the caller's src has them in.
axes window_axes(const convolution_problem &problem, const axis &channels,
        const axis &rows, const axis &columns) {
    if (problem.src.strides[1] == 1) return {rows, columns, channels};
    return {channels, rows, columns};
}

/// Channels last, filled up to a multiple.
convolution_operand data_operand(
        const detail::tensor_view &data, int64_t multiple, bool is_output) {
    return operand_of(data.type, {axis_of(data, 0)}, 1,
            {axis_of(data, 2), axis_of(data, 3), axis_of(data, 4)},
            {axis_of(data, 1)}, multiple, is_output);
}

convolution_operand patches_operand(
        const convolution_problem &problem, int64_t multiple, bool is_output) {
    const detail::tensor_view &src = problem.src;
    const axis rows {problem.weights.dims[4], src.strides[3]};
    const axis columns {problem.weights.dims[5], src.strides[4]};
    return operand_of(src.type, {axis_of(src, 0)}, 1,
            {{problem.dst.dims[3], rows.size * rows.stride},
                    {problem.dst.dims[4], columns.size * columns.stride}},
            window_axes(problem, axis_of(src, 1), rows, columns), multiple,
            is_output);
}

/// O, space, I, or with `turned` I, space, O.
convolution_operand weights_operand(const convolution_problem &problem,
        int64_t multiple, bool patches, bool turned, bool is_output) {
    const auto of = [&](size_t i) { return axis_of(problem.weights, i); };
    const axes space = patches ? axes {} : axes {of(3), of(4), of(5)};
    const axes outputs {of(1)};
    const axes inputs = patches ? window_axes(problem, of(2), of(4), of(5))
                                : axes {of(2)};
    return operand_of(problem.weights.type, turned ? inputs : outputs, multiple,
            space, turned ? outputs : inputs, multiple, is_output);
}

/// Why the kernels cannot do what is asked; empty where they can.
std::string reason_against(const dense_problem &p) {
    const int64_t most_inputs = most_bytes / detail::size_of(p.types.input) - 1;
    const int64_t most_sums = most_bytes / detail::size_of(p.types.sums()) - 1;
    const int64_t inputs = std::max(
            {p.src_elements(), p.weights_elements(), p.dst_elements()});
    if (inputs > most_inputs || p.output_elements() > most_sums)
        return text("tensors of up to ", most_inputs,
                " elements and outputs of up to ", most_sums,
                " are allowed, given ", inputs, " and ", p.output_elements());
    for (size_t i = 0; i < 3; ++i) {
        const int64_t span = (p.dst[i] - 1) * p.strides[i]
                + p.window[i] * p.dilations[i] + std::abs(p.pads[i]);
        if (p.strides[i] > largest_size || p.dilations[i] > largest_size
                || span > largest_size)
            return "strides, dilations and pads beyond 2^30";
        // CUTLASS multiplies a coordinate by its pitch in 32 bits.
        int64_t pitch = p.c;
        for (size_t inner = i + 1; inner < 3; ++inner)
            pitch *= p.src[inner];
        if (std::abs(p.pads[i]) > most_inputs / pitch)
            return "pads beyond 2^31 bytes of src";
        if (p.operation != operation::weights && p.window[i] > longest_window)
            return text("windows of up to ", longest_window,
                    " elements are allowed along an axis, given ", p.window[i]);
    }
    // A block of its own for each of the positions that a stride skips.
    if (p.operation == operation::strided_data
            && (p.space == 3 || std::ranges::max(p.strides) > 256
                    || std::ranges::max(p.dilations) > 1
                    || std::ranges::min(p.pads) < 0))
        return text("a gradient of src with strides above 1 is computed in one "
                    "and two dimensions with strides of up to 256, without "
                    "dilations and negative pads, given ",
                p.space, " dimensions, strides of up to ",
                std::ranges::max(p.strides), ", dilations of up to ",
                std::ranges::max(p.dilations), ", pads from ",
                std::ranges::min(p.pads), " on");
    return {};
}

/// Why the types or the groups are not those of one product; empty where they are.
std::string reason_against_types(
        const convolution_problem &problem, const element_types &types) {
    const size_t output = output_of(problem.direction);
    const std::array<data_type, 3> given {
            problem.src.type, problem.weights.type, problem.dst.type};
    for (size_t i = 0; i < given.size(); ++i)
        if (given[i] != (i == output ? types.output : types.input))
            return types.input == types.output
                    ? text("takes ", to_string(types.input), " alone; ",
                            detail::given(problem))
                    : text("takes inputs of ", to_string(types.input),
                            " and an output of ", to_string(types.output), "; ",
                            detail::given(problem));
    if (problem.weights.dims[0] != 1)
        return text("takes convolutions of one group, given ",
                problem.weights.dims[0]);
    return {};
}

std::optional<dense_mapping> mapping_as_given(
        const convolution_problem &problem, const element_types &types,
        std::string &refusal) {
    const size_t output = output_of(problem.direction);
    const int64_t vector = vector_of(types.input);
    refusal = reason_against_types(problem, types);
    if (!refusal.empty()) return std::nullopt;
    dense_mapping made;
    dense_problem &p = made.problem;
    p.n = problem.src.dims[0];
    p.types = types;
    const bool patches = is_of_patches(problem);
    for (size_t i = 0; i < 3; ++i) {
        p.dst[i] = problem.dst.dims[2 + i];
        if (patches) {
            p.src[i] = p.dst[i];
            continue;
        }
        p.src[i] = problem.src.dims[2 + i];
        p.window[i] = problem.weights.dims[3 + i];
        p.pads[i] = problem.pads_begin[i];
        // What no second element follows may have any distance to it.
        p.strides[i] = p.dst[i] == 1 ? 1 : problem.strides[i];
        p.dilations[i] = p.window[i] == 1 ? 1 : problem.dilations[i];
    }
    const int64_t inputs = patches ? problem.src.dims[1]
                    * problem.weights.dims[4] * problem.weights.dims[5]
                                   : problem.src.dims[1];
    const int64_t outputs = problem.dst.dims[1];
    p.c = round_up(inputs, vector);
    p.k = round_up(outputs, vector);
    p.space = has_depth(problem) ? 3 : 2;
    if (is_of_weights(problem)) {
        p.operation = operation::weights;
        made.order = {2, 0, 1};
    } else if (is_to_src(problem)) {
        p.callers_terms = 1.0 * outputs / p.k;
        made.order = {2, 1, 0};
        if (std::ranges::max(p.strides) > 1)
            p.operation = operation::strided_data;
        else {
            // diff_src[x] = sum over k of diff_dst[x + pad - k*dilation] *
            // weights[k]: the forward convolution with the window backwards.
            p.flipped = true;
            std::swap(p.c, p.k);
            std::swap(p.src, p.dst);
            for (size_t i = 0; i < 3; ++i)
                p.pads[i] = (p.window[i] - 1) * p.dilations[i] - p.pads[i];
        }
    } else {
        p.callers_terms = 1.0 * inputs / p.c;
    }
    refusal = reason_against(p);
    if (!refusal.empty()) return std::nullopt;
    made.operands = {patches ? patches_operand(problem, vector, output == 0)
                             : data_operand(problem.src, vector, output == 0),
            weights_operand(problem, vector, patches, p.flipped, output == 1),
            data_operand(problem.dst, vector, output == 2)};
    return made;
}

} // namespace

std::optional<dense_mapping> dense_mapping_of(
        const convolution_problem &problem, const element_types &types,
        std::string &refusal) {
    auto made = mapping_as_given(problem, types, refusal);
    if (made && !made->operands[0].staged) return made;
    // Where src would be copied, or cannot be used so, only what taps meet is.
    const auto met = of_met_positions(problem);
    if (!met) return made;
    std::string reason;
    auto less = mapping_as_given(*met, types, reason);
    if (!less) return made;
    refusal.clear();
    if (is_to_src(problem)) fill_with_zeros(less->operands[0], problem.src);
    return less;
}

std::optional<dense_mapping> products_mapping_of(
        const convolution_problem &problem, const element_types &types,
        bool in_place, std::string &refusal) {
    const int64_t vector = vector_of(types.input);
    refusal = reason_against_types(problem, all_of(types.input));
    if (!refusal.empty()) return std::nullopt;
    const auto &window = problem.weights.dims;
    dense_mapping made;
    dense_problem &p = made.problem;
    p.types = types;
    p.n = problem.dst.dims[0];
    p.src[2] = p.dst[2] = positions_of(problem.dst);
    const int64_t outputs = problem.dst.dims[1];
    p.c = round_up(outputs, vector);
    p.k = round_up(window[2] * window[3] * window[4] * window[5], vector);
    p.callers_terms = 1.0 * outputs / p.c;
    made.order = {2, 1, 0};
    dense_problem image = p;
    image.n = 1;
    refusal = reason_against(image);
    if (!refusal.empty()) {
        refusal = "of an image " + refusal;
        return std::nullopt;
    }
    const auto of = [&](size_t i) { return axis_of(problem.weights, i); };
    // Where the caller has it, at any address.
    convolution_operand own;
    own.any_address = true;
    made.operands = {in_place ? own : data_operand(problem.src, 1, true),
            operand_of(types.input, {of(3), of(4), of(5), of(2)}, vector, {},
                    {of(1)}, vector, false),
            data_operand(problem.dst, vector, false)};
    return made;
}

} // namespace gradnn::gpu::implicit_gemm
