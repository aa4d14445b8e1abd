// An interpolation as the resample kernels see it, and their specifications as source text.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "gpu/interpolation/resample/specification.hpp"
#include "kernel/axis_map.hpp"
#include "kernel/fused_problem.hpp"

namespace gradnn::gpu::resample {

/// A problem with the maps of its axes: walk, middle, column.
struct mapped_problem {
    problem_specification specification;
    std::array<detail::axis_map, 3> maps;
};

/// The problem of tensors whose first elements are at multiples of so many bytes. In more
/// than one form where there are ways to walk: the first serves as any. Empty, and the
/// reason in `refusal`, where the kernels do not take it.
std::vector<mapped_problem> specifications_of(
        const detail::fused_interpolation &, int alignment,
        std::string &refusal);

/// Whether the sums along the walk, of vectors of whole rows, may come first.
bool can_walk_first(const problem_specification &);
/// Whether they do: where the best estimate is lower, of the same GPU whatever GPU there is.
bool walks_first(const mapped_problem &);

/// The text of the header that a kernel is compiled with.
std::string text_of(const specification_of_kernel &);

/// The taps of all positions; of those without any too in order.
std::vector<place> places_of(const detail::axis_map &);

/// The tables of a problem, on the host.
template <typename Sum>
struct host_tables {
    std::array<std::vector<place>, 3> places;
    std::array<std::vector<Sum>, 3> weights;
    std::vector<step<Sum>> steps;

    explicit host_tables(const mapped_problem &);
};

} // namespace gradnn::gpu::resample
