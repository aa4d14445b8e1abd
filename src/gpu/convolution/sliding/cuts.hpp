// A convolution as the sliding kernels see it, and how its work may be cut, by estimated
// time.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "gpu/convolution/sliding/data_specification.hpp"
#include "gpu/convolution/sliding/weights_specification.hpp"
#include "gpu/runtime/multiprocessor.hpp"
#include "kernel/fused_problem.hpp"

namespace gradnn::gpu::sliding {

// In problem_specification.cpp.

/// The problem of tensors whose first elements are at multiples of so many bytes. In more
/// than one form where there are ways to walk: the first serves as any. Empty, and the
/// reason in `refusal`, where the kernels do not take it.
std::vector<problem_specification> specifications_of(
        const detail::fused_convolution &, int alignment, bool bulk_copies,
        std::string &refusal);

/// The text of the header that a kernel is compiled with.
std::string text_of(const data_specification &);
std::string text_of(const weights_specification &);

/// A specification with its estimated cost, which compares those of one problem.
template <typename Specification>
struct choice {
    double cost;
    Specification specification;
};

/// The specifications that are expected to be fastest, best first; empty where the kernel
/// has no way to cut the problem.
std::vector<choice<data_specification>> data_choices(
        const problem_specification &, const gpu_facts &);
std::vector<choice<weights_specification>> weights_choices(
        const problem_specification &, const gpu_facts &);

/// Terms that a thread adds to a sum, at most.
constexpr int longest_chain = 4096;
/// Of the 255 of a thread, as they are estimated.
constexpr int most_registers = 222;

/// NXC: so many vectors of channels side by side, and threads of a block.
struct block_shape {
    int lanes, threads;
};

/// What estimates are made of.
struct tile_estimator {
    const problem_specification &p;
    const gpu_facts &gpu;
    const int bytes = bytes_of(p.type),
              taps = p.depth.taps * p.row.taps * p.column.taps,
              wide = sum_bytes_of(p.type) / 4; ///< registers of a sum

    /// Between a thread's columns.
    int column_step() const {
        return p.channels_last && p.column.parts() ? std::abs(p.column.dilation)
                                                   : 1;
    }
};

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

/// What a thread takes that has rows on their way: so many of them, or groups that are copied
/// to shared memory.
struct rows_ahead {
    const gpu_facts &gpu;
    int threads; ///< of a block
    double registers; ///< without rows, and those of a row
    double raw;
    double instructions, bytes; ///< of a step
    bool may_copy;
    int group; ///< rows of a group
    double block_bytes,
            share; ///< of shared memory: others of a block, to be had

    bool copied(int ahead) const { return may_copy && ahead > 1; }
    double held(int ahead) const {
        return registers + raw * (copied(ahead) ? 0.3 : ahead)
                + (ahead > 1 ? 6 : 0);
    }
    /// That a multiprocessor holds.
    int blocks(int ahead) const;
    double warps(int ahead) const { return blocks(ahead) * threads / 32.0; }
    double in_flight(int ahead) const { // bytes
        return ahead * warps(ahead) * 32 * bytes;
    }
    /// So that the steps of a multiprocessor's warps outlast memory.
    int best() const;
    /// How many times as long as with enough on their way; loads to registers are waited for
    /// together.
    double late(int ahead) const;
};

/// Whole pixels or whole sectors of them, and few idle threads.
block_shape block_of(int vectors, int vector_bytes, int most_threads = 288);

/// Rows of a strip so that strips fill the multiprocessors in the fewest turns, where
/// `blocks` of strips of all rows fill `held`, and a strip costs so many rows beside its own.
int strip_of(int rows, double blocks, double held, double beside);

/// Columns of a thread to try for windows that leave room for no more than a row of taps.
std::vector<int> row_columns(int width);

/// NXC: vectors of channels of a thread to try, by which one of its tensors is moved.
std::vector<int> channel_vectors(
        const problem_specification &, const pitches &of);

} // namespace gradnn::gpu::sliding
