// How a convolution is put to cuDNN: which tensors it reads and writes where
// they are, and which go through the workspace in another layout or type.
// Plain host arithmetic, without CUDA.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "gpu/convolution/operands.hpp"

namespace gradnn::gpu::cudnn {

/// A tensor as cuDNN is told of it: N, C, space... or K, C/groups, space...
struct described_tensor {
    detail::data_type type = detail::data_type::undef;
    size_t rank = 0; ///< 4 or 5
    std::array<int64_t, 5> dims {};
    std::array<int64_t, 5> strides {}; ///< in elements

    /// Elements from the first to the last.
    int64_t extent() const;

    bool operator==(const described_tensor &) const = default;
};

/// A way of calling cuDNN for a convolution_problem.
struct problem_arrangement {
    detail::convolution_direction direction
            = detail::convolution_direction::forward;
    std::array<described_tensor, 3> seen; ///< src, weights, dst
    convolution_operands operands;
    size_t space = 2; ///< spatial axes
    std::array<int64_t, 3> strides {1, 1, 1};
    std::array<int64_t, 3> dilations {1, 1, 1};
    std::array<int64_t, 3> pads {}; ///< at either end
    /// Inputs of 16 bits are widened to f32: their products are exact in TF32.
    bool widened = false;
    /// The caller's output is f32, of whatever inputs.
    bool f32_output = false;
    size_t staged_bytes = 0; ///< of all operands
    /// Ops of the output's elements behind it, each with another tensor that lies as the
    /// output does; then neither src nor dst is staged.
    std::vector<detail::elementwise_kind> epilogue = {};

    /// The index in operands of what is computed.
    size_t output() const { return output_of(direction); }
    /// Whether an axis, or images and groups together, are more than the 65,535
    /// blocks that CUDA allows along the minor axes of a grid: cuDNN 9.14 then
    /// builds plans that it refuses to run. Not the last axis, which kernels lay
    /// along the major one.
    bool exceeds_a_grid() const;
    /// Terms of the longest sum of a weights gradient.
    int64_t weights_terms() const;
};

/// Ways to put a problem to cuDNN, the best first: the caller's layouts where
/// the tensors agree on NCX or NXC, then copies to one of the two; the caller's
/// padding, then src extended by zeros so that both sides are padded alike;
/// the caller's types, then f32. Copies of 16 bits to NXC, and of the weights
/// then, may have more channels than the caller's, filled up with zeros, for which
/// some tensors are copied that could be read in place. Empty where a
/// tensor has 2^31 elements or more.
std::vector<problem_arrangement> arrangements_of(
        const detail::convolution_problem &problem);

constexpr int64_t channels_at_once = 8; ///< that kernels of 16 bits read

} // namespace gradnn::gpu::cudnn
