// How a separable interpolation is cut: which elements SIMD lanes hold, strips of
// rows, blocks for the threads, and scratch. In the order in which they are
// called, each on what the ones before have set.
#pragma once

#include <cstdint>
#include <optional>

#include "cpu/interpolation/separable.hpp"

namespace gradnn::cpu {

/// How taps along W are taken, and of how many lines together.
void choose_lanes(separable_job &job, int64_t accumulator_bytes);

/// An axis of so many places that is not resampled.
axis_taps plain_axis(int64_t size, detail::data_type type);

/// Whether rows of a slab follow one another.
bool rows_follow(const separable_job &job);

/// Whether slabs of a plane follow one another.
bool slabs_follow(const separable_job &job);

/// All planes become channels where they can.
void merge_planes(separable_job &job);

/// A job with pieces in lanes, without its passes' tables, which finish_pieces
/// makes.
struct piece_way {
    separable_job job;
    double instructions = 0;
    double of_full_groups = 0; ///< as if no lane were without a piece
    /// Whether axes are summed in the order of all other ways, D, H and W.
    bool in_order = true;
};

/// Nothing where pieces have gaps or are too large.
std::optional<piece_way> as_pieces(separable_job job);
void finish_pieces(separable_job &job);

/// Sizes of tap_lanes::slabs, whose batch is set: blocks of H and scratch.
void size_planes(separable_job &job);

/// Cuts blocks of H of tap_lanes::slabs further, so that there are units for all
/// threads.
void spread_planes(separable_job &job, int threads);

/// Columns of diff_src in a strip: as many as keep what a line is made of in
/// cache, but so many that what neighbouring strips both read stays small.
int64_t choose_strip(const separable_job &job, int64_t element_bytes,
        int64_t accumulator_bytes);

/// Cuts planes into blocks: small enough that the planes that one plane of
/// diff_src sums stay in cache, and that there are units for all threads.
void choose_blocks(separable_job &job, int64_t element_bytes, int threads);

/// Cuts strips of tap_lanes::lines and channels into blocks of columns.
void cut_columns(separable_job &job);

/// Fills in the scratch arrays; separable_scratch lays them out in this order.
void size_scratch(
        separable_job &job, int64_t element_bytes, int64_t accumulator_bytes);

} // namespace gradnn::cpu
