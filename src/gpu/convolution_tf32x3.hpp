// The parts of convolution.gpu_tf32x3: the problem that its kernels solve, the
// kernels of each tile, and which is taken. Without CUTLASS, which the
// kernels' own files alone include.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include <cuda_runtime_api.h>

#include "gpu/convolution_operands.hpp"
#include "problem.hpp"

namespace gradnn::gpu::tf32x3 {

/// What a kernel computes, by CUTLASS's names: fprop, strided dgrad, wgrad.
enum class operation { forward, strided_data, weights };

/// A convolution of dense channels-last tensors: src [n, src..., c], weights
/// [k, window..., c], dst [n, dst..., k]; c and k are multiples of 4. Pads are
/// those before the first element and may be negative (forward, weights).
struct dense_problem {
    tf32x3::operation operation = operation::forward;
    int space = 2; ///< spatial axes that the kernel has, 2 or 3
    int64_t n = 1, c = 4, k = 4;
    std::array<int64_t, 3> src {1, 1, 1};
    std::array<int64_t, 3> window {1, 1, 1};
    std::array<int64_t, 3> dst {1, 1, 1};
    std::array<int64_t, 3> pads {};
    std::array<int64_t, 3> strides {1, 1, 1};
    std::array<int64_t, 3> dilations {1, 1, 1};
    /// The window runs backwards: what makes a gradient of src with strides of
    /// 1 a forward convolution of diff_dst.
    bool flipped = false;

    int64_t src_elements() const { return n * product(src) * c; }
    int64_t weights_elements() const { return k * product(window) * c; }
    int64_t dst_elements() const { return n * product(dst) * k; }
    int64_t output_elements() const;

    static int64_t product(const std::array<int64_t, 3> &dims) {
        return dims[0] * dims[1] * dims[2];
    }
};

/// A convolution_problem as a dense_problem.
struct dense_mapping {
    dense_problem problem;
    /// src, weights, dst of the caller. What a kernel cannot read or write where
    /// it lies goes through the workspace, in the wanted order of axes and with
    /// channels filled up by zeros to a multiple of 4.
    std::array<convolution_operand, 3> operands;
    size_t staged_bytes = 0; ///< of all operands
    /// Which of them are the kernel's two inputs and its output.
    std::array<size_t, 3> order {0, 1, 2};
};

/// Nothing, and the reason, where the kernels cannot do it.
std::optional<dense_mapping> dense_mapping_of(
        const detail::convolution_problem &problem, std::string &refusal);

/// A tile's kernel, bound to a problem.
class tile_kernel {
public:
    tile_kernel() = default;
    tile_kernel(const tile_kernel &) = delete;
    tile_kernel &operator=(const tile_kernel &) = delete;
    virtual ~tile_kernel() = default;

    /// Writes the output, or with slices > 1 as many partial sums of it, one
    /// after the other. All pointers are multiples of 16 bytes. The inputs are
    /// src and weights; dst and weights; dst and src.
    virtual void run(const float *first, const float *second, float *output,
            cudaStream_t stream) const = 0;
};

/// A tile of the implicit GEMM: what a thread block computes at a time.
struct tile {
    const char *name;
    tf32x3::operation operation;
    int space;
    int m, n; ///< rows and columns; 16 terms deep
    /// Blocks that a multiprocessor holds, and their rate together as a share
    /// of the best tile's.
    int resident;
    double efficiency;
    /// Nothing where CUTLASS says no. The device must be current.
    std::unique_ptr<tile_kernel> (*make)(const dense_problem &, int slices);
};

/// In convolution_tf32x3_tiles.cpp.
std::span<const tile> tiles();

/// The tile and the number of slices of the sums that should take the least
/// time on a device, of those whose partial sums fit into a limit of bytes
/// (convolution_tf32x3_choice.cpp).
struct tile_choice {
    const tf32x3::tile *tile = nullptr;
    int slices = 1;
    double cycles = 0.0; ///< as estimated
    /// Of the products that the tile computes, the share that is wanted.
    double useful = 0.0;
    double products = 0.0; ///< wanted
};
tile_choice choose_tile(const dense_problem &problem, int multiprocessors,
        size_t partial_bytes_limit);

/// output[i] = sum over slices of partials[slice * elements + i], in order, in
/// f64. elements is a multiple of 4 (convolution_tf32x3_slices.cu).
void add_slices(const float *partials, int slices, int64_t elements,
        float *output, const launch_stream &stream);

} // namespace gradnn::gpu::tf32x3
