// The problems that kernels are chosen for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "choice.hpp"

namespace gradnn::test {

/// Every case of bench/cases.json, at its full size, in all types, NCX and NXC.
std::vector<choice_problem> bench_problems();

/// Every case of the conformance suite (support/cases.hpp) likewise, in the
/// layouts and of the kinds that it is run in.
std::vector<choice_problem> suite_problems();

/// Drawn for the rules of the GPU's kernels: the same ones from a seed everywhere.
std::vector<choice_problem> random_problems(uint64_t seed, size_t count);

} // namespace gradnn::test
