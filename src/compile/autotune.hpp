// Which kernel computes an interpolation or a convolution, by measuring.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "compile/executable.hpp"
#include "kernel/problem.hpp"

namespace gradnn::detail {

/// What a measurement is kept under: all that decides which kernel of the list is
/// the fastest. `device` names what it was measured on, and by which libraries.
std::string measurement_key(const interpolation_problem &problem,
        const compile_options &options, const std::string &device);
std::string measurement_key(const convolution_problem &problem,
        const compile_options &options, const std::string &device);

/// A row beside the one that the rules take, which takes the problem too.
struct rival_kernel {
    const char *kernel;
    std::unique_ptr<detail::plan> plan;
};

/// Times the step's plan and the rivals', and gives the step the fastest. False,
/// and the step as it was, where no time could be measured. The step's timings tell
/// what was.
bool take_fastest(executable_step &step, std::vector<rival_kernel> rivals,
        const std::vector<size_t> &argument_bytes,
        const compile_options &options, const plan_timer &timer);

} // namespace gradnn::detail
