#include "gpu/convolution/cudnn/arrangement.hpp"

#include <algorithm>
#include <limits>
#include <optional>

#include "gpu/convolution/facts.hpp"
#include "kernel/convolution_window.hpp"

namespace gradnn::gpu::cudnn {

namespace {

using detail::data_type;

using array5 = std::array<int64_t, 5>;

/// As weights of one group: 1, N, C, D, H, W.
six_axes grouped(const detail::tensor_view &view) {
    six_axes result {view.type, {1}, {0}};
    std::ranges::copy(view.dims, result.dims.begin() + 1);
    std::ranges::copy(view.strides, result.strides.begin() + 1);
    return result;
}

/// The axes of a layout from the innermost to the outermost.
using axis_order = std::array<size_t, 5>;
constexpr axis_order ncx {4, 3, 2, 1, 0};
constexpr axis_order nxc {1, 4, 3, 2, 0};

array5 folded_dims(const six_axes &t) {
    return {t.dims[0] * t.dims[1], t.dims[2], t.dims[3], t.dims[4], t.dims[5]};
}

/// The strides of a tensor with groups and O in one axis, where it is dense in
/// this order, with or without gaps along that axis; those of axes of size 1 as
/// if dense.
std::optional<array5> strides_in(const six_axes &t, const axis_order &order) {
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

/// src with equal pads on both sides: the caller's own where that can be (what
/// lies beyond the last window is free up to stride - 1 elements), else src
/// extended or cropped. cuDNN 9.14 accepts pads that differ and gives wrong
/// gradients for some of them.
axis_window even_window(const spatial_axis &axis) {
    const int64_t end = axis.span() - axis.src - axis.pad;
    if (axis.pad >= 0 && axis.pad >= end && axis.pad < end + axis.stride)
        return {axis.src, 0, axis.pad};
    int64_t pad = std::max<int64_t>(0, std::min(axis.pad, end));
    if (axis.span() - 2 * pad < 1) pad = 0;
    return {axis.span() - 2 * pad, axis.pad - pad, pad};
}

/// What the caller's tensor and cuDNN's, which has these strides, both have: of src as far
/// as the windows let them meet. Nothing where they do not meet at all.
std::optional<convolution_operand> operand_of(const described_tensor &described,
        six_axes callers, const array5 &strides,
        const std::array<axis_window, 3> &windows, bool is_output) {
    six_axes seen {described.type, {},
            {callers.dims[1] * strides[0], strides[0], strides[1], strides[2],
                    strides[3], strides[4]}};
    bool cropped = false;
    int64_t callers_start = 0;
    int64_t staged_start = 0;
    for (size_t axis = 0; axis < 3; ++axis) {
        const axis_window &window = windows[axis];
        int64_t &size = callers.dims[3 + axis];
        const int64_t begin = std::max<int64_t>(0, -window.shift);
        const int64_t end = std::min(size, window.size - window.shift);
        if (begin >= end) return std::nullopt;
        cropped = cropped || end - begin != size;
        size = end - begin;
        callers_start += begin * callers.strides[3 + axis];
        staged_start += (begin + window.shift) * seen.strides[3 + axis];
    }
    seen.dims = callers.dims;
    auto operand
            = gpu::operand_of(callers, seen, is_output, described.extent());
    operand.staged = operand.staged || cropped;
    operand.zero_first = operand.zero_first || (is_output && cropped);
    operand.callers_start = callers_start * detail::size_of(callers.type);
    operand.staged_start = staged_start * detail::size_of(seen.type);
    return operand;
}

/// How many channels cuDNN is told of.
struct channel_counts {
    int64_t src, dst;
};

/// Of a convolution of one group in 16 bits and NXC: both filled up with zeros (README.md),
/// or both the caller's. `src_staged`, `dst_staged`: the tensor is copied anyway. To copy
/// what is not takes 0.57 to 0.95 of the time in gradients of weights, 0.68 to 1.08 in those
/// of src with strides, and 0.89 to 2.7 in other data (26 convolutions, H100, a39b004).
channel_counts filled_channels(
        const convolution_problem &p, bool src_staged, bool dst_staged) {
    const channel_counts callers {p.src.dims[1], p.dst.dims[1]};
    const channel_counts filled {round_up(callers.src, channels_at_once),
            round_up(callers.dst, channels_at_once)};
    const bool gains = is_of_weights(p)
            || (is_to_src(p) && std::ranges::max(p.strides) > 1);
    const auto elements_of_image = [&](const channel_counts &channels) {
        return positions_of(p.src) * channels.src
                + positions_of(p.dst) * channels.dst;
    };
    const bool adds_little = filled.src != callers.src
            && filled.dst != callers.dst
            && 8 * elements_of_image(filled) <= 9 * elements_of_image(callers);
    const auto can = [&](int64_t from, int64_t to, bool staged) {
        return from == to
                || ((staged || gains) && (2 * to <= 3 * from || adds_little));
    };
    return can(callers.src, filled.src, src_staged)
                    && can(callers.dst, filled.dst, dst_staged)
            ? filled
            : callers;
}

std::optional<problem_arrangement> arrange_as_given(
        const convolution_problem &p, const axis_order &order, bool widened) {
    problem_arrangement made;
    made.direction = p.direction;
    made.widened = widened;
    const size_t skip = has_depth(p) ? 0 : 1;
    made.space = 3 - skip;
    std::array<axis_window, 3> src_windows;
    bool moved = false;
    for (size_t i = 0; i < 3; ++i) {
        const spatial_axis axis = spatial_axis_of(p, i);
        const axis_window &window = src_windows[i] = even_window(axis);
        moved = moved || window.shift != 0;
        // Zeros around src that are most of it: only attributes without use make
        // them, and they take gigabytes.
        constexpr int64_t most_zeros = 64;
        if (window.size > most_zeros * (axis.src + axis.dst + axis.window))
            return std::nullopt;
        if (i < skip) continue;
        made.strides[i - skip] = axis.stride;
        made.dilations[i - skip] = axis.dilation;
        made.pads[i - skip] = window.pad;
    }

    const std::array<six_axes, 3> callers {
            grouped(p.src), p.weights, grouped(p.dst)};
    made.f32_output = callers[made.output()].type == data_type::f32;
    std::array<array5, 3> all_dims;
    for (size_t index = 0; index < 3; ++index) {
        all_dims[index] = folded_dims(callers[index]);
        made.seen[index].type = widened ? data_type::f32 : callers[index].type;
    }
    for (size_t axis = 0; axis < 3; ++axis)
        all_dims[0][2 + axis] = src_windows[axis].size;
    // Of what need not be staged.
    const auto own_strides = [&](size_t index) -> std::optional<array5> {
        const six_axes &tensor = callers[index];
        if (made.seen[index].type != tensor.type
                || all_dims[index] != folded_dims(tensor)
                || (index == 0 && moved))
            return std::nullopt;
        return strides_in(tensor, order);
    };
    if (order == nxc && !widened && detail::size_of(p.src.type) == 2
            && p.weights.dims[0] == 1) {
        const channel_counts channels
                = filled_channels(p, !own_strides(0), !own_strides(2));
        all_dims[0][1] = all_dims[1][1] = channels.src;
        all_dims[2][1] = all_dims[1][0] = channels.dst;
    }
    for (size_t index = 0; index < 3; ++index) {
        described_tensor &seen = made.seen[index];
        const array5 &dims = all_dims[index];
        const array5 strides
                = own_strides(index).value_or(dense_strides(dims, order));
        seen.rank = 2 + made.space;
        seen.dims = {dims[0], dims[1]};
        seen.strides = {strides[0], strides[1]};
        for (size_t axis = skip; axis < 3; ++axis) {
            seen.dims[2 + axis - skip] = dims[2 + axis];
            seen.strides[2 + axis - skip] = strides[2 + axis];
        }
        if (seen.extent() > std::numeric_limits<int32_t>::max())
            return std::nullopt;
        std::array<axis_window, 3> windows = src_windows;
        if (index != 0) windows = {{{dims[2]}, {dims[3]}, {dims[4]}}};
        const auto operand = operand_of(
                seen, callers[index], strides, windows, index == made.output());
        if (!operand) return std::nullopt;
        made.operands[index] = *operand;
    }
    if (made.operands[0].zero_first && made.output() == 0)
        fill_with_zeros(made.operands[0], p.src);
    made.staged_bytes = staged_bytes_of(made.operands);
    return made;
}

/// The same convolution with a stride, which has no effect at one position of dst, so
/// long that the caller's pads may be those of both ends.
convolution_problem with_even_pads(const convolution_problem &given) {
    convolution_problem made = given;
    for (size_t i = 0; i < 3; ++i) {
        const spatial_axis axis = spatial_axis_of(given, i);
        const int64_t end = axis.span() - axis.src - axis.pad;
        const int64_t stride = axis.pad - end + 1;
        // Only absurd attributes need longer ones.
        if (axis.dst == 1 && axis.dilation == 1 && axis.pad > end
                && stride <= 2 * axis.reach())
            made.strides[i] = std::max(axis.stride, stride);
    }
    return made;
}

std::optional<problem_arrangement> arrange(
        const convolution_problem &p, const axis_order &order, bool widened) {
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

} // namespace

int64_t described_tensor::extent() const {
    int64_t last = 0;
    for (size_t axis = 0; axis < rank; ++axis)
        last += (dims[axis] - 1) * strides[axis];
    return last + 1;
}

bool problem_arrangement::exceeds_a_grid() const {
    constexpr int64_t most = 65535;
    for (const described_tensor &tensor : seen)
        for (size_t axis = 0; axis + 1 < tensor.rank; ++axis)
            if (tensor.dims[axis] > most) return true;
    const int64_t groups = seen[0].dims[1] / seen[1].dims[1];
    return seen[0].dims[0] * groups > most && groups > 1;
}

int64_t problem_arrangement::weights_terms() const {
    const described_tensor &dst = seen[2];
    int64_t terms = dst.dims[0];
    for (size_t axis = 2; axis < dst.rank; ++axis)
        terms *= dst.dims[axis];
    return terms;
}

std::vector<problem_arrangement> arrangements_of(
        const convolution_problem &problem) {
    const bool narrow = detail::size_of(problem.src.type) == 2;
    std::vector<problem_arrangement> found;
    // Its kernels compute in 32 bits, and src may be extended to the windows.
    if (!detail::windows_fit(problem, int64_t {1} << 31)) return found;
    // By copies where 16 bits are not NXC: cuDNN's kernels for NCX are up to twice as slow, more
    // than the copies cost (measured on an H200). Not where the convolution is a product of
    // matrices in NCX whose rows begin at multiples of 16 bytes.
    const bool better_as_nxc = narrow && problem.weights.dims[0] == 1
            && ((problem.src.strides[1] == 1 && problem.dst.strides[1] == 1)
                    || !is_matrix_product(problem)
                    || positions_of(problem.dst) % 8 != 0);
    for (const bool widened : {false, true}) {
        if (widened && !narrow) continue;
        auto first = arrange(problem, ncx, widened);
        auto second = arrange(problem, nxc, widened);
        // Fewer bytes to copy first; tensor cores read 16 bits as NXC.
        if (first && second
                && (second->staged_bytes < first->staged_bytes
                        || (second->staged_bytes == first->staged_bytes
                                && narrow)
                        || (better_as_nxc && !widened)))
            std::swap(first, second);
        if (first && second && first->pads == second->pads
                && first->seen == second->seen)
            second.reset();
        for (auto *made : {&first, &second})
            if (*made) found.push_back(std::move(**made));
    }
    return found;
}

} // namespace gradnn::gpu::cudnn
