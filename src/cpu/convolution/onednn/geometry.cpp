#include "cpu/convolution/onednn/geometry.hpp"

#include <algorithm>
#include <numeric>

#include "kernel/convolution_window.hpp"
#include "kernel/problem_text.hpp"

namespace gradnn::cpu::onednn {

using dnnl::memory;

int64_t operand::elements() const {
    return std::accumulate(sizes.begin(), sizes.end(), int64_t {1},
            [](int64_t product, int64_t size) { return product * size; });
}

namespace {

/// Where gradients of weights of 1x1 windows copy src in 16 bits by squares, what
/// their strides step over is no part of it: src is what is read.
void leave_out_steps(geometry &g) {
    const auto is_zero = [](int64_t pad) { return pad == 0; };
    const auto is_inside = [](int64_t pad) { return pad <= 0; };
    const auto is_one = [](int64_t size) { return size == 1; };
    constexpr int64_t enough = 4;
    int64_t read_of = 1; // as many elements one is read, or enough
    for (const int64_t stride : g.strides)
        read_of = std::min(enough, read_of * std::min(enough, stride));
    const auto rank = static_cast<ptrdiff_t>(g.strides.size());
    if (g.direction != detail::convolution_direction::backward_weights
            || read_of < enough || detail::size_of(g.src.type) > 2
            || g.src.strides[1] == 1
            || !std::all_of(
                    g.weights.sizes.end() - rank, g.weights.sizes.end(), is_one)
            || !std::all_of(g.pads_begin.begin(), g.pads_begin.end(), is_zero)
            || !std::all_of(g.pads_end.begin(), g.pads_end.end(), is_inside))
        return;
    for (size_t axis = 0; axis < g.strides.size(); ++axis) {
        g.src.sizes[axis + 2] = g.dst.sizes[axis + 2];
        if (g.dst.sizes[axis + 2] > 1)
            g.src.strides[axis + 2] *= g.strides[axis];
        g.strides[axis] = 1;
        g.pads_end[axis] = 0;
    }
}

} // namespace

std::optional<geometry> make_geometry(
        const detail::convolution_problem &problem, std::string &refusal) {
    if (problem.src.type == data_type::f64) {
        refusal = "takes f32, bf16 and f16, given f64: oneDNN has no other";
        return {};
    }
    // Its kernels compute positions in 32 bits, without a check.
    if (!detail::windows_fit(problem, int64_t {1} << 30)) {
        refusal = "takes sizes and positions of windows below 2^30; "
                + detail::given(problem);
        return {};
    }
    geometry g;
    g.direction = problem.direction;
    g.grouped = problem.weights.dims[0] > 1;
    const auto append = [](operand &tensor, const auto &view, size_t axis) {
        tensor.sizes.push_back(view.dims[axis]);
        tensor.strides.push_back(view.strides[axis]);
    };
    g.src.type = problem.src.type;
    g.weights.type = problem.weights.type;
    g.dst.type = problem.dst.type;
    for (size_t axis = 0; axis < 2; ++axis) {
        append(g.src, problem.src, axis);
        append(g.dst, problem.dst, axis);
    }
    for (size_t axis = g.grouped ? 0 : 1; axis < 3; ++axis)
        append(g.weights, problem.weights, axis);

    constexpr size_t rank = 3;
    for (size_t axis = 0; axis < rank; ++axis) {
        const int64_t src = problem.src.dims[axis + 2];
        const int64_t dst = problem.dst.dims[axis + 2];
        const int64_t kernel = problem.weights.dims[axis + 3];
        const int64_t stride = problem.strides[axis];
        const int64_t dilation = problem.dilations[axis];
        const int64_t begin = problem.pads_begin[axis];
        const bool idle = src == 1 && dst == 1 && kernel == 1 && begin == 0;
        const bool last = axis + 1 == rank && g.strides.empty();
        if (idle && !last) continue;
        const int64_t end = (dst - 1) * stride + (kernel - 1) * dilation + 1
                - src - begin;
        if (begin < 0) {
            refusal = "takes no negative pads_begin, given "
                    + std::to_string(begin);
            return {};
        }
        if (end <= -stride) {
            refusal = "takes a dst that covers src to within a stride, given "
                      "one that "
                      "leaves "
                    + std::to_string(-end) + " elements over";
            return {};
        }
        append(g.src, problem.src, axis + 2);
        append(g.dst, problem.dst, axis + 2);
        append(g.weights, problem.weights, axis + 3);
        g.strides.push_back(stride);
        g.dilates.push_back(dilation - 1);
        g.pads_begin.push_back(begin);
        g.pads_end.push_back(end);
    }
    leave_out_steps(g);
    return g;
}

std::optional<std::vector<sub_axis>> split_axes(const memory::desc &layout) {
    if (layout.get_format_kind() != memory::format_kind::blocked
            || layout.get_padded_dims() != layout.get_dims())
        return {};
    const dims sizes = layout.get_dims();
    const dims strides = layout.get_strides();
    const dims blocks = layout.get_inner_blks();
    const dims axes = layout.get_inner_idxs();
    std::vector<sub_axis> parts;
    const auto add = [&](const sub_axis &part) {
        if (part.extent > 1) parts.push_back(part);
    };
    dims steps(sizes.size(), 1);
    int64_t inner_stride = 1;
    for (size_t block = blocks.size(); block-- > 0;) {
        const auto axis = static_cast<size_t>(axes[block]);
        add({axis, blocks[block], steps[axis], inner_stride});
        steps[axis] *= blocks[block];
        inner_stride *= blocks[block];
    }
    for (size_t axis = sizes.size(); axis-- > 0;)
        add({axis, sizes[axis] / steps[axis], steps[axis], strides[axis]});
    return parts;
}

bool same_layout(const operand &tensor, const memory::desc &layout) {
    if (to_onednn(tensor.type) != layout.get_data_type()
            || tensor.sizes != layout.get_dims())
        return false;
    const auto parts = split_axes(layout);
    return parts
            && std::all_of(parts->begin(), parts->end(), [&](const auto &part) {
                   return part.stride == part.step * tensor.strides[part.axis];
               });
}

memory::desc describe(const operand &tensor) {
    dims strides = tensor.strides;
    // An axis of size 1 gets the stride that it would have outermost, which
    // agrees with every layout.
    int64_t reach = 1;
    for (size_t axis = 0; axis < strides.size(); ++axis) {
        if (tensor.sizes[axis] == 1) continue;
        if (strides[axis] == 0) return {};
        reach = std::max(reach, strides[axis] * tensor.sizes[axis]);
    }
    for (size_t axis = 0; axis < strides.size(); ++axis)
        if (tensor.sizes[axis] == 1) strides[axis] = reach;
    return {tensor.sizes, to_onednn(tensor.type), strides, true};
}

dims dense_strides(const dims &sizes) {
    dims strides(sizes.size());
    int64_t stride = 1;
    for (size_t axis = sizes.size(); axis-- > 0;) {
        strides[axis] = stride;
        stride *= sizes[axis];
    }
    return strides;
}

dims channels_last_strides(const dims &sizes) {
    dims strides(sizes.size());
    int64_t stride = sizes[1];
    strides[1] = 1;
    for (size_t axis = sizes.size() - 1; axis >= 2; --axis) {
        strides[axis] = stride;
        stride *= sizes[axis];
    }
    strides[0] = stride;
    return strides;
}

memory::data_type to_onednn(data_type type) {
    switch (type) {
        case data_type::f32: return memory::data_type::f32;
        case data_type::bf16: return memory::data_type::bf16;
        case data_type::f16: return memory::data_type::f16;
        default: return memory::data_type::undef;
    }
}

data_type from_onednn(memory::data_type type) {
    switch (type) {
        case memory::data_type::f32: return data_type::f32;
        case memory::data_type::bf16: return data_type::bf16;
        case memory::data_type::f16: return data_type::f16;
        default: return data_type::undef;
    }
}

} // namespace gradnn::cpu::onednn
