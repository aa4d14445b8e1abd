// The separable interpolation kernel, between the plan that describes a job
// (interpolation.cpp) and the SIMD code that does it
// (separable.cpp).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "cpu/interpolation/computed_taps.hpp"
#include "kernel/axis_map.hpp"
#include "kernel/problem.hpp"

namespace gradnn::cpu {

/// What an input of an axis takes, weights rounded to the accumulator.
struct axis_taps : detail::gathered_axis {
    axis_taps() = default;
    axis_taps(detail::interpolation_mode mode,
            detail::coordinate_mode coordinates,
            const detail::interpolation_axis &axis,
            detail::data_type accumulator);

    template <typename Acc>
    const Acc *weights(int64_t i) const {
        const int64_t at = weights_at(i);
        if constexpr (std::is_same_v<Acc, float>)
            return weights_f32.data() + at;
        else
            return weights_f64.data() + at;
    }
    /// Whether i is one element as it is.
    template <typename Acc>
    bool plain(int64_t i) const {
        return taps(i) == 1 && weights<Acc>(i)[0] == Acc {1};
    }
    /// Elements that i takes and the one before does not.
    int64_t fresh(int64_t i) const {
        return end(i) - std::max(begin(i), i == 0 ? 0 : end(i - 1));
    }

    /// Of an axis whose places alone are needed.
    void forget_weights() {
        // An empty list assigned would keep the memory.
        weights_f32 = detail::counted_vector<float>();
        weights_f64 = detail::counted_vector<double>();
    }

    detail::counted_vector<float> weights_f32;
    detail::counted_vector<double> weights_f64;
};

/// A tensor as planes of rows. A row holds its W axis, or W and the channels
/// within each column, without gaps; strides are elements.
struct plane_view {
    int64_t n_stride = 0;
    int64_t c_stride = 0;
    int64_t d_stride = 0;
    int64_t h_stride = 0;
};

/// Vectors have at most this many lanes, and groups of lines as many.
constexpr int64_t max_lanes = 16;

/// Results are collected, and go to memory so many bytes at a time.
constexpr int64_t stage_bytes = 1 << 10;

/// Taps that may come from the same tables (element_taps).
constexpr int32_t shared_taps = 4;

/// Indices of element_taps have fewer bits, with the shared taps' added.
constexpr int tap_count_shift = 8;

/// What takes the taps along W together, a lane each.
enum class tap_lanes {
    channels, ///< of a column, where they are contiguous
    elements, ///< of a row, looked up in the line
    computed, ///< the same without tables: the axis is long and repeats nothing
    phases, ///< of a row, the line's elements being sorted by phase
    lines, ///< of a group, transposed
    slabs, ///< of a group, transposed, their rows being short
    pieces, ///< pieces of a group, transposed whole, being small
};

inline bool looks_up(tap_lanes lanes) {
    return lanes == tap_lanes::elements || lanes == tap_lanes::computed;
}

/// The taps of a row's elements, or of several rows' that lie side by side, a
/// vector of the target at a time. Vectors whose taps are alike share a
/// pattern: lane l's tap t is element first + index + t * tap_stride of the
/// line with weight t * lanes + l, for t < count, and lanes[l] is
/// index + (count << tap_count_shift).
struct element_taps {
    struct vector {
        int32_t first;
        int32_t pattern;
    };
    struct pattern {
        int32_t fewest; ///< of the lanes' counts
        int32_t most;
    };
    template <typename Acc>
    const Acc *weights() const {
        if constexpr (std::is_same_v<Acc, float>)
            return weights_f32.data();
        else
            return weights_f64.data();
    }

    /// Vectors of the line that a tap of a vector's lanes is looked up in: 1,
    /// 2 or 4.
    int64_t tables = 0;
    /// Whether those of one tap hold the next ones' elements too, shared_taps
    /// of them in all.
    bool share = false;
    int64_t tap_stride = 1;
    int64_t max_count = 1;
    int64_t rows = 1; ///< that lie side by side
    detail::counted_vector<vector> vectors;
    detail::counted_vector<pattern> patterns;
    // By pattern: its lanes, max_count times as many weights.
    detail::counted_vector<int32_t> lanes;
    detail::counted_vector<float> weights_f32;
    detail::counted_vector<double> weights_f64;
};

/// The taps of columns that lie in lanes' vectors (tap_lanes::lines, planes), in
/// blocks. Columns of a block come sorted by their number of taps, so that no
/// branch depends on a column.
struct column_taps {
    struct column {
        int32_t in; ///< its first tap, from the block's first element on
        int32_t out; ///< its place in the block
    };
    /// Columns that follow one another, with as many taps each.
    struct run {
        int32_t taps;
        int32_t columns;
    };
    struct block {
        int64_t src_begin; ///< columns of diff_src
        int64_t src_end;
        int64_t dst_begin; ///< those that their taps are in
        int64_t dst_end;
        int64_t run; ///< the first of its runs
        int64_t run_end;
        int64_t column; ///< the first of its columns in the table
        int64_t weight; ///< the first of its weights
    };
    template <typename Acc>
    const Acc *weights() const {
        if constexpr (std::is_same_v<Acc, float>)
            return weights_f32.data();
        else
            return weights_f64.data();
    }

    detail::counted_vector<block> blocks;
    // Blocks that are alike have the same.
    detail::counted_vector<run> runs;
    detail::counted_vector<column> columns;
    detail::counted_vector<float>
            weights_f32; ///< in the order of columns' taps
    detail::counted_vector<double> weights_f64;
    /// Blocks by the row of the axis' table that they begin with, and columns.
    std::map<std::pair<int64_t, int64_t>, size_t> known;
};

/// An axis of a whole ratio. Output i in [begin, end) takes elements
/// i * ratio + first + t of the line, t < count, with weights that all of these
/// outputs share. Those next to the ends take some of the same elements with
/// other weights; what they leave out is before the line or after it.
struct axis_phases {
    template <typename Acc>
    const Acc *ends() const {
        if constexpr (std::is_same_v<Acc, float>)
            return ends_f32.data();
        else
            return ends_f64.data();
    }

    int64_t ratio = 1;
    int64_t first = 0;
    int64_t count = 0;
    int64_t begin = 0;
    int64_t end = 0;

    /// Vectors of the axis' outputs with weights of their own: the first `head`
    /// ones and those from number `tail` on. In that order, `count` vectors of
    /// weights for each, 0 for what is left out.
    int64_t head = 0;
    int64_t tail = 0;
    std::vector<float> ends_f32;
    std::vector<double> ends_f64;
};

/// Taps of an axis_phases at most.
constexpr int64_t most_phase_taps = 8;

/// For tap_lanes::pieces: sums along one axis. `outer` and `inner` elements of a
/// piece lie around a place of it, in turn and within.
struct piece_pass {
    size_t axis = 0; ///< 0 for D, 1 for H, 2 for W
    int64_t outer = 1;
    int64_t dst = 1;
    int64_t src = 1;
    int64_t inner = 1;
    column_taps table; ///< places, one block
};

struct separable_job {
    detail::data_type type = detail::data_type::undef;
    axis_taps d;
    axis_taps h;
    axis_taps w;
    plane_view diff_dst;
    plane_view diff_src;
    int64_t extent
            = 0; ///< from diff_dst's first element to the end of its last
    int64_t n = 1;
    int64_t c = 1;
    /// Channels in a row's columns: 1 where planes are channels (NCX), else C
    /// (and c is 1).
    int64_t row_channels = 1;
    tap_lanes lanes = tap_lanes::lines;
    element_taps elements; ///< for tap_lanes::elements
    axis_phases phases; ///< for tap_lanes::phases
    /// For tap_lanes::computed and channels; of w its sizes are known then, and no
    /// more.
    std::optional<computed_taps> computed;
    /// For tap_lanes::lines, a strip's blocks after another's; for
    /// tap_lanes::slabs of `batch` rows side by side.
    column_taps columns;
    column_taps last_columns; ///< of the rows that make no whole batch
    int64_t batch = 1;
    /// For tap_lanes::pieces (pieces.hpp): what is summed, one pass after another.
    std::vector<piece_pass> passes;
    /// For tap_lanes::slabs: places along D that something feeds, which have slabs.
    std::vector<int64_t> fed;
    /// Whether their results are written while the next ones are summed.
    bool gradual = false;
    int64_t block = 1; ///< columns of a block; a strip's last may be shorter
    /// For tap_lanes::lines: lines are rows of diff_dst as they are.
    bool direct = false;
    /// diff_src is written past the caches.
    bool stream = false;
    /// Rows of diff_dst that a line is the first to take, at most.
    int64_t fresh_rows = 0;

    // A unit of work is a plane, blocks of D and H, and a strip of columns, the
    // last varying fastest. Groups of lines end with a strip. For
    // tap_lanes::slabs it is a group of slabs and a block of H.
    int64_t strip_src = 1; ///< columns of diff_src in a strip (the last: fewer)
    int64_t d_block = 1;
    int64_t h_block = 1;
    /// Shares that the units are split into, one a thread, each with scratch.
    int64_t shares = 1;

    // Scratch of a share, in accumulators, elements or pointers.
    int64_t line_pitch = 0; ///< a line: a row of a strip, summed over D and H
    int64_t lines = 0; ///< of a group, or its slabs
    int64_t phase_pitch = 0; ///< of a line's elements of one phase
    int64_t group_size = 0; ///< of all lines of a group
    int64_t chunk = 0; ///< elements of slabs or pieces, transposed in turn
    int64_t ring_rows = 0; ///< rows summed over D, kept for the sums over H
    int64_t ring_pitch = 0;
    int64_t window = 0; ///< elements that are held transposed
    int64_t results = 0; ///< results that are held transposed
    int64_t stage_size = 0; ///< elements of diff_src on their way to memory
    int64_t pointers = 0;
    int64_t factors
            = 0; ///< of outputs of a strip, where computed taps have such
    size_t scratch_bytes = 0;

    /// Of diff_dst's columns, the first that column i takes, and the one behind the
    /// last.
    int64_t taps_begin(int64_t i) const {
        return computed ? computed->begin(i) : w.begin(i);
    }
    int64_t taps_end(int64_t i) const {
        return computed ? computed->end(i) : w.end(i);
    }
    /// Planes times places along D that are fed, or planes.
    int64_t slabs() const {
        return n * c
                * (lanes == tap_lanes::pieces
                                ? 1
                                : static_cast<int64_t>(fed.size()));
    }
    /// Elements of a slab that are held transposed.
    int64_t window_elements() const { return window - 2 * max_lanes; }
    int64_t strip_blocks() const { return (strip_src + block - 1) / block; }
    int64_t strips() const { return (w.src + strip_src - 1) / strip_src; }
    int64_t d_blocks() const { return (d.src + d_block - 1) / d_block; }
    int64_t h_blocks() const { return (h.src + h_block - 1) / h_block; }
    int64_t units() const {
        if (lanes == tap_lanes::slabs || lanes == tap_lanes::pieces)
            return (slabs() + lines - 1) / lines * h_blocks();
        return strips() * n * c * d_blocks() * h_blocks();
    }
};

/// What tap_lanes::channels computes of a block of columns (walk_columns.hpp): three
/// lists of columns and of their weights.
struct column_lists {
    int64_t columns = 0;
    int64_t runs = 0;
    int64_t weights = 0;
};

inline column_lists lists_of(const separable_job &job) {
    if (!job.computed || job.lanes != tap_lanes::channels) return {};
    // A vector may run over the end.
    const int64_t room = 3 * (job.block + max_lanes);
    return {room, job.block, room * job.w.max_count};
}

/// Elements after a line's end that a look-up may read: four vectors from where a tap of
/// the last element is, or would be.
inline int64_t look_up_slack(const separable_job &job) {
    return 4 * max_lanes + job.w.max_count * job.row_channels;
}

/// Computes a share: units [units * share / shares, ...) of them.
using separable_share = void (*)(const separable_job &, const void *diff_dst,
        void *diff_src, std::byte *scratch, int64_t share);

/// Lanes of that function's vectors.
int64_t separable_lanes(detail::data_type type);

/// The function for a type on the machine's best target.
separable_share find_separable_share(detail::data_type type, tap_lanes lanes);
/// Its parts: for bf16 and f16 (separable_half.cpp), and where slabs of planes or
/// pieces are in lanes (slabs.cpp, pieces.cpp).
separable_share find_half_share(detail::data_type type);
separable_share find_slab_share(detail::data_type type);
separable_share find_piece_share(detail::data_type type);

} // namespace gradnn::cpu
