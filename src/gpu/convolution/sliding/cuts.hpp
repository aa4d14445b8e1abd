// A convolution as the sliding kernels see it, and how its work may be cut, by estimated
// time.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "gpu/convolution/sliding/data_geometry.hpp"
#include "gpu/convolution/sliding/weights_geometry.hpp"
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
std::string text_of(const kernel_specification &);

/// A specification with its estimated cost, which compares those of one problem: of a result,
/// or of a column of dst, in instructions.
struct choice {
    double cost;
    kernel_specification specification;
};

/// The specifications that are expected to be fastest, best first; empty where the kernel
/// has no way to cut the problem.
std::vector<choice> data_choices(
        const problem_specification &, const gpu_facts &);
std::vector<choice> weights_choices(
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

    const int column_step = column_step_of(p), ///< between a thread's columns
            column_gap = column_step > 1 ? 1 : std::abs(p.column.dilation),
              width = ceil_div(p.column.written, column_step);

    /// How much of its columns a tile of so many has on average.
    double used(int columns) const {
        return static_cast<double>(width)
                / (ceil_div(width, columns) * columns);
    }
    /// NXC: whole pixels or whole sectors of them, and few idle threads.
    block_shape block_of(int vector, int most_threads = 288) const;
    /// Blocks of so many threads and registers of each that a multiprocessor has registers for.
    int blocks_of(int threads, int registers) const {
        return gpu.registers / (threads * ceil_div(registers, 8) * 8);
    }
    /// Columns of a thread to try for windows that leave room for no more than a row of taps.
    std::vector<int> row_columns() const;
    /// NXC: vectors of channels of a thread to try, by which one of its tensors is moved.
    std::vector<int> channel_vectors(const pitches &of) const;
};

/// Whether few of these, or none, are like a cut.
bool is_unlike(const std::vector<choice> &, const work_cut &);

struct data_estimator : tile_estimator {
    const row_walk walk = row_walk::of(p.row);
    std::vector<choice> tiles = {}; ///< before strips are cut

    /// Results, or what is read, that follow one another without gaps, so that planes may be
    /// staged.
    bool planes_are_dense(
            const pitches &of, int axis::*positions, int channels) const {
        const int rows = p.row.*positions, columns = p.column.*positions,
                  depths = p.depth.*positions;
        const int64_t plane = int64_t {rows} * columns;
        return (columns == 1 || of.column == 1)
                && (rows == 1 || of.row == columns)
                && (depths == 1 || of.depth == plane)
                && (channels == 1 || of.channel == plane * depths)
                && (p.images == 1 || of.image == plane * depths * channels)
                && plane * depths * channels < (1 << 30);
    }
    bool read_is_dense() const {
        return planes_are_dense(p.read, &axis::read, p.channels * p.multiplier);
    }
    bool written_is_dense() const {
        return planes_are_dense(p.written, &axis::written, p.channels);
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
    /// What costs so much with enough warps; where sums move, which follows their products,
    /// enough are more.
    double with_few_warps(double cost, int ahead, bool moves) const;
};

/// What a tile takes by instructions and by wavefronts of shared memory, which hide most of
/// one another.
inline double overlapped(double by_issue, double by_shared) {
    return std::max(by_issue, by_shared) + 0.2 * std::min(by_issue, by_shared);
}

/// What so many waves of blocks take: up to some they are waited for as a whole, then the last
/// one for a part.
inline double turns_of(double waves, double whole, double last = 0.5) {
    return std::max(0.35, waves < whole ? std::ceil(waves) : waves + last);
}

/// Rows of a strip so that strips fill the multiprocessors in the fewest turns, where
/// `blocks` of strips of all rows fill `held`, and a strip costs so many rows beside its own.
int strip_of(int rows, double blocks, double held, double beside);

} // namespace gradnn::gpu::sliding
