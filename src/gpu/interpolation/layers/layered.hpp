// A problem as layers of rows of columns of channels, and its weights.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gpu/interpolation/layers/cut.hpp"
#include "gpu/interpolation/walk_plan.hpp"
#include "kernel/problem_text.hpp"

namespace gradnn::gpu::interpolation::layers {

/// The problem as layers.
struct layered_problem {
    work_shape shape; ///< without tiles
    size_t layer_axis = 0; ///< of the maps
    bool volume = false;
};

/// Nothing, with a refusal in `why`, where the layout is another.
inline std::optional<layered_problem> describe(
        const detail::interpolation_problem &problem,
        const walk_description &walk, bool nxc, std::string &why) {
    const detail::tensor_view &dst = problem.diff_dst;
    const detail::tensor_view &src = problem.diff_src;
    layered_problem made;
    work_shape &shape = made.shape;
    shape.channels = static_cast<int32_t>(nxc ? src.dims[1] : 1);
    for (const detail::tensor_view *view : {&src, &dst})
        if (view->dims[4] > 1 && view->strides[4] != shape.channels) {
            why = "takes rows without gaps; " + detail::given(problem);
            return {};
        }
    made.volume = walk.volume;
    made.layer_axis = walk.volume ? 0 : walk.row_axis - 2;
    shape.groups = walk.groups;
    shape.dst_group_pitch = walk.shape.dst_group_pitch;
    shape.src_group_pitch = walk.shape.src_group_pitch;
    shape.dst_columns = static_cast<int32_t>(dst.dims[4]);
    shape.src_columns = static_cast<int32_t>(src.dims[4]);
    if (walk.volume) {
        shape.dst_layers = static_cast<int32_t>(dst.dims[2]);
        shape.src_layers = walk.shape.src_depths;
        shape.dst_layer_pitch = walk.shape.dst_depth_pitch;
        shape.src_layer_pitch = walk.shape.src_depth_pitch;
        shape.dst_rows = walk.shape.dst_rows;
        shape.src_rows = walk.shape.src_rows;
        shape.dst_row_pitch = walk.shape.dst_row_pitch;
        shape.src_row_pitch = walk.shape.src_row_pitch;
    } else {
        shape.dst_layers = walk.shape.dst_rows;
        shape.src_layers = walk.shape.src_rows;
        shape.dst_layer_pitch = walk.shape.dst_row_pitch;
        shape.src_layer_pitch = walk.shape.src_row_pitch;
    }
    return made;
}

/// In either layout: of one channel, or one column, both will do.
inline std::optional<layered_problem> describe(
        const detail::interpolation_problem &problem, const axis_maps &maps,
        std::string &why) {
    for (const bool nxc : {false, true}) {
        const auto walk = describe_walk(problem, maps, nxc, why);
        auto made = walk ? describe(problem, *walk, nxc, why) : std::nullopt;
        if (made) return made;
    }
    return {};
}

/// Elements of words, which divide all distances between them: 1, 2 or 4.
struct word_widths {
    int read = 1;
    /// Where the rows of a layer are taken as they lie; 0 where they cannot be.
    int as_they_lie = 0;
    int written = 1; ///< between columns of diff_src
    int written_rows = 1; ///< between its rows
};

inline word_widths widths_of(const detail::interpolation_problem &problem,
        const layered_problem &layers) {
    const work_shape &shape = layers.shape;
    const auto bytes = detail::size_of(problem.diff_src.type);
    const auto widest = [&](int64_t elements, auto... distances) {
        return std::min(4, widest_vector(bytes, elements, distances...));
    };
    const int64_t dst_row = int64_t {shape.dst_columns} * shape.channels;
    const int64_t src_row = int64_t {shape.src_columns} * shape.channels;
    word_widths made;
    made.read = widest(dst_row, shape.dst_group_pitch, shape.dst_layer_pitch,
            shape.dst_row_pitch);
    const int64_t layer = dst_row * shape.dst_rows;
    if (layers.volume && shape.dst_row_pitch == dst_row && layer < INT32_MAX)
        made.as_they_lie
                = widest(layer, shape.dst_group_pitch, shape.dst_layer_pitch);
    made.written = widest(
            shape.channels > 1 ? int64_t {shape.channels} : shape.src_columns,
            shape.src_group_pitch, shape.src_layer_pitch, shape.src_row_pitch);
    made.written_rows = widest(src_row, shape.src_group_pitch,
            shape.src_layer_pitch, shape.src_row_pitch);
    return made;
}

/// What a search knows, without the registers of the kernel and the device.
inline search_facts facts_of(const layered_problem &layers, int element_bytes,
        const word_widths &widths, bool as_they_lie) {
    search_facts facts;
    facts.volume = layers.volume;
    facts.as_they_lie = as_they_lie;
    facts.vector = as_they_lie ? widths.as_they_lie : widths.read;
    facts.elements = elements_of_thread(element_bytes, facts.vector);
    facts.most_threads = most_threads(element_bytes, facts.vector);
    facts.sum_bytes = element_bytes == 8 ? 8 : 4;
    facts.element_bytes = element_bytes;
    facts.written_vector = widths.written;
    facts.written_row_vector = widths.written_rows;
    return facts;
}

/// make_rows, and one more that the kernel reads ahead.
template <typename Sum>
std::vector<line_row<Sum>> make_layers(const detail::axis_map &map) {
    auto made = make_rows<Sum>(map);
    made.push_back({});
    return made;
}

template <typename Sum>
std::vector<Sum> weights_of(const detail::axis_map &map) {
    // Not empty, even where there are no taps.
    auto weights = map.all_weights<Sum>();
    weights.push_back(0);
    return weights;
}

} // namespace gradnn::gpu::interpolation::layers
