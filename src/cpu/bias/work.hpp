// A bias reduction (bias.cpp) cut into blocks.
#pragma once

#include <array>
#include <cstdint>

#include "kernel/problem.hpp"

namespace gradnn::cpu {

struct bias_work {
    struct axis {
        int64_t dim = 1;
        int64_t stride = 0;
    };

    /// Channels are contiguous: `columns` of them, or a multiple where several
    /// pixels make a row. Or rows are images of short planes: a column for each
    /// element, `plane` of them to a channel. Else columns are channels,
    /// column_stride apart.
    bool channels_within = false;
    int64_t plane = 1;
    int64_t columns = 1;
    int64_t column_stride = 1;
    /// What rows are counted over: pixels (channels within), or lines of a
    /// plane, each in `pieces` of up to `piece` elements of `inner`.
    std::array<axis, 4> outer {};
    axis inner;
    int64_t piece = 1;
    int64_t pieces = 1;
    /// Elements after the last whole row, where several pixels make one.
    int64_t rest = 0;
    /// Planes of a channel (1 with channels within).
    axis n;

    /// Columns of a block, where channels are within.
    static constexpr int64_t most_columns = 2048;
    int64_t column_block = 1;
    int64_t column_blocks = 1;
    int64_t row_block = 1;
    int64_t row_blocks = 1;
    int64_t n_block = 1;
    int64_t n_blocks = 1;

    int64_t rows() const {
        int64_t count = pieces;
        for (const axis &a : outer)
            count *= a.dim;
        return count;
    }
    int64_t blocks() const { return column_blocks * partial_rows(); }
    /// Partials of a column, or of a short plane, and of all of them.
    int64_t partial_rows() const { return row_blocks * n_blocks; }
    int64_t partial_columns() const { return columns / plane; }
    /// Of a pixel or a line.
    int64_t offset_of(int64_t index) const {
        // Divisions would take longer than short rows do.
        if (index < outer.back().dim) return index * outer.back().stride;
        int64_t offset = 0;
        for (size_t a = outer.size(); a-- > 1;) {
            offset += index % outer[a].dim * outer[a].stride;
            index /= outer[a].dim;
        }
        return offset + index * outer[0].stride;
    }
};

/// Blocks depend on the view alone, never on the number of threads.
bias_work make_bias_work(const detail::tensor_view &diff_dst);

} // namespace gradnn::cpu
