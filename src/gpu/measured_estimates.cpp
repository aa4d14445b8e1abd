// When a kernel is left to others by estimates of cycles, its own and what the others take,
// and by what was measured beside cuDNN, which cannot be estimated: a gradient of src that is
// a product and a sum of its results (convolution.gpu_col2im), and groups of few channels, or
// a group of few, which tensor cores may do faster (convolution.gpu_sliding).
#include <algorithm>
#include <cmath>
#include <optional>

#include "base/text.hpp"
#include "gpu/convolution/col2im/cut.hpp"
#include "gpu/convolution/cudnn/library.hpp"
#include "gpu/convolution/facts.hpp"
#include "gpu/device/rounding.hpp"
#include "gpu/kernels.hpp"
#include "gpu/runtime/device.hpp"

namespace gradnn::gpu {

namespace {

int multiprocessors_of(const compile_options &options) {
    return properties_of(options.device).multiprocessors;
}

/// In 300 gradients of src the estimate of col2im is off by 12 %, that of the other kernels by
/// a factor of 1.6. With this margin the choice takes 1.05 times as long as the faster one
/// (H100, dc6f57a).
constexpr double margin_of_tiles = 0.85;

/// Plain products of gpu_sliding in a cycle of a multiprocessor, which has 128, or 64 of f64, in
/// the middle of 180 gradients that products bind (H200, dc234e42). Where many channels are read
/// for a result they pass by in parts, which in NXC are loads of few elements each, for as many
/// products as channels are written.
double plain_rate(const convolution_problem &problem) {
    constexpr int64_t many = 16;
    const auto &weights = problem.weights.dims;
    const bool wide = detail::size_of(problem.src.type) == 8;
    if (is_of_weights(problem)) return wide ? 25 : 60;
    const bool last = are_channels_last(problem);
    const double most = last ? 11 : 20;
    const bool to_src = is_to_src(problem);
    if (!last || weights[to_src ? 1 : 2] < many) return wide ? most : 50;
    const auto written = static_cast<double>(weights[to_src ? 2 : 1]);
    return wide ? std::min(most, 4 * written) : std::min(30.0, 8 * written);
}

/// Cycles of 1.7 GHz that a multiprocessor has for a point of dst, of a group.
struct cycles_of_a_point {
    static constexpr double bytes_of_a_cycle = 15;
    const convolution_problem &problem;
    const std::array<int64_t, 6> &weights = problem.weights.dims;
    double points = elements_of(problem.dst) / (weights[0] * weights[1]);
    double products = 1.0 * weights[1] * weights[2] * weights[3] * weights[4]
            * weights[5];
    double moved = 1.0 * detail::size_of(problem.src.type)
            * (elements_of(problem.src) + elements_of(problem.dst))
            / (points * weights[0] * bytes_of_a_cycle);

    /// Products, and what is moved, hide most of one another.
    double with_moved(double cycles) const {
        return std::max(cycles, moved) + 0.2 * std::min(cycles, moved);
    }
    double of_sliding() const {
        return with_moved(products / plain_rate(problem));
    }
    /// By cuDNN in 16 bits or relaxed f32, one group's tile of 64 by 64 channels after the other,
    /// of which those of the group are used. Of weights in NXC it has a kernel of its own for
    /// groups of 8 by 8. (H200, c0d06f58: 20 gradients of 2 to 32 channels to a group, by a
    /// factor of 3 more or less.)
    double of_tiles_of_groups() const {
        constexpr double tile = 64, products_of_tiles = 900,
                         products_of_eights = 85, copies = 4;
        const bool last = are_channels_last(problem);
        const double used = std::min(1.0, weights[1] / tile)
                * std::min(1.0, weights[2] / tile);
        const bool eights = last && is_of_weights(problem) && weights[1] == 8
                && weights[2] == 8;
        const double rate
                = (eights ? products_of_eights : products_of_tiles * used) * 2
                / detail::size_of(problem.src.type);
        return with_moved(products / rate) + (last ? 0 : copies * moved);
    }
    /// By whole tiles of tensor cores.
    double of_tiles(const compile_options &options) const {
        const bool of_weights = is_of_weights(problem);
        const bool to_src = is_to_src(problem);
        const int64_t bytes = multiplied_bytes(problem, options);
        const int64_t window = weights[3] * weights[4] * weights[5];
        // Gradients of weights gather src, of volumes by more instructions.
        const double gathers = of_weights && has_depth(problem) ? 0.65 : 1;
        const double rate = bytes == 8 ? 45 * gathers
                : bytes == 4           ? 95 * gathers
                : of_weights           ? 390
                                       : 700;
        const double multiplied = of_weights
                ? 1.0 * round_up(weights[1], bytes == 4 ? 32 : 64)
                        * round_up(
                                round_up(weights[2], 16 / bytes) * window, 64)
                : 1.0 * window * round_up(weights[to_src ? 2 : 1], 32)
                        * round_up(
                                weights[to_src ? 1 : 2], bytes == 2 ? 64 : 16);
        return with_moved(multiplied / rate);
    }
    /// One part after the other, each with launches and copies. What is left to cuDNN, more parts
    /// and long windows, is slower than by any other kernel.
    double of_parts(const compile_options &options) const {
        constexpr double cycles_of_a_part = 30e3;
        const convolution_parts all = implicit_gemm::parts_for(problem);
        // There are none where all windows lie beside src.
        if (!all.refusal.empty() || all.parts.empty()) return HUGE_VAL;
        const auto &window = all.parts.front().problem.weights.dims;
        if (!is_of_weights(problem)
                && *std::max_element(window.begin() + 3, window.end())
                        > implicit_gemm::longest_window)
            return HUGE_VAL;
        const auto parts = static_cast<double>(all.parts.size());
        return of_tiles(options)
                + (parts > 1 ? parts * cycles_of_a_part / weights[0]
                                        * multiprocessors_of(options) / points
                             : 0.0);
    }
};

/// Cycles of 1.7 GHz that a gradient of src takes by the better of tensor cores and
/// plain products, with its copies.
double cycles_without_col2im(const convolution_problem &problem,
        const compile_options &options, const col2im::work_cut &cut) {
    const int multiprocessors = multiprocessors_of(options);
    const int64_t bytes = detail::size_of(problem.src.type);
    const int64_t inputs = problem.src.dims[1];
    const int64_t outputs = problem.dst.dims[1];
    int64_t terms = outputs;
    for (size_t i = 0; i < 3; ++i)
        terms *= taps_of_a_point(problem, i);
    // What gpu_sliding takes.
    const bool few
            = options.specialise && inputs * outputs <= 1024 && terms <= 4096;
    const cycles_of_a_point each {problem};
    const double points = each.points / multiprocessors;
    // Of 16 bits as the choice was timed on the H100.
    const double sliding = few
            ? points * (bytes == 2 ? each.products / 40 : each.of_sliding())
            : HUGE_VAL;
    double tiles = HUGE_VAL;
    const auto *const set
            = implicit_gemm::products_of(problem.src.type, options.fpmath);
    std::string refusal;
    const auto mapping = bytes == 2
            ? std::nullopt
            : implicit_gemm::dense_mapping_of(problem, set->types, refusal);
    if (mapping) {
        const auto choice = implicit_gemm::choose_tile(*set, mapping->problem,
                multiprocessors, convolution_workspace_limit(options));
        if (choice.tile != nullptr && choice.useful >= set->least_useful)
            tiles = choice.cycles;
    } else {
        const double rate = bytes == 8 ? 81 : bytes == 4 ? 134 : 800;
        tiles = points * each.products / (inputs * outputs)
                * round_up(inputs, bytes == 2 ? 64 : 32)
                * round_up(outputs, bytes == 2 ? 32 : 16) / rate;
    }
    const double written = cut.mapping.operands[0].staged ? 3.5 : 1.0;
    const double read = cut.mapping.operands[2].staged ? 3.5 : 1.0;
    const double others = col2im::first_launches
            + 1.0 * bytes
                    * (written * elements_of(problem.src)
                            + read * elements_of(problem.dst))
                    / col2im::memory_rate;
    return std::min(sliding + others, margin_of_tiles * (tiles + others));
}

} // namespace

// By the numbers of products and bytes. No other kernel is as fast where groups have one channel
// and some.
std::string sliding_yields(
        const convolution_problem &problem, const compile_options &options) {
    const auto &weights = problem.weights.dims;
    const bool forward
            = problem.direction == detail::convolution_direction::forward;
    constexpr int64_t some = 16;
    const bool grouped = weights[0] > 1;
    const bool narrow = multiplied_bytes(problem, options) == 2;
    if ((weights[forward ? 1 : 2] == 1 && weights[forward ? 2 : 1] <= some)
            || (grouped && narrow && cudnn::library().version == 0))
        return {};
    const cycles_of_a_point cycles {problem};
    const double sliding = cycles.of_sliding();
    // gpu_wide_weights, which stands before cuDNN, takes one group after the other.
    const bool wide_weights = is_of_weights(problem)
            && detail::size_of(problem.weights.type) == 4
            && options.fpmath == fpmath_mode::strict;
    const double tiles = !narrow || wide_weights ? cycles.of_parts(options)
            : grouped                            ? cycles.of_tiles_of_groups()
                                                 : cycles.of_tiles(options);
    if (sliding > tiles)
        return "by their number tensor cores take less time for the products";
    std::string refusal;
    const auto sums = is_to_src(problem) && !grouped
            ? col2im::cut_of(problem, options, refusal)
            : std::nullopt;
    return reason_if(sums
                    && sums->cycles < sliding * cycles.points
                                    / multiprocessors_of(options),
            "a product and sums of it take less time");
}

std::string col2im_yields(
        const convolution_problem &problem, const compile_options &options) {
    std::string refusal;
    const auto cut = col2im::cut_of(problem, options, refusal);
    if (!cut) return {};
    if (is_matrix_product(problem)) return "nothing is added in a product";
    const double others = cycles_without_col2im(problem, options, *cut);
    if (cut->cycles < others) return {};
    const auto us = [](double cycles) {
        return static_cast<int64_t>(cycles / col2im::cycles_of_us);
    };
    return detail::text("estimated at ", us(cut->cycles),
            " us, other kernels at ", us(others), " us");
}

} // namespace gradnn::gpu
