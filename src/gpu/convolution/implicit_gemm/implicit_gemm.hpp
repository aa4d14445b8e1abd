// The parts of the convolutions by CUTLASS's implicit GEMM, which are
// convolution.gpu_tf32x3, convolution.gpu_f64 and convolution.gpu_wide_weights:
// the problem that the kernels solve, the kernels of each tile, and which is
// taken. Without CUTLASS, which the kernels' own files alone include.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include <cuda_runtime_api.h>

#include "gpu/convolution/operands.hpp"
#include "gpu/convolution/parts.hpp"
#include "gpu/device/specification.hpp"
#include "kernel/fused_problem.hpp"

namespace gradnn::gpu::implicit_gemm {

/// What a kernel computes, by CUTLASS's names: fprop, strided dgrad, wgrad.
enum class operation { forward, strided_data, weights };

/// Elements in 16 bytes, which kernels read or write at once.
constexpr int64_t vector_of(detail::data_type type) {
    return 16 / detail::size_of(type);
}

/// The types of a kernel's two inputs and of the caller's output. Sums are in f64 of
/// f64 data, in f32 of all other.
struct element_types {
    detail::data_type input = detail::data_type::f32;
    detail::data_type output = detail::data_type::f32;

    constexpr detail::data_type sums() const {
        return input == detail::data_type::f64 ? input : detail::data_type::f32;
    }
};

constexpr element_types all_of(detail::data_type type) {
    return {type, type};
}

/// A convolution of dense channels-last tensors: src [n, src..., c], weights
/// [k, window..., c], dst [n, dst..., k]; c and k are multiples of vector_of
/// the inputs' type. Pads are those before the first element and may be
/// negative (forward, weights).
struct dense_problem {
    element_types types;
    implicit_gemm::operation operation = operation::forward;
    int space = 2; ///< spatial axes that the kernel has, 2 or 3
    int64_t n = 1, c = 1, k = 1;
    /// The caller's share of the channels that are summed over: less than 1 where
    /// they are filled up.
    double callers_terms = 1.0;
    std::array<int64_t, 3> src {1, 1, 1};
    std::array<int64_t, 3> window {1, 1, 1};
    std::array<int64_t, 3> dst {1, 1, 1};
    std::array<int64_t, 3> pads {};
    std::array<int64_t, 3> strides {1, 1, 1};
    std::array<int64_t, 3> dilations {1, 1, 1};
    /// The window runs backwards: what makes a gradient of src with strides of
    /// 1 a forward convolution of diff_dst.
    bool flipped = false;
    /// Ops of what is written; of data alone.
    jit::fused_op epilogue[2] {};

    int64_t src_elements() const { return n * product(src) * c; }
    int64_t weights_elements() const { return k * product(window) * c; }
    int64_t dst_elements() const { return n * product(dst) * k; }
    int64_t output_elements() const {
        return operation == operation::weights         ? weights_elements()
                : operation == operation::strided_data ? src_elements()
                                                       : dst_elements();
    }
    /// Of the output, in the type of the sums.
    size_t sums_bytes() const {
        return static_cast<size_t>(
                output_elements() * detail::size_of(types.sums()));
    }

    static int64_t product(const std::array<int64_t, 3> &dims) {
        return dims[0] * dims[1] * dims[2];
    }
};

/// A convolution_problem as a dense_problem.
struct dense_mapping {
    dense_problem problem;
    /// src, weights, dst of the caller. What a kernel cannot read or write
    /// where it lies goes through the workspace, in the kernel's order of axes
    /// and with channels filled up by zeros to a multiple of vector_of the
    /// inputs' type.
    convolution_operands operands;
    /// Which of them are the kernel's two inputs and its output.
    std::array<size_t, 3> order {0, 1, 2};
};

/// Positions of a window along an axis for which CUTLASS keeps a bit: gradients of weights may
/// have more.
constexpr int64_t longest_window = 32;

/// Nothing, and the reason, where kernels of those types cannot do it.
std::optional<dense_mapping> dense_mapping_of(
        const detail::convolution_problem &problem, const element_types &types,
        std::string &refusal);

/// Of a gradient of src: the products of a position of dst with the whole window, as
/// rows n, y by columns k, i, channels innermost and filled up. The output, src,
/// is what is made of them, in the caller's tensor or, unless `in_place`, in a
/// dense one, channels last. dense_mapping::problem is that of the products of all
/// images, of which a kernel may take fewer at a time.
std::optional<dense_mapping> products_mapping_of(
        const detail::convolution_problem &problem, const element_types &types,
        bool in_place, std::string &refusal);

/// A tile's kernel, bound to a problem: writes the sums, or with slices > 1 as many partial
/// sums, one after the other. The inputs are src and weights; dst and weights; dst and src,
/// and the ops' other tensors lie `others` from the output; all at multiples of 16 bytes.
/// That of launcher_of adds up partial sums too, in `partials`, which has partial_bytes.
using tile_kernel = std::function<void(const void *first, const void *second,
        void *output, const jit::fused_places &others, std::byte *partials,
        const launch_stream &)>;

/// A tile of the implicit GEMM: what a thread block computes at a time.
struct tile {
    implicit_gemm::operation operation;
    int space;
    int m, n; ///< rows and columns
    /// Blocks that a multiprocessor holds, and their rate together as a share
    /// of the best tile's.
    int resident;
    double efficiency;
    /// Empty where CUTLASS refuses. The device must be current.
    tile_kernel (*make)(const char *kernel, const dense_problem &, int slices);

    /// "forward_3d_128x64"
    std::string name() const;
};

/// The tiles of a kind of arithmetic, and what bounds them.
struct tile_set {
    const char *kernel; ///< "convolution.gpu_..."
    element_types types;
    std::span<const implicit_gemm::tile> tiles;
    int64_t terms; ///< of a k tile
    /// Products of the inputs' type a cycle of a multiprocessor that the best
    /// tile reaches.
    double rate;
    /// The share of a tile's products (without those of filled-up terms) that must
    /// be useful in a problem that is not small: below it cuDNN is faster.
    double least_useful;
    /// k tiles in one chain of sums: more are cut into slices.
    int64_t longest_chain;
};

/// The tile and the number of slices of the sums that should take the least
/// time on a device, of those whose partial sums fit into a limit of bytes
/// (choice.cpp).
struct tile_choice {
    const implicit_gemm::tile *tile = nullptr;
    int slices = 1;
    int64_t chain = 0; ///< k tiles of the longest block
    double cycles = 0.0; ///< as estimated
    /// The share of the tile's products that the result needs.
    double useful = 0.0;
    double products = 0.0; ///< that the result needs

    /// "forward_3d_128x64, 4 slices"
    std::string name() const;
};
/// Of sums that are not yet the output: slices, or of another type. 0 for others.
inline size_t partial_bytes(const dense_problem &problem, int slices) {
    return slices > 1 || problem.types.output != problem.types.sums()
            ? static_cast<size_t>(slices) * problem.sums_bytes()
            : 0;
}

tile_choice choose_tile(const tile_set &set, const dense_problem &problem,
        int multiprocessors, size_t partial_bytes_limit);

/// The kernel of a choice (slices.cu); empty where CUTLASS refuses. On the current device.
tile_kernel launcher_of(const char *kernel, const tile_choice &choice,
        const dense_problem &problem);

/// The tiles for products of matrices of a type under a mode, whose results are in
/// the type of the sums; null where there are none.
const tile_set *products_of(detail::data_type type, fpmath_mode fpmath);

/// What a plan has a kernel for each of: groups, and of gradients of src with strides their
/// phases where tiles have no strides. Refused where they are many.
convolution_parts parts_for(const detail::convolution_problem &);

/// A plan that runs the tile of a set that is chosen for a problem.
detail::plan_or_refusal make_plan(const tile_set &set,
        const detail::fused_convolution &problem,
        const detail::compile_options &options);

} // namespace gradnn::gpu::implicit_gemm
