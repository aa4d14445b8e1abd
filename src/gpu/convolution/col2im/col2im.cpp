// Gradient of src as a product of matrices and a sum of its results (col2im):
//
//     products[n,y][k,i] = sum over o of diff_dst[n,y,o] * weights[o,k,i]
//     diff_src[n,x,i]    = sum over the k that meet x in some y of products[n,y][k,i]
//
// Nothing is multiplied that no window meets, and columns k, i fill tiles where few
// channels i would not. The price is the products' way through memory. The product is
// an implicit GEMM's tile (../implicit_gemm/), the sum a launch of its own (sum.cu).
#include <array>
#include <memory>
#include <utility>

#include "gpu/convolution/col2im/sum.hpp"
#include "gpu/convolution/implicit_gemm/implicit_gemm.hpp"
#include "gpu/kernels.hpp"
#include "gpu/runtime/launch.hpp"
#include "problem_text.hpp"
#include "text.hpp"

namespace gradnn::gpu::col2im {

namespace {

using detail::data_type;
using detail::text;
using implicit_gemm::dense_mapping;
using implicit_gemm::tile_choice;

constexpr const char *name = "convolution.gpu_col2im";

/// Whether the sums are written where the caller's tensor is: channels last, or so few
/// that a thread has all of a position.
bool writes_in_place(const detail::tensor_view &src) {
    constexpr int64_t few = 4;
    return src.strides[1] == 1 || src.dims[1] <= few;
}

problem_shape shape_of(const convolution_problem &problem, int64_t pitch) {
    problem_shape shape;
    const auto &dims = problem.src.dims;
    const int64_t sum_bytes
            = problem.src.type == data_type::f64 ? sizeof(double) : sizeof(float);
    const int64_t groups = dims[1] / held_channels(dims[1], sum_bytes);
    shape.channels = static_cast<int>(dims[1]);
    shape.pitch = static_cast<int>(pitch);
    shape.threads = groups * dims[0] * dims[2] * dims[3] * dims[4];
    shape.groups = exact_divider(groups);
    for (size_t axis = 0; axis < 3; ++axis) {
        shape.axes[axis] = window_axis(problem, axis);
        shape.src[axis] = exact_divider(dims[axis + 2]);
    }
    const auto strides = writes_in_place(problem.src)
            ? problem.src.strides
            : dense_channels_last(problem.src).strides;
    std::copy(strides.begin(), strides.end(), shape.strides);
    return shape;
}

class col2im_plan final : public staged_convolution {
public:
    col2im_plan(const convolution_problem &problem,
            const dense_mapping &mapping, const tile_choice &choice,
            std::unique_ptr<implicit_gemm::tile_kernel> kernel)
        : staged_convolution({mapping.operands[0], mapping.operands[1],
                mapping.operands[2], 0}),
          type_(problem.src.type),
          product_(mapping.problem),
          choice_(choice),
          kernel_(std::move(kernel)),
          shape_(shape_of(problem, product_.k)) {}

    std::string backend() const override {
        const std::string copies = operands().copies();
        return text("CUTLASS (", choice_.tile->name(),
                copies.empty() ? "" : "; ", copies, shared_copies(), ")");
    }

private:
    size_t products_bytes() const {
        return round_up(product_.sums_bytes(), staged_alignment);
    }
    bool has_slices() const { return choice_.slices > 1; }

    size_t own_bytes() const override {
        const size_t slices = has_slices() ? choice_.slices : 0;
        return products_bytes() + slices * product_.sums_bytes();
    }

    void run(const std::array<void *, 3> &data, std::byte *own,
            const launch_stream &stream) const override {
        std::byte *const partials = own + products_bytes();
        kernel_->run(data[2], data[1], has_slices() ? partials : own, stream);
        if (has_slices())
            implicit_gemm::add_slices(
                    name, product_, partials, choice_.slices, own, stream);
        add_products(type_, shape_, own, data[0], stream);
    }

    const data_type type_;
    const implicit_gemm::dense_problem product_;
    const tile_choice choice_;
    const std::unique_ptr<implicit_gemm::tile_kernel> kernel_;
    const problem_shape shape_;
};

std::string reason_against(const convolution_problem &problem) {
    constexpr int64_t longest_axis = 1 << 24;
    constexpr int64_t longest_stride = 1 << 15;
    constexpr int64_t most_positions = int64_t {1} << 31;
    if (axes_exceed(problem, longest_axis))
        return "takes axes and windows of at most 2^24 positions";
    int64_t elements = problem.src.dims[0] * problem.src.dims[1];
    for (size_t axis = 0; axis < 3; ++axis) {
        if (problem.strides[axis] > longest_stride)
            return text("takes strides of at most 2^15, given ",
                    problem.strides[axis]);
        if (elements < most_positions) elements *= problem.src.dims[axis + 2];
    }
    return elements < most_positions
            ? std::string()
            : text("takes fewer than 2^31 elements of src");
}

} // namespace

plan_or_refusal make(
        const convolution_problem &problem, const compile_options &options) {
    if (problem.direction != detail::convolution_direction::backward_data)
        return detail::refuse("gradients of src", problem);
    const data_type type = problem.src.type;
    const implicit_gemm::tile_set *const set
            = implicit_gemm::products_of(type, options.fpmath);
    if (set == nullptr)
        return detail::refuse("f32 under fpmath_mode strict alone", problem);
    std::string refusal = reason_against(problem);
    if (!refusal.empty()) return plan_or_refusal::refuse(refusal);
    const auto mapping = implicit_gemm::products_mapping_of(problem,
            {type, set->types.sums()}, writes_in_place(problem.src), refusal);
    if (!mapping) return plan_or_refusal::refuse(refusal);
    const auto device = static_cast<int>(options.device);
    const device_properties &properties = properties_of(device);
    if (properties.major < 8)
        return plan_or_refusal::refuse(
                text("takes compute capability 8.0 or later, given ",
                        properties.major, ".", properties.minor));
    const size_t sums_bytes
            = round_up(mapping->problem.sums_bytes(), staged_alignment);
    const auto left = convolution_workspace_left(options,
            staged_bytes_of(mapping->operands) + sums_bytes, refusal);
    if (!left) return plan_or_refusal::refuse(refusal);
    const tile_choice choice = implicit_gemm::choose_tile(
            *set, mapping->problem, properties.multiprocessors, *left);
    if (choice.tile == nullptr)
        return detail::refuse("sums that fit in one chain", problem);
    const allocation_guard current(device);
    auto kernel = choice.tile->make(mapping->problem, choice.slices);
    if (!kernel)
        return plan_or_refusal::refuse(
                text("CUTLASS's ", choice.tile->name(), " refuses this shape"));
    return std::make_unique<col2im_plan>(
            problem, *mapping, choice, std::move(kernel));
}

} // namespace gradnn::gpu::col2im
