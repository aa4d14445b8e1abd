// When a convolution kernel yields. Where a comment names no other GPU, its figures are of
// an H200 (driver 580, CUDA 13.0, cuDNN 9.14), by
//
//     bench/compare --engine gpu --kind convolution --name NAMES
//
// at the commit that it names. To measure a rule again, force the two kernels by
// GRADNN_KERNEL: a kernel that yields can still be forced.
#include "gpu/measured.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>

#include "gpu/convolution/cudnn/library.hpp"
#include "gpu/convolution/cudnn/plan.hpp"
#include "gpu/convolution/facts.hpp"
#include "gpu/convolution/narrow_groups/shape.hpp"
#include "gpu/convolution/operands.hpp"
#include "gpu/convolution/pointwise/shape.hpp"
#include "gpu/device/rounding.hpp"
#include "gpu/runtime/device.hpp"

namespace gradnn::gpu {

namespace {

using detail::convolution_direction;
using detail::data_type;
using detail::tensor_view;

/// Fewer elements than cuDNN takes.
bool is_small(const tensor_view &tensor) {
    return elements_of(tensor) < 0x1p31;
}

/// Groups of one channel and two, as of a depthwise convolution with a multiplier of 2:
/// chunks of 4 by 4 channels and tiles have next to nothing in them. Whether gpu_direct was
/// measured to be faster in the direction, types and layout (see cudnn_yields).
bool suit_direct(const convolution_problem &problem) {
    const auto &weights = problem.weights.dims;
    if (weights[0] == 1 || weights[1] * weights[2] != 2) return false;
    const bool channels_last
            = problem.src.strides[1] == 1 && problem.dst.strides[1] == 1;
    const int64_t bytes = detail::size_of(problem.src.type);
    switch (problem.direction) {
        case convolution_direction::backward_weights:
            return bytes > 2 || channels_last;
        case convolution_direction::backward_data:
            return bytes == 8 || (bytes == 4 && channels_last);
        case convolution_direction::forward: break;
    }
    return false;
}

} // namespace

std::string few_channels_yields(
        const convolution_problem &problem, const compile_options &) {
    return leaves_lanes_idle(problem)
            ? "planes that fill less than a quarter of the lanes were slower"
            : std::string();
}

namespace {

/// Whether there is cuDNN, and no rule of convolution.cudnn refuses the problem.
bool cudnn_may_take(
        const convolution_problem &problem, const compile_options &options) {
    if (cudnn::library_version() == 0) return false;
    const convolution_problem slice = cudnn::first_slice_of(problem);
    return cudnn::refusal_of(slice, options, cudnn::arrangements_of(slice))
            .refusal.empty();
}

/// Cycles that a convolution takes: its products, those of padded channels included,
/// divided by the products that the multiprocessors compute in a cycle.
struct estimated_cycles {
    double plain; ///< by gpu_narrow_groups
    double tiles; ///< by tensor cores
};

// The products of a multiprocessor in a cycle are fitted to the times of 674 gradients of
// one group (H100, a39b004 with these rules, gradnn bench --every-kernel of bench/sweep's
// seed 801, 8 to 75 MB, and of the 16-bit weights of seed 901 and of bench/cases.json). In
// the mean, the choice takes this much longer than the better of gpu_narrow_groups and the
// next row; the second figure is that of the next row alone:
//
//     gradients of      src           weights
//     f32               8 and 19 %    4 and 5 %
//     f64               14 and 20 %   4 and 9 %
//     16 bits           5 and 10 %    2 and 3 %
//
// CUTLASS computes each of several groups by a part of its own, with launches and copies,
// which takes at least 12 us.
estimated_cycles estimate(
        const convolution_problem &problem, int multiprocessors) {
    constexpr int64_t chunk = narrow_groups::chunk_channels;
    constexpr double cycles_of_a_part = 20e3;
    const auto &weights = problem.weights.dims;
    const bool of_weights
            = problem.direction == convolution_direction::backward_weights;
    const bool to_src
            = problem.direction == convolution_direction::backward_data;
    const int64_t bytes = detail::size_of(problem.src.type);
    const double window
            = static_cast<double>(weights[3] * weights[4] * weights[5]);
    const double points = elements_of(problem.dst)
            / static_cast<double>(problem.dst.dims[1])
            * static_cast<double>(weights[0]);
    const double plain = bytes == 8 ? 20 : of_weights ? 42 : 60;
    const double tile = bytes == 8 ? 70
            : bytes == 4           ? 127
            : of_weights           ? 390
                                   : 700;
    double tile_products = points;
    if (of_weights) {
        const int64_t columns = round_up(weights[2], 16 / bytes) * weights[3]
                * weights[4] * weights[5];
        tile_products *= rounded_up(weights[1], bytes == 4 ? 32 : 64)
                * rounded_up(columns, 64);
    } else
        tile_products *= window * rounded_up(weights[to_src ? 2 : 1], 32)
                * rounded_up(weights[to_src ? 1 : 2], bytes == 2 ? 64 : 16);
    estimated_cycles made {points * window * rounded_up(weights[1], chunk)
                    * rounded_up(weights[2], chunk) / plain / multiprocessors,
            tile_products / tile / multiprocessors};
    if (weights[0] > 1)
        made.tiles += static_cast<double>(weights[0]) * cycles_of_a_part;
    return made;
}

} // namespace

// Groups of 8 channels in 16 bits and NXC (--name resnext, 408e674): cuDNN takes half the
// time for the gradient of the weights. Groups of 3 to 24 channels in f32 and f64 (H100,
// e401cbb, gradnn bench) took 0.03 to 0.7 of the time of the kernels before. Groups in 16
// bits, in the run of estimate(): those of 2 by 2 to 8 by 8 and of 1 by 16 channels took
// 0.16 to 0.82 of cuDNN's time, those of 8 by 12 and more 1.4 to 1.9 times as long, those
// of 1 by 1 and 2 by 1, where more than three of four products are of zeros, 0.7 to 3.3.
std::string narrow_groups_yields(
        const convolution_problem &problem, const compile_options &options) {
    const auto &weights = problem.weights.dims;
    if (suit_direct(problem))
        return "groups of one channel and two were slower";
    if (has_few_channels(problem, options) && leaves_lanes_idle(problem))
        return {};
    const bool narrow_type = detail::size_of(problem.src.type) == 2;
    if (cudnn::library_version() == 0 && weights[0] > 1
            && weights[1] * weights[2] > 1)
        return {};
    const auto is_chunk
            = [](int64_t channels) { return channels == 4 || channels == 8; };
    if (weights[0] > 1 && is_chunk(weights[1]) && is_chunk(weights[2])) {
        const bool slower
                = problem.direction == convolution_direction::backward_weights
                && narrow_type && problem.weights.type == problem.src.type
                && weights[1] == 8 && weights[2] == 8
                && narrow_groups::reads_channels_last(problem.src)
                && narrow_groups::reads_channels_last(problem.dst)
                && is_small(problem.src) && is_small(problem.dst);
        return slower ? "16-bit gradients of weights of groups of 8 channels "
                        "in NXC took twice as long as cuDNN's"
                      : std::string();
    }
    if (problem.src.type == data_type::f32
            && options.fpmath != fpmath_mode::strict)
        return "tensor cores are faster on channels of other than groups of 4 "
               "or 8 in relaxed f32";
    constexpr int64_t chunk = narrow_groups::chunk_channels;
    const int64_t multiplied
            = round_up(weights[1], chunk) * round_up(weights[2], chunk);
    if (multiplied > 4 * weights[1] * weights[2])
        return "one or two channels waste most of the products";
    if (narrow_type && weights[0] > 1) {
        constexpr int64_t most = 64;
        return multiplied > most ? "cuDNN's kernels are faster on groups of "
                                   "more than 8 by 8 channels"
                                 : std::string();
    }
    const bool of_data
            = problem.direction != convolution_direction::backward_weights;
    if (problem.src.type == data_type::f64 && of_data
            && is_matrix_product(problem))
        return "cuDNN's products of matrices in f64 were faster";
    // --name dcgan_last, in the run of estimate(): in f32 this kernel takes 165 us in NCX
    // and 113 in NXC, cuDNN's plain products 74 and 107; in f64 298 and 203, cuDNN's 195
    // and 174. Convolutions of several groups were not measured here.
    constexpr int64_t few_terms = 3;
    const int64_t terms
            = problem.direction == convolution_direction::backward_data
            ? weights[1]
            : weights[2];
    if (weights[0] == 1 && of_data && terms <= few_terms)
        return "sums over at most 3 channels were slower";
    const estimated_cycles cycles = estimate(problem,
            properties_of(static_cast<int>(options.device)).multiprocessors);
    return cycles.plain > cycles.tiles
            ? "by their number tensor cores take less time for the products"
            : std::string();
}

// --name 1x1 in f64, 5e32061 and 444af2a: CUTLASS needs a copy of a matrix that lies in
// NCX. cuDNN multiplies it where it is and takes 0.4 to 0.75 of the time (56x56 and 14x14
// points). It takes twice as long for the gradient of the weights of 7x7 points in NCX.
// In NXC cuDNN took 0.62 to 0.96 of the time in 29 of 30 gradients and 1.06 in one (H100,
// a39b004 with the row of gpu_wide_weights, gradnn bench --every-kernel).
std::string f64_yields(
        const convolution_problem &problem, const compile_options &options) {
    if (problem.src.type != data_type::f64 || !is_matrix_product(problem)
            || !cudnn_may_take(problem, options))
        return {};
    constexpr int64_t fewest_points = 128;
    const bool weights_of_small_planes
            = problem.direction == convolution_direction::backward_weights
            && is_ncx(problem.src) && is_ncx(problem.dst)
            && elements_of(problem.src) < static_cast<double>(fewest_points
                       * problem.src.dims[0] * problem.src.dims[1]);
    return weights_of_small_planes
            ? std::string()
            : "cuDNN's products of matrices in f64 were faster";
}

namespace {

/// Number of tiles of 128 by 128 weights, over all groups.
int64_t tiles_of(const detail::weights_view &weights) {
    constexpr int64_t tile = 128;
    const auto &dims = weights.dims;
    return dims[0] * ceil_div(dims[1], tile)
            * ceil_div(dims[2] * dims[3] * dims[4] * dims[5], tile);
}

// 16-bit gradients of the weights of 16-bit data: which engine cuDNN's heuristics name
// first decides (H100, cuDNN 9.14, bench/sweep's seed 901). Engines 33, 39 and
// 49 use older tensor cores: gpu_wide_weights takes 0.67 of their time in the mean (47
// gradients, 0.05 to 1.06; up to 1.2 in random ones, 1.5 and 2.5 in few channels). Engines
// 0, 1 and 9 use plain products: it takes 0.11 to 0.8 of their time. Engine 62 with
// channels last does not cut its sums into slices: it takes 0.01 and 0.61 of the time where
// the weights are one tile. It takes 0.7 to 2.9 times as long as all other engines.
bool is_slow_by_cudnn(
        const convolution_problem &problem, const compile_options &options) {
    const auto first = cudnn::first_engine(problem, options);
    if (!first) return false;
    if (first->name.empty()) return true;
    for (const char *slow : {"eng0", "eng1", "eng9", "eng33", "eng39", "eng49"})
        if (first->name == slow) return true;
    constexpr int64_t idle
            = 12; // multiprocessors, of which a tile keeps one busy
    return first->name == "eng62" && first->channels_last
            && idle * tiles_of(problem.weights)
            <= properties_of(static_cast<int>(options.device)).multiprocessors;
}

} // namespace

// 64 random problems of 4 to 256 channels and those of bench/cases.json were timed by
// gradnn bench --every-kernel (H200 39314eb and H100 ee9c0db). Where both tensors lie in
// whole words of 16 bytes cuDNN copies nothing: a gradient of data takes this kernel 20 us
// and cuDNN 17 in NCX (resnet_56_64_64_1x1), 32 and 16 in NXC; one of weights 54 and 24.
// With 24 channels in each tensor, in NXC, data takes 40 and 72 us, weights 83 and 102.
// Gradients of weights in NCX of 7 and 9 channels take 236 us, by gpu_narrow_groups 176;
// those of 32 positions 430 and 125.
std::string pointwise_yields(
        const convolution_problem &problem, const compile_options &options) {
    constexpr int64_t word = 8;
    constexpr int64_t few_in_words = 64;
    constexpr int64_t few = 16;
    constexpr int64_t half_a_tile = 32;
    std::string why;
    const auto shape = pointwise::describe(problem, why);
    if (!shape) return {};
    const int64_t channels = problem.src.dims[1] + problem.dst.dims[1];
    if (shape->planes) {
        const int64_t positions = shape->positions;
        if (problem.direction == convolution_direction::backward_weights)
            return channels <= few || positions <= half_a_tile
                    ? "tiles of few channels or positions were slower"
                    : std::string();
        if (positions % word != 0) return {};
    } else if (problem.src.dims[1] % word != 0
            || problem.dst.dims[1] % word != 0 || channels <= few_in_words)
        return {};
    return cudnn_may_take(problem, options)
            ? "cuDNN reads whole words of 16 bytes where they lie"
            : std::string();
}

// In relaxed fpmath modes (--name resnet, cf694b7) cuDNN's kernel truncates sums and does
// not cut them into slices. Where its tiles fill the device it takes half the time of this
// kernel, elsewhere up to twelve times as long.
std::string wide_weights_yields(
        const convolution_problem &problem, const compile_options &options) {
    const bool narrow_output = detail::size_of(problem.weights.type) == 2;
    if (problem.direction != convolution_direction::backward_weights
            || detail::size_of(problem.src.type) != 2
            || (options.fpmath == fpmath_mode::strict && !narrow_output)
            || cudnn::library_version() == 0)
        return {};
    if (narrow_output)
        return problem.weights.dims[0] == 1
                        && is_slow_by_cudnn(problem, options)
                ? std::string()
                : "the kernels that cuDNN names were faster";
    const int multiprocessors
            = properties_of(static_cast<int>(options.device)).multiprocessors;
    return 4 * tiles_of(problem.weights) >= 3 * int64_t {multiprocessors}
            ? "exact sums took twice as long as cuDNN's truncated ones, which "
              "this fpmath_mode allows, for weights that fill the device"
            : std::string();
}

namespace {

/// Whether a gradient of src has a stride of 3 or more, and every position of src gets
/// products of some taps. It is not so where a dilation is a multiple of its stride: then
/// a few positions get the products of all taps and the others none.
bool strides_share_taps(const convolution_problem &problem) {
    bool passes = false;
    for (size_t axis = 0; axis < 3; ++axis) {
        const int64_t stride = problem.strides[axis];
        passes = passes || stride > 2;
        if (stride > 1 && problem.weights.dims[axis + 3] > 1
                && problem.dilations[axis] % stride == 0)
            return false;
    }
    const auto both_are_1 = [&](size_t axis) {
        return problem.src.strides[axis] == 1 && problem.dst.strides[axis] == 1;
    };
    return passes && (both_are_1(1) || both_are_1(4));
}

} // namespace

// Groups of one channel and two (26 gradients of bench/sweep --kind convolution --family
// depthwise --seed 1115 --every-row, H100, 76571f0): gradients of weights take cuDNN and
// gpu_narrow_groups 1.1 to 7.3 times as long as gpu_direct in f32, f64 and 16-bit NXC (10),
// 0.55, 0.73 and 1.94 times in 16-bit NCX. Gradients of src take the faster of the two 1.15
// to 1.95 times as long in f64 and in f32 NXC (5), 0.38 to 0.93 in f32 NCX (4), 0.66 to
// 1.37 in 16 bits (4).
//
// Groups of one channel that no depthwise kernel takes: random ones with strides of 3 and
// 4 or dilations, by gradnn bench --every-kernel. 19 gradients of weights (H200, 39314eb)
// take gpu_direct 25 to 370 us and cuDNN 51 to 1,370: 1.4 to 19 times as long where it
// takes them. In 18 gradients of src (H100, 7b1e261) cuDNN takes 0.22 to 0.67 of the time
// in three whose dilations are multiples of strides, 0.67 and 0.69 in two others, 1.02 to
// 9.2 times as long in thirteen.
std::string cudnn_yields(
        const convolution_problem &problem, const compile_options &) {
    const auto &weights = problem.weights.dims;
    if (suit_direct(problem))
        return "groups of one channel and two were slower";
    if (weights[0] == 1 || weights[1] != 1 || weights[2] != 1) return {};
    switch (problem.direction) {
        case convolution_direction::backward_weights:
            return "gradients of weights of groups of one channel were slower";
        case convolution_direction::backward_data:
            return strides_share_taps(problem)
                    ? "gradients of src of groups of one channel by strides of "
                      "3 and more were slower"
                    : std::string();
        case convolution_direction::forward: break;
    }
    return {};
}

// The gradient of the weights of 163x16 38x42 1x1 in f64 NCX takes 323 us, by gpu_f64 151
// and by gpu_narrow_groups 39, which both yield (H100, 6f5a3d2). The rule leaves out
// tensors so large that no memory is left for a copy, which other kernels need for some
// pointers and layouts, and groups of one channel, or of one and two, that no depthwise
// kernel takes (see cudnn_yields).
std::string direct_yields(
        const convolution_problem &problem, const compile_options &options) {
    const auto &weights = problem.weights.dims;
    if (weights[0] > 1 && weights[1] == 1 && weights[2] == 1) return {};
    if (suit_direct(problem)) return {};
    const auto limit
            = static_cast<double>(convolution_workspace_limit(options));
    for (const tensor_view *tensor : {&problem.src, &problem.dst})
        if (elements_of(*tensor)
                        * static_cast<double>(detail::size_of(tensor->type))
                > limit)
            return {};
    return "every other kernel was faster";
}

} // namespace gradnn::gpu
