// Which problems convolution.gpu_col2im takes and in which portions. Plain host
// arithmetic.
#include "gpu/convolution/col2im/cut.hpp"

#include <algorithm>

#include "gpu/convolution/col2im/shape.hpp"
#include "gpu/runtime/device.hpp"
#include "problem_text.hpp"
#include "text.hpp"

namespace gradnn::gpu::col2im {

namespace {

using detail::convolution_problem;
using detail::data_type;
using detail::text;
using implicit_gemm::dense_problem;
using implicit_gemm::tile_choice;
using implicit_gemm::tile_set;

std::string reason_against(const convolution_problem &problem) {
    constexpr int64_t longest_axis = 1 << 22;
    constexpr int64_t longest_stride = 1 << 15;
    constexpr int64_t most_elements = int64_t {1} << 31;
    if (axes_exceed(problem, longest_axis))
        return "takes axes and windows of at most 2^22 positions";
    int64_t elements = problem.src.dims[0] * problem.src.dims[1];
    for (size_t axis = 0; axis < 3; ++axis) {
        if (problem.strides[axis] > longest_stride)
            return text("takes strides of at most 2^15, given ",
                    problem.strides[axis]);
        if (elements < most_elements) elements *= problem.src.dims[axis + 2];
    }
    return elements < most_elements ? std::string()
                                    : "takes fewer than 2^31 elements of src";
}

/// Of a portion of the products, in bytes. Smaller ones that the second-level cache
/// keeps are no faster: 150 gradients took 1.19 times as long, 0.96 at best.
constexpr int64_t most_products = int64_t {256} << 20;

size_t products_bytes(const dense_problem &product) {
    return round_up(product.sums_bytes(), staged_alignment);
}

/// No tile where the products and their partial sums do not fit.
tile_choice choose(const tile_set &set, const dense_problem &product,
        int multiprocessors, size_t bytes_left) {
    const size_t products = products_bytes(product);
    if (products > bytes_left) return {};
    return implicit_gemm::choose_tile(
            set, product, multiprocessors, bytes_left - products);
}

/// Fits the times of 300 gradients on an H100 within 12 % (root mean square), but for the
/// instructions of a thread that adds, which are counted.
double cycles_of(const convolution_problem &problem, const work_cut &cut,
        int multiprocessors) {
    constexpr double launches = 22e3;
    constexpr double products_passes
            = 1.22; // a write is in the tile's estimate
    constexpr double copies_of_src = 2.5;
    constexpr double copies_of_dst = 3.1;
    constexpr double instructions = 110.0;
    constexpr double lanes = 128.0; // of a multiprocessor
    const auto &operands = cut.mapping.operands;
    double src = static_cast<double>(problem.src.dims[0] * problem.src.dims[1]);
    for (size_t axis = 2; axis < 5; ++axis)
        src *= static_cast<double>(problem.src.dims[axis]);
    const double element = detail::size_of(problem.src.type);
    double bytes = products_passes
            * static_cast<double>(cut.mapping.problem.sums_bytes());
    if (operands[0].staged) bytes += copies_of_src * element * src;
    if (operands[2].staged)
        bytes += copies_of_dst * static_cast<double>(operands[2].bytes);
    const auto portions
            = static_cast<double>(cut.mapping.problem.n / cut.images);
    const double threads = src
            / held_channels(problem.src.dims[1],
                    detail::size_of(cut.mapping.problem.types.sums()));
    return launches + portions * cut.choice.cycles + cut.last_choice.cycles
            + bytes / memory_rate
            + threads * instructions / lanes / multiprocessors;
}

} // namespace

std::optional<work_cut> cut_of(const convolution_problem &problem,
        const detail::compile_options &options, std::string &refusal) {
    const tile_set *const set
            = implicit_gemm::products_of(problem.src.type, options.fpmath);
    if (problem.direction != detail::convolution_direction::backward_data)
        refusal = text("takes gradients of src; ", detail::given(problem));
    else if (set == nullptr)
        refusal = "takes f32 under fpmath_mode strict, given a relaxed one";
    else
        refusal = reason_against(problem);
    if (!refusal.empty()) return std::nullopt;
    auto mapping = implicit_gemm::products_mapping_of(problem,
            {problem.src.type, set->types.sums()}, writes_in_place(problem.src),
            refusal);
    if (!mapping) return std::nullopt;
    const device_properties &device
            = properties_of(static_cast<int>(options.device));
    if (device.major < 8) {
        refusal = text("takes compute capability 8.0 or later, given ",
                device.major, ".", device.minor);
        return std::nullopt;
    }
    const auto left = convolution_workspace_left(
            options, staged_bytes_of(mapping->operands), refusal);
    if (!left) return std::nullopt;

    work_cut made;
    made.mapping = std::move(*mapping);
    const int64_t all = made.mapping.problem.n;
    const auto most = std::min(most_products, static_cast<int64_t>(*left));
    const auto each = static_cast<int64_t>(made.product_of(1).sums_bytes());
    const int64_t portions
            = ceil_div(all, std::clamp<int64_t>(most / each, 1, all));
    made.images = ceil_div(all, portions);
    const auto choose_for = [&](int64_t images) {
        return choose(
                *set, made.product_of(images), device.multiprocessors, *left);
    };
    made.choice = choose_for(made.images);
    const int64_t last = made.last_images();
    if (last != 0) made.last_choice = choose_for(last);
    if (made.choice.tile == nullptr
            || (last != 0 && made.last_choice.tile == nullptr)) {
        refusal = text("takes the products of an image in at most ", *left,
                " bytes of workspace, given ", each);
        return std::nullopt;
    }
    made.cycles = cycles_of(problem, made, device.multiprocessors);
    return made;
}

} // namespace gradnn::gpu::col2im
