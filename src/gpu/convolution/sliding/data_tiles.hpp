// Tiles of a thread of the data kernels, by estimated time.
#pragma once

#include <cstdint>
#include <vector>

#include "gpu/convolution/sliding/cuts.hpp"

namespace gradnn::gpu::sliding {

/// A tile of a thread with its estimates, before strips are cut.
struct data_tile {
    double cost; ///< of a result, in instructions
    double instructions; ///< of a result
    data_cut cut;
};

struct data_estimator : tile_estimator {
    const row_walk walk = row_walk::of(p.row);
    std::vector<data_tile> tiles = {};

    /// Results that follow one another without gaps, so that planes may be staged.
    bool planes_are_dense(const pitches &of, int rows, int columns, int depths,
            int channels) const {
        const int64_t plane = int64_t {rows} * columns;
        return (columns == 1 || of.column == 1)
                && (rows == 1 || of.row == columns)
                && (depths == 1 || of.depth == plane)
                && (channels == 1 || of.channel == plane * depths)
                && (p.images == 1 || of.image == plane * depths * channels)
                && plane * depths * channels < (1 << 30);
    }

    /// A window of one row of many taps, whose sums move up with each row that is read.
    bool is_long() const { return taps == p.row.taps && taps > 8; }
    void add_tiles();
    void add_tile(int vector, const block_shape &block, int columns, int depths,
            staging staged);
};

} // namespace gradnn::gpu::sliding
