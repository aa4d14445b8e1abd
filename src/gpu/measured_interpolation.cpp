// Interpolations. Where no other command and GPU are named,
//
//     bench/sweep --engine gpu --kind interpolation --seed 101 --every-row
//
// on an H200 at 9ef829a: shares of the copy rate of the named kernel and of
// interpolation.gpu_layers in volumes, of interpolation.gpu_nxc elsewhere. To measure
// a rule again, force the two kernels by GRADNN_KERNEL: what yields may still be
// forced.
#include "gpu/measured.hpp"

#include <algorithm>
#include <cstdint>

#include "axis_map.hpp"
#include "gpu/interpolation/by_images.hpp"
#include "gpu/interpolation/estimates.hpp"
#include "gpu/interpolation/rows/cut.hpp"
#include "gpu/interpolation/whole/described.hpp"
#include "gpu/runtime/device.hpp"
#include "text.hpp"

namespace gradnn::gpu {

namespace {

using detail::tensor_view;

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

/// Below it a problem does not fill the device.
constexpr int64_t small_problem = int64_t {4} << 20;

bool is_small(const interpolation_problem &problem) {
    return (elements_of(problem.diff_src) + elements_of(problem.diff_dst))
            * detail::size_of(problem.diff_src.type)
            < small_problem;
}

/// Many volumes without gaps, in NCX of one channel, in NXC of all, of at most 96 KiB of
/// diff_dst.
bool are_small_volumes(const interpolation_problem &problem) {
    constexpr int64_t most_bytes = int64_t {96} << 10;
    if (!is_volume(problem) || is_small(problem)) return false;
    const auto facts = interpolation::whole::describe(problem);
    return facts
            && elements_of(problem.diff_dst) * facts->element_bytes
                    / facts->groups
            <= most_bytes;
}
constexpr const char *small_volumes
        = "volumes of at most 96 KiB of diff_dst were slower";

constexpr const char *wide_rows_reduced
        = "f32 and f64 with rows reduced to two thirds or less were slower";

/// f32 channels that are no words of 16 bytes, more than a few, in columns that are
/// enlarged less than twice.
bool are_uneven_channels(const interpolation_problem &problem) {
    const int64_t channels = problem.diff_src.dims[1];
    return detail::size_of(problem.diff_src.type) == 4 && channels % 4 != 0
            && channels >= 16
            && problem.diff_dst.dims[4] < 2 * problem.diff_src.dims[4];
}
constexpr const char *uneven_channels = "f32 with 16 channels and more, no "
                                        "multiple of 4, in columns enlarged "
                                        "less than twice was slower";

/// The columns alone are resampled, of which each has taps enough for gpu_rows.
bool are_columns_alone(const interpolation_problem &problem) {
    const auto &dst = problem.diff_dst.dims;
    const auto &src = problem.diff_src.dims;
    return dst[2] == src[2] && dst[3] == src[3]
            && detail::make_axis_map(
                       problem.mode, problem.coordinates, problem.axes[2])
                       .max_count
            <= interpolation::rows::most_taps;
}

bool are_few_rows(const interpolation_problem &problem) {
    const auto &src = problem.diff_src.dims;
    return !is_small(problem) && src[0] * src[2] * src[3] <= 4
            && are_columns_alone(problem);
}

/// To two thirds and less.
bool rows_are_reduced(const interpolation_problem &problem) {
    return 3 * problem.diff_dst.dims[3] <= 2 * problem.diff_src.dims[3];
}

} // namespace

// Volumes, 37 of seeds 1107, 1108 and 1301 and vol_few_channels, H200, b302d5c, by
// gpu_whole and gpu_layers, which take nearly all of them
// (doc/performance/h200-2026-11-26b.md). These margins are those of the least time in all:
// 1.016 times what the faster one takes, at worst 1.12; gpu_whole alone 1.08, at worst
// 1.48. Planes in f64 (12): 1.5 to 1.9 times as fast as gpu_layers in three of them, 0.87
// where it is estimated at 1.28 times as much. Small volumes that gpu_pixels takes in NXC
// after this one yields were not timed.
//
// Planes, 110 problems of seeds 1103 and 1104, 5f75348 and aa414fa, beside the kernel of
// the rules before (doc/performance/h200-2026-11-26.md): f64 with four times the elements
// of one tensor in the other 0.88 to 1.03 times as fast; f32 and 16 bits 0.6 to 2.0 times,
// mostly below 1. Of 1 MB 0.67 and 0.79 times; 4 MiB lie between those and the 64
// MB of the others.
std::string whole_yields(
        const interpolation_problem &problem, const compile_options &options) {
    const auto &dims = problem.diff_src.dims;
    const int64_t bytes = detail::size_of(problem.diff_src.type);
    const int64_t src = elements_of(problem.diff_src);
    const int64_t dst = elements_of(problem.diff_dst);
    if (is_small(problem)) return "problems of less than 4 MiB were slower";
    if (is_volume(problem)) {
        if (!are_small_volumes(problem))
            return "volumes of more than 96 KiB of diff_dst were slower";
    } else {
        if (dims[2] == 1 && dims[3] == 1 && problem.diff_dst.dims[2] == 1
                && problem.diff_dst.dims[3] == 1)
            return "rows alone were not measured";
        if (bytes != 8) return "planes in all but f64 were slower";
        if (src >= 4 * dst || dst >= 4 * src)
            return "f64 planes with four times the elements in one tensor were "
                   "slower";
    }
    const double margin = bytes == 2 ? 1.02 : 1.1;
    const device_properties &device
            = properties_of(static_cast<int>(options.device));
    const double own = interpolation::whole::estimated_cycles(problem, device);
    if (own == 0) return {}; // it refuses
    const double other
            = interpolation::layers::estimated_cycles(problem, device);
    return other != 0 && own > margin * other
            ? detail::text("estimated at ", static_cast<int64_t>(own),
                    " cycles, another kernel at ", static_cast<int64_t>(other))
            : std::string();
}

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

// Small volumes, H200, b302d5c: 391x8 8x11x19 to 16x22x38, bf16, 62 us, gpu_layers 53.
// Volumes, H100, 6f5a3d2, seed 501, by gpu_layers: in f32 and f64 11 of 12 1.03 to 2.2
// times as fast, one 0.95 times. Shares of the copy rate in 16 bits: little enlarged,
// 28x50x65 to 31x56x73, 7 and 19 %; rows of more than one tile, 162x123x159 to
// 315x239x309, 12 and 29 %; many planes for a depth, 16x12x18 to 46x36x43, 14 and 32 %;
// rows not enlarged, 15x12x23 to 20x12x79, 18 and 33 %; short rows 26 and 52 %. f64, rows
// and columns reduced: seven of nine 1.01 to 2.2 times as fast, two 0.90 and 0.97 times;
// of 2 MB 0.77 (fewer blocks than the device holds), so not below 4 MiB of diff_src.
std::string ncx_yields(
        const interpolation_problem &problem, const compile_options &options) {
    const auto &dst = problem.diff_dst.dims;
    const auto &src = problem.diff_src.dims;
    const int64_t bytes = detail::size_of(problem.diff_src.type);
    if (!is_volume(problem)) {
        constexpr int64_t small = int64_t {1} << 22;
        if (bytes == 8 && rows_are_reduced(problem) && dst[4] < src[4]
                && elements_of(problem.diff_src) * bytes > small)
            return "f64 planes whose rows and columns are reduced were slower";
        return small_images_yield(problem, options);
    }
    if (bytes != 2) return "volumes in f32 and f64 were slower";
    if (are_small_volumes(problem)) return small_volumes;
    if (elements_of(problem.diff_dst) < 4 * elements_of(problem.diff_src))
        return "volumes enlarged less than 4 times were slower";
    if (dst[4] < 32 || dst[4] > 256)
        return "volumes whose rows of diff_dst do not have 32 to 256 elements "
               "were slower";
    if (dst[3] <= src[3])
        return "volumes whose rows are not enlarged were slower";
    return dst[2] > 2 * src[2] ? "depths enlarged more than twice were slower"
                               : small_images_yield(problem, options);
}

// Columns alone, `gradnn bench --every-kernel --seconds 0.015` on problems of seeds 501
// and 503, H100, 5b451f6: of 16 13 1.02 to 2.2 times as fast by gpu_rows, three 0.95 to
// 0.99 times.
std::string planes_yields(
        const interpolation_problem &problem, const compile_options &options) {
    return are_columns_alone(problem)
            ? "columns that are resampled alone were slower"
            : small_images_yield(problem, options);
}

// f64, 13 problems in NXC of the same run: 0.75 to 0.92 times as fast as gpu_intervals
// and gpu_pixels in eight, 1.04 to 1.44 times in five. Few rows: see pixels_yields; by
// gpu_intervals 91 and 116 us in f32 where gpu_rows takes 44 and 53 (H200), and 1x383
// 18412 to 9206 in f64 took 0.50 times PyTorch's speed (gpu_rows was not timed).
std::string rows_yields(
        const interpolation_problem &problem, const compile_options &options) {
    const bool nxc = problem.diff_src.dims[1] != 1
            && problem.diff_src.strides[1] == 1
            && problem.diff_dst.strides[1] == 1;
    return nxc && detail::size_of(problem.diff_src.type) == 8
                    && !are_few_rows(problem)
            ? "f64 in NXC was slower"
            : small_images_yield(problem, options);
}

// Small volumes, H200, b302d5c: 1347x3 18x15x8 to 36x30x16, bf16, 114 us, gpu_layers 81,
// gpu_whole 90; 110 problems of seeds 1103 and 1104 were 0.97 to 2.3 times as fast by
// gpu_whole in f32 and f64.
// A warp has the short rows of several planes side by side where their number is a
// multiple. 44941 planes of 18x40, f32, H100, 607230b, 10 of 32 lanes: 33 and 72 %.
// Linear volumes, 6f5a3d2, seed 501: seven whose depth or rows are enlarged more than
// twice were 1.04 to 2 times as fast by gpu_layers, others 0.8 to 0.94 times.
std::string bands_yields(
        const interpolation_problem &problem, const compile_options &options) {
    constexpr int64_t warp = 32;
    const auto &dst = problem.diff_dst.dims;
    const auto &src = problem.diff_src.dims;
    if (is_volume(problem) && problem.mode == detail::interpolation_mode::linear
            && (dst[2] > 2 * src[2] || dst[3] > 2 * src[3]))
        return "volumes whose depth or rows are enlarged more than twice were "
               "slower";
    if (are_small_volumes(problem)) return small_volumes;
    const int64_t own = detail::size_of(problem.diff_src.type) == 2 ? 8 : 4;
    const int64_t lanes = std::max<int64_t>(1, dst[4] / own);
    const bool deep = dst[2] == src[2];
    const int64_t planes = dst[0] * dst[1] * (deep ? dst[2] : 1);
    int64_t side_by_side = std::clamp<int64_t>(warp / lanes, 1, planes);
    while (planes % side_by_side != 0)
        --side_by_side;
    return 2 * lanes * side_by_side < warp
            ? "warps with columns for less than half of their lanes were slower"
            : small_images_yield(problem, options);
}

// A row of 23 vectors 8 and 44 %; volumes, one of 35 13 and 47 %, one of 84 58 and 46 %.
// Linear volumes whose columns are not enlarged, H100, seed 201, e401cbb, bf16 and f32:
// 51 to 51 32 and 59 %, 38 and 56 %; 102 to 44 44 and 69 %; 22 to 13 51 and 66 %.
// H100, seed 501, by gpu_layers since it writes wide zeros (be24592): volumes whose depth
// is reduced, bf16 24 and 80 %, f32 38 and 82 %; f32 nearest planes reduced more than four
// times, four of four 1.04 to 1.20 times as fast.
// Few rows of small pixels, H200, b302d5c, doc/performance/h200-2026-11-26b.md: by gpu_rows
// f32 1.05 to 1.2 times as fast (6), f64 0.95 and 0.96, 1.5 and 1.9; 16 bits 0.6 to 0.85.
std::string pixels_yields(
        const interpolation_problem &problem, const compile_options &) {
    const auto &dst = problem.diff_dst.dims;
    const auto &src = problem.diff_src.dims;
    const int64_t bytes = detail::size_of(problem.diff_src.type);
    const bool volume = is_volume(problem);
    if (volume && dst[2] < src[2])
        return "volumes whose depth is reduced were slower";
    if (bytes == 4 && !volume
            && problem.mode == detail::interpolation_mode::nearest
            && 4 * dst[3] * dst[4] < src[3] * src[4])
        return "f32 nearest planes reduced more than four times were slower";
    if (bytes != 2 && src[1] * bytes <= 256 && are_few_rows(problem))
        return "few rows of small pixels in f32 and f64 were slower";
    if (volume && problem.mode == detail::interpolation_mode::linear
            && dst[4] <= src[4])
        return "volumes whose columns are not enlarged were slower";
    const int64_t lanes = volume ? 64 : 32;
    const int64_t vectors = src[4] * src[1] * bytes / 16;
    return vectors < lanes
            ? "rows of diff_src with too few vectors for a block were slower"
            : std::string();
}

// A block has 128 threads or 256 along a row of diff_src: with fewer elements 1 to 36
// and 26 to 60 %, with 128 62 and 56 %; with fewer along a row of diff_dst 12 and 13 %.
// Volumes 10 to 23 and 24 to 51 %. Up to 8 taps a column in 16 bits: slower (9e22f9a).
// Rows reduced, f32 and f64 (6f5a3d2, seed 501): seven 1.16 to 4.3 times as fast by
// gpu_layers, 3802x1495 to 2768x1037 0.61 times. Seeds 1103 and 1104, H200, 5f75348: f32
// with 21 and 643 channels 1.16 to 1.41 times (3).
std::string intervals_yields(
        const interpolation_problem &problem, const compile_options &) {
    if (is_volume(problem)) return "volumes were slower";
    if (are_uneven_channels(problem)) return uneven_channels;
    if (!rows_fill_a_block(problem))
        return "rows with fewer elements than a block has threads were slower";
    if (detail::size_of(problem.diff_src.type) != 2)
        return rows_are_reduced(problem) ? wide_rows_reduced : std::string();
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

// Volumes, H100, seed 201, e401cbb: 40 of 42 1.09 to 6 times as fast by gpu_layers.
// Columns reduced, bf16: 32 to 4 30 and 53 %, 24 to 6 26 and 38 %, 192 to 64 74 and
// 65 %. Rows reduced in f32 and f64 (6f5a3d2, seed 501): five 1.1 to 1.67 times as fast
// by gpu_layers. Seeds 1103 and 1104, H200, 5f75348: 16 bits with an even number of
// channels, 32 and more, 1.1 to 2.5 times (4), rows reduced 1.0 to 1.3 times (4), others
// 0.8 to 0.95 times (4). Volumes of short rows that gpu_layers refuses, enlarged 5 to 10
// times (24), H100, 77a8e2f: 1.2 to 12 times as fast as gpu_strided, in 21 of 24 faster than
// gpu_intervals, which was up to 1.5 times as fast in wide rows (4 of seed 501).
std::string nxc_yields(
        const interpolation_problem &problem, const compile_options &options) {
    if (is_volume(problem))
        return rows_fill_a_block(problem)
                        || interpolation::layers::estimated_cycles(problem,
                                   properties_of(
                                           static_cast<int>(options.device)))
                                > 0
                ? "volumes were slower"
                : std::string();
    if (are_uneven_channels(problem)) return uneven_channels;
    const int64_t channels = problem.diff_src.dims[1];
    if (detail::size_of(problem.diff_src.type) == 2) {
        constexpr int64_t many = 32;
        if (channels % 2 == 0
                && (channels >= many || rows_are_reduced(problem)))
            return "16 bits with an even number of channels, many or of "
                   "reduced "
                   "rows, were slower";
    } else if (rows_are_reduced(problem)) {
        return wide_rows_reduced;
    }
    return 4 * problem.diff_dst.dims[4] <= problem.diff_src.dims[4]
            ? "columns reduced 4 times and more were slower"
            : std::string();
}

} // namespace gradnn::gpu
