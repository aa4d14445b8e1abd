// When a gradient of src is a product and a sum of its results
// (convolution.gpu_col2im): by estimates of cycles, of it and of what other kernels take.
#include "gpu/measured.hpp"

#include <algorithm>
#include <numeric>
#include <optional>

#include "base/text.hpp"
#include "gpu/convolution/col2im/cut.hpp"
#include "gpu/convolution/facts.hpp"
#include "gpu/convolution/narrow_groups/shape.hpp"
#include "gpu/device/rounding.hpp"

namespace gradnn::gpu {

namespace {

/// Number of pairs of a position of src and a tap that the strides let reach it, whether
/// the tap's position lies inside dst or not: tiles and plain products compute a product
/// for each. `even`: all phases of the strides count as many as the largest one.
double meetings_of(const convolution_problem &problem, bool even) {
    double meetings = static_cast<double>(problem.src.dims[0]);
    for (size_t axis = 0; axis < 3; ++axis) {
        const int64_t src = problem.src.dims[2 + axis];
        const int64_t window = problem.weights.dims[3 + axis];
        const int64_t stride
                = problem.dst.dims[2 + axis] == 1 ? 1 : problem.strides[axis];
        const int64_t common = window == 1
                ? stride
                : std::gcd(stride, problem.dilations[axis]);
        meetings *= even ? static_cast<double>(round_up(src, stride) / common
                            * ceil_div(window, stride / common))
                         : static_cast<double>(src * window)
                        / static_cast<double>(stride);
    }
    return meetings;
}

/// Cycles of 1.7 GHz that a gradient of src takes by the better of tensor cores and
/// plain products, with its copies.
double cycles_without_col2im(const convolution_problem &problem,
        const compile_options &options, const col2im::work_cut &cut,
        int multiprocessors) {
    constexpr int64_t chunk = narrow_groups::chunk_channels;
    const int64_t bytes = detail::size_of(problem.src.type);
    const int64_t inputs = problem.src.dims[1];
    const int64_t outputs = problem.dst.dims[1];
    const double meetings = meetings_of(problem, bytes != 2) / multiprocessors;
    const double plain = bytes == 8 ? 20 : bytes == 4 ? 37 : 40;
    double cycles = meetings * rounded_up(inputs, chunk)
            * rounded_up(outputs, chunk) / plain;
    const auto *const tiles
            = implicit_gemm::products_of(problem.src.type, options.fpmath);
    std::string refusal;
    const auto mapping = bytes == 2
            ? std::nullopt
            : implicit_gemm::dense_mapping_of(problem, tiles->types, refusal);
    if (mapping) {
        const auto choice = implicit_gemm::choose_tile(*tiles, mapping->problem,
                multiprocessors, convolution_workspace_limit(options));
        if (choice.tile != nullptr) cycles = std::min(cycles, choice.cycles);
    } else {
        const double rate = bytes == 8 ? 81 : bytes == 4 ? 134 : 800;
        cycles = std::min(cycles,
                meetings * rounded_up(inputs, bytes == 2 ? 64 : 32)
                        * rounded_up(outputs, bytes == 2 ? 32 : 16) / rate);
    }
    const double written = cut.mapping.operands[0].staged ? 3.5 : 1.0;
    const double read = cut.mapping.operands[2].staged ? 3.5 : 1.0;
    return col2im::first_launches + cycles
            + static_cast<double>(bytes)
            * (written * elements_of(problem.src)
                    + read * elements_of(problem.dst))
            / col2im::memory_rate;
}

/// Whether gpu_few_channels is faster: in rows of NCX, which it reads where they lie.
bool is_for_few_channels(const convolution_problem &problem) {
    return problem.src.type == detail::data_type::f32
            && problem.src.dims[1] <= 4
            && std::ranges::max(problem.dilations) == 1
            && problem.src.dims[2] == 1 && problem.src.dims[3] == 1
            && problem.dst.strides[1] > 1;
}

} // namespace

// In 300 gradients of src the estimate of col2im is off by 12 %, that of the other kernels by
// a factor of 1.6. With the margin below the choice takes 1.05 times as long as the faster
// kernel. gpu_few_channels takes 120 us in audio_first NCX where gpu_col2im takes 364 (H100,
// dc6f57a).
std::string col2im_yields(
        const convolution_problem &problem, const compile_options &options) {
    std::string refusal;
    const auto cut = col2im::cut_of(problem, options, refusal);
    if (!cut) return {};
    if (is_matrix_product(problem)) return "nothing is added in a product";
    if (is_for_few_channels(problem))
        return "plain products were faster in such rows";
    const int multiprocessors = multiprocessors_of(options);
    const double others
            = cycles_without_col2im(problem, options, *cut, multiprocessors);
    constexpr double margin = 0.85;
    if (cut->cycles < margin * others) return {};
    const auto us = [](double cycles) {
        return static_cast<int64_t>(cycles / col2im::cycles_of_us);
    };
    return detail::text("estimated at ", us(cut->cycles),
            " us, other kernels at ", us(others), " us");
}

} // namespace gradnn::gpu
