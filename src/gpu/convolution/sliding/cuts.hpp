// A convolution as the sliding kernels see it, and how its work may be cut, by estimated
// time.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
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

/// What a thread reads of a row, for its columns.
struct row_read {
    double met, entered; ///< columns, and those that are not its neighbour's
    int loaded; ///< elements at a time, of each of so many pieces
    int pieces;
    double wavefronts; ///< of a warp's load
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
    std::vector<choice> tiles = {}; ///< before strips are cut

    /// How much of its columns a tile of so many has on average.
    double used(int columns) const {
        return 1.0 * width / (ceil_div(width, columns) * columns);
    }
    /// NXC: whole pixels or whole sectors of them, and few idle threads.
    block_shape block_of(
            int vector, int most_threads = 288, int most_lanes = 256) const {
        return block_of_lanes(
                p.channels / vector, vector * bytes, most_threads, most_lanes);
    }
    /// Of so many vectors of so many bytes.
    block_shape block_of_lanes(int vectors, int vector_bytes, int most_threads,
            int most_lanes) const;
    /// Blocks of so many threads and registers of each that a multiprocessor has registers for.
    int blocks_of(int threads, int registers) const {
        return gpu.registers / (threads * ceil_div(registers, 8) * 8);
    }
    /// The same where each also has so much shared memory; at least one.
    int blocks_held(int threads, int registers, int shared_bytes) const {
        return std::clamp(std::min(blocks_of(threads, registers),
                                  gpu.shared_bytes / shared_bytes),
                1, gpu.threads / threads);
    }
    /// Columns that so many meet.
    int met_by(int columns) const {
        return std::min(((columns - 1) * p.column.step
                                + (p.column.taps - 1) * column_gap)
                                / p.column.up
                        + 1,
                columns >= width ? p.column.read : 1 << 20);
    }
    /// Columns of a thread to try for windows that leave room for no more than a row of taps.
    std::vector<int> row_columns() const;
    /// NXC: vectors of channels of a thread to try, by which one of its tensors is moved.
    std::vector<int> channel_vectors(const pitches &of) const;
    /// Of so many columns of a vector's channels, or of as many planes. Threads side by side
    /// whose channels are of one group read the same ones.
    row_read reads(int columns, int channels, double sharers = 1) const;
    /// Of so many lanes' weights in shared memory: bytes, and wavefronts of a warp's load.
    int weights_bytes(int vector, int lanes) const {
        return shared_weights_of(p, vector, lanes) * 4 * wide;
    }
    double weights_wavefronts(int vector, int lanes) const {
        return std::max(1.0,
                std::min(lanes, 32) * weights_at_once(p, vector) * wide / 32.0);
    }
    /// Vectors of channels side by side whose weights a warp loads by one wavefront, and which
    /// leave room for some blocks.
    int lanes_of_weights(int vector) const {
        return std::max(1,
                std::min(32 / (weights_at_once(p, vector) * wide),
                        gpu.shared_bytes / 4 / weights_bytes(vector, 1)));
    }
    /// Threads that read the same channels.
    double sharers(int vector) const { return 1.0 * p.group / vector; }
    /// Of rows that a thread reads, keeps and adds up, without those on their way.
    double registers_of(double sums, int weights, double row_elements) const {
        return (sums + weights + row_elements * (bytes == 2 ? 1.0 : 0.6)) * wide
                + 30;
    }
    /// Instructions of so many loads and of what they convert.
    double loading(double loads, double elements) const {
        return loads * 1.5 + elements * (bytes == 2 ? 1.0 : 0.3 * wide);
    }
    /// What is read for an element that is written, of one channel.
    double read_share() const {
        return 1.0 * p.depth.read * p.row.read * p.column.read
                / (1.0 * p.depth.written * p.row.written * p.column.written);
    }
};

/// Whether few of these, or none, are like a cut.
bool is_unlike(const std::vector<choice> &, const work_cut &);

struct data_estimator : tile_estimator {
    const row_walk walk = row_walk::of(p.row);
    /// Steps of a strip beside those of its rows.
    const double over = 1.0 * walk.reach / p.row.up;

    /// Results, or what is read, that follow one another without gaps, so that planes may be
    /// staged.
    bool planes_are_dense(
            const pitches &of, int axis::*positions, int channels) const {
        const std::pair<int, long long> dims[]
                = {{p.column.*positions, of.column}, {p.row.*positions, of.row},
                        {p.depth.*positions, of.depth}, {channels, of.channel},
                        {p.images, of.image}};
        long long dense = 1;
        for (const auto &[count, pitch] : dims) {
            if (count > 1 && pitch != dense) return false;
            dense *= count;
        }
        return dense < (1LL << 30) * p.images;
    }
    bool read_is_dense() const {
        return planes_are_dense(
                p.read, &axis::read, p.channels / p.group * p.multiplier);
    }
    bool written_is_dense() const {
        return planes_are_dense(p.written, &axis::written, p.channels);
    }

    /// A window of one row of many taps, whose sums move up with each row that is read.
    bool is_long() const { return taps == p.row.taps && taps > 8; }
    void add_tiles();
    void add_tile(int vector, const block_shape &block, int columns, int depths,
            staging staged, bool shared_weights);
};

// In row_cuts.cpp.

/// Long windows of one row in planes of NCX.
void add_long_rows(data_estimator &);
/// Groups: rows of taps pass by, whose products are so many that rows that are read come from
/// the first cache again.
void add_passing_rows(data_estimator &);
/// Windows that leave no room in registers for all taps.
std::vector<choice> row_by_row_choices(const data_estimator &);

/// What instructions and wavefronts of shared memory take, which hide most of one another.
inline double overlapped(double by_issue, double by_shared) {
    return std::max(by_issue, by_shared) + 0.2 * std::min(by_issue, by_shared);
}

/// What so much takes beside memory, which takes `floor`. What is staged first hides less.
inline double beside_memory(
        double cost, double floor, bool staged = false, double late = 1) {
    return std::max(cost, 0.75 * floor * late)
            + (staged ? 0.65 * cost - 0.25 * floor : 0.2 * cost);
}

/// The steps of a thread that has rows on their way: so many of them, or groups that are
/// copied to shared memory.
struct walk_estimate {
    const tile_estimator &e;
    block_shape block;
    double block_bytes, share; ///< of shared memory: others, to be had
    bool is_long; ///< sums that move follow their products

    double registers = 0, raw = 0; ///< without rows; those of a row
    double instructions = 0, bytes = 0, loads = 0, wavefronts = 0; ///< a step's
    double loaded_bytes = 0; ///< of a load
    double results = 0; ///< of a step, those inside
    double floor = 0; ///< what memory takes for a result, in instructions
    bool may_copy = false;
    int group = 1; ///< rows of a group
    double shared_bytes = 1024; ///< of a block without rows

    /// The smallest copy is of so many bytes; a small one costs as many instructions as a
    /// large one. Groups have so many rows if the walk is long enough.
    void may_copy_groups(int copy_bytes, bool few_pay, double rows);
    bool copied(int ahead) const { return may_copy && ahead > 1; }
    double held(int ahead) const {
        return registers + raw * (copied(ahead) ? 0.3 : ahead)
                + (ahead > 1 ? 6 : 0);
    }
    /// That a multiprocessor holds.
    int blocks(int ahead) const;
    double warps(int ahead) const {
        return blocks(ahead) * block.threads / 32.0;
    }
    double in_flight(int ahead) const { // bytes
        return ahead * warps(ahead) * 32 * bytes;
    }
    /// So that the steps of a multiprocessor's warps outlast memory.
    int best() const;
    /// Of a result, with so many instructions of a step beside those that are counted.
    double cost(int ahead, double beside, bool staged = false) const;
    work_cut cut(int vector, int columns, int ahead, int unroll) const;
};

/// What so many waves of blocks take: up to some they are waited for as a whole, then the last
/// one for a part.
inline double turns_of(double waves, double whole, double last = 0.5) {
    return std::max(0.35, waves < whole ? std::ceil(waves) : waves + last);
}

/// Rows of a strip so that strips fill the multiprocessors in the fewest turns, where
/// `blocks` of strips of all rows fill `held`, and a strip costs so many rows beside its own.
int strip_of(int rows, double blocks, double held, double beside);

/// What so many blocks take, of what they would if they filled the multiprocessors.
double filling(const gpu_facts &, const work_cut &, int grid);

/// An estimator's best tiles with the rest of their cuts, at most so many, by their cost with
/// that. `finished` has nothing where a tile cannot be cut.
template <typename Estimator>
std::vector<choice> best_finished(const Estimator &e, size_t most,
        std::optional<choice> (*finished)(const Estimator &, choice)) {
    std::vector<choice> done;
    for (const choice &each : e.tiles) {
        if (done.size() >= most
                || (!done.empty() && each.cost > 1.9 * done[0].cost))
            break;
        if (const auto tile = finished(e, each)) done.push_back(*tile);
    }
    std::ranges::stable_sort(done, {}, &choice::cost);
    return done;
}

} // namespace gradnn::gpu::sliding
