// When a gradient of src is a product and a sum of its results
// (convolution.gpu_col2im): by estimates of cycles, of it and of what other kernels take.
#include "gpu/measured.hpp"

#include <algorithm>
#include <numeric>
#include <optional>

#include "gpu/convolution/col2im/cut.hpp"
#include "gpu/convolution/facts.hpp"
#include "gpu/convolution/narrow_groups/shape.hpp"
#include "gpu/device/rounding.hpp"
#include "gpu/runtime/device.hpp"
#include "text.hpp"

namespace gradnn::gpu {

namespace {

/// Meetings of the positions of src with the taps of their phase of the strides, inside
/// dst or not: what tiles and plain products compute. `even`: all phases have as many
/// positions and taps as the largest one.
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
        // A tile that is mostly idle is refused.
        if (choice.tile != nullptr && choice.useful >= tiles->least_useful)
            cycles = std::min(cycles, choice.cycles);
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

/// Whether gpu_few_channels takes it and is the faster one: rows of NCX that it reads
/// where they lie, and windows of many taps with strides, whose products are for few
/// loads.
bool is_for_few_channels(
        const convolution_problem &problem, const compile_options &options) {
    if (!has_few_channels(problem, options) || leaves_lanes_idle(problem))
        return false;
    for (const int64_t dilation : problem.dilations)
        if (dilation != 1) return false;
    const auto &weights = problem.weights.dims;
    const bool is_line = problem.src.dims[2] == 1 && problem.src.dims[3] == 1;
    return is_line ? is_ncx(problem.dst)
                   : problem.strides[2] > 1
                    && weights[3] * weights[4] * weights[5] >= 32;
}

} // namespace

// H100, dc6f57a, gradnn bench --every-kernel, gradients of src of one group: 300 (266 of
// bench/sweep's seed 803, 16 to 120 MB) and 42 of the list
// (doc/performance/h100-2026-11-26.md). The estimate of col2im is off by 12 %, that of the
// others by a factor of 1.6. With this margin the choice takes 1.05 (f32), 1.06 (f64) and
// 1.05 (16 bits) times as long as the faster one; slower than before are first_3x3 in 16
// bits (1.05 to 1.18), resnet_56_256_512_1x1_s2 (1.02 to 1.08) and of the random ones
// 80x84x290 to 64, 3x3, stride 3, f32 (1.3). gpu_few_channels: audio_first NCX 120 us and
// 364, resnet_stem NXC 748 and 918, but first_3x3 NXC 892 and 344.
std::string col2im_yields(
        const convolution_problem &problem, const compile_options &options) {
    std::string refusal;
    const auto cut = col2im::cut_of(problem, options, refusal);
    if (!cut) return {};
    if (is_matrix_product(problem)) return "nothing is added in a product";
    if (is_for_few_channels(problem, options))
        return "plain products were faster in such rows and windows";
    const int multiprocessors
            = properties_of(static_cast<int>(options.device)).multiprocessors;
    const double others
            = cycles_without_col2im(problem, options, *cut, multiprocessors);
    constexpr double margin = 0.85;
    if (cut->cycles < margin * others) return {};
    const auto us = [](double cycles) {
        constexpr double cycles_of_us = 1.7e3;
        return static_cast<int64_t>(cycles / cycles_of_us);
    };
    return detail::text("estimated at ", us(cut->cycles),
            " us, other kernels at ", us(others), " us");
}

} // namespace gradnn::gpu
