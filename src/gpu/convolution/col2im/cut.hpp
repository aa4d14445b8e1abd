// How convolution.gpu_col2im cuts a problem: how many images at a time, and the tiles
// of their product.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "gpu/convolution/col2im/shape.hpp"
#include "gpu/convolution/implicit_gemm/implicit_gemm.hpp"
#include "gpu/runtime/launch.hpp"
#include "kernel/kernel.hpp"

namespace gradnn::gpu::col2im {

/// An H100's, as the estimates of col2im and of implicit_gemm are: its clock, the bytes that
/// memory moves in a cycle, and the cycles of what is launched before and after.
constexpr double cycles_of_us = 1.7e3;
constexpr double memory_rate = 1765.0;
constexpr double first_launches = 22e3;

/// Of the workspace, for the products.
inline size_t products_bytes(const implicit_gemm::dense_problem &product) {
    return round_up(product.sums_bytes(), staged_alignment);
}

struct work_cut {
    implicit_gemm::dense_mapping mapping; ///< of all images' product
    int64_t images = 1; ///< at a time; the last ones may be fewer
    implicit_gemm::tile_choice choice; ///< for so many images
    implicit_gemm::tile_choice last_choice; ///< for the last ones
    double cycles = 0.0; ///< as estimated, with copies

    implicit_gemm::dense_problem product_of(int64_t count) const {
        implicit_gemm::dense_problem product = mapping.problem;
        product.n = count;
        return product;
    }
    /// Of the images that come last where these are fewer; 0 where not.
    int64_t last_images() const { return mapping.problem.n % images; }
};

/// Nothing, and the reason, for what the kernel does not take.
std::optional<work_cut> cut_of(const detail::convolution_problem &problem,
        const detail::compile_options &options, std::string &refusal);

// The second launch, in sum.cu.
/// diff_src of so many images, in its type, from the products in the type of its sums:
/// of each position of dst the window's positions one after the other, channels within.
using products_sum = std::function<void(int64_t images, const void *products,
        void *diff_src, const launch_stream &)>;
/// `taps` are those of the shape, on the device.
products_sum sum_of_products(detail::data_type type, const problem_shape &shape,
        const product_taps *taps);

} // namespace gradnn::gpu::col2im
