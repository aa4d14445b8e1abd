#include "gpu/convolution/implicit_gemm/parts.hpp"

#include "gpu/device/rounding.hpp"
#include "problem_text.hpp"
#include "text.hpp"

namespace gradnn::gpu::implicit_gemm {

namespace {

using detail::convolution_direction;
using detail::convolution_problem;
using detail::size_of;
using detail::text;

std::vector<problem_part> groups_of(const problem_part &whole) {
    const convolution_problem &p = whole.problem;
    const int64_t groups = p.weights.dims[0];
    const int64_t outputs = p.weights.dims[1];
    const int64_t inputs = p.weights.dims[2];
    std::vector<problem_part> parts;
    for (int64_t group = 0; group < groups; ++group) {
        problem_part part = whole;
        part.problem.weights.dims[0] = 1;
        part.problem.weights.strides[0] = 0;
        part.problem.src.dims[1] = inputs;
        part.problem.dst.dims[1] = outputs;
        part.offsets[0]
                += group * inputs * p.src.strides[1] * size_of(p.src.type);
        part.offsets[1]
                += group * p.weights.strides[0] * size_of(p.weights.type);
        part.offsets[2]
                += group * outputs * p.dst.strides[1] * size_of(p.dst.type);
        parts.push_back(part);
    }
    return parts;
}

/// The phases along one axis. A part without taps has a window of 0; one
/// without positions is left out.
std::vector<problem_part> phases_of(const problem_part &whole, size_t axis) {
    const convolution_problem &p = whole.problem;
    const int64_t stride = p.strides[axis];
    const int64_t pad = p.pads_begin[axis];
    const int64_t size = p.src.dims[2 + axis];
    const int64_t window = p.weights.dims[3 + axis];
    std::vector<problem_part> parts;
    for (int64_t phase = 0; phase < stride; ++phase) {
        // The first position of the phase, and its v.
        const int64_t first = ((phase - pad) % stride + stride) % stride;
        if (first >= size) continue;
        problem_part part = whole;
        convolution_problem &made = part.problem;
        made.strides[axis] = 1;
        made.pads_begin[axis] = (first + pad - phase) / stride;
        made.src.dims[2 + axis] = ceil_div(size - first, stride);
        made.src.strides[2 + axis] *= stride;
        made.weights.dims[3 + axis]
                = phase < window ? ceil_div(window - phase, stride) : 0;
        made.weights.strides[3 + axis] *= stride;
        part.offsets[0]
                += first * p.src.strides[2 + axis] * size_of(p.src.type);
        part.offsets[1] += phase * p.weights.strides[3 + axis]
                * size_of(p.weights.type);
        parts.push_back(part);
    }
    return parts;
}

} // namespace

std::vector<problem_part> parts_of(const convolution_problem &problem,
        bool without_strides, size_t most, std::string &refusal) {
    std::vector<problem_part> parts {{problem, {}}};
    const auto too_many = [&](int64_t count) {
        if (count <= static_cast<int64_t>(most)) return false;
        refusal = text("takes what up to ", most, " parts make, given ", count);
        return true;
    };
    const int64_t groups = problem.weights.dims[0];
    if (too_many(groups)) return {};
    if (groups > 1) parts = groups_of(parts.front());
    if (!without_strides
            || problem.direction != convolution_direction::backward_data)
        return parts;
    for (size_t axis = 0; axis < 3; ++axis) {
        const int64_t stride = problem.strides[axis];
        // What no second position follows may have any stride.
        if (stride == 1 || problem.dst.dims[2 + axis] == 1) continue;
        if (problem.dilations[axis] != 1) {
            refusal = "takes gradients of src with strides or dilations, not "
                      "both; "
                    + detail::given(problem);
            return {};
        }
        if (too_many(static_cast<int64_t>(parts.size()) * stride)) return {};
        std::vector<problem_part> finer;
        for (const problem_part &part : parts)
            for (const problem_part &phase : phases_of(part, axis)) {
                if (phase.problem.weights.dims[3 + axis] == 0) {
                    refusal = "takes gradients of src with strides within the "
                              "window; "
                            + detail::given(problem);
                    return {};
                }
                finer.push_back(phase);
            }
        parts = std::move(finer);
    }
    return parts;
}

} // namespace gradnn::gpu::implicit_gemm
