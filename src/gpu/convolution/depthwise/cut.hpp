// Which problems the depthwise kernels take, and how their work is cut: the host half.
#pragma once

#include <cstdint>
#include <optional>

#include "gpu/convolution/depthwise/shape.hpp"
#include "kernel/problem.hpp"

namespace gradnn::gpu::depthwise {

/// A problem that the kernels take: groups of one channel in 16-bit NCX without gaps.
struct cut_problem {
    detail::data_type type;
    bool of_weights;
    problem_shape shape;
    work_cut cut;
};

/// Nothing for others, and where neither planes nor bands of at least 16 rows fit in
/// shared memory, or where there would be too many blocks.
std::optional<cut_problem> cut_of(
        const detail::convolution_problem &, int64_t multiprocessors);

/// Positions after the last of read that the last written one meets.
constexpr int positions_after(const window_axis &axis) {
    return axis.written - axis.read + axis.kernel - 1 - axis.before;
}

} // namespace gradnn::gpu::depthwise
