// One convolution by one of oneDNN's implementations, or by a whole plan, in
// memory whose surroundings are watched.
#pragma once

#include <functional>
#include <string>

#include "sweep_values.hpp"

namespace gradnn::sweep {

/// What trials are made of a problem.
struct trial_options {
    int threads = 1;
    fpmath_mode fpmath = fpmath_mode::strict; ///< of f32 problems
    bool refused_too = false; ///< implementations that is_faulty refuses
    std::string
            only; ///< if not empty: implementations with this in their names
};

/// Before a trial: its name, "jit:avx2 f32 src=.. weights=.. dst=..", and whether
/// gradnn refuses the implementation. The trial is left out where this returns
/// false.
using announce = std::function<bool(const std::string &implementation,
        const std::string &layouts, bool refused)>;
/// After a trial; `fault` is empty where all is right.
using report = std::function<void(const std::string &fault)>;

/// Tries each of oneDNN's implementations, then gradnn's plan.
void try_all(const detail::convolution_problem &problem, const values &expected,
        const trial_options &options, const announce &before,
        const report &after);

} // namespace gradnn::sweep
