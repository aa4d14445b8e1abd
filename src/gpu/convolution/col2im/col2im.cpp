// Gradient of src as a product of matrices and a sum of its results (col2im): the plan. The
// product is an implicit GEMM's tile (../implicit_gemm/), of some images at a time (cut.cpp),
// the sum a launch of its own (sum.cu). README.md has the formulas.
#include <algorithm>
#include <memory>
#include <vector>

#include "base/text.hpp"
#include "gpu/convolution/col2im/cut.hpp"
#include "gpu/convolution/makers.hpp"
#include "gpu/runtime/launch.hpp"
#include "kernel/problem_text.hpp"

namespace gradnn::gpu::col2im {

namespace {

using detail::data_type;
using detail::text;
using implicit_gemm::dense_problem;
using implicit_gemm::tile_choice;

constexpr const char *name = "convolution.gpu_col2im";

/// Images that are computed together, so many times.
struct portion {
    dense_problem product;
    int64_t times;
    implicit_gemm::tile_launcher multiply; ///< empty where CUTLASS refuses
    size_t bytes; ///< of the products and their partial sums
};

} // namespace

plan_or_refusal make(
        const convolution_problem &problem, const compile_options &options) {
    std::string refusal;
    const auto cut = cut_of(problem, options, refusal);
    if (!cut) return plan_or_refusal::refuse(refusal);
    const auto device = static_cast<int>(options.device);
    const allocation_guard current(device);
    const int64_t images = cut->mapping.problem.n;
    std::vector<portion> portions;
    const auto add_portion
            = [&](int64_t count, int64_t times, const tile_choice &choice) {
                  const dense_problem product = cut->product_of(count);
                  portions.push_back({product, times,
                          implicit_gemm::launcher_of(name, choice, product),
                          products_bytes(product)
                                  + partial_bytes(product, choice.slices)});
              };
    add_portion(cut->images, images / cut->images, cut->choice);
    if (cut->last_images() != 0)
        add_portion(cut->last_images(), 1, cut->last_choice);
    size_t bytes = 0;
    for (const portion &each : portions) {
        bytes = std::max(bytes, each.bytes);
        if (!each.multiply)
            return detail::refuse(
                    text("sizes that CUTLASS's ", cut->choice.tile->name(),
                            " counts in, and at most 65535 of its blocks on a "
                            "side"),
                    problem);
    }
    std::vector<product_taps> taps;
    const problem_shape shape = shape_of(problem, cut->mapping.problem.k,
            writes_in_place(problem.src) ? problem.src
                                         : dense_channels_last(problem.src),
            taps);
    const data_type type = problem.src.type;
    const auto add_products = sum_of_products(type, shape,
            std::make_shared<const device_buffer>(upload(device, taps)));
    const int64_t element = detail::size_of(type);
    const int64_t src_bytes = shape.strides[0] * element; // of an image
    const int64_t dst_bytes = cut->product_of(1).src_elements() * element;
    const auto launches = [=](const operand_data &data, std::byte *own,
                                  const launch_stream &stream) {
        auto *diff_src = static_cast<std::byte *>(data[0]);
        const auto *diff_dst = static_cast<const std::byte *>(data[2]);
        for (const portion &each : portions)
            for (int64_t i = 0; i < each.times; ++i) {
                each.multiply(diff_dst, data[1], own,
                        own + products_bytes(each.product), stream);
                add_products(each.product.n, own, diff_src, stream);
                diff_src += each.product.n * src_bytes;
                diff_dst += each.product.n * dst_bytes;
            }
    };
    const int64_t all = ceil_div(images, cut->images);
    return std::make_unique<staged_convolution>(cut->mapping.operands, 0, bytes,
            launches, "CUTLASS",
            all > 1 ? text(cut->choice.name(), ", ", all, " portions")
                    : cut->choice.name());
}

} // namespace gradnn::gpu::col2im
