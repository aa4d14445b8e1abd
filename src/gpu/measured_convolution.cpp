// Convolutions. Figures are of an H200 (driver 580, CUDA 13.0, cuDNN 9.14) where no other GPU is
// named, by
//
//     bench/compare --engine gpu --kind convolution --name NAMES
//
// at the commit that is named. To measure a rule again, force the two kernels by
// GRADNN_KERNEL: what yields may still be forced.
#include "gpu/measured.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>

#include "gpu/convolution/cudnn/library.hpp"
#include "gpu/convolution/depthwise/matrices/cut.hpp"
#include "gpu/convolution/depthwise/plan.hpp"
#include "gpu/convolution/depthwise/rows_nxc/cut.hpp"
#include "gpu/convolution/depthwise/walk/cut.hpp"
#include "gpu/convolution/narrow_groups/shape.hpp"
#include "gpu/convolution/operands.hpp"
#include "gpu/device/rounding.hpp"
#include "gpu/runtime/device.hpp"

namespace gradnn::gpu {

namespace {

using detail::convolution_direction;
using detail::data_type;
using detail::tensor_view;

std::optional<depthwise::problem_facts> facts_of(
        const convolution_problem &problem, const compile_options &options) {
    std::string refusal;
    return depthwise::facts_of(problem, options, refusal);
}

/// In NCX, of more channels than one.
bool is_ncx(const tensor_view &tensor) {
    int64_t next = 1;
    for (size_t axis = tensor.dims.size(); axis-- > 0;) {
        if (tensor.dims[axis] != 1 && tensor.strides[axis] != next)
            return false;
        next *= tensor.dims[axis];
    }
    return tensor.dims[1] != 1;
}

double elements_of(const tensor_view &tensor) {
    double elements = 1;
    for (const int64_t dim : tensor.dims)
        elements *= static_cast<double>(dim);
    return elements;
}

/// Fewer elements than cuDNN takes.
bool is_small(const tensor_view &tensor) {
    return elements_of(tensor) < 0x1p31;
}

// A thread of gpu_few_channels has 16 neighbouring columns (of strides up to 2), a block
// rows of one plane. H100, 6f5a3d2, planes of 3x6 and 7x10, 0.04 and 0.14 of the lanes:
// 2.9 and 5.2 ms, gpu_narrow_groups 0.37 and 1.2, gpu_direct 0.67 and 2.2; of 160x89, 0.9
// of the lanes, 0.28 ms and 0.73.
bool leaves_lanes_idle(const convolution_problem &problem) {
    constexpr int64_t cells = 16;
    constexpr int64_t warp = 32;
    const int64_t rows = problem.src.dims[3];
    const int64_t columns = problem.src.dims[4];
    if (rows == 1) return false; // it has lines for these
    const int64_t threads = rows * ceil_div(columns, cells);
    return 4 * rows * columns < round_up(threads, warp) * cells;
}

/// A gradient of src in strict f32 of at most 4 channels.
bool has_few_channels(
        const convolution_problem &problem, const compile_options &options) {
    return problem.direction == convolution_direction::backward_data
            && problem.weights.dims[0] == 1 && problem.src.dims[1] <= 4
            && problem.src.type == data_type::f32
            && options.fpmath == fpmath_mode::strict;
}

} // namespace

// bf16, --name depthwise, 66d7d92 and cd750e7, before and with matrices, at 56x56:
// 7x7 dX 63 and 42 us, dW 88 and 42; 5x5 dX 54 and 38, dW 67 and 35. The limits are
// where it was faster in those runs.
std::string depthwise_matrices_yields(
        const convolution_problem &problem, const compile_options &options) {
    const auto facts = facts_of(problem, options);
    if (!facts || !depthwise::matrices::takes(*facts)) return {};
    const depthwise::window_axis &down = facts->shape.axes[1];
    const depthwise::window_axis &along = facts->shape.axes[2];
    const int columns = std::min(along.read, along.written);
    const auto divide = [&](int by) {
        return along.read % by == 0 && along.written % by == 0;
    };
    bool fast = false;
    if (std::min({columns, down.read, down.written}) >= 12) {
        if (along.kernel == 7)
            fast = true;
        else if (facts->of_weights())
            fast = columns >= (divide(2) ? 20 : 32);
        else
            fast = divide(2);
    }
    return fast ? std::string()
                : "products of small matrices were slower for such planes";
}

// --name depthwise, 6f70758: 7x7 bf16 dX 96 us from planes in shared memory, 67
// by threads that load whole vectors; dW 112 and 88; f32 137 and 70, 115 and 97;
// 3x3 in f32, three gradients together, 0.38 and 0.31 ms; in bf16 85 and 87, 81
// and 79.
std::string depthwise_planes_yields(
        const convolution_problem &problem, const compile_options &options) {
    const auto facts = facts_of(problem, options);
    if (!facts || facts->channels_last || !depthwise::walk::takes(*facts)
            || !depthwise::walk::rows_are_vectors(*facts))
        return {};
    return "planes in shared memory were slower where rows are vectors of 16 "
           "bytes";
}

// By the machine code, 1135b51: a thread multiplies by all the taps it holds, 16
// or 32, where convolution.gpu_depthwise_blocks holds 8 at a time.
std::string depthwise_rows_nxc_yields(
        const convolution_problem &problem, const compile_options &options) {
    const auto facts = facts_of(problem, options);
    if (!facts || !depthwise::rows_nxc::takes(*facts)) return {};
    const int taps = facts->shape.axes[2].kernel;
    if (round_up(taps, depthwise::rows_nxc::taps_held(taps))
            == round_up(taps, 8))
        return {};
    return "a window that does not fill the taps a thread holds";
}

std::string few_channels_yields(
        const convolution_problem &problem, const compile_options &) {
    return leaves_lanes_idle(problem)
            ? "planes that fill less than a quarter of the lanes were slower"
            : std::string();
}

// --name resnext, 408e674: groups of 8 channels in 16 bits and NXC, cuDNN's
// gradient of the weights takes half the time.
//
// Of other groups by count: a multiprocessor does about 60 plain f32 products in a
// cycle here, and on tensor cores 127 of the narrowest tile of convolution.gpu_tf32x3,
// 32 channels by terms of 16, those of filled-up channels too. In f64 30 and 70. In 16
// bits and TF32 tensor cores are several times faster. On an H100 (e401cbb, gradnn
// bench) groups of 3 to 24 channels in f32 and f64 took 0.03 to 0.7 of the time of the
// kernels before; 24 channels, 0.56 of a tile, 0.13 to 0.6: where the two meet was not
// measured.
std::string narrow_groups_yields(
        const convolution_problem &problem, const compile_options &options) {
    const auto &weights = problem.weights.dims;
    if (has_few_channels(problem, options) && leaves_lanes_idle(problem))
        return {};
    if (weights[0] == 1)
        return "of one group, which fills tiles of tensor cores if it has many "
               "channels, nothing was measured";
    if (cudnn::library_version() == 0) return {};
    const auto is_chunk
            = [](int64_t channels) { return channels == 4 || channels == 8; };
    const bool narrow_type = detail::size_of(problem.src.type) == 2;
    if (is_chunk(weights[1]) && is_chunk(weights[2])) {
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
    if (narrow_type
            || (problem.src.type == data_type::f32
                    && options.fpmath != fpmath_mode::strict))
        return "tensor cores are faster on groups of other than 4 or 8 "
               "channels in 16 bits and in relaxed f32";
    const auto share = [](int64_t channels, int64_t multiple) {
        return static_cast<double>(channels)
                / static_cast<double>(round_up(channels, multiple));
    };
    constexpr int64_t chunk = narrow_groups::chunk_channels;
    constexpr double least = 0.25;
    if (share(weights[1], chunk) * share(weights[2], chunk) < least)
        return "groups of one or two channels waste most of the products";
    constexpr int64_t columns = 32;
    constexpr int64_t terms = 16;
    constexpr double most = 0.6;
    const bool to_src
            = problem.direction == convolution_direction::backward_data;
    const double filled = share(weights[to_src ? 2 : 1], columns)
            * share(weights[to_src ? 1 : 2], terms);
    return filled > most ? "groups that fill more than 0.6 of a tile of tensor "
                           "cores are faster there"
                         : std::string();
}

// --name 1x1 in f64, 5e32061 and 444af2a: products of matrices that lie in NCX
// would be copied; cuDNN multiplies them where they are, in 0.4 to 0.75 of the
// time (56x56 and 14x14 points). Of 7x7 points it reaches half of that rate.
std::string f64_yields(
        const convolution_problem &problem, const compile_options &) {
    constexpr int64_t fewest_points = 128;
    if (problem.src.type != data_type::f64) return {};
    int64_t points = 1;
    for (size_t axis = 0; axis < 3; ++axis) {
        if (problem.weights.dims[3 + axis] != 1 || problem.strides[axis] != 1
                || problem.pads_begin[axis] != 0
                || problem.src.dims[2 + axis] != problem.dst.dims[2 + axis])
            return {};
        points *= problem.src.dims[2 + axis];
    }
    const bool slower = problem.weights.dims[0] == 1 && points >= fewest_points
            && is_ncx(problem.src) && is_ncx(problem.dst)
            && cudnn::library_version() != 0;
    return slower ? "copies to channels last made products of matrices in NCX "
                    "slower than cuDNN's"
                  : std::string();
}

// Relaxed fpmath modes, --name resnet, cf694b7: cuDNN's kernel of truncated sums
// does not cut sums into slices. Where its tiles fill the device it takes half
// the time, elsewhere up to twelve times as long.
std::string wide_weights_yields(
        const convolution_problem &problem, const compile_options &options) {
    if (options.fpmath == fpmath_mode::strict
            || problem.direction != convolution_direction::backward_weights
            || problem.weights.type != data_type::f32
            || detail::size_of(problem.src.type) != 2)
        return {};
    constexpr int64_t tile = 128;
    const auto &dims = problem.weights.dims;
    const int64_t tiles = dims[0] * ceil_div(dims[1], tile)
            * ceil_div(dims[2] * dims[3] * dims[4] * dims[5], tile);
    const int multiprocessors
            = properties_of(static_cast<int>(options.device)).multiprocessors;
    return 4 * tiles >= 3 * int64_t {multiprocessors}
            ? "exact sums took twice as long as cuDNN's truncated ones, which "
              "this fpmath_mode allows, for weights that fill the device"
            : std::string();
}

// H100, 6f5a3d2, gradients of weights, 163x16 38x42 1x1 in f64 NCX: 323 us, gpu_f64 151,
// gpu_narrow_groups 39, both of which yield. Not of tensors that leave no memory for a
// copy, which other kernels need for some pointers and layouts.
std::string direct_yields(
        const convolution_problem &problem, const compile_options &options) {
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
