// When an interpolation kernel yields. Where a comment names no other command and GPU,
// its figures are from
//
//     bench/sweep --engine gpu --kind interpolation --seed 101 --every-row
//
// on an H200 at 9ef829a. Percentages are shares of the copy rate, first of the function's
// kernel, then of the next one in the list. To measure a rule again, force the two kernels by GRADNN_KERNEL: a kernel
// that yields can still be forced.
#include "gpu/measured.hpp"

#include <algorithm>
#include <cstdint>

#include "base/text.hpp"
#include "gpu/interpolation/by_images.hpp"
#include "gpu/interpolation/makers.hpp"
#include "gpu/interpolation/resample/repetition.hpp"
#include "gpu/jit/compiler.hpp"
#include "gpu/runtime/device.hpp"
#include "kernel/axis_filter.hpp"
#include "kernel/axis_map.hpp"

namespace gradnn::gpu {

namespace {

using detail::tensor_view;

/// Whether planes of diff_dst feed several planes of diff_src.
bool is_volume(const interpolation_problem &problem) {
    const auto &dst = problem.diff_dst.dims;
    const auto &src = problem.diff_src.dims;
    return dst[2] != src[2] && (dst[3] != 1 || src[3] != 1);
}

int64_t count_of(const tensor_view &tensor) {
    int64_t elements = 1;
    for (const int64_t dim : tensor.dims)
        elements *= dim;
    return elements;
}

/// Bytes of both tensors below which a problem does not fill the device.
constexpr int64_t small_problem = int64_t {4} << 20;

bool is_small(const interpolation_problem &problem) {
    return (count_of(problem.diff_src) + count_of(problem.diff_dst))
            * detail::size_of(problem.diff_src.type)
            < small_problem;
}

/// Channels side by side in both tensors.
bool is_channels_last(const interpolation_problem &problem) {
    return problem.diff_src.dims[1] != 1 && problem.diff_src.strides[1] == 1
            && problem.diff_dst.strides[1] == 1;
}

/// Many volumes (of one channel in NCX, of all channels in NXC) of at most 96 KiB of
/// diff_dst each.
bool are_small_volumes(const interpolation_problem &problem) {
    constexpr int64_t most_bytes = int64_t {96} << 10;
    const auto &dims = problem.diff_dst.dims;
    const int64_t channels = is_channels_last(problem) ? dims[1] : 1;
    return is_volume(problem) && !is_small(problem)
            && dims[2] * dims[3] * dims[4] * channels
                    * detail::size_of(problem.diff_dst.type)
            <= most_bytes;
}
constexpr const char *small_volumes
        = "volumes of at most 96 KiB of diff_dst were slower";

/// Whether gpu_resample's kernels are compiled, which is not worth it below 4 MiB.
bool is_compiled_for(
        const interpolation_problem &problem, const compile_options &options) {
    return options.specialise && jit::available() && !is_small(problem);
}

/// Rows alone whose tables take long to make, and first calls with them.
bool is_long_row(const interpolation_problem &problem) {
    constexpr int64_t most_columns = int64_t {1} << 16;
    const auto &dst = problem.diff_dst.dims;
    const auto &src = problem.diff_src.dims;
    return dst[2] == src[2] && dst[3] == src[3]
            && std::max(dst[4], src[4]) > most_columns;
}
constexpr const char *long_row
        = "tables of rows of more than 65536 elements take long to make";

/// Linear, with fewer rows in diff_dst and more columns than in diff_src: columns first
/// leave the fewest elements.
bool is_flattened_and_widened(const interpolation_problem &problem) {
    const auto &src = problem.diff_src.dims;
    const auto &dst = problem.diff_dst.dims;
    return problem.mode == detail::interpolation_mode::linear && dst[3] < src[3]
            && dst[4] > src[4];
}

/// Volumes in NCX of more than 96 KiB that are enlarged four times and more, depths at most
/// twice, to rows of diff_dst of 32 to 256 elements: gpu_ncx.
bool are_enlarged_volumes(const interpolation_problem &problem) {
    const auto &dst = problem.diff_dst.dims;
    const auto &src = problem.diff_src.dims;
    return !is_channels_last(problem) && !are_small_volumes(problem)
            && count_of(problem.diff_dst) >= 4 * count_of(problem.diff_src)
            && dst[4] >= 32 && dst[4] <= 256 && dst[3] > src[3]
            && dst[2] <= 2 * src[2];
}

} // namespace

// With a launch for each image, an image of 2.8 MiB takes 4.6 us, where
// interpolation.gpu_strided takes 11.8; one of 0.7 MiB 2.8 and 2.9 us, one of 0.35 MiB 2.6
// and 1.5 us (H100, e401cbb).
std::string small_images_yield(
        const interpolation_problem &problem, const compile_options &) {
    constexpr int64_t fewest_bytes = int64_t {1} << 20;
    const int64_t bytes
            = (count_of(problem.diff_dst) + count_of(problem.diff_src))
            * detail::size_of(problem.diff_src.type);
    return interpolation::has_images_apart(problem)
                    && bytes / problem.diff_dst.dims[0] < fewest_bytes
            ? "one launch for each image of less than 1 MiB takes too long"
            : std::string();
}

// Times as fast as the choice without it (256 cases, 240 random problems, H100, 8a96a3e): whole
// vectors 1.06 and 1.12 to 1.20, other channels in volumes 1.03 and 1.11, in f64 and f32 planes
// 1.49 and 1.09, f64 in NCX 1.03 and 1.05. H200, cases and seeds 9301 to 9303, times gpu_ncx's
// or gpu_nxc's: columns of many taps in NCX 1.11 and 1.02 (up_16x bf16, f32), 0.85 and 0.80
// (deeplab_16x); in 16 bits planes in NCX whose columns do not repeat 0.83 to 1.22 (mean 0.98), in
// NXC of channels in no vectors, of 8 taps 0.87 and 0.89, of fewer 1.00 and more.
std::string resample_yields(
        const interpolation_problem &problem, const compile_options &options) {
    const auto &dst = problem.diff_dst.dims;
    const auto &src = problem.diff_src.dims;
    const int64_t bytes = detail::size_of(problem.diff_src.type);
    if (!is_compiled_for(problem, options))
        return "compiled for 4 MiB and more, if there is a compiler";
    if (detail::is_filtered(problem)) return {};
    if (is_volume(problem))
        return bytes == 2 && are_enlarged_volumes(problem)
                ? "16-bit volumes in NCX enlarged four times and more were "
                  "slower"
                : std::string();
    if (is_flattened_and_widened(problem) || bytes == 8) return {};
    const bool rows_alone = dst[3] == src[3];
    const bool channels_last = is_channels_last(problem);
    if (channels_last && src[1] * bytes % 16 == 0) return {};
    if (rows_alone && (!channels_last || bytes == 2))
        return "rows alone in NCX, and of 16 bits, were slower";
    if (rows_alone) return is_long_row(problem) ? long_row : "";
    constexpr int64_t few_columns = 64, few_taps = 4, many_taps = 8;
    const auto map = detail::make_axis_map(
            problem.mode, problem.coordinates, problem.axes[2]);
    const bool many = map.max_count > many_taps;
    if (channels_last)
        return bytes == 2 && map.max_count > few_taps && !many
                ? "16-bit planes of channels in no vectors and 5 to 8 taps "
                  "were slower"
                : std::string();
    if (many) return "columns of many taps in NCX were slower";
    return dst[3] > src[3] && dst[4] >= few_columns
                    && resample::repetition(map, jit::element::f32)
                                    .find_places()
                                    .written
                            == 0
            ? "planes in NCX whose columns do not repeat were slower"
            : "";
}

// 1x1x1 to 64x64x64 in bf16 took 0.41 ms, and in f32 0.50, where a copy takes 0.06 and 0.11
// (H100, 8a96a3e): a warp has all terms of a sum, and fewer sums than the device has warps
// leave it idle.
std::string few_sums_yield(
        const interpolation_problem &problem, const compile_options &options) {
    constexpr int64_t many_terms = 2048, warps = 64; // of a multiprocessor
    const int64_t few_sums = warps
            * properties_of(static_cast<int>(options.device)).multiprocessors;
    int64_t terms = count_of(problem.diff_src) <= few_sums ? 1 : 0;
    for (const auto &axis : problem.axes)
        terms = std::min(many_terms,
                terms
                        * detail::make_axis_map(
                                problem.mode, problem.coordinates, axis)
                                  .max_count);
    return terms == many_terms ? "few sums of 2048 terms and more were slower"
                               : std::string();
}

std::string ncx_yields(
        const interpolation_problem &problem, const compile_options &options) {
    const std::string few = few_sums_yield(problem, options);
    return few.empty() ? small_images_yield(problem, options) : few;
}

// A warp computes the short rows of several planes side by side if the number of planes is
// a multiple of theirs. 44941 planes of 18x40 in f32 use 10 of 32 lanes and reach 33 % of
// the copy rate; gpu_ncx reaches 72 % (H100, 607230b).
// Long rows: a first call takes 1.4 us for each element of diff_src, 2.9 s for 2^21; by gpu_rows
// 0.04 us (H100, 820bc19).
// Linear volumes of seed 501 (6f5a3d2): a kernel that is gone was 1.04 to 2 times as fast in seven
// whose depth or rows are enlarged more than twice, 0.8 to 0.94 times in the others.
// Nearest (the cases, H100, 25e4154): gpu_resample is 1.06 to 1.29 times as fast.
std::string bands_yields(
        const interpolation_problem &problem, const compile_options &options) {
    constexpr int64_t warp = 32;
    if (problem.mode == detail::interpolation_mode::nearest
            && resample_yields(problem, options).empty())
        return "nearest interpolations were slower";
    const auto &dst = problem.diff_dst.dims;
    const auto &src = problem.diff_src.dims;
    if (is_long_row(problem)) return long_row;
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

} // namespace gradnn::gpu
