// When a convolution kernel yields: an estimate or a measurement says that a later row of
// the list takes less time. Each rule has one figure, with its card and commit, by
// `gradnn bench --every-kernel`. To measure a rule again, force both kernels by
// GRADNN_KERNEL: one that yields can still be forced.
#include <algorithm>
#include <cstdint>
#include <optional>

#include "gpu/convolution/cudnn/library.hpp"
#include "gpu/convolution/cudnn/plan.hpp"
#include "gpu/convolution/facts.hpp"
#include "gpu/convolution/operands.hpp"
#include "gpu/device/rounding.hpp"
#include "gpu/kernels.hpp"
#include "gpu/runtime/device.hpp"

namespace gradnn::gpu {

namespace {

/// Groups of one channel, or of one and two: chunks and tiles are nearly empty.
bool has_groups_of_one(const convolution_problem &problem) {
    const auto &weights = problem.weights.dims;
    return weights[0] > 1 && weights[1] * weights[2] <= 2;
}

} // namespace

// cuDNN reads words of 16 bytes where they lie and copies everything else. In NXC 64 to 64
// channels take this kernel 32 us and cuDNN 16, but 24 to 24 take 40 and 72. Weights of
// planes are tiles of 64 positions: 32 positions take 430 us, by cuDNN 125 (H100, ee9c0db).
std::string pointwise_yields(
        const convolution_problem &problem, const compile_options &options) {
    constexpr int64_t word = 8, few_channels = 64, half_a_tile = 32;
    const bool planes = !are_channels_last(problem);
    const int64_t positions = positions_of(problem.src);
    if (planes && is_of_weights(problem))
        return reason_if(
                positions <= half_a_tile, "tiles of few positions were slower");
    const int64_t src = problem.src.dims[1];
    const int64_t dst = problem.dst.dims[1];
    const bool whole_words = planes
            ? positions % word == 0
            : src % word == 0 && dst % word == 0 && src + dst > few_channels;
    return reason_if(
            whole_words && !cudnn::arrangements_taken(problem, options).empty(),
            "cuDNN reads whole words of 16 bytes where they lie");
}

// CUTLASS needs a copy of a matrix that lies in NCX, cuDNN multiplies it where it is, in 0.4
// to 0.75 of the time. It takes twice as long for the gradient of the weights of 7x7 points
// (H200, 444af2a).
std::string f64_yields(
        const convolution_problem &problem, const compile_options &options) {
    constexpr int64_t fewest_positions = 128;
    const bool weights_of_small_planes = is_of_weights(problem)
            && !are_channels_last(problem)
            && positions_of(problem.src) < fewest_positions;
    return reason_if(problem.src.type == detail::data_type::f64
                    && is_matrix_product(problem) && !weights_of_small_planes
                    && !cudnn::arrangements_taken(problem, options).empty(),
            "cuDNN's products of matrices in f64 were faster");
}

// In 16 bits the engine that cuDNN's heuristics name first decides. It is slow by plain
// products (0, 1, 9), by older tensor cores (33, 39, 49: this kernel takes 0.67 of the time
// in the mean of 47 gradients, H100, seed 901 of bench/sweep), and where sums for few tiles
// are not cut into slices (62 with channels last). Weights in f32 under a relaxed
// fpmath_mode are not cut either: cuDNN takes half the time where their tiles fill the
// device, else up to twelve times as long (H200, cf694b7). The largest tensors cuDNN copies
// whole: 3.3 GiB for weights of 256 to 64 channels, 5x1090x1922 bf16 (pytorch 128947).
std::string wide_weights_yields(
        const convolution_problem &problem, const compile_options &options) {
    const bool narrow_output = detail::size_of(problem.weights.type) == 2;
    if (!is_of_weights(problem) || cudnn::library().version == 0
            || (options.fpmath == fpmath_mode::strict && !narrow_output))
        return {};
    // Of 128 by 128 weights, each of which keeps a multiprocessor busy.
    constexpr int64_t tile = 128;
    const auto &dims = problem.weights.dims;
    const int64_t tiles = dims[0] * ceil_div(dims[1], tile)
            * ceil_div(dims[2] * dims[3] * dims[4] * dims[5], tile);
    const int64_t multiprocessors
            = properties_of(options.device).multiprocessors;
    if (!narrow_output)
        return reason_if(4 * tiles >= 3 * multiprocessors,
                "cuDNN's truncated sums, which this fpmath_mode allows, were "
                "faster for weights that fill the device");
    constexpr const char *slow[]
            = {"", "eng0", "eng1", "eng9", "eng33", "eng39", "eng49"};
    const auto first = problem.weights.dims[0] == 1
            ? cudnn::first_engine(problem, options)
            : std::nullopt;
    const bool is_slow = first
            && (std::ranges::count(slow, first->name) > 0
                    || (first->name == "eng62" && first->channels_last
                            && 12 * tiles <= multiprocessors));
    return reason_if(!is_slow, "the kernels that cuDNN names were faster");
}

// Depthwise, where nothing is compiled. cuDNN takes 1.4 to 19 times as long as gpu_direct for
// gradients of weights (39314eb). For gradients of src, of 26 random ones (H200, 39e9532c), it
// takes 0.47 of the time in the mean for planes without strides and dilations in 16 bits, and in
// f32 in NXC, and 2.8 times as long for the 19 others. Forwards were not timed.
std::string cudnn_yields(
        const convolution_problem &problem, const compile_options &) {
    const bool is_fast = is_to_src(problem) && !has_depth(problem)
            && problem.src.dims[3] > 1 && std::ranges::max(problem.strides) == 1
            && std::ranges::max(problem.dilations) == 1
            && (detail::size_of(problem.src.type) == 2
                    || (problem.src.type == detail::data_type::f32
                            && are_channels_last(problem)));
    return reason_if(has_groups_of_one(problem) && !is_fast
                    && problem.direction
                            != detail::convolution_direction::forward,
            "groups of one channel were slower");
}

// 163x16 38x42 1x1 in f64: weights take 323 us, by gpu_f64, which yields, 151 (H100, 6f5a3d2).
// Others need copies for some pointers: of the largest tensors these leave no memory.
std::string direct_yields(
        const convolution_problem &problem, const compile_options &options) {
    const double bytes = detail::size_of(problem.src.type)
            * std::max(elements_of(problem.src), elements_of(problem.dst));
    return reason_if(!has_groups_of_one(problem)
                    && bytes <= static_cast<double>(
                               convolution_workspace_limit(options)),
            "every other kernel was faster");
}

} // namespace gradnn::gpu
