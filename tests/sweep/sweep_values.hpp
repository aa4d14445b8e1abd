// Inputs that every sum of is exact in f32, and the output by plain loops.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "kernel/problem.hpp"

namespace gradnn::sweep {

/// src, weights and dst, each in row-major order of its dims.
using values = std::array<std::vector<float>, 3>;

/// Which of them the problem computes.
size_t output_of(const detail::convolution_problem &problem);

/// Whole numbers from -3 to 3, few of them 0, and the output that follows.
values exact_values(const detail::convolution_problem &problem, uint64_t seed);

/// The first element of the output that is not the rounded value expected.
struct difference {
    size_t count = 0;
    size_t unwritten = 0; ///< those that are NaN
    size_t first = 0;
    float found = 0;
    float expected = 0;
};
/// `type` is what the output was rounded to.
difference compare(const std::vector<float> &found,
        const std::vector<float> &expected, detail::data_type type);

} // namespace gradnn::sweep
