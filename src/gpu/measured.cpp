// Figures are of an H200 (driver 580, CUDA 13.0, cuDNN 9.14) where no other GPU is
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

#include "axis_map.hpp"
#include "gpu/convolution/cudnn/library.hpp"
#include "gpu/convolution/depthwise/matrices/cut.hpp"
#include "gpu/convolution/depthwise/plan.hpp"
#include "gpu/convolution/depthwise/rows_nxc/cut.hpp"
#include "gpu/convolution/depthwise/walk/cut.hpp"
#include "gpu/convolution/narrow_groups/shape.hpp"
#include "gpu/device/rounding.hpp"
#include "gpu/interpolation/by_images.hpp"
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

/// Fewer elements than cuDNN takes.
bool is_small(const tensor_view &tensor) {
    double elements = 1;
    for (const int64_t dim : tensor.dims)
        elements *= static_cast<double>(dim);
    return elements < 0x1p31;
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

// Interpolation, by
//
//     bench/sweep --engine gpu --kind interpolation --seed 101 --every-row
//
// at 9ef829a: shares of the copy rate of the named kernel and of
// interpolation.gpu_layers in volumes, of interpolation.gpu_nxc elsewhere.

namespace {

/// Whether planes of diff_dst feed several planes of diff_src.
bool is_volume(const interpolation_problem &problem) {
    const auto &dst = problem.diff_dst.dims;
    const auto &src = problem.diff_src.dims;
    return dst[2] != src[2] && (dst[3] != 1 || src[3] != 1);
}

/// Rows of either tensor have an element for each thread of a block.
bool rows_fill_a_block(const interpolation_problem &problem) {
    constexpr int64_t threads = 128;
    const int64_t columns
            = std::min(problem.diff_src.dims[4], problem.diff_dst.dims[4]);
    return columns * problem.diff_src.dims[1] >= threads;
}

int64_t elements_of(const tensor_view &tensor) {
    int64_t elements = 1;
    for (const int64_t dim : tensor.dims)
        elements *= dim;
    return elements;
}

} // namespace

// A launch for each image, H100, e401cbb, beside interpolation.gpu_strided: images of
// 2.8 MiB 4.6 and 11.8 us, of 0.7 MiB 2.8 and 2.9, of 0.35 MiB 2.6 and 1.5.
std::string small_images_yield(
        const interpolation_problem &problem, const compile_options &) {
    constexpr int64_t fewest_bytes = int64_t {1} << 20;
    const int64_t bytes
            = (elements_of(problem.diff_dst) + elements_of(problem.diff_src))
            * detail::size_of(problem.diff_src.type);
    return interpolation::has_images_apart(problem)
                    && bytes / problem.diff_dst.dims[0] < fewest_bytes
            ? "one launch for each image of less than 1 MiB takes too long"
            : std::string();
}

// 19x34x33 to 38x68x66 in bf16 41 and 25 %, 40x50x60 to 77x91x133 33 and 24 %, f32
// 55 and 43 %. Little enlarged: 28x50x65 to 31x56x73 bf16 7 and 19 %, 186x42x46 to
// 42x25x16 f32 16 and 37 %. Short rows: 13x7x4 to 49x7x15 f32 26 and 52 %. Rows of
// more than one tile: 162x123x159 to 315x239x309 f16 12 and 29 %. Many planes for a
// depth: 8x10x16 to 30x37x59 f32 42 and 54 %. H100, 5a9827b: 16x12x18 to 46x36x43
// bf16 14 and 32 %, 14x10x15 to 41x30x36 f32 38 and 50 %. Rows not resampled (seed 201,
// e401cbb): 15x12x23 to 20x12x79 bf16 18 and 33 %, f32 41 and 48 %.
std::string ncx_yields(
        const interpolation_problem &problem, const compile_options &options) {
    if (!is_volume(problem)) return small_images_yield(problem, options);
    const auto &dst = problem.diff_dst.dims;
    const auto &src = problem.diff_src.dims;
    if (elements_of(problem.diff_dst) < 4 * elements_of(problem.diff_src))
        return "volumes enlarged less than 4 times were slower";
    if (dst[4] < 32 || dst[4] > 256)
        return "volumes whose rows of diff_dst do not have 32 to 256 elements "
               "were slower";
    if (dst[3] == src[3])
        return "volumes whose rows are not resampled were slower";
    return dst[2] > 2 * src[2] ? "depths enlarged more than twice were slower"
                               : small_images_yield(problem, options);
}

// A warp has the short rows of several planes side by side where their number is a
// multiple. 44941 planes of 18x40, f32, H100, 607230b, 10 of 32 lanes: 33 and 72 %.
std::string bands_yields(
        const interpolation_problem &problem, const compile_options &options) {
    constexpr int64_t warp = 32;
    const auto &dst = problem.diff_dst.dims;
    const int64_t own = detail::size_of(problem.diff_src.type) == 2 ? 8 : 4;
    const int64_t lanes = std::max<int64_t>(1, dst[4] / own);
    const bool deep = dst[2] == problem.diff_src.dims[2];
    const int64_t planes = dst[0] * dst[1] * (deep ? dst[2] : 1);
    int64_t side_by_side = std::clamp<int64_t>(warp / lanes, 1, planes);
    while (planes % side_by_side != 0)
        --side_by_side;
    return 2 * lanes * side_by_side < warp
            ? "warps with columns for less than half of their lanes were slower"
            : small_images_yield(problem, options);
}

// A row of 23 vectors 8 and 44 %, one of 49 58 and 49 %. In volumes one of 35 13 and
// 47 %, one of 84 58 and 46 %. Linear volumes whose columns are not enlarged, H100,
// seed 201, e401cbb, bf16 and f32: 51 to 51 32 and 59 %, 38 and 56 %; 102 (in f32 83)
// to 44 (36) 44 and 69 %, 66 and 66 %; 22 to 13 51 and 66 %, 71 and 73 %.
std::string pixels_yields(
        const interpolation_problem &problem, const compile_options &) {
    const auto &src = problem.diff_src.dims;
    const bool volume = is_volume(problem);
    if (volume && problem.mode == detail::interpolation_mode::linear
            && problem.diff_dst.dims[4] <= src[4])
        return "volumes whose columns are not enlarged were slower";
    const int64_t lanes = volume ? 64 : 32;
    const int64_t vectors
            = src[4] * src[1] * detail::size_of(problem.diff_src.type) / 16;
    return vectors < lanes
            ? "rows of diff_src with too few vectors for a block "
              "were slower"
            : std::string();
}

// A block has 128 threads or 256 along a row of diff_src. With fewer elements than
// 128 1 to 36 and 26 to 60 %; with 128, 62 and 56 %. Volumes 10 to 23 and 24 to
// 51 %. With up to 8 taps a column gpu_nxc was faster in 16 bits (9e22f9a). With fewer
// than 128 along a row of diff_dst 12 and 13 % (H100, e401cbb, seed 201, f32,
// 3x8x10 -> 3x3x4 and 9x5 -> 5x3).
std::string intervals_yields(
        const interpolation_problem &problem, const compile_options &) {
    if (is_volume(problem)) return "volumes were slower";
    if (!rows_fill_a_block(problem))
        return "rows with fewer elements than a block has threads were slower";
    if (detail::size_of(problem.diff_src.type) != 2) return {};
    const auto along = detail::make_axis_map(
            problem.mode, problem.coordinates, problem.axes[2]);
    return along.max_count <= 8 ? "16-bit columns of at most 8 taps were slower"
                                : std::string();
}

// H100, e401cbb, seed 201: volumes in NXC that gpu_layers refuses took 0.4 to 0.5 of the
// time by gpu_intervals, which yields in all volumes, but those with shorter rows up to 25
// times as long.
std::string strided_yields(
        const interpolation_problem &problem, const compile_options &) {
    const bool channels_last = problem.diff_src.strides[1] == 1
            && problem.diff_dst.strides[1] == 1;
    return channels_last && is_volume(problem) && rows_fill_a_block(problem)
            ? "volumes in NXC were faster by the kernels that yield in volumes"
            : std::string();
}

// Volumes, H100, seed 201, e401cbb: 21 of 16 bits and 19 of f32, of 1 to 618 channels,
// were 1.09 to 6 times as fast by gpu_layers, one of 15 channels 0.86 times, one of 384
// 0.83. Columns reduced, 5a9827b, bf16: 32 to 4 30 and 53 %, 24 to 6 26 and 38 %, but
// 192 to 64 74 and 65 %.
std::string nxc_yields(
        const interpolation_problem &problem, const compile_options &) {
    if (is_volume(problem)) return "volumes were slower";
    return 4 * problem.diff_dst.dims[4] <= problem.diff_src.dims[4]
            ? "columns reduced 4 times and more were slower"
            : std::string();
}

} // namespace gradnn::gpu
