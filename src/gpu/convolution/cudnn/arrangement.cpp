#include "gpu/convolution/cudnn/arrangement.hpp"

#include <algorithm>
#include <limits>
#include <optional>

#include "gpu/convolution/facts.hpp"
#include "kernel/convolution_window.hpp"

namespace gradnn::gpu::cudnn {

namespace {

using detail::convolution_direction;
using detail::convolution_problem;
using detail::data_type;

using array5 = std::array<int64_t, 5>;
using array6 = std::array<int64_t, 6>;

/// Groups, O, I, D, H, W; of src and dst 1, N, C, D, H, W.
struct grouped_tensor {
    data_type type;
    array6 dims;
    array6 strides;
};

bool is_narrow(const detail::tensor_view &tensor) {
    return detail::size_of(tensor.type) == 2;
}

grouped_tensor grouped(const detail::tensor_view &view) {
    grouped_tensor result {view.type, {1}, {0}};
    std::copy(view.dims.begin(), view.dims.end(), result.dims.begin() + 1);
    std::copy(view.strides.begin(), view.strides.end(),
            result.strides.begin() + 1);
    return result;
}

grouped_tensor grouped(const detail::weights_view &view) {
    return {view.type, view.dims, view.strides};
}

/// The axes from the outermost to the innermost.
enum class family { ncx, nxc };

array5 folded_dims(const grouped_tensor &t) {
    return {t.dims[0] * t.dims[1], t.dims[2], t.dims[3], t.dims[4], t.dims[5]};
}

array5 dense_strides(const array5 &dims, family order) {
    return order == family::ncx ? gpu::dense_strides(dims, {4, 3, 2, 1, 0})
                                : gpu::dense_strides(dims, {1, 4, 3, 2, 0});
}

/// The strides of a tensor with groups and O in one axis, where it is dense in
/// this order, with or without gaps along that axis; those of axes of size 1 as
/// if dense.
std::optional<array5> strides_in(const grouped_tensor &t, family order) {
    const array5 dims = folded_dims(t);
    array5 strides = dense_strides(dims, order);
    int64_t outer = t.strides[1];
    if (t.dims[0] != 1) {
        if (t.dims[1] == 1)
            outer = t.strides[0];
        else if (t.strides[0] != t.dims[1] * t.strides[1])
            return std::nullopt;
    }
    for (size_t axis = 1; axis < dims.size(); ++axis)
        if (dims[axis] != 1 && t.strides[axis + 1] != strides[axis])
            return std::nullopt;
    if (dims[0] != 1) {
        if (outer < strides[0]) return std::nullopt;
        strides[0] = outer;
    }
    return strides;
}

/// Where cuDNN's src begins and how long it is along one axis.
struct axis_window {
    int64_t size = 1;
    int64_t shift = 0; ///< index of the caller's element 0 in it
    int64_t pad = 0; ///< at either end
};

struct axis_shape {
    int64_t src, weights, dst, stride, dilation, pad_begin;

    int64_t window() const { return (weights - 1) * dilation + 1; }
    /// src with its padding must be at least so long.
    int64_t span() const { return (dst - 1) * stride + window(); }
};

axis_shape shape_of(const convolution_problem &p, size_t axis) {
    return {p.src.dims[2 + axis], p.weights.dims[3 + axis],
            p.dst.dims[2 + axis], p.strides[axis], p.dilations[axis],
            p.pads_begin[axis]};
}

/// src with equal pads on both sides: the caller's own where that can be (what
/// lies beyond the last window is free up to stride - 1 elements), else src
/// extended or cropped. cuDNN 9.14 accepts pads that differ and gives wrong
/// gradients for some of them.
axis_window even_window(const axis_shape &axis) {
    const int64_t end = axis.span() - axis.src - axis.pad_begin;
    if (axis.pad_begin >= 0 && axis.pad_begin >= end
            && axis.pad_begin < end + axis.stride)
        return {axis.src, 0, axis.pad_begin};
    int64_t pad = std::max<int64_t>(0, std::min(axis.pad_begin, end));
    if (axis.span() - 2 * pad < 1) pad = 0;
    return {axis.span() - 2 * pad, axis.pad_begin - pad, pad};
}

/// Copies the caller's elements to the staged tensor (or back), as far as the
/// windows let them meet; where the staged tensor has more channels, those stay
/// zero. Nothing where they do not meet at all.
bool set_copy(seen_operand &operand, const grouped_tensor &callers,
        const array5 &staged_strides, const std::array<axis_window, 3> &windows,
        bool is_output) {
    const auto callers_size = detail::size_of(callers.type);
    const auto staged_size = detail::size_of(operand.seen.type);
    array6 dims = callers.dims;
    array6 staged {callers.dims[1] * staged_strides[0], staged_strides[0],
            staged_strides[1], staged_strides[2], staged_strides[3],
            staged_strides[4]};
    bool all_of_callers = true;
    bool all_of_staged
            = operand.seen.dims[0] == callers.dims[0] * callers.dims[1]
            && operand.seen.dims[1] == callers.dims[2];
    for (size_t axis = 0; axis < 3; ++axis) {
        const axis_window &window = windows[axis];
        const int64_t size = callers.dims[3 + axis];
        const int64_t begin = std::max<int64_t>(0, -window.shift);
        const int64_t end = std::min(size, window.size - window.shift);
        if (begin >= end) return false;
        dims[3 + axis] = end - begin;
        all_of_callers = all_of_callers && end - begin == size;
        all_of_staged = all_of_staged && end - begin == window.size;
        operand.callers_start
                += begin * callers.strides[3 + axis] * callers_size;
        operand.staged_start
                += (begin + window.shift) * staged[3 + axis] * staged_size;
    }
    operand.zero_first = is_output ? !all_of_callers : !all_of_staged;
    strided_copy &copy = operand.copy;
    copy = {callers.type, operand.seen.type, 6, dims, callers.strides, staged};
    if (!is_output) return true;
    std::swap(copy.src_type, copy.dst_type);
    std::swap(copy.src_strides, copy.dst_strides);
    operand.fill = {
            callers.type, callers.type, 6, callers.dims, {}, callers.strides};
    return true;
}

strided_copy same_layout(const described_tensor &t) {
    strided_copy same;
    same.src_type = same.dst_type = t.type;
    same.rank = t.rank;
    std::copy(t.dims.begin(), t.dims.end(), same.dims.begin());
    std::copy(t.strides.begin(), t.strides.end(), same.src_strides.begin());
    same.dst_strides = same.src_strides;
    return same;
}

std::optional<problem_arrangement> arrange_as_given(
        const convolution_problem &p, family order, bool widened) {
    problem_arrangement made;
    made.direction = p.direction;
    made.widened = widened;
    std::array<axis_window, 3> src_windows;
    for (size_t axis = 0; axis < 3; ++axis) {
        const axis_shape shape = shape_of(p, axis);
        src_windows[axis] = even_window(shape);
        // Zeros around src that are most of it: only attributes without use make
        // them, and they take gigabytes.
        constexpr int64_t most_zeros = 64;
        if (src_windows[axis].size
                > most_zeros * (shape.src + shape.dst + shape.weights))
            return std::nullopt;
    }
    const size_t skip = has_depth(p) ? 0 : 1;
    made.space = skip == 1 ? 2 : 3;
    for (size_t axis = skip; axis < 3; ++axis) {
        made.strides[axis - skip] = p.strides[axis];
        made.dilations[axis - skip] = p.dilations[axis];
        made.pads[axis - skip] = src_windows[axis].pad;
    }

    const std::array<grouped_tensor, 3> callers {
            grouped(p.src), grouped(p.weights), grouped(p.dst)};
    made.f32_output = callers[made.output()].type == data_type::f32;
    std::array<array5, 3> all_dims;
    std::array<std::optional<array5>, 3> own; // strides of what is not staged
    for (size_t index = 0; index < 3; ++index) {
        const grouped_tensor &tensor = callers[index];
        all_dims[index] = folded_dims(tensor);
        made.operands[index].seen.type = widened ? data_type::f32 : tensor.type;
        bool same = made.operands[index].seen.type == tensor.type;
        for (size_t axis = 0; index == 0 && axis < 3; ++axis) {
            const axis_window &window = src_windows[axis];
            same = same && window.size == p.src.dims[2 + axis]
                    && window.shift == 0;
            all_dims[0][2 + axis] = window.size;
        }
        if (same) own[index] = strides_in(tensor, order);
    }
    if (order == family::nxc && !widened && is_narrow(p.src) && is_narrow(p.dst)
            && p.weights.dims[0] == 1) {
        const channel_counts channels = filled_channels(p, !own[0], !own[2]);
        const bool fills_src = channels.src != p.src.dims[1];
        const bool fills_dst = channels.dst != p.dst.dims[1];
        if (fills_src) own[0].reset();
        if (fills_dst) own[2].reset();
        if (fills_src || fills_dst) own[1].reset();
        all_dims[0][1] = all_dims[1][1] = channels.src;
        all_dims[2][1] = all_dims[1][0] = channels.dst;
    }
    for (size_t index = 0; index < 3; ++index) {
        seen_operand &operand = made.operands[index];
        const array5 &dims = all_dims[index];
        operand.staged = !own[index];
        const array5 strides
                = own[index] ? *own[index] : dense_strides(dims, order);
        operand.seen.rank = 2 + made.space;
        operand.seen.dims = {dims[0], dims[1]};
        operand.seen.strides = {strides[0], strides[1]};
        for (size_t axis = skip; axis < 3; ++axis) {
            operand.seen.dims[2 + axis - skip] = dims[2 + axis];
            operand.seen.strides[2 + axis - skip] = strides[2 + axis];
        }
        if (operand.seen.extent() > std::numeric_limits<int32_t>::max())
            return std::nullopt;
        operand.bytes = static_cast<size_t>(
                operand.seen.extent() * detail::size_of(operand.seen.type));
        if (!operand.staged) {
            operand.copy = same_layout(operand.seen);
            continue;
        }
        std::array<axis_window, 3> windows = src_windows;
        if (index != 0) windows = {{{dims[2]}, {dims[3]}, {dims[4]}}};
        if (!set_copy(operand, callers[index], strides, windows,
                    index == made.output()))
            return std::nullopt;
    }
    made.staged_bytes = staged_bytes_of(made.operands);
    return made;
}

/// The same convolution with a stride, which has no effect at one position of dst, so
/// long that the caller's pads may be those of both ends.
convolution_problem with_even_pads(const convolution_problem &given) {
    convolution_problem made = given;
    for (size_t axis = 0; axis < 3; ++axis) {
        const axis_shape shape = shape_of(given, axis);
        const int64_t end = shape.span() - shape.src - shape.pad_begin;
        const int64_t stride = shape.pad_begin - end + 1;
        // Only absurd attributes need longer ones.
        if (shape.dst == 1 && shape.dilation == 1 && shape.pad_begin > end
                && stride <= 2 * shape.window())
            made.strides[axis] = std::max(shape.stride, stride);
    }
    return made;
}

std::optional<problem_arrangement> arrange(
        const convolution_problem &p, family order, bool widened) {
    // Where src is copied all the same, less of it is copied for its own pads.
    const convolution_problem even = with_even_pads(p);
    if (even.strides != p.strides) {
        auto made = arrange_as_given(even, order, widened);
        if (made && !made->operands[0].staged) return made;
    }
    auto made = arrange_as_given(p, order, widened);
    const auto met = of_met_positions(p);
    if (!met || !made || !made->operands[0].staged) return made;
    auto less = arrange_as_given(*met, order, widened);
    if (!less) return made;
    if (less->output() == 0) fill_with_zeros(less->operands[0], p.src);
    return less;
}

/// Whether 16-bit tensors are better read as NXC, by copies where they are not:
/// cuDNN's kernels for NCX are up to twice as slow, more than the copies cost (measured
/// on an H200). Not where the convolution is a product of matrices in NCX whose rows
/// begin at multiples of 16 bytes.
bool better_as_nxc(const convolution_problem &p) {
    if (p.weights.dims[0] != 1) return false;
    if (p.src.strides[1] == 1 && p.dst.strides[1] == 1) return true;
    bool product = true;
    for (size_t axis = 0; axis < 3; ++axis) {
        const axis_shape shape = shape_of(p, axis);
        product = product && shape.weights == 1 && shape.stride == 1
                && shape.src == shape.dst;
    }
    return !product || positions_of(p.dst) % 8 != 0;
}

bool same_arrangement(
        const problem_arrangement &a, const problem_arrangement &b) {
    const auto seen = &seen_operand::seen;
    return std::ranges::equal(a.operands, b.operands, {}, seen, seen)
            && a.pads == b.pads;
}

} // namespace

int64_t described_tensor::extent() const {
    int64_t last = 0;
    for (size_t axis = 0; axis < static_cast<size_t>(rank); ++axis)
        last += (dims[axis] - 1) * strides[axis];
    return last + 1;
}

bool problem_arrangement::exceeds_a_grid() const {
    constexpr int64_t most = 65535;
    for (const seen_operand &operand : operands)
        for (int axis = 0; axis + 1 < operand.seen.rank; ++axis)
            if (operand.seen.dims[static_cast<size_t>(axis)] > most)
                return true;
    const int64_t groups = operands[0].seen.dims[1] / operands[1].seen.dims[1];
    return operands[0].seen.dims[0] * groups > most && groups > 1;
}

int64_t problem_arrangement::weights_terms() const {
    const described_tensor &dst = operands[2].seen;
    int64_t terms = dst.dims[0];
    for (size_t axis = 2; axis < static_cast<size_t>(dst.rank); ++axis)
        terms *= dst.dims[axis];
    return terms;
}

std::vector<problem_arrangement> arrangements_of(
        const convolution_problem &problem) {
    const bool narrow = is_narrow(problem.src) || is_narrow(problem.dst);
    std::vector<problem_arrangement> found;
    // Its kernels compute in 32 bits, and src may be extended to the windows.
    if (!detail::windows_fit(problem, int64_t {1} << 31)) return found;
    for (const bool widened : {false, true}) {
        if (widened && !narrow) continue;
        auto ncx = arrange(problem, family::ncx, widened);
        auto nxc = arrange(problem, family::nxc, widened);
        // Fewer bytes to copy first; tensor cores read 16 bits as NXC.
        const bool narrow_operands = narrow && !widened;
        if (ncx && nxc
                && (nxc->staged_bytes < ncx->staged_bytes
                        || (nxc->staged_bytes == ncx->staged_bytes && narrow)
                        || (narrow_operands && better_as_nxc(problem))))
            std::swap(ncx, nxc);
        for (auto *made : {&ncx, &nxc})
            if (*made
                    && std::ranges::none_of(
                            found, [&](const problem_arrangement &known) {
                                return same_arrangement(known, **made);
                            }))
                found.push_back(std::move(**made));
    }
    return found;
}

} // namespace gradnn::gpu::cudnn
