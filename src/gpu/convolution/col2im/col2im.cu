// Gradient of src as a product of matrices and a sum of its results (col2im): the plan. The
// product is an implicit GEMM's tile (../implicit_gemm/), of some images at a time (cut.cpp),
// the sum a launch of its own (sum_kernel.cuh). README.md has the formulas.
#include <algorithm>
#include <memory>
#include <vector>

#include "base/text.hpp"
#include "gpu/convolution/col2im/cut.hpp"
#include "gpu/convolution/col2im/sum_kernel.cuh"
#include "gpu/device/constants.hpp"
#include "gpu/kernels.hpp"
#include "gpu/runtime/launch.hpp"
#include "gpu/runtime/with_type.hpp"
#include "kernel/problem_text.hpp"

namespace gradnn::gpu::col2im {

namespace {

using detail::text;
using implicit_gemm::dense_problem;
using implicit_gemm::tile_choice;

constexpr const char *name = "convolution.gpu_col2im";

/// Images that are computed together, so many times.
struct portion {
    dense_problem product;
    int64_t times;
    implicit_gemm::tile_kernel multiply; ///< empty where CUTLASS refuses
};

/// Of each portion the products, then diff_src of these.
template <typename Type, int held>
staged_launches launches_of(const std::vector<portion> &portions,
        const problem_shape &shape,
        const std::shared_ptr<const device_buffer> &taps) {
    return [=](const operand_data &data, std::byte *own,
                   const launch_stream &stream) {
        auto *diff_src = static_cast<Type *>(data[0]);
        const auto *diff_dst = static_cast<const Type *>(data[2]);
        for (const portion &each : portions) {
            const int64_t threads = each.product.n * shape.threads_of_image;
            for (int64_t i = 0; i < each.times; ++i) {
                each.multiply(diff_dst, data[1], own, {},
                        own + products_bytes(each.product), stream);
                launch_early(name, add_products_kernel<Type, held>,
                        ceil_div(threads, block), block, 0, stream, shape,
                        taps->as<product_taps>(), threads,
                        reinterpret_cast<const sum_of<Type> *>(own), diff_src);
                diff_src += each.product.n * shape.strides[0];
                diff_dst += each.product.src_elements();
            }
        }
    };
}

} // namespace

plan_or_refusal make(
        const convolution_problem &problem, const compile_options &options) {
    std::string refusal;
    const auto cut = cut_of(problem, options, refusal);
    if (!cut) return plan_or_refusal::refuse(refusal);
    const allocation_guard current(options.device);
    const int64_t images = cut->mapping.problem.n;
    std::vector<portion> portions;
    size_t bytes = 0; // of the products and their partial sums
    const auto add_portion
            = [&](int64_t count, int64_t times, const tile_choice &choice) {
                  const dense_problem product = cut->product_of(count);
                  portions.push_back({product, times,
                          implicit_gemm::launcher_of(name, choice, product)});
                  bytes = std::max(bytes,
                          products_bytes(product)
                                  + partial_bytes(product, choice.slices));
              };
    add_portion(cut->images, images / cut->images, cut->choice);
    if (cut->last_images() != 0)
        add_portion(cut->last_images(), 1, cut->last_choice);
    for (const portion &each : portions)
        if (!each.multiply)
            return detail::refuse(
                    text("sizes that CUTLASS's ", cut->choice.tile->name(),
                            " counts in, and at most 65535 of its blocks on a "
                            "side"),
                    problem);
    std::vector<product_taps> taps;
    const problem_shape shape = shape_of(problem, cut->mapping.problem.k,
            writes_in_place(problem.src) ? problem.src
                                         : dense_channels_last(problem.src),
            taps);
    const auto table = std::make_shared<const device_buffer>(
            upload(options.device, taps));
    const auto launches = with_float_type(
            problem.src.type, [&]<typename Type>() -> staged_launches {
                constexpr int64_t sum_bytes = sizeof(sum_of<Type>);
                constexpr int most = sum_bytes == 4 ? 4 : 2;
                return with_chosen(
                        [&]<int held>() {
                            return launches_of<Type, held>(
                                    portions, shape, table);
                        },
                        one_of<1, 3, 2, most> {
                                held_channels(shape.channels, sum_bytes)});
            });
    const int64_t all = ceil_div(images, cut->images);
    return plan_of(
            staged_work {cut->mapping.operands, 0, bytes, launches, "CUTLASS",
                    all > 1 ? text(cut->choice.name(), ", ", all, " portions")
                            : cut->choice.name()});
}

} // namespace gradnn::gpu::col2im
