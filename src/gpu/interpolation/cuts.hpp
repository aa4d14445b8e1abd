// An interpolation as resample kernels see it, its specification as text, and its cuts by time.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "gpu/interpolation/geometry.hpp"
#include "gpu/runtime/multiprocessor.hpp"
#include "kernel/axis_shape.hpp"
#include "kernel/fused_problem.hpp"

namespace gradnn::gpu::resample {

// In problem_specification.cpp.

/// A problem with the maps of its axes: walk, middle, column.
struct mapped_problem {
    problem_specification specification;
    std::array<detail::axis_map, 3> maps;
    bool any = false; ///< of any size, and as long sums as may be
};

/// The problem of tensors whose first elements are at multiples of so many bytes; none, and the
/// reason in `refusal`, where the kernels do not take it. `any` is for gpu_strided.
std::optional<mapped_problem> specification_of(
        const detail::fused_interpolation &, int alignment,
        std::string &refusal, bool any = false);

/// Whether the sums along the walk, of vectors of whole rows, may come first.
bool can_walk_first(const mapped_problem &);

/// The text of the header that a kernel is compiled with.
std::string text_of(const specification_of_kernel &);

/// The tables of a problem, on the host.
template <typename Sum>
struct host_tables {
    std::array<std::vector<place>, 3> places;
    std::array<std::vector<Sum>, 3> weights;
    std::array<std::vector<long long>, 3> rows; ///< of weights, of `any`
    std::vector<step<Sum>> steps;

    explicit host_tables(const mapped_problem &);
};

// In cuts.cpp, thread_estimate.cpp and choices.cpp.

struct choice {
    double cost; ///< estimated cycles, to the power of 1.5
    cut cut_by;
};

/// What a thread does, or a multiprocessor: some `count` warps or tiles the same.
struct work_estimate {
    double instructions; ///< of one lane
    double path; ///< cycles from begin to end, if nothing else runs
    double in_flight; ///< bytes that no neighbour has, at most
    double wavefronts; ///< of a warp, of shared memory or the first cache
    /// Of a warp, turns of the second cache for stores: a sector in part takes 1, a whole one half.
    double sectors;
    double count = 1;
    double read_again = 1; ///< how often what is read is
    double next_path = 0; ///< cycles of each block after the first
};

/// A problem that is cut, and what all its cuts have in common.
struct cut_problem {
    const mapped_problem &of;
    const problem_specification &p = of.specification;
    /// Behind a walk that comes first, or all.
    problem_specification rest = p.walk_first ? rest_of_walk(p) : p;
    double moved; ///< elements
    double short_rows; ///< of it, what rows of less than 64 bytes write in sectors

    explicit cut_problem(const mapped_problem &);
};

/// Of the rest of a problem. Wavefronts and sectors are counted lane by lane, or are 0.
work_estimate estimate_of_thread(const cut_problem &, const cut &,
        const geometry &, bool by_lanes = false);

/// Positions of the walk that are read for `strip` ones.
double steps_of(const problem_specification &, int strip);

/// Registers of a thread, by what it keeps.
int registers_of(const problem_specification &, const cut &, const geometry &);

/// All ways to cut a problem that a GPU can hold, without an order.
using cut_visitor = std::function<void(
        const cut &, const geometry &, const work_estimate &)>;
void each_cut(const cut_problem &, const gpu_facts &, const cut_visitor &visit);

/// Those that are expected to be fastest, best first: at most so many. Those are left out that
/// would cost more even without what is counted lane by lane; costs are cycles to the power of 1.5.
std::vector<choice> choices_of(const mapped_problem &, const gpu_facts &,
        size_t most_chosen = 12, double most_cost = HUGE_VAL);

/// The cost of the best cut, of the same GPU whatever GPU there is, where the sums along the walk
/// come first (which can_walk_first allows) or last; HUGE_VAL where none costs less than that.
double cost_in_order(
        const mapped_problem &, bool walk_first, double most_cost = HUGE_VAL);

} // namespace gradnn::gpu::resample
