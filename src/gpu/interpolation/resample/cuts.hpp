// How an interpolation may be cut, by estimated time.
#pragma once

#include <cstddef>
#include <vector>

#include "gpu/interpolation/resample/geometry.hpp"
#include "gpu/interpolation/resample/problem_specification.hpp"
#include "gpu/runtime/multiprocessor.hpp"

namespace gradnn::gpu::resample {

struct choice {
    double cost;
    size_t form; ///< of the problem, by number
    cut cut_by;
};

/// What a thread does, or a multiprocessor: some `count` warps or tiles the same.
struct work_estimate {
    double instructions; ///< of one lane
    double path; ///< cycles from begin to end, if nothing else runs
    double in_flight; ///< bytes that no neighbour has, at most
    double wavefronts; ///< of a warp, of shared memory or the first cache
    /// Of a warp, what the second cache takes for stores, in turns of a sector of 32 bytes
    /// that is written in part; a whole one takes half as long.
    double sectors;
    double count = 1;
    double read_again = 1; ///< how often what is read is
    double next_path = 0; ///< cycles of each block after the first
};

/// Wavefronts and sectors are counted lane by lane, or are 0.
work_estimate estimate_of_thread(const specification_of_kernel &,
        const geometry &, const mapped_problem &, bool by_lanes);

/// Positions of the walk that are read for `strip` ones.
double steps_of(const problem_specification &, int strip);

/// Registers of a thread, by what it keeps.
int registers_of(const specification_of_kernel &, const geometry &);

/// All ways to cut a problem that a GPU can hold, without an order.
std::vector<cut> all_cuts(const mapped_problem &, const gpu_facts &);

/// Those that are expected to be fastest, best first; empty where there are none.
std::vector<choice> choices_of(
        const std::vector<mapped_problem> &forms, const gpu_facts &);

} // namespace gradnn::gpu::resample
