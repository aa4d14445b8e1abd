#include "kernel/problem_text.hpp"

#include "base/text.hpp"

namespace gradnn::detail {

namespace {

template <typename Values>
std::string three(const Values &values, size_t first = 0) {
    return text(values[first], 'x', values[first + 1], 'x', values[first + 2]);
}

/// Dense or with gaps: NCX where rows lie in one piece, NXC where channels do.
std::string layout_of(const tensor_view &tensor) {
    const auto in_one_piece = [&](size_t axis) {
        return tensor.dims[axis] > 1 && tensor.strides[axis] == 1;
    };
    if (in_one_piece(4)) return "NCX";
    if (in_one_piece(1)) return "NXC";
    return "strides " + text_of(tensor.strides);
}

/// The layout of both, or of each.
std::string layouts_of(const tensor_view &a, const tensor_view &b) {
    const std::string of_a = layout_of(a);
    const std::string of_b = layout_of(b);
    return of_a == of_b ? of_a : of_a + " and " + of_b;
}

const char *to_string(interpolation_mode mode) {
    switch (mode) {
        case interpolation_mode::nearest: return "nearest";
        case interpolation_mode::linear: return "linear";
        case interpolation_mode::cubic: return "cubic";
        case interpolation_mode::box: break;
    }
    return "box";
}

std::string images_of(const tensor_view &tensor) {
    return text(tensor.dims[0],
            tensor.dims[0] == 1 ? " image of " : " images of ", tensor.dims[1],
            tensor.dims[1] == 1 ? " channel" : " channels");
}

} // namespace

std::string given(const interpolation_problem &problem) {
    return text("given ", to_string(problem.diff_src.type), ' ',
            layouts_of(problem.diff_src, problem.diff_dst), ", ",
            images_of(problem.diff_src), ", ", three(problem.diff_src.dims, 2),
            " -> ", three(problem.diff_dst.dims, 2), ", ",
            to_string(problem.mode),
            problem.axes[2].antialias ? ", antialias" : "",
            problem.axes[2].forward ? ", forward" : "");
}

std::string given(const convolution_problem &problem) {
    const auto &weights = problem.weights.dims;
    return text("given ", to_string(problem.src.type),
            problem.weights.type == problem.src.type
                    ? std::string()
                    : text(" with weights in ",
                            to_string(problem.weights.type)),
            ' ', layouts_of(problem.src, problem.dst), ", ",
            images_of(problem.src), ", src ", three(problem.src.dims, 2),
            ", dst ", three(problem.dst.dims, 2), ", ", weights[0],
            weights[0] == 1 ? " group of " : " groups of ", weights[2], " to ",
            weights[1], " channels, window ", three(weights, 3), ", strides ",
            three(problem.strides), ", dilations ", three(problem.dilations),
            ", pads_begin ", three(problem.pads_begin));
}

} // namespace gradnn::detail
