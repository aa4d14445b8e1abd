// How an interpolation may be cut, by estimated time.
#pragma once

#include <vector>

#include "gpu/interpolation/resample/problem_specification.hpp"

namespace gradnn::gpu::resample {

/// What cuts are made for.
struct gpu_facts {
    int multiprocessors;
    int block_shared_bytes; ///< that a block may have
    int shared_bytes, registers, threads; ///< of a multiprocessor
};

/// A specification with the estimated cycles of a multiprocessor, and what they come from.
struct choice {
    double cost;
    specification_of_kernel specification;
    double instructions, wavefronts, bytes_in_flight; ///< in cycles; in bytes
};

/// All ways to cut a problem that a GPU can hold, without an order.
std::vector<specification_of_kernel> all_cuts(
        const mapped_problem &, const gpu_facts &);

/// Those that are expected to be fastest, best first; empty where there are none.
std::vector<choice> choices_of(const mapped_problem &, const gpu_facts &);

} // namespace gradnn::gpu::resample
