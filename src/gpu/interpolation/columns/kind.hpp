// What a columns kernel holds in its registers, and what it is given (kernel.cuh).
#pragma once

#include <cstdint>

namespace gradnn::gpu::interpolation::columns {

/// Where a lane's word or output lies: elements from the start of a row of the
/// tensor, and the place in the line. A word without work is read where another
/// is and put aside; an output without work repeats another.
struct lane_place {
    uint32_t offset = 0;
    int32_t line = 0;
};

struct work_cut {
    const lane_place *words = nullptr; ///< [tile][word][lane]
    const lane_place *outputs = nullptr; ///< [tile][output][lane]
    /// [tile][output][tap][lane], or in fours [tile][output][quad][lane][4].
    const void *weights = nullptr;
    int32_t tiles = 1;
    int32_t items = 0; ///< outputs (pairs of them) of a tile, over its slots
    int32_t quads = 0; ///< fours of sums that a window takes
    int32_t line_sums = 0; ///< places of the line
    const int32_t *row_bytes = nullptr; ///< [tile], of a dense kind
};

/// Bytes that hold a row of so many, copied in pieces of 16 at multiples of 16.
constexpr int64_t row_slot_bytes(int64_t row_bytes) {
    return (row_bytes + 30) / 16 * 16;
}

/// What a kernel holds in its registers.
///
/// `taps` are those of a column, at most: 1 to 4 in windows of the line that
/// begin anywhere, 8 in two fours, and 0: any number, in fours, with the weights
/// in memory. `side` neighbouring outputs of a lane are stored at once.
/// A dense kind has one slot, and its words and outputs are at even distances.
template <typename Type, int vector_, int taps_, int words_, int outputs_,
        int side_ = 1, bool dense_ = false,
        int sure_ = taps_ == 3 || taps_ == 4 ? 2 : 0, bool split_ = false>
struct kernel_kind {
    static constexpr int bytes = sizeof(Type);
    static constexpr int vector = vector_;
    static constexpr int taps = taps_;
    static constexpr int words = words_;
    static constexpr int outputs = outputs_;
    /// Of a row in shared memory.
    static constexpr int slot_bytes = static_cast<int>(
            row_slot_bytes(int64_t {32} * words_ * vector_ * bytes));
    static constexpr int side = side_;
    static constexpr bool dense = dense_;
    /// The elements of a word lie anywhere in the line.
    static constexpr bool split = split_;
    /// Taps that every column has, if need be beyond the row's ends.
    static constexpr int sure = sure_;
    /// For columns that are reduced: few words, many outputs.
    static constexpr bool reduces = words * vector < outputs;
    /// Fours whose weights are held.
    static constexpr int quads = taps == 8 ? 2 : 0;
    static constexpr bool fours = taps == 0 || taps == 8;
    /// Outputs whose sums are read from the line before any is used.
    static constexpr int group = fours ? 2
            : taps < 3                 ? 4
            : outputs > 6              ? outputs / 2
                                       : 3;
    /// Rows in flight wait in shared memory (device/async_copy.cuh), not in
    /// registers.
    static constexpr bool copies = dense || sizeof(Type) * vector >= 4;
    /// Rows in flight; one less where depth takes registers.
    template <bool volume>
    static constexpr int ahead = (copies                   ? (reduces ? 5 : 4)
                                                 : reduces ? 4
                                                           : 3)
            - (volume ? 1 : 0);
    /// Planes of diff_dst that go into one addition.
    template <bool volume>
    static constexpr int planes = !volume || !copies ? 1
            : sizeof(Type) < 8                       ? 6
                                                     : 4;
    /// Planes of diff_src that a run has at once.
    template <bool volume>
    static constexpr int depths = volume && sizeof(Type) < 8 ? 2 : 1;
    /// Of a volume: planes whose rows are read from shared memory together.
    static constexpr int batch = dense ? 2 : 1;
};

/// Warps of a multiprocessor: as many as leave no register in memory.
template <typename Type, typename Kind, bool volume>
constexpr int resident_warps
        = volume && sizeof(Type) < 8 ? (Kind::batch > 1 ? 16 : 12)
        : sizeof(Type) < 8
                && (Kind::reduces
                        || (Kind::words * Kind::vector < 12
                                && (Kind::taps == 0 ? Kind::dense
                                                    : Kind::taps == 2
                                                        && (sizeof(Type) == 4
                                                                || Kind::vector
                                                                        == 2))))
        ? 20
        : 16;

template <typename Sum>
struct alignas(16) four_sums {
    Sum values[4];
};

} // namespace gradnn::gpu::interpolation::columns
