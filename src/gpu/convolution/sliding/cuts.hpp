// How the work of a sliding window may be cut, by estimated time.
#pragma once

#include <optional>
#include <vector>

#include "gpu/convolution/sliding/data_specification.hpp"
#include "gpu/convolution/sliding/weights_specification.hpp"
#include "gpu/runtime/multiprocessor.hpp"

namespace gradnn::gpu::sliding {

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
/// Long windows of one row of NCX, by rows in shared memory.
std::optional<choice<weights_specification>> staged_rows_choice(
        const problem_specification &, const gpu_facts &);

/// NXC: so many vectors of channels side by side, and threads of a block.
struct block_shape {
    int lanes, threads;
};

/// Whole pixels or whole sectors of them, and few idle threads.
block_shape block_of(int vectors, int vector_bytes, int most_threads = 288);

/// Rows of a strip so that strips fill the multiprocessors in the fewest turns, where
/// `blocks` of strips of all rows fill `held`, and a strip costs so many rows beside its own.
int strip_of(int rows, double blocks, double held, double beside);

/// NXC: vectors of channels of a thread to try, by which one of its tensors is moved.
std::vector<int> channel_vectors(
        const problem_specification &, const pitches &of);

} // namespace gradnn::gpu::sliding
