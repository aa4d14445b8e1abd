// The walk of a problem: its shape and its tables, decided at compile.
#pragma once

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gpu/interpolation/spans.hpp"
#include "gpu/interpolation/tables.hpp"
#include "gpu/interpolation/walk.cuh"
#include "kernel/problem.hpp"

namespace gradnn::gpu::interpolation {

struct walk_description {
    walk_shape shape;
    int64_t groups = 1;
    size_t row_axis = 3; ///< the axis whose rows are walked down
    bool volume = false; ///< axis 2 is summed too
};

/// Merges axes, outermost first, into one: its size and stride, or nothing.
inline std::optional<std::pair<int64_t, int64_t>> merge_axes(
        const detail::tensor_view &view, std::initializer_list<size_t> axes) {
    int64_t size = 1;
    int64_t stride = 0;
    for (const size_t axis : axes) {
        const int64_t dim = view.dims[axis];
        if (dim == 1) continue;
        if (size != 1 && stride != dim * view.strides[axis]) return {};
        size *= dim;
        stride = view.strides[axis];
    }
    return std::pair {size, stride};
}

/// Distance between neighbours along an axis, 0 where it has none.
inline int64_t pitch_of(const detail::tensor_view &view, size_t axis) {
    return view.dims[axis] == 1 ? 0 : view.strides[axis];
}

/// Elements from the first of a tensor to the end of the last.
inline int64_t extent_of(const detail::tensor_view &view) {
    int64_t last = 0;
    for (size_t axis = 0; axis < view.dims.size(); ++axis)
        last += (view.dims[axis] - 1) * view.strides[axis];
    return last + 1;
}

/// Nothing, with a refusal in `why`, where the layout or the size is another, or
/// sums are too long for a walk, which adds up rows one after the other.
inline std::optional<walk_description> describe_walk(
        const detail::interpolation_problem &problem, const axis_maps &maps,
        bool nxc, std::string &why) {
    why = why_too_long(maps);
    if (!why.empty()) return {};
    const detail::tensor_view &dst = problem.diff_dst;
    const detail::tensor_view &src = problem.diff_src;
    const size_t inner = nxc ? 1 : 4;
    const auto contiguous = [&](const detail::tensor_view &view) {
        return view.dims[inner] == 1 || view.strides[inner] == 1;
    };
    if (!contiguous(dst) || !contiguous(src)) {
        why = detail::text("takes the ",
                nxc ? "channels of a pixel" : "elements of a row",
                " next to each other, given strides of ", dst.strides[inner],
                " in diff_dst and ", src.strides[inner], " in diff_src");
        return {};
    }
    walk_description made;
    walk_shape &shape = made.shape;
    const bool flat = src.dims[3] == 1 && dst.dims[3] == 1;
    made.volume = !maps[0].identity && !flat;
    made.row_axis = !maps[0].identity && flat ? 2 : 3;
    // Depth that is not resampled makes planes of its own.
    const auto planes_of = [&](const detail::tensor_view &view) {
        const size_t plane_axis = made.row_axis == 2 ? 3 : 2;
        if (made.volume)
            return nxc ? merge_axes(view, {0}) : merge_axes(view, {0, 1});
        return nxc ? merge_axes(view, {0, plane_axis})
                   : merge_axes(view, {0, 1, plane_axis});
    };
    const auto dst_groups = planes_of(dst);
    const auto src_groups = planes_of(src);
    if (!dst_groups || !src_groups) {
        why = detail::text("takes planes at even distances, given strides ",
                detail::text_of(dst.strides), " of diff_dst and ",
                detail::text_of(src.strides), " of diff_src");
        return {};
    }
    made.groups = dst_groups->first;
    shape.dst_group_pitch = dst_groups->second;
    shape.src_group_pitch = src_groups->second;
    shape.dst_row_pitch = pitch_of(dst, made.row_axis);
    shape.src_row_pitch = pitch_of(src, made.row_axis);
    if (made.volume) {
        shape.dst_depth_pitch = pitch_of(dst, 2);
        shape.src_depth_pitch = pitch_of(src, 2);
        shape.src_depths = static_cast<int32_t>(src.dims[2]);
        shape.depth_groups = shape.src_depths; // see group_depths
        shape.plane_runs = 1;
    }
    for (const int64_t size : {dst.dims[made.row_axis], src.dims[made.row_axis],
                 dst.dims[4] * dst.dims[1], src.dims[4] * dst.dims[1],
                 src.dims[2], dst.dims[2]})
        if (size > std::numeric_limits<int32_t>::max() / 2) {
            why = detail::text(
                    "takes rows of less than 2^30 elements, given ", size);
            return {};
        }
    shape.dst_rows = static_cast<int32_t>(dst.dims[made.row_axis]);
    shape.src_rows = static_cast<int32_t>(src.dims[made.row_axis]);
    const int64_t plane = std::max({shape.dst_group_pitch,
            shape.src_group_pitch, shape.dst_rows * shape.dst_row_pitch,
            shape.src_rows * shape.src_row_pitch});
    if (!made.volume && plane >= int64_t {1} << 30) {
        why = detail::text(
                "takes planes of less than 2^30 elements, given ", plane);
        return {};
    }
    shape.row_total = made.groups * shape.src_depths * shape.src_rows;
    return made;
}

/// What kernels that walk are told of a problem, or a refusal.
struct walked_problem {
    axis_maps maps;
    walk_description walk;
    std::string refusal;

    walked_problem(const detail::interpolation_problem &problem, bool nxc)
        : maps(make_axis_maps(problem)) {
        if (is_copy(maps))
            refusal = refuse_copy().refusal;
        else if (const auto made = describe_walk(problem, maps, nxc, refusal))
            walk = *made;
    }
};

/// Makes runs of `depths` neighbouring planes at once, where the depth is
/// resampled.
inline void group_depths(walk_shape &shape, int64_t depths) {
    shape.row_total /= shape.src_depths;
    shape.depth_groups
            = static_cast<int32_t>(ceil_div(shape.src_depths, depths));
    shape.row_total *= shape.depth_groups;
}

/// Cuts the rows into runs: as many as minimise waves of `resident` at a time,
/// rounded up, times a run's rows, where every run of each of `tiles` has a
/// start that nothing overlaps (two rows' worth) and shares a row with its
/// neighbour. Returns the number of runs.
inline int64_t cut_runs(walk_shape &shape, int64_t tiles, int64_t resident) {
    const double again = shape.src_rows > 1 ? 1.0 : 0.0;
    const int64_t most = std::min(shape.row_total,
            std::max<int64_t>(1, ceil_div(6 * resident, tiles)));
    // Offsets of a run are below 2^31 elements.
    const int64_t plane = std::max({shape.dst_group_pitch,
            shape.src_group_pitch, shape.dst_rows * shape.dst_row_pitch,
            shape.src_rows * shape.src_row_pitch, int64_t {1}});
    const int64_t longest = std::clamp<int64_t>(
            ((int64_t {1} << 31) / plane - 1) * shape.src_rows, 1, 1 << 20);
    const int64_t planes = shape.row_total / shape.src_rows;
    const auto count = [&](int64_t rows) {
        return shape.plane_runs == 0 ? ceil_div(shape.row_total, rows)
                                     : planes * ceil_div(shape.src_rows, rows);
    };
    double best_cost = 0;
    for (int64_t runs = 1; runs <= most; ++runs) {
        const int64_t rows = shape.plane_runs == 0
                ? ceil_div(shape.row_total, runs)
                : ceil_div(shape.src_rows, ceil_div(runs, planes));
        if (rows > longest) continue;
        const auto waves
                = static_cast<double>(ceil_div(count(rows) * tiles, resident));
        const double cost = waves * (static_cast<double>(rows) + again + 2.0);
        if (best_cost == 0 || cost < best_cost) {
            best_cost = cost;
            shape.rows_per_run = rows;
        }
    }
    if (best_cost == 0) shape.rows_per_run = longest;
    if (shape.plane_runs != 0) {
        shape.rows_per_run
                = std::min<int64_t>(shape.rows_per_run, shape.src_rows);
        shape.plane_runs = static_cast<int32_t>(
                ceil_div(shape.src_rows, shape.rows_per_run));
    }
    return count(shape.rows_per_run);
}

inline std::vector<line_reach> make_reach(const detail::axis_map &rows) {
    std::vector<line_reach> reach(static_cast<size_t>(rows.src));
    size_t first = 0;
    size_t end = 0;
    const auto outputs = static_cast<size_t>(rows.dst);
    for (size_t i = 0; i < reach.size(); ++i) {
        const auto input = static_cast<int64_t>(i);
        while (first < outputs && rows.low(first) < input
                && rows.high(first) < input)
            ++first;
        while (end < outputs && rows.low(end) <= input)
            ++end;
        reach[i] = {static_cast<int32_t>(first), static_cast<int32_t>(end)};
    }
    return reach;
}

template <typename Sum>
std::vector<line_row<Sum>> make_rows(const detail::axis_map &rows) {
    std::vector<line_row<Sum>> made(static_cast<size_t>(rows.dst));
    for (size_t h = 0; h < made.size(); ++h)
        made[h] = {static_cast<Sum>(rows.low_weight(h)),
                static_cast<Sum>(rows.high_weight(h)),
                static_cast<int32_t>(rows.low(h)),
                static_cast<int32_t>(h > 0 ? rows.low(h) - rows.low(h - 1)
                                           : rows.src - rows.low(rows.dst - 1)
                                        + rows.low(0))};
    return made;
}

/// The tables of a walk in device memory.
template <typename Sum>
class walk_storage {
public:
    walk_storage() = default;
    /// For kernels that walk so many depths at once.
    walk_storage(int device, const axis_maps &maps, const walk_description &of,
            int64_t depths)
        : rows_(upload(device, make_rows<Sum>(maps[of.row_axis - 2]))),
          reach_(upload(device, make_reach(maps[of.row_axis - 2]))) {
        if (!of.volume) return;
        const detail::axis_map &map = maps[0];
        std::vector<line_column> groups;
        std::vector<Sum> weights;
        for (int64_t at = 0; at < map.src; at += depths) {
            const int64_t to = std::min(at + depths, map.src);
            dst_range span = span_of(map, at, to);
            if (span.end == 0) span.end = 1; // none feeds them
            const size_t offset = weights.size();
            const int64_t planes
                    = ceil_div(span.end - span.first, plane_multiple)
                    * plane_multiple;
            weights.resize(
                    offset + static_cast<size_t>(planes * depths), Sum(0));
            for (int64_t i = at; i < to; ++i) {
                const auto depth = static_cast<size_t>(i);
                for (int64_t k = 0; k < map.count(depth); ++k)
                    weights[offset
                            + static_cast<size_t>(
                                    (map.first(depth) + k - span.first) * depths
                                    + i - at)]
                            = static_cast<Sum>(
                                    map.weight(map.offset(depth) + k));
            }
            groups.push_back({span.first, span.end - span.first,
                    static_cast<int64_t>(offset)});
        }
        depths_ = upload(device, groups);
        depth_weights_ = upload(device, weights);
    }

    walk_tables<Sum> tables() const {
        return {rows_.as<line_row<Sum>>(), reach_.as<line_reach>(),
                depths_.as<line_column>(), depth_weights_.template as<Sum>()};
    }

private:
    device_buffer rows_;
    device_buffer reach_;
    device_buffer depths_;
    device_buffer depth_weights_;
};

} // namespace gradnn::gpu::interpolation
