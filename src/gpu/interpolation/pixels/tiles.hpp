// How interpolation.gpu_pixels cuts columns and channels into tiles. Host arithmetic.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "gpu/device/rounding.hpp"
#include "gpu/interpolation/pixels/kernel.cuh"
#include "kernel/axis_map.hpp"

namespace gradnn::gpu::interpolation::pixels {

/// Of a tile's rows, below what a block has without asking.
constexpr size_t most_shared_bytes = 45 * 1024;

/// Neighbouring vectors that a tile reads, at least `run` bytes where there are so many:
/// less than 512 cost memory speed, more leave fewer columns, which have taps in common.
/// Where no number up to twice that divides them, tiles are as equal as can be and the
/// last one has fewer.
inline int64_t units_of_tile(
        int64_t units, int64_t unit_bytes, int64_t run, int64_t most) {
    const int64_t fewest = std::min(ceil_div(run, unit_bytes), most);
    for (int64_t count = fewest; count <= std::min(2 * fewest, most); ++count)
        if (units % count == 0) return count;
    int64_t tiles = std::max<int64_t>(1, units / fewest);
    if (ceil_div(units, tiles) > most) ++tiles;
    return ceil_div(units, tiles);
}

struct block_of_tile {
    int threads = 0;
    size_t shared_bytes = 0;
};

/// Sets the tiles, of vectors of so many channels, whose rows fit in shared memory, in
/// `row_slots` slots (0: they stay in registers). `columns` is the map of the columns.
inline block_of_tile cut_tiles(work_cut &pixels, int64_t channels, int vector,
        int64_t element_bytes, const detail::axis_map &columns, int row_slots) {
    const int64_t source_columns = columns.src;
    pixels.columns = static_cast<int32_t>(source_columns);
    const int64_t units = channels / vector;
    pixels.units = static_cast<int32_t>(units);
    const int64_t unit_bytes = vector * element_bytes;
    block_of_tile block;
    for (int64_t run = 512;; run /= 2) {
        const int64_t tile_units
                = units_of_tile(units, unit_bytes, run, threads_of(unit_bytes));
        pixels.tile_units = static_cast<int32_t>(tile_units);
        // No more threads than a row has work for.
        int64_t most_threads = threads_of(unit_bytes);
        while (most_threads / 2
                >= std::max<int64_t>(32, tile_units * source_columns))
            most_threads /= 2;
        for (block.threads = static_cast<int>(most_threads);
                block.threads >= std::max<int64_t>(32, tile_units);
                block.threads /= 2) {
            pixels.tile_columns = static_cast<int32_t>(
                    std::min(block.threads / tile_units, source_columns));
            pixels.column_tiles = static_cast<int32_t>(
                    ceil_div(source_columns, pixels.tile_columns));
            pixels.tiles = ceil_div(units, tile_units) * pixels.column_tiles;
            pixels.span = 0;
            for (const dst_range &span : spans_of(columns, pixels.tile_columns))
                pixels.span = std::max(pixels.span, span.end - span.first);
            block.shared_bytes = static_cast<size_t>(
                    row_slots * pixels.span * tile_units * unit_bytes);
            if (block.shared_bytes <= most_shared_bytes) return block;
        }
    }
}

} // namespace gradnn::gpu::interpolation::pixels
