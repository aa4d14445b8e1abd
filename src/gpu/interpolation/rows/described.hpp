// A problem as rows of positions of neighbouring elements.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "base/text.hpp"
#include "gpu/interpolation/rows/cut.hpp"
#include "kernel/axis_map.hpp"
#include "kernel/padded_taps.hpp"
#include "kernel/problem_text.hpp"

namespace gradnn::gpu::interpolation::rows {

/// The axes from outermost to innermost in memory.
constexpr std::array<size_t, 5> ncx_order {0, 1, 2, 3, 4};
constexpr std::array<size_t, 5> nxc_order {0, 2, 3, 4, 1};

struct rows_of_tensor {
    int64_t rows = 1;
    int64_t pitch = 0; ///< from row to row
    int64_t inner = 1; ///< elements of a position
};

/// Nothing where the axes before or after `axis` are not one, or positions have
/// gaps.
inline std::optional<rows_of_tensor> as_rows(const detail::tensor_view &view,
        size_t axis, const std::array<size_t, 5> &order) {
    rows_of_tensor made;
    bool before = true;
    int64_t inner_stride = 1;
    for (const size_t each : order) {
        if (each == axis) {
            before = false;
            continue;
        }
        const int64_t dim = view.dims[each];
        if (dim == 1) continue;
        int64_t &size = before ? made.rows : made.inner;
        int64_t &stride = before ? made.pitch : inner_stride;
        if (size != 1 && stride != dim * view.strides[each]) return {};
        size *= dim;
        stride = view.strides[each];
    }
    if (made.inner > 1 && inner_stride != 1) return {};
    if (view.dims[axis] > 1 && view.strides[axis] != made.inner) return {};
    if (made.rows == 1) made.pitch = view.dims[axis] * made.inner;
    return made;
}

struct described_rows {
    size_t axis = 0; ///< of the problem's
    int taps = 1; ///< that the kernel has room for
    work_cut cut; ///< without lines and tiles
};

/// Nothing, with a refusal in `why`, where more than one axis is resampled or the
/// layout is another.
inline std::optional<described_rows> describe(
        const detail::interpolation_problem &problem, std::string &why) {
    described_rows made;
    size_t resampled = 0;
    for (size_t axis = 0; axis < problem.axes.size(); ++axis)
        if (!detail::is_identity(
                    problem.mode, problem.coordinates, problem.axes[axis])) {
            ++resampled;
            made.axis = axis;
        }
    if (resampled != 1) {
        why = "takes one axis that is resampled; " + detail::given(problem);
        return {};
    }
    const detail::interpolation_axis &axis = problem.axes[made.axis];
    std::optional<rows_of_tensor> dst, src;
    for (const auto *order : {&ncx_order, &nxc_order}) {
        dst = as_rows(problem.diff_dst, made.axis + 2, *order);
        src = as_rows(problem.diff_src, made.axis + 2, *order);
        if (dst && src) break;
    }
    if (!dst || !src) {
        why = "takes rows at even distances, without gaps; "
                + detail::given(problem);
        return {};
    }
    constexpr int64_t longest = int64_t {1} << 27;
    const int64_t dst_row = axis.dst * dst->inner;
    const int64_t src_row = axis.src * src->inner;
    if (std::max(dst_row, src_row) >= longest) {
        why = detail::text("takes rows of less than 2^27 elements, given ",
                std::max(dst_row, src_row));
        return {};
    }
    const int64_t taps
            = detail::most_taps_of(problem.mode, problem.coordinates, axis);
    if (taps > most_taps) {
        why = detail::text("takes at most ", most_taps,
                " outputs that feed an element, given ", taps);
        return {};
    }
    made.taps = taps_that_hold(taps);
    work_cut &cut = made.cut;
    cut.rows = dst->rows;
    cut.dst_pitch = dst->pitch;
    cut.src_pitch = src->pitch;
    cut.dst_elements = (dst->rows - 1) * dst->pitch + dst_row;
    cut.dst_row = static_cast<int32_t>(dst_row);
    cut.src_row = static_cast<int32_t>(src_row);
    cut.inner = static_cast<int32_t>(dst->inner);
    return made;
}

} // namespace gradnn::gpu::interpolation::rows
