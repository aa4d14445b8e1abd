// When groups of few channels, or a group of few, are left to tensor cores
// (convolution.gpu_narrow_groups): by an estimate of cycles, and by what was measured beside
// cuDNN, which cannot be estimated.
#include "gpu/measured.hpp"

#include "gpu/convolution/cudnn/library.hpp"
#include "gpu/convolution/facts.hpp"
#include "gpu/convolution/narrow_groups/shape.hpp"
#include "gpu/device/rounding.hpp"

namespace gradnn::gpu {

namespace {

/// Bytes of an element as tensor cores multiply it: those of relaxed f32 multiply once, as
/// in 16 bits, those of strict f32 three times.
int64_t multiplied_bytes(
        const convolution_problem &problem, const compile_options &options) {
    const auto type = problem.src.type;
    return type == detail::data_type::f32
                    && options.fpmath != fpmath_mode::strict
            ? 2
            : detail::size_of(type);
}

double products_of_chunks(const convolution_problem &problem) {
    const auto &weights = problem.weights.dims;
    return rounded_up(weights[1], narrow_groups::chunk_channels)
            * rounded_up(weights[2], narrow_groups::chunk_channels);
}

/// By the numbers of products, those of padded channels included, and how many a
/// multiprocessor computes in a cycle: fitted to 674 gradients of one group, in which the
/// choice takes 1.02 to 1.14 times as long as the faster kernel (H100, a39b004). Each of
/// several groups is a part with launches and copies on tensor cores.
bool tensor_cores_take_less(
        const convolution_problem &problem, const compile_options &options) {
    constexpr double cycles_of_a_part = 20e3;
    const auto &weights = problem.weights.dims;
    const bool of_weights = is_of_weights(problem);
    const bool to_src = is_to_src(problem);
    const int64_t bytes = multiplied_bytes(problem, options);
    const int64_t window = weights[3] * weights[4] * weights[5];
    const double plain = bytes == 8 ? 20 : of_weights ? 42 : 60;
    const double tile = bytes == 8 ? 70
            : bytes == 4           ? 127
            : of_weights           ? 390
                                   : 700;
    const double tile_products = of_weights
            ? rounded_up(weights[1], bytes == 4 ? 32 : 64)
                    * rounded_up(round_up(weights[2], 16 / bytes) * window, 64)
            : static_cast<double>(window)
                    * rounded_up(weights[to_src ? 2 : 1], 32)
                    * rounded_up(weights[to_src ? 1 : 2], bytes == 2 ? 64 : 16);
    const double saved
            = static_cast<double>(window) * products_of_chunks(problem) / plain
            - tile_products / tile;
    const double points
            = elements_of(problem.dst) / static_cast<double>(weights[1]);
    const double parts = weights[0] == 1 ? 0 : static_cast<double>(weights[0]);
    return points * saved / multiprocessors_of(options)
            > parts * cycles_of_a_part;
}

} // namespace

std::string narrow_groups_yields(
        const convolution_problem &problem, const compile_options &options) {
    const auto &weights = problem.weights.dims;
    const int64_t outputs = weights[1];
    const int64_t inputs = weights[2];
    const bool grouped = weights[0] > 1;
    const bool of_weights = is_of_weights(problem);
    // No other row takes groups well.
    if (cudnn::library_version() == 0 && grouped && outputs * inputs > 1)
        return {};
    const double multiplied = products_of_chunks(problem);
    if (multiplied > static_cast<double>(4 * outputs * inputs))
        return "one or two channels waste most of the products";
    const auto is_chunk
            = [](int64_t channels) { return channels == 4 || channels == 8; };
    if (problem.src.type == detail::data_type::f32
            && options.fpmath != fpmath_mode::strict
            && !(grouped && is_chunk(outputs) && is_chunk(inputs)))
        return "tensor cores are faster on channels of other than groups of 4 "
               "or 8 in relaxed f32";
    // Groups of 2 by 2 to 8 by 8 channels take 0.16 to 0.82 of cuDNN's time in 16 bits,
    // those of 8 by 12 and more 1.4 to 1.9 (H100, a39b004). Gradients of weights of 8 by 8
    // in NXC, where cuDNN copies nothing, take twice as long (H200, 408e674).
    if (grouped && multiplied_bytes(problem, options) == 2) {
        const bool copies_nothing = detail::size_of(problem.weights.type) == 2
                && outputs == 8 && inputs == 8 && are_channels_last(problem);
        return reason_if(multiplied > 64 || (of_weights && copies_nothing),
                "cuDNN's tensor cores were faster on such groups");
    }
    if (!of_weights) {
        std::string of_f64 = f64_yields(problem, options);
        if (!of_f64.empty()) return of_f64;
    }
    // dcgan_last in f32 NCX takes 165 us, by cuDNN's plain products 74 (H200, 408e674).
    constexpr int64_t few = 3;
    if (!grouped && !of_weights
            && (is_to_src(problem) ? outputs : inputs) <= few)
        return "sums over at most 3 channels were slower";
    return reason_if(tensor_cores_take_less(problem, options),
            "by their number tensor cores take less time for the products");
}

} // namespace gradnn::gpu
