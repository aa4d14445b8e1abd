// How the lines kernel (interpolation_lines.cuh) is applied to a problem: the
// shape that it works on, its tiles and how many threads, decided at compile.
//
// The rule of costs. A tile's cost is what it reads over what the tensor has
// (columns that two tiles want are read twice), times what short runs of memory
// cost, times a fifth of the threads that idle. The number of blocks down the
// rows minimises waves, rounded up, times the share of rows read twice where
// two blocks meet.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "axis_map.hpp"
#include "gpu/interpolation_lines.cuh"
#include "problem.hpp"

namespace gradnn::gpu {

struct lines_choice {
    lines_shape shape;
    std::vector<line_tile> tiles;
    int threads = 0;
    int vector = 1; ///< of the loads, by the strides
    int channel_tiles = 1;
    line_items items = line_items::columns;
    bool wide = false; ///< outputs of 4 (f64: 2) channels at a time
    size_t row_axis = 3; ///< the axes along which rows and columns are summed
    size_t column_axis = 4;
};

/// The choice, or a refusal in `why`.
std::optional<lines_choice> choose_lines_ncx(
        const detail::interpolation_problem &problem,
        const std::array<detail::axis_map, 3> &maps, std::string &why);
std::optional<lines_choice> choose_lines_nxc(
        const detail::interpolation_problem &problem,
        const std::array<detail::axis_map, 3> &maps, std::string &why);

/// Blocks down the rows for a device that holds `resident` blocks.
void spread_rows(lines_choice &choice, int64_t resident);

/// The tables in host memory.
std::vector<line_reach> make_reach(const detail::axis_map &rows);
std::vector<line_column> make_columns(const detail::axis_map &columns);
template <typename Sum>
std::vector<line_row<Sum>> make_rows(const detail::axis_map &rows) {
    std::vector<line_row<Sum>> made(rows.low.size());
    for (size_t h = 0; h < made.size(); ++h)
        made[h] = {static_cast<Sum>(rows.low_weight[h]),
                static_cast<Sum>(rows.high_weight[h]),
                static_cast<int32_t>(rows.low[h])};
    return made;
}

} // namespace gradnn::gpu
