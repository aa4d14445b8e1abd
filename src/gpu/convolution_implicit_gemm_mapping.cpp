// A convolution_problem as a dense channels-last one: which tensors are copied
// and how. Plain host arithmetic, without CUDA.
#include <cstdlib>
#include <utility>

#include "gpu/convolution_implicit_gemm.hpp"
#include "gpu/rounding.hpp"
#include "text.hpp"

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

constexpr int64_t filled(int64_t channels, data_type type) {
    return round_up(channels, vector_of(type));
}

/// An axis of a caller's tensor, and its size in the dense one.
struct axis {
    int64_t size;
    int64_t stride;
    int64_t dense_size;
};

/// The axes from the outermost to the innermost.
convolution_operand operand_of(
        data_type type, const std::array<axis, 5> &axes, bool is_output) {
    convolution_operand made;
    bool padded = false;
    std::array<int64_t, 5> dense {};
    int64_t next = 1;
    for (size_t i = axes.size(); i-- > 0;) {
        dense[i] = next;
        next *= axes[i].dense_size;
        padded = padded || axes[i].size != axes[i].dense_size;
        made.staged = made.staged
                || (axes[i].size != 1 && axes[i].stride != dense[i]);
    }
    made.bytes = static_cast<size_t>(next * detail::size_of(type));
    made.staged = made.staged || padded;
    made.zero_first = padded && !is_output;
    strided_copy &copy = made.copy;
    copy.src_type = copy.dst_type = type;
    copy.rank = 5;
    copy.dims.fill(1);
    for (size_t i = 0; i < axes.size(); ++i) {
        copy.dims[i] = axes[i].size;
        copy.src_strides[i] = is_output ? dense[i] : axes[i].stride;
        copy.dst_strides[i] = is_output ? axes[i].stride : dense[i];
    }
    return made;
}

convolution_operand data_operand(
        const detail::tensor_view &view, bool is_output) {
    const auto plain = [&](size_t i) {
        return axis {view.dims[i], view.strides[i], view.dims[i]};
    };
    return operand_of(view.type,
            {plain(0), plain(2), plain(3), plain(4),
                    {view.dims[1], view.strides[1],
                            filled(view.dims[1], view.type)}},
            is_output);
}

/// O, space, I, or with `turned` I, space, O.
convolution_operand weights_operand(
        const detail::weights_view &view, bool turned, bool is_output) {
    const auto plain = [&](size_t i) {
        return axis {view.dims[i], view.strides[i], view.dims[i]};
    };
    const auto channels = [&](size_t i) {
        return axis {
                view.dims[i], view.strides[i], filled(view.dims[i], view.type)};
    };
    return operand_of(view.type,
            {channels(turned ? 2 : 1), plain(3), plain(4), plain(5),
                    channels(turned ? 1 : 2)},
            is_output);
}

/// Why the kernels cannot do what is asked; empty where they can.
std::string reason_against(const dense_problem &p) {
    const int64_t most_elements = most_bytes / detail::size_of(p.type) - 1;
    for (const int64_t elements :
            {p.src_elements(), p.weights_elements(), p.dst_elements()})
        if (elements > most_elements)
            return text("tensors of up to ", most_elements,
                    " elements are allowed, given ", elements);
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
        if (std::abs(p.pads[i]) > most_elements / pitch)
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
        const convolution_problem &problem, data_type type,
        std::string &refusal) {
    for (const data_type given :
            {problem.src.type, problem.weights.type, problem.dst.type})
        if (given != type) {
            refusal = text("takes ", to_string(type), " alone");
            return std::nullopt;
        }
    if (problem.weights.dims[0] != 1) {
        refusal = text("takes convolutions of one group, given ",
                problem.weights.dims[0]);
        return std::nullopt;
    }
    dense_mapping made;
    dense_problem &p = made.problem;
    p.n = problem.src.dims[0];
    p.type = type;
    p.c = filled(problem.src.dims[1], type);
    p.k = filled(problem.dst.dims[1], type);
    bool strided = false;
    for (size_t i = 0; i < 3; ++i) {
        p.src[i] = problem.src.dims[2 + i];
        p.window[i] = problem.weights.dims[3 + i];
        p.dst[i] = problem.dst.dims[2 + i];
        p.pads[i] = problem.pads_begin[i];
        // What no second element follows may have any distance to it.
        p.strides[i] = p.dst[i] == 1 ? 1 : problem.strides[i];
        p.dilations[i] = p.window[i] == 1 ? 1 : problem.dilations[i];
        strided = strided || p.strides[i] != 1;
    }
    p.space = p.src[0] == 1 && p.window[0] == 1 && p.dst[0] == 1
                    && p.pads[0] == 0
            ? 2
            : 3;
    bool turned = false;
    size_t output = 2;
    if (problem.direction == convolution_direction::backward_weights) {
        p.operation = operation::weights;
        made.order = {2, 0, 1};
        output = 1;
    } else if (problem.direction == convolution_direction::backward_data) {
        output = 0;
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
    refusal = reason_against(p);
    if (!refusal.empty()) return std::nullopt;
    made.operands = {data_operand(problem.src, output == 0),
            weights_operand(problem.weights, turned, output == 1),
            data_operand(problem.dst, output == 2)};
    return made;
}

} // namespace gradnn::gpu::implicit_gemm
