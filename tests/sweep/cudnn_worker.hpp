// The part of the sweep of cuDNN's kernels that runs in a child process.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "cudnn_table.hpp"
#include "kernel/kernel.hpp"
#include "sweep_problem.hpp"

namespace gradnn::sweep {

struct cudnn_settings {
    uint64_t seed = 1;
    int64_t first = 0;
    int64_t count = 1000;
    int64_t seconds = 1000000;
    int jobs = 1;
    choice from;
    fpmath_mode fpmath = fpmath_mode::strict;
    bool refused_too = false; ///< kernels that gradnn does not use
    bool refused_problems = false; ///< those that gradnn refuses to cuDNN
    bool list = false; ///< every trial
    bool times = false; ///< each kernel's time, and no values
    sign signs = sign::any;
    std::string only; ///< if not empty: kernels with this in their names
    std::vector<detail::convolution_problem>
            listed; ///< in place of random ones
    std::chrono::steady_clock::time_point start
            = std::chrono::steady_clock::now();

    bool is_over() const {
        return std::chrono::steady_clock::now() - start
                > std::chrono::seconds(seconds);
    }
};

/// What parent and child both see of the child's work. Zeros before the first.
struct cudnn_progress {
    int64_t problem; ///< index of the one at hand
    bool begun; ///< one of its trials has begun:
    size_t arrangement; ///< that one of its arrangements,
    size_t kernel; ///< 0: cuDNN looks for kernels, else 1 + the index of one
    size_t row; ///< of the trial at hand
    bool refused; ///< gradnn would not use what it tries
    fixed_text<1024> text; ///< of the trial at hand
    int64_t problems; ///< finished
    int64_t faults; ///< of what gradnn would use
    engine_table table;
};

/// The status of a child whose trial left CUDA unusable: the fault is counted.
constexpr int unusable = 78;

/// A line, at once.
void print(const std::string &line);
/// A fault of the trial at hand, which its text names.
void report_fault(cudnn_progress &progress, const std::string &fault);

/// Tries the problems from progress.problem on, every `jobs`th, of the first what
/// comes behind the trial that has begun. Ends the process where CUDA can go on no longer.
void try_problems(const cudnn_settings &settings, cudnn_progress &progress);

} // namespace gradnn::sweep
