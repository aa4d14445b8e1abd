// What the kernels of interpolation.gpu_strips hold in registers and in shared
// memory, and what they are given (kernel.cuh).
#pragma once

#include <cstdint>

namespace gradnn::gpu::interpolation::strips {

constexpr int most_threads = 256;
constexpr int most_items = 8;

struct work_cut {
    int32_t channels = 1;
    int32_t src_columns = 1;
    int32_t tiles = 1;
    int32_t tile_strips = 1;
    int32_t units = 1; ///< threads of a strip
    int32_t warp_bytes = 0; ///< of a row, that a warp copies
    int32_t slot_bytes = 0;
    /// From the first item of a thread to the others.
    uint32_t item_bytes[most_items] = {};
};

/// Weights of the taps of the first and the last column, and of all others.
template <typename Sum, int ratio>
struct tap_weights {
    Sum first[2 * ratio];
    Sum inner[2 * ratio];
    Sum last[2 * ratio];
};

/// The bytes that may be read, where pieces of 16 at their ends hold others too;
/// else nothing.
struct byte_range {
    const unsigned char *begin = nullptr;
    const unsigned char *end = nullptr;
};

/// `columns` by `items` sums of two source rows are in registers. With `chunk`
/// channels, `items` is that.
template <typename Type, int ratio_, int columns_, int items_, int chunk_ = 0>
struct kernel_kind {
    static constexpr int ratio = ratio_;
    static constexpr int columns = columns_;
    static constexpr int items = items_;
    static_assert(items <= most_items);
    static constexpr int chunk = chunk_;
    static constexpr int margin = ratio / 2;
    static constexpr int taps = 2 * ratio;
    /// Pixels that a thread reads.
    static constexpr int window = ratio * columns + 2 * margin;
    /// Rows that have room in shared memory, all but one of them on their way.
    static constexpr int slots = sizeof(Type) == 2 || chunk > 0 ? 4 : 3;
    /// Pieces of 16 bytes that a thread copies of a row, at most.
    static constexpr int pieces
            = (ratio * columns * items * static_cast<int>(sizeof(Type)) * 5 / 4
                      + 15)
                    / 16
            + 1;
    /// Elements of a chunk's margin, in words of 4, and bytes, in pieces.
    static constexpr int aside = (margin * items + 3) / 4 * 4;
    static constexpr int lead
            = (aside * static_cast<int>(sizeof(Type)) + 15) / 16 * 16;
    /// Blocks of a multiprocessor at least, as many as leave no register in
    /// memory.
    static constexpr int resident = columns * items > 20 ? 2 : 3;
};

} // namespace gradnn::gpu::interpolation::strips
