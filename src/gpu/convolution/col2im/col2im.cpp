// Gradient of src as a product of matrices and a sum of its results (col2im): the plan. The
// product is an implicit GEMM's tile (../implicit_gemm/), of some images at a time (cut.cpp),
// the sum a launch of its own (sum.cu). README.md has the formulas.
#include <array>
#include <memory>
#include <utility>
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

/// The images that are computed together.
struct portion {
    dense_problem product;
    tile_choice choice;
    std::unique_ptr<implicit_gemm::tile_kernel> kernel;
    implicit_gemm::slices_sum sum; ///< empty for one slice

    portion(dense_problem the_product, const tile_choice &the_choice)
        : product(std::move(the_product)),
          choice(the_choice),
          kernel(choice.tile->make(product, choice.slices)) {
        if (choice.slices > 1)
            sum = implicit_gemm::sum_of_slices(name, product, choice.slices);
    }

    size_t bytes() const {
        return products_bytes(product)
                + (choice.slices > 1 ? choice.slices * product.sums_bytes()
                                     : 0);
    }
    /// Writes the products to `own`, of which bytes() are scratch.
    void multiply(const void *dst, const void *weights, std::byte *own,
            const launch_stream &stream) const {
        std::byte *const partials = own + products_bytes(product);
        kernel->run(dst, weights, sum ? partials : own, stream);
        if (sum) sum(partials, own, stream);
    }
};

class col2im_plan final : public staged_convolution {
public:
    col2im_plan(
            const convolution_problem &problem, const work_cut &cut, int device)
        : staged_convolution({cut.mapping.operands[0], cut.mapping.operands[1],
                cut.mapping.operands[2], 0}),
          type_(problem.src.type),
          portions_(cut.mapping.problem.n / cut.images),
          whole_(cut.product_of(cut.images), cut.choice) {
        std::vector<product_taps> taps;
        shape_ = shape_of(problem, whole_.product.k,
                writes_in_place(problem.src) ? problem.src
                                             : dense_channels_last(problem.src),
                taps);
        taps_ = upload(device, taps);
        add_products_
                = sum_of_products(type_, shape_, taps_.as<product_taps>());
        if (cut.last_images() != 0)
            last_ = std::make_unique<portion>(
                    cut.product_of(cut.last_images()), cut.last_choice);
    }

    /// Whether CUTLASS takes the shapes.
    bool has_kernels() const {
        return whole_.kernel && (!last_ || last_->kernel);
    }

    std::string backend() const override {
        const std::string copies = operands().copies();
        const int64_t all = portions_ + (last_ ? 1 : 0);
        return text("CUTLASS (", whole_.choice.tile->name(),
                whole_.choice.slices > 1
                        ? text(", ", whole_.choice.slices, " slices")
                        : std::string(),
                all > 1 ? text(", ", all, " portions") : std::string(),
                copies.empty() ? "" : "; ", copies, shared_copies(), ")");
    }

private:
    size_t own_bytes() const override {
        return std::max(whole_.bytes(), last_ ? last_->bytes() : 0);
    }

    void run(const operand_data &data, std::byte *own,
            const launch_stream &stream) const override {
        for (int64_t i = 0; i < portions_; ++i)
            run(whole_, i * whole_.product.n, data, own, stream);
        if (last_) run(*last_, portions_ * whole_.product.n, data, own, stream);
    }

    void run(const portion &part, int64_t first, const operand_data &data,
            std::byte *own, const launch_stream &stream) const {
        const int64_t bytes = detail::size_of(type_);
        const int64_t dst_image
                = dense_problem::product(part.product.src) * part.product.c;
        part.multiply(static_cast<const std::byte *>(data[2])
                        + first * dst_image * bytes,
                data[1], own, stream);
        add_products_(part.product.n, own,
                static_cast<std::byte *>(data[0])
                        + first * shape_.strides[0] * bytes,
                stream);
    }

    const data_type type_;
    const int64_t portions_;
    const portion whole_;
    std::unique_ptr<const portion> last_; ///< null where there is none
    problem_shape shape_;
    device_buffer taps_; ///< product_taps
    products_sum add_products_;
};

} // namespace

plan_or_refusal make(
        const convolution_problem &problem, const compile_options &options) {
    std::string refusal;
    const auto cut = cut_of(problem, options, refusal);
    if (!cut) return plan_or_refusal::refuse(refusal);
    const auto device = static_cast<int>(options.device);
    const allocation_guard current(device);
    auto plan = std::make_unique<col2im_plan>(problem, *cut, device);
    if (!plan->has_kernels())
        return detail::refuse(
                text("sizes that CUTLASS's ", cut->choice.tile->name(),
                        " counts in, and at most 65535 of its blocks on a "
                        "side"),
                problem);
    return plan;
}

} // namespace gradnn::gpu::col2im
