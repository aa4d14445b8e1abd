// All figures are of an H200 (driver 580, CUDA 13.0, cuDNN 9.14), by
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

/// As convolution.gpu_narrow_groups reads where it lies.
bool is_channels_last(const tensor_view &tensor) {
    if (tensor.strides[1] != 1) return false;
    for (const size_t axis : {0U, 2U, 3U, 4U})
        if (tensor.dims[axis] > 1 && tensor.strides[axis] % 4 != 0)
            return false;
    return true;
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
// 7x7 dX 63 and 42 us, dW 88 and 42; 5x5 dX 54 and 38, dW 67 and 35; 3x3 dX 87 and
// 71. The limits are where it was faster in those runs.
std::string depthwise_matrices_yields(
        const convolution_problem &problem, const compile_options &options) {
    const auto facts = facts_of(problem, options);
    if (!facts || facts->channels_last || !facts->tensor_cores_suit()
            || !depthwise::matrices::takes(facts->shape, facts->of_weights()))
        return {};
    const depthwise::window_axis &down = facts->shape.axes[1];
    const depthwise::window_axis &along = facts->shape.axes[2];
    const int columns = std::min(along.read, along.written);
    const auto divide = [&](int by) {
        return along.read % by == 0 && along.written % by == 0;
    };
    bool fast = false;
    if (along.kernel == 3)
        fast = divide(8) && columns >= 32;
    else if (std::min({columns, down.read, down.written}) >= 12) {
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
    if (!facts || !facts->channels_last
            || !depthwise::rows_nxc::takes(facts->shape))
        return {};
    const int taps = facts->shape.axes[2].kernel;
    if (round_up(taps, depthwise::rows_nxc::taps_held(taps))
            == round_up(taps, 8))
        return {};
    return "a window that does not fill the taps a thread holds";
}

// --name resnext, 408e674: groups of 8 channels in 16 bits and NXC, cuDNN's
// gradient of the weights takes half the time.
std::string narrow_groups_yields(
        const convolution_problem &problem, const compile_options &) {
    const bool slower
            = problem.direction == convolution_direction::backward_weights
            && detail::size_of(problem.src.type) == 2
            && problem.weights.type == problem.src.type
            && problem.weights.dims[1] == 8 && problem.weights.dims[2] == 8
            && is_channels_last(problem.src) && is_channels_last(problem.dst)
            && is_small(problem.src) && is_small(problem.dst)
            && cudnn::library_version() != 0;
    return slower ? "16-bit gradients of weights of groups of 8 channels in "
                    "NXC took twice as long as cuDNN's"
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

// bench/sweep --engine gpu --kind interpolation --seed 101 --every-row, 756d51e:
// a block of interpolation.gpu_intervals has 128 threads or 256 along a row of
// diff_src. With fewer elements than 128 it reached 1 to 36 % of the copy rate,
// where interpolation.gpu_nxc reached 26 to 60 %; with 128, 62 and 56 %.
// --kind interpolation, 9e22f9a: with up to 8 taps a column interpolation.gpu_nxc
// was faster in 16 bits.
std::string intervals_yields(
        const interpolation_problem &problem, const compile_options &) {
    constexpr int64_t fewest_threads = 128;
    if (problem.diff_src.dims[4] * problem.diff_src.dims[1] < fewest_threads)
        return "rows of diff_src with fewer elements than a block has threads "
               "were slower";
    if (detail::size_of(problem.diff_src.type) != 2) return {};
    const auto along = detail::make_axis_map(
            problem.mode, problem.coordinates, problem.axes[2]);
    return along.max_count <= 8 ? "16-bit columns of at most 8 taps were slower"
                                : std::string();
}

// The same sweep: a row of 23 vectors reached 8 % of the copy rate, where
// interpolation.gpu_nxc reached 44 %; one of 49 vectors 58 and 49 %.
std::string pixels_yields(
        const interpolation_problem &problem, const compile_options &) {
    constexpr int64_t lanes = 32;
    const int64_t vectors = problem.diff_src.dims[4] * problem.diff_src.dims[1]
            * detail::size_of(problem.diff_src.type) / 16;
    return vectors < lanes ? "rows of diff_src with fewer vectors than a warp "
                             "has lanes were slower"
                           : std::string();
}

} // namespace gradnn::gpu
