// interpolation.strided where an axis is too long for tables.
#pragma once

#include <cmath>

#include "kernel/kernel.hpp"
#include "kernel/problem.hpp"

namespace gradnn::cpu {

/// sum += addend, and low += what that rounds off.
inline void add_exactly(double addend, double &sum, double &low) {
    const double total = sum + addend;
    const double taken = total - sum;
    const double rest = (sum - (total - taken)) + (addend - taken);
    if (std::isfinite(total)) low += rest;
    sum = total;
}

/// Its plan computes coordinates as it goes and keeps nothing.
detail::plan_or_refusal make_without_tables(
        const detail::interpolation_problem &problem,
        const detail::compile_options &options);

} // namespace gradnn::cpu
