// Which kernel computes an interpolation, by measuring.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "executable.hpp"
#include "problem.hpp"

namespace gradnn::detail {

/// What a measurement is kept under: all that decides which kernel is the
/// fastest.
std::string measurement_key(const interpolation_problem &problem,
        const compile_options &options, const plan_timer &timer);

/// A row beside the one that the rules take, which takes the problem too.
struct rival_kernel {
    const char *kernel;
    std::unique_ptr<detail::plan> plan;
};

/// Times the step's plan and the rivals', gives the step the fastest, and keeps
/// its name in the plan cache; without memory for it leaves the step as it is.
/// The remarks tell what was measured.
void take_fastest(executable_step &step, std::vector<rival_kernel> rivals,
        const interpolation_problem &problem, const compile_options &options,
        const plan_timer &timer);

} // namespace gradnn::detail
