// A convolution as several smaller ones, for kernels that take one group and,
// of gradients of src, no strides.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "problem.hpp"

namespace gradnn::gpu::implicit_gemm {

/// A convolution of slices of the whole one's tensors; the parts' outputs are
/// all of the whole one's, each element in one part.
struct problem_part {
    detail::convolution_problem problem;
    /// Where the slices of src, weights and dst begin, in bytes.
    std::array<int64_t, 3> offsets {};
};

/// The groups one by one; or of a gradient of src the positions that a stride
/// meets with the same taps, where `without_strides`: with u = x + pad =
/// v * stride + phase, those of one phase, which are a gradient without strides
/// of the taps phase, phase + stride, ...; not along an axis of one position of
/// dst, where a stride says nothing. Just the whole where there is nothing to
/// take apart. Empty, and the reason, where there would be more than `most`
/// parts, or a part without taps.
std::vector<problem_part> parts_of(const detail::convolution_problem &problem,
        bool without_strides, size_t most, std::string &refusal);

} // namespace gradnn::gpu::implicit_gemm
