// A convolution_problem as a dense channels-last one: which tensors are copied
// and how. Plain host arithmetic, without CUDA.
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

using detail::convolution_direction;
using detail::convolution_problem;
using detail::data_type;
using detail::text;

/// Sizes, and sums of sizes, that CUTLASS computes with in 32 bits.
constexpr int64_t largest_size = int64_t {1} << 30;
/// CUTLASS's limit of a tensor.
constexpr int64_t most_bytes = int64_t {1} << 31;
/// Positions of a window along an axis for which CUTLASS keeps a bit.
constexpr int64_t longest_window = 32;

constexpr double share_of(int64_t part, int64_t whole) {
    return static_cast<double>(part) / static_cast<double>(whole);
}

/// An axis of a caller's tensor.
struct axis {
    int64_t size;
    int64_t stride;
};

/// An axis of a dense tensor: one of the caller's, or several as one, from the
/// outermost to the innermost; and its size, filled up where it is larger.
struct dense_axis {
    std::vector<axis> parts;
    int64_t size;
};

template <typename View>
axis axis_of(const View &tensor, size_t i) {
    return {tensor.dims[i], tensor.strides[i]};
}

/// Filled up to a multiple.
dense_axis filled_axis(std::vector<axis> parts, int64_t multiple) {
    int64_t size = 1;
    for (const axis &part : parts)
        size *= part.size;
    return {std::move(parts), round_up(size, multiple)};
}

dense_axis plain(const axis &of) {
    return filled_axis({of}, 1);
}

/// The axes from the outermost to the innermost; at most six of the caller's
/// are larger than 1.
convolution_operand operand_of(
        data_type type, const std::array<dense_axis, 5> &axes, bool is_output) {
    convolution_operand made;
    bool padded = false;
    strided_copy &copy = made.copy;
    copy.src_type = copy.dst_type = type;
    copy.dims.fill(1);
    auto rank = copy.dims.size();
    int64_t next = 1;
    for (size_t i = axes.size(); i-- > 0;) {
        const int64_t pitch = next;
        for (size_t j = axes[i].parts.size(); j-- > 0;) {
            const axis &part = axes[i].parts[j];
            if (part.size == 1) continue;
            made.staged = made.staged || part.stride != next;
            --rank;
            copy.dims[rank] = part.size;
            copy.src_strides[rank] = is_output ? next : part.stride;
            copy.dst_strides[rank] = is_output ? part.stride : next;
            next *= part.size;
        }
        padded = padded || next != pitch * axes[i].size;
        next = pitch * axes[i].size;
    }
    copy.rank = static_cast<int>(copy.dims.size());
    made.bytes = static_cast<size_t>(next * detail::size_of(type));
    made.staged = made.staged || padded;
    made.zero_first = padded && !is_output;
    return made;
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
        const int64_t window = problem.weights.dims[3 + i];
        const int64_t count = problem.dst.dims[2 + i];
        const int64_t covered = count * window;
        const int64_t size = problem.src.dims[2 + i];
        if (problem.pads_begin[i] != 0 || covered > size) return false;
        if (count != 1 && problem.strides[i] != window) return false;
        if (window != 1 && problem.dilations[i] != 1) return false;
        // What no window meets would have to be filled with zeros.
        if (is_to_src(problem) && covered != size) return false;
        wide = wide || window != 1;
    }
    return wide;
}

/// Channels and, with patches, the positions of a window: in the order that
/// the caller's src has them in.
std::vector<axis> window_axes(const convolution_problem &problem,
        const axis &channels, const axis &rows, const axis &columns) {
    if (problem.src.strides[1] == 1) return {rows, columns, channels};
    return {channels, rows, columns};
}

/// Channels last, filled up to a multiple.
convolution_operand data_operand(
        const detail::tensor_view &data, int64_t multiple, bool is_output) {
    const auto space = [&](size_t i) { return plain(axis_of(data, i)); };
    return operand_of(data.type,
            {space(0), space(2), space(3), space(4),
                    filled_axis({axis_of(data, 1)}, multiple)},
            is_output);
}

/// An output where the caller has it, at any address.
convolution_operand own_operand() {
    convolution_operand made;
    made.any_address = true;
    return made;
}

convolution_operand patches_operand(
        const convolution_problem &problem, int64_t multiple, bool is_output) {
    const detail::tensor_view &src = problem.src;
    const axis rows {problem.weights.dims[4], src.strides[3]};
    const axis columns {problem.weights.dims[5], src.strides[4]};
    return operand_of(src.type,
            {plain(axis_of(src, 0)), plain({1, 0}),
                    plain({problem.dst.dims[3], rows.size * rows.stride}),
                    plain({problem.dst.dims[4], columns.size * columns.stride}),
                    filled_axis(window_axes(problem, axis_of(src, 1), rows,
                                        columns),
                            multiple)},
            is_output);
}

/// O, space, I, or with `turned` I, space, O.
convolution_operand weights_operand(const convolution_problem &problem,
        int64_t multiple, bool patches, bool turned, bool is_output) {
    const auto of = [&](size_t i) { return axis_of(problem.weights, i); };
    const auto space = [&](size_t i) {
        return plain(patches ? axis {1, 0} : of(i));
    };
    const dense_axis outputs = filled_axis({of(1)}, multiple);
    const dense_axis inputs
            = filled_axis(patches ? window_axes(problem, of(2), of(4), of(5))
                                  : std::vector {of(2)},
                    multiple);
    return operand_of(problem.weights.type,
            {turned ? inputs : outputs, space(3), space(4), space(5),
                    turned ? outputs : inputs},
            is_output);
}

/// Why the kernels cannot do what is asked; empty where they can.
std::string reason_against(const dense_problem &p) {
    const auto most_of = [](data_type type) {
        return most_bytes / detail::size_of(type) - 1;
    };
    const int64_t most_inputs = most_of(p.types.input);
    for (const int64_t elements :
            {p.src_elements(), p.weights_elements(), p.dst_elements()})
        if (elements > most_inputs)
            return text("tensors of up to ", most_inputs,
                    " elements are allowed, given ", elements);
    if (p.output_elements() > most_of(p.types.sums()))
        return text("an output of up to ", most_of(p.types.sums()),
                " elements is allowed, given ", p.output_elements());
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
    if (p.operation != operation::strided_data) return {};
    if (p.space == 3)
        return "a gradient of src with strides above 1 is computed in one and "
               "two dimensions, not in three";
    // A block of its own for each of the positions that a stride skips.
    if (p.strides[0] > 256 || p.strides[1] > 256 || p.strides[2] > 256)
        return "a gradient of src is computed with strides of up to 256";
    for (size_t i = 0; i < 3; ++i) {
        if (p.dilations[i] != 1)
            return "a gradient of src with strides above 1 is computed without "
                   "dilations";
        if (p.pads[i] < 0)
            return "a gradient of src with strides above 1 is computed without "
                   "negative pads";
    }
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
    bool strided = false;
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
        strided = strided || p.strides[i] != 1;
    }
    const int64_t inputs = patches ? problem.src.dims[1]
                    * problem.weights.dims[4] * problem.weights.dims[5]
                                   : problem.src.dims[1];
    const int64_t outputs = problem.dst.dims[1];
    p.c = round_up(inputs, vector);
    p.k = round_up(outputs, vector);
    p.space = has_depth(problem) ? 3 : 2;
    bool turned = false;
    if (is_of_weights(problem)) {
        p.operation = operation::weights;
        made.order = {2, 0, 1};
    } else if (is_to_src(problem)) {
        made.order = {2, 1, 0};
        if (strided)
            p.operation = operation::strided_data;
        else {
            // diff_src[x] = sum over k of diff_dst[x + pad - k*dilation] *
            // weights[k]: the forward convolution with the window backwards.
            turned = true;
            p.flipped = true;
            std::swap(p.c, p.k);
            std::swap(p.src, p.dst);
            for (size_t i = 0; i < 3; ++i)
                p.pads[i] = (p.window[i] - 1) * p.dilations[i] - p.pads[i];
        }
    }
    if (problem.direction == convolution_direction::forward)
        p.callers_terms = share_of(inputs, p.c);
    else if (is_to_src(problem))
        p.callers_terms = share_of(outputs, strided ? p.k : p.c);
    refusal = reason_against(p);
    if (!refusal.empty()) return std::nullopt;
    made.operands = {patches ? patches_operand(problem, vector, output == 0)
                             : data_operand(problem.src, vector, output == 0),
            weights_operand(problem, vector, patches, turned, output == 1),
            data_operand(problem.dst, vector, output == 2)};
    return made;
}

} // namespace

int64_t dense_problem::output_elements() const {
    switch (operation) {
        case operation::strided_data: return src_elements();
        case operation::weights: return weights_elements();
        case operation::forward: break;
    }
    return dst_elements();
}

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
    p.callers_terms = share_of(outputs, p.c);
    made.order = {2, 1, 0};
    dense_problem image = p;
    image.n = 1;
    refusal = reason_against(image);
    if (!refusal.empty()) {
        refusal = "of an image " + refusal;
        return std::nullopt;
    }
    const auto of = [&](size_t i) { return axis_of(problem.weights, i); };
    const dense_axis one = plain({1, 0});
    made.operands = {
            in_place ? own_operand() : data_operand(problem.src, 1, true),
            operand_of(types.input,
                    {filled_axis({of(3), of(4), of(5), of(2)}, vector), one,
                            one, one, filled_axis({of(1)}, vector)},
                    false),
            data_operand(problem.dst, vector, false)};
    return made;
}

} // namespace gradnn::gpu::implicit_gemm
