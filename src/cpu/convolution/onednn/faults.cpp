// The rules are for oneDNN 3.2; nothing in a later version's name says that it is
// right. tests/sweep finds such faults: it runs every implementation on random
// problems with other contents of the scratchpad, guards around all memory, and
// sums that are exact in f32.
#include "cpu/convolution/onednn/faults.hpp"

#include <algorithm>
#include <string_view>

namespace gradnn::cpu::onednn {

using detail::convolution_direction;
using dnnl::memory;

namespace {

/// One spatial axis, the window's reach without padding.
struct axis_extents {
    int64_t src;
    int64_t dst;
    int64_t kernel;
    int64_t stride;
    int64_t dilate;
    int64_t pad_begin;
    int64_t pad_end; ///< negative where the last elements of src are not used

    int64_t reach() const { return kernel + (kernel - 1) * dilate; }
};

axis_extents extents(const geometry &problem, size_t axis) {
    return {problem.src.sizes[axis + 2], problem.dst.sizes[axis + 2],
            problem.weights.sizes[axis + (problem.grouped ? 3 : 2)],
            problem.strides[axis], problem.dilates[axis],
            problem.pads_begin[axis], problem.pads_end[axis]};
}

/// Channels of one group, in a layout without blocks, that leave the last vector
/// part empty.
bool has_partial_vector(const memory::desc &layout, int64_t groups) {
    constexpr int64_t lanes = 16;
    return is_plain(layout) && layout.get_dims()[1] / groups % lanes != 0;
}

/// The AVX-512 gradients of weights go along depth (along height, in 2-D and with
/// over nine rows) step by step, with a counter of the taps that meet src. On
/// leaving the padding at the front they set it to the whole window: where the
/// window hangs out at the back there too, they read behind src and write behind
/// the weights (f32: 7x7x7 windows with stride 2 and pad 3 on a depth of 5; the end
/// of the process with 5x3x3 on a depth of 3). Found by their source: they are
/// right if the window fits src from each of the first `stride` positions.
bool leaves_both_ends(const geometry &problem) {
    constexpr int64_t rows_in_one_step = 9;
    const size_t axes = problem.strides.size();
    if (axes < 2) return false;
    const auto axis = extents(problem, axes == 3 ? 0 : axes - 2);
    return axis.pad_begin > 0 && axis.src < axis.reach() + axis.stride - 1
            && (axes == 3 || axis.dst > rows_in_one_step);
}

/// The same kernels take a row of dst in blocks of at most 28 points. With a stride
/// and 15 points of padding or more at the beginning, sums over rows of several
/// blocks are wrong in places (5 to 7 taps, dilations of 3 to 5, strides of 2 and 3:
/// 57 of 99 such problems, none of 5,327 others).
bool pads_far(const geometry &problem) {
    constexpr int64_t longest_block = 28;
    constexpr int64_t most_padding = 14;
    const auto axis = extents(problem, problem.strides.size() - 1);
    return axis.stride > 1 && axis.pad_begin > most_padding
            && axis.dst > longest_block;
}

/// jit_bf16's gradients of weights in NXC, where the channels of a group fill no
/// vectors, go down by the dilation twice from a row to the next, on rows of over
/// 28 points at least (8 groups of 4 channels, 3x3, dilation 2; windows of one row
/// too).
bool skips_dilated_rows(const geometry &problem, const implementation &found) {
    const size_t axes = problem.strides.size();
    if (axes < 2) return false;
    const auto rows = extents(problem, axes - 2);
    const int64_t groups = problem.grouped ? problem.weights.sizes[0] : 1;
    return rows.dilate > 0 && has_partial_vector(found.src, groups);
}

/// Channels that fill no vectors of jit_bf16_1x1, in blocks too: 16 to 65 channels
/// of 5 points, forward, one of them wrong.
bool has_partial_block(const implementation &found) {
    constexpr int64_t lanes = 16;
    return found.src.get_dims()[1] % lanes != 0
            || found.dst.get_dims()[1] % lanes != 0;
}

/// AMX takes 32 input channels of 16 bits at a time. With strides and a rest of
/// them brgconv's sums over the window are wrong (48 to 48 channels, 3x2, stride 2
/// along W).
bool strides_over_partial_tile(
        const geometry &problem, const implementation &found) {
    constexpr int64_t tile = 32;
    const int64_t groups = problem.grouped ? problem.weights.sizes[0] : 1;
    const auto &strides = problem.strides;
    return std::any_of(strides.begin(), strides.end(), [](int64_t stride) {
        return stride > 1;
    }) && found.src.get_dims()[1] / groups % tile != 0;
}

} // namespace

bool is_faulty(const geometry &problem, const implementation &found) {
    const std::string_view name = found.name;
    const bool brg = contains(name, "brg");
    // In NXC they write past the scratchpad (stride above 1) or get channels
    // wrong (bf16) where the last vector of channels is not full.
    if (contains(name, "jit") && contains(name, "1x1") && !brg
            && (has_partial_vector(found.src, 1)
                    || has_partial_vector(found.dst, 1)))
        return true;
    const bool of_weights
            = problem.direction == convolution_direction::backward_weights;
    const bool amx = contains(name, "amx");
    if (contains(name, "jit_bf16_1x1") && !brg && !found.filled
            && has_partial_block(found))
        return true;
    if (brg && amx && !of_weights && strides_over_partial_tile(problem, found))
        return true;
    const bool bf16_weights = of_weights && (amx || contains(name, "jit_bf16"));
    if (of_weights && contains(name, "jit") && contains(name, "avx512") && !brg
            && !contains(name, "gemm") && !contains(name, "dw")
            && (leaves_both_ends(problem) || pads_far(problem)))
        return true;
    if (bf16_weights && skips_dilated_rows(problem, found)) return true;
    for (size_t index = 0; index < problem.strides.size(); ++index) {
        const auto axis = extents(problem, index);
        // Where not all taps, or not all steps, of an axis fit src: jit_bf16
        // reads parts of the scratchpad that it has not written, and may write
        // past its end; AMX's sums miss terms; brgemm's, with AMX, end in a
        // null pointer when they are made.
        const bool outside = axis.src < axis.reach() || axis.src < axis.stride;
        if (outside && (amx || brg || bf16_weights)) return true;
        // It takes the crop for the padding: brgconv:avx512_core_bf16 writes past
        // its memory, or gives other bits in each run, where a row is padded at
        // the beginning and as much is left over at its end (3 of 7 columns,
        // windows of 2 to 4, strides of 4 to 6).
        if (brg && axis.pad_begin > 0 && axis.pad_end < 0) return true;
        // Terms are missed at src's ends.
        if (brg && axis.dilate > 0 && axis.stride > 1) return true;
    }
    return false;
}

} // namespace gradnn::cpu::onednn
