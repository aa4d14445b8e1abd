// A conversion (convert.hpp) reduced to what its SIMD code runs on.
#pragma once

#include <array>
#include <cstdint>

namespace gradnn::cpu {

struct conversion_work {
    struct axis {
        int64_t dim = 1;
        int64_t src = 0;
        int64_t dst = 0;
    };

    // The inner axes: `along` is the one of the shortest steps in dst;
    // `across` is the one on which src is contiguous, in a transpose.
    axis along;
    axis across;
    bool transposes = false;
    std::array<axis, 6> outer {};
    int outer_rank = 0;
    /// dst is written past the caches.
    bool stream = false;

    // Tiles of the inner axes; an item of work is one tile.
    int64_t along_tile = 1;
    int64_t across_tile = 1;

    int64_t along_tiles() const {
        return (along.dim + along_tile - 1) / along_tile;
    }
    int64_t across_tiles() const {
        return (across.dim + across_tile - 1) / across_tile;
    }
    int64_t items() const {
        int64_t count = along_tiles() * across_tiles();
        for (int a = 0; a < outer_rank; ++a)
            count *= outer[static_cast<size_t>(a)].dim;
        return count;
    }
};

/// Elements of a tile, so that its stage fits a thread's first-level cache
/// (rows) or the start of the second (transposes).
constexpr int64_t row_tile = 2048;
constexpr int64_t transpose_along_tile = 128;
constexpr int64_t transpose_across_tile = 64;

} // namespace gradnn::cpu
