// Which axis of a layer interpolation.gpu_layers resamples first, and what that
// takes. Host arithmetic.
#pragma once

#include "gpu/interpolation/layers/cut.hpp"

namespace gradnn::gpu::interpolation::layers {

// Instructions of a thread for `width` elements at a time, of so many taps each.
// Rows share their taps; so do channels, but not columns.
inline double row_cell(double width, double taps, bool to_memory) {
    return 18.0 + (to_memory ? 3.0 + 0.5 * width : 0.0) + (2.0 + width) * taps;
}
inline double column_cell(
        double width, double taps, bool of_columns, bool to_memory) {
    const double tap = of_columns ? 3.0 * width : 2.0 + 1.5 * width;
    return (to_memory ? 8.0 + width : 7.0) + tap * taps;
}

/// Whether columns of a volume's layers are resampled before rows: what takes fewer
/// instructions, those of diff_dst's words included, which may be wider then. It
/// follows from sizes alone, since the order of sums does.
bool are_columns_first(const work_shape &problem, const search_facts &facts,
        const detail::axis_map &layers, const detail::axis_map &rows,
        const detail::axis_map &columns);

} // namespace gradnn::gpu::interpolation::layers
