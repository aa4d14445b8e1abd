// How an interpolation may be cut, by estimated time.
#pragma once

#include <cstddef>
#include <vector>

#include "gpu/interpolation/resample/geometry.hpp"
#include "gpu/interpolation/resample/problem_specification.hpp"
#include "gpu/runtime/multiprocessor.hpp"

namespace gradnn::gpu::resample {

/// What a multiprocessor's share of a problem takes, in cycles of each of its parts.
struct estimate {
    double issue; ///< instructions
    double wavefronts; ///< of shared memory or the first cache
    double bytes; ///< of memory, at the rate of a copy
    double sectors; ///< of the second cache that are written
    double waiting; ///< for bytes, with those that are on their way
    double path; ///< what a thread does, one after the other
    double turns; ///< that blocks take, over those of full ones
    double cycles() const;
};

struct choice {
    double cost;
    size_t form; ///< of the problem, by number
    specification_of_kernel specification;
};

/// Wavefronts and sectors are counted lane by lane, which takes most of an estimate's time:
/// without them it is too low.
estimate estimate_of(const specification_of_kernel &, const mapped_problem &,
        const gpu_facts &, bool by_lanes);

/// Parts of a row that a thread may have: a cut's vector, columns and how these are read.
std::vector<cut> columns_of(const problem_specification &);

/// Registers of a thread, by what it keeps.
int registers_of(const specification_of_kernel &, const geometry &);

/// All ways to cut a problem that a GPU can hold, without an order.
std::vector<cut> all_cuts(const mapped_problem &, const gpu_facts &);

/// Those that are expected to be fastest, best first; empty where there are none.
std::vector<choice> choices_of(
        const std::vector<mapped_problem> &forms, const gpu_facts &);

} // namespace gradnn::gpu::resample
