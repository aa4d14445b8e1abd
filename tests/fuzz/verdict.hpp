// Whether outputs are what the float64 reference makes of the inputs.
#pragma once

#include <string>
#include <vector>

#include "fuzz_problem.hpp"
#include "reference/accuracy.hpp"

namespace gradnn::fuzz {

/// Empty where every output keeps what doc/numerics.md promises; else which
/// one does not, and by how much. Absent ports are empty.
std::string compare_with_reference(const op &the_op,
        const std::vector<detail::reference_tensor> &inputs,
        const std::vector<std::vector<double>> &outputs, fpmath_mode mode);

/// The same of one output, which is held to that, S being `sums`.
std::string compare_output(const op &the_op, size_t port,
        const std::vector<detail::reference_tensor> &inputs,
        const std::vector<double> &given, const std::vector<double> &exact,
        const detail::promise &held, const std::vector<double> &sums,
        fpmath_mode mode);

} // namespace gradnn::fuzz
