// Measured on two cores of an EPYC (Zen 5) in f32, except where a Xeon or other
// types are named.
#include "cpu/convolution/onednn/or_gemm.hpp"

#include <algorithm>

#include "cpu/convolution/onednn/cost.hpp"

namespace gradnn::cpu::onednn {

namespace {

using detail::convolution_direction;

/// Sums over overlapping windows along one axis whose positions lie a multiple
/// of 4096 bytes apart, once channels are contiguous: they meet in the same lines
/// of the first-level cache (oneDNN's brgemm has 50 to 100 GFLOP/s where it
/// otherwise has 350). In NXC convolution.gemm's own loads do so too, and oneDNN is
/// faster with few positions or little overlap.
bool meets_in_cache(const geometry &problem) {
    constexpr int64_t apart = 4096 / static_cast<int64_t>(sizeof(float));
    constexpr int64_t narrow_side = 16; // convolution.planes has these
    const auto &weights = problem.weights.sizes;
    if (problem.strides.size() != 1 || problem.strides[0] == 1
            || problem.dilates[0] != 0
            || problem.strides[0] * problem.src.sizes[1] % apart != 0
            || std::min(weights[0], weights[1]) <= narrow_side)
        return false;
    const int64_t window = problem.weights.sizes.back();
    const int64_t positions = problem.dst.sizes.back();
    if (problem.has_contiguous_channels())
        return window >= 2 * problem.strides[0] && positions >= 1024;
    return window > problem.strides[0] && positions >= 256;
}

/// Gradients of weights:
/// - by products of matrices of which one side is short (about half the time), or
///   in NXC with windows (0.3 to 0.6 of it);
/// - of windows side by side, in NXC or of large planes (0.2 to 1.1);
/// - along one axis in NXC (0.65 to 1);
/// - of large planes and windows of up to nine taps (0.2 to 0.95).
/// Large planes are those that oneDNN's kernels for blocks of channels are not
/// exact enough for. Where those were refused for it, `best` is oneDNN's own
/// product of matrices, and the rules for them hold too.
bool weights_are_for_gemm(
        const geometry &problem, const implementation &best, bool long_sums) {
    constexpr int64_t large_plane = 13000;
    constexpr int64_t short_side = 32;
    constexpr int64_t wide_side = 48;
    const auto &weights = problem.weights.sizes;
    const size_t axes = problem.strides.size();
    const int64_t taps = problem.weights.elements() / (weights[0] * weights[1]);
    const bool nxc = problem.has_contiguous_channels();
    const int64_t narrowest = std::min(weights[0], weights[1]);
    const auto &dst = problem.dst.sizes;
    const bool large_planes
            = problem.dst.elements() / (dst[0] * dst[1]) > large_plane;
    if (contains(best.name, "gemm")) {
        if (std::min(weights[0], weights[1] * taps) <= short_side
                || (nxc && taps > 1 && narrowest >= short_side))
            return true;
        if (!long_sums) return false;
    }
    bool side_by_side = taps > 1;
    bool is_strided = false;
    for (size_t axis = 0; axis < axes; ++axis) {
        side_by_side
                = side_by_side && weights[axis + 2] == problem.strides[axis];
        is_strided = is_strided || problem.strides[axis] > 1;
    }
    if (side_by_side && (nxc || (large_planes && narrowest >= short_side)))
        return true;
    if (taps == 1) return false;
    if (axes == 1)
        return nxc && is_plain(best.dst) && !is_strided
                && narrowest > wide_side;
    constexpr int64_t most_taps = 9;
    return axes == 2 && large_planes && taps <= most_taps
            && narrowest >= (nxc && is_strided ? short_side : wide_side);
}

/// Gradients of weights of 1x1 windows in NXC with few channels on a side that
/// fill no vectors, which oneDNN's kernels copy: in bf16 0.55 to 1.04 of oneDNN's
/// time, in f16 by way of f32 0.35 to 0.75. Not against AMX.
bool is_narrow_point(const geometry &problem) {
    constexpr int64_t lanes = 16;
    constexpr int64_t short_side = 32;
    constexpr int64_t most_pairs = 64; // convolution.planes has these
    const auto &weights = problem.weights.sizes;
    const int64_t narrowest = std::min(weights[0], weights[1]);
    return problem.direction == convolution_direction::backward_weights
            && problem.weights.elements() == weights[0] * weights[1]
            && problem.has_contiguous_channels() && narrowest <= short_side
            && narrowest % lanes != 0 && weights[0] * weights[1] > most_pairs
            && !cpu_has(dnnl::cpu_isa::avx512_core_amx);
}

/// Windows that oneDNN computes by a product of matrices beside a matrix of
/// columns: convolution.gemm, which has none, takes 0.6 to 0.8 of the time, in
/// gradients of src of few channels of dst, where the columns are most of the work,
/// down to 0.07 (two cores of a Zen 4).
bool has_columns(const geometry &problem, const implementation &best) {
    const auto &weights = problem.weights.sizes;
    if (!contains(best.name, "gemm")
            || problem.weights.elements() == weights[0] * weights[1])
        return false;
    return problem.direction == convolution_direction::forward
            || (problem.direction == convolution_direction::backward_data
                    && 2 * weights[0] <= weights[1]);
}

} // namespace

bool gemm_is_cheaper(
        const geometry &problem, const implementation &best, int64_t images) {
    // Of the rate of oneDNN's kernels, in gradients of weights of 1x1 windows:
    // 0.7 to 1, measured on two cores of a Xeon. Lines of planes are transposed
    // in squares of vectors: what an image's last one costs, in points.
    constexpr double gemm_efficiency = 0.7;
    constexpr double line_end = 40;
    const auto &weights = problem.weights.sizes;
    if (problem.direction != convolution_direction::backward_weights
            || problem.grouped || problem.src.type != detail::data_type::f32
            || problem.weights.elements() != weights[0] * weights[1])
        return false;
    const double space = static_cast<double>(problem.dst.elements())
            / static_cast<double>(problem.dst.sizes[0] * problem.dst.sizes[1]);
    const double line
            = problem.has_contiguous_channels() ? space : space + line_end;
    const double cost = 2 * line * static_cast<double>(images)
                    * static_cast<double>(weights[0] * weights[1])
                    / gemm_efficiency
            + step_cost;
    return cost < best.cost;
}

bool gemm_is_faster(
        const geometry &problem, const implementation &best, bool long_sums) {
    if (problem.grouped) return false;
    if (problem.src.type != detail::data_type::f32)
        return !best.filled && is_narrow_point(problem);
    if (has_columns(problem, best)) return true;
    if (problem.direction == convolution_direction::backward_data) return false;
    const auto &weights = problem.weights.sizes;
    const auto &dst = problem.dst.sizes;
    const auto is_one = [](int64_t size) { return size == 1; };
    if (!std::all_of(weights.begin() + 2, weights.end(), is_one)
            && std::all_of(dst.begin() + 2, dst.end(), is_one))
        return true;
    if (problem.direction == convolution_direction::forward)
        return meets_in_cache(problem);
    return weights_are_for_gemm(problem, best, long_sums);
}

} // namespace gradnn::cpu::onednn
