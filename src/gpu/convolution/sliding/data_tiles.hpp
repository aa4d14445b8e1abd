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

/// What the estimates are made of.
struct data_estimator {
    const problem_specification &p;
    const gpu_facts &gpu;
    const int bytes, taps, wide; ///< wide: registers of a sum
    const row_walk walk;
    std::vector<data_tile> tiles;

    data_estimator(const problem_specification &of, const gpu_facts &on)
        : p(of),
          gpu(on),
          bytes(bytes_of(of.type)),
          taps(of.depth.taps * of.row.taps * of.column.taps),
          wide(sum_bytes_of(of.type) / 4),
          walk(row_walk::of(of.row)) {}

    int column_step() const {
        return p.channels_last && p.column.parts() ? p.column.dilation : 1;
    }
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
