// What the kernels of convolution.gpu_direct are told of a problem, and how the gradient
// of the weights is cut. Plain host arithmetic.
#pragma once

#include <cstdint>

#include "gpu/device/rounding.hpp"

namespace gradnn::detail {
struct convolution_problem;
}

namespace gradnn::gpu::direct {

constexpr int threads = 256;
/// Neighbouring taps of a block: few, or one for each warp.
constexpr int few_taps = 3, most_taps = 8;

/// A spatial axis: tap k of position y of dst meets position
/// y * stride - pad + k * dilation of src.
template <typename Index>
struct window_axis {
    Index src = 1, dst = 1, window = 1, pad = 0;
    divisor<Index> stride, dilation;
    Index src_stride = 0, dst_stride = 0, weights_stride = 0;
    /// Of data: from a tap of a position to its next one, among taps, and in elements of
    /// the tensor that is read and of the weights.
    Index tap_step = 1, read_move = 0, weights_move = 0;
    /// Where the positions of what is written begin in the table.
    int table = 0;
};

/// The taps of a position of what is written along an axis: where in the read tensor
/// and the weights the first one lies, and how many there are.
template <typename Index>
struct axis_taps {
    Index read = 0, weights = 0, count = 0;
};

/// Strides are of elements. Index has 32 bits where that holds every offset and count.
template <typename Index>
struct problem_shape {
    window_axis<Index> axes[3];
    Index src_strides[2] = {}; ///< N, C
    Index dst_strides[2] = {};
    Index weights_strides[3] = {}; ///< group, O, I
    Index images = 1;
    divisor<Index> outputs, inputs; ///< channels of a group
    /// What is written, of data: N, C, D, H, W, and how many elements an index of each
    /// stands for in the order of memory.
    divisor<Index> dims[5], inner[5];
    int table = 0; ///< entries of a block's table of taps; 0: it has none
    int64_t count = 1; ///< of what is written
};

/// The gradient of the weights: neighbouring threads of a block have `lanes` neighbouring channels
/// of dst, each every n-th run of positions, as there are rows of lanes.
struct weights_cut {
    int lanes = 1;
    int taps_w = 1; ///< neighbouring taps of a block along W
    int tap_groups = 1; ///< of a window
    int along = 0, run = 1; ///< a run's axis (W, H, D, images) and positions
    bool pairs = false; ///< of channels begin at even elements of both tensors
    int64_t channels = 1; ///< of dst
    int64_t channel_tiles = 1;
    int64_t tap_rows = 1; ///< along H and D, by the channels of src in a group
    int64_t tiles = 1; ///< of channels and taps
    int64_t parts = 1; ///< partial sums of a weight
};

/// Whether 32 bits hold every offset and count.
bool is_small(const detail::convolution_problem &);

/// Threads have an element of so many images `together`.
template <typename Index>
problem_shape<Index> shape_of(
        const detail::convolution_problem &, int together = 1);

weights_cut cut_weights(
        const detail::convolution_problem &, int multiprocessors);

} // namespace gradnn::gpu::direct
