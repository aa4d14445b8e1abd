#include "cpu/convolution/onednn/choice.hpp"

#include <algorithm>
#include <string_view>
#include <vector>

#include "cpu/convolution/onednn/cost.hpp"
#include "cpu/convolution/onednn/descriptor.hpp"
#include "cpu/convolution/onednn/faults.hpp"
#include "cpu/convolution/onednn/or_gemm.hpp"
#include "cpu/convolution/work.hpp"

namespace gradnn::cpu::onednn {

namespace {

using detail::convolution_direction;
using dnnl::memory;

enum class layout { any, ncx, nxc, blocked };

struct compute_types {
    memory::data_type src;
    memory::data_type weights;
    memory::data_type dst;
};

memory::desc activations(
        const dims &sizes, memory::data_type type, layout wanted) {
    using tag = memory::format_tag;
    switch (wanted) {
        case layout::ncx: return {sizes, type, dense_strides(sizes)};
        case layout::nxc: return {sizes, type, channels_last_strides(sizes)};
        case layout::blocked:
            return {sizes, type,
                    sizes.size() == 3           ? tag::nCw16c
                            : sizes.size() == 4 ? tag::nChw16c
                                                : tag::nCdhw16c};
        case layout::any: break;
    }
    return {sizes, type, tag::any};
}

dims with_batch(dims sizes, int64_t images) {
    sizes[0] = images;
    return sizes;
}

bool is_reference(std::string_view name) {
    return contains(name, "ref");
}

bool is_depthwise(const geometry &problem) {
    const auto &weights = problem.weights.sizes;
    return problem.grouped && weights[1] == 1 && weights[2] == 1;
}

bool in_planes(const geometry &problem) {
    const auto is = [](const operand &tensor) {
        return tensor.strides.back() == 1 && tensor.strides[1] != 1;
    };
    return is(problem.src) && is(problem.dst);
}

/// Groups that fill a small part of a vector: copied into blocks of channels they
/// are computed with the lanes mostly idle. Where a group has 16 pairs of channels
/// oneDNN catches up: with contiguous channels, which are copied in rows, except in
/// 16-bit gradients of weights; in planes with one tap, and in bf16 except in
/// gradients of weights.
bool has_narrow_groups(const geometry &problem) {
    constexpr int64_t narrow = 4;
    constexpr int64_t caught_up = 16;
    using detail::data_type;
    const auto &weights = problem.weights.sizes;
    if (!problem.grouped || weights[0] == 1 || weights[1] > narrow
            || weights[2] > narrow || is_depthwise(problem))
        return false;
    const bool planes = in_planes(problem);
    const int64_t pairs = weights[1] * weights[2];
    if (!planes && !problem.has_contiguous_channels()) return false;
    if (pairs < caught_up) return true;
    const bool of_weights
            = problem.direction == convolution_direction::backward_weights;
    if (!planes) return of_weights && problem.src.type != data_type::f32;
    const bool one_tap = problem.weights.elements() == weights[0] * pairs;
    const bool adds_pairs = problem.src.type == data_type::bf16
            && cpu_has(dnnl::cpu_isa::avx512_core_bf16);
    return !one_tap && (of_weights || !adds_pairs);
}

/// Gradients of weights of 1x1 windows in f32: oneDNN's product of matrices is one
/// for each image, to which it adds the gradient's elements, and takes up to 1.8
/// times as long as its jit_1x1 in blocks of channels or as convolution.gemm, most
/// where images are small or a multiple of 4096 bytes.
bool is_product_of_points(
        const geometry &problem, const implementation &found) {
    const auto &weights = problem.weights.sizes;
    return problem.direction == convolution_direction::backward_weights
            && problem.src.type == detail::data_type::f32 && !problem.grouped
            && problem.weights.elements() == weights[0] * weights[1]
            && std::all_of(problem.strides.begin(), problem.strides.end(),
                    [](int64_t stride) { return stride == 1; })
            && contains(found.name, "gemm");
}

/// Contiguous channels have to be transposed for oneDNN's products of matrices:
/// filled blocks are faster (0.4 to 0.6 of the time).
bool gives_way(const geometry &problem, const implementation &product,
        const implementation &blocks) {
    return blocks.filled && contains(product.name, "gemm")
            && problem.has_contiguous_channels();
}

bool is_narrow(const implementation &found) {
    return found.src.get_data_type() != memory::data_type::f32;
}

/// How many times as long sums may be in f32 under modes that round factors to
/// bf16: the error that they allow is 17 times as large, of which the factors take
/// at most four parts.
constexpr int64_t relaxed_sums = 16;

/// Whether sums over channels and taps are too long. (Kernels of 16 bits add
/// pairs; those that multiply matrices add up sums of blocks.)
bool has_long_sums(
        const geometry &problem, const implementation &found, int64_t slack) {
    if (problem.direction == convolution_direction::backward_weights
            || problem.src.type == detail::data_type::f64
            || contains(found.name, "gemm"))
        return false;
    const dims &weights = problem.weights.sizes;
    const size_t first = problem.grouped ? 1 : 0; // after the groups
    const bool forward = problem.direction == convolution_direction::forward;
    int64_t terms = weights[first + (forward ? 1 : 0)];
    for (size_t axis = 0; axis < problem.strides.size(); ++axis) {
        const int64_t stride = forward ? 1 : problem.strides[axis];
        terms *= (weights[first + 2 + axis] + stride - 1) / stride;
    }
    return terms > longest_f32_sum * slack * (is_narrow(found) ? 2 : 1);
}

/// Whether a single image already has too many products for a gradient of the
/// weights.
bool is_inexact(
        const geometry &problem, const implementation &found, int64_t slack) {
    if (problem.direction != convolution_direction::backward_weights)
        return false;
    double points = 1;
    for (const int64_t size : found.dst.get_dims())
        points *= static_cast<double>(size);
    points /= static_cast<double>(
            found.dst.get_dims()[0] * found.dst.get_dims()[1]);
    // An image is not divided. What is just above the limit is let through (112
    // x 112 points), and kernels of 16 bits with 16 times as many: on a CPU that
    // has them, gradnn's own would take several times as long.
    const double allowance
            = is_narrow(found) ? 16 : 1.6 * static_cast<double>(slack);
    return points > allowance * static_cast<double>(exact_products(found));
}

/// The types that the problem can be computed in.
std::vector<compute_types> usable_types(
        const geometry &problem, bool partial_sums) {
    constexpr auto f32 = memory::data_type::f32;
    const auto type = to_onednn(problem.src.type);
    std::vector<compute_types> types;
    types.push_back({type, partial_sums ? f32 : to_onednn(problem.weights.type),
            to_onednn(problem.dst.type)});
    // bf16 and f16 where the CPU has no products of them.
    if (type != f32) types.push_back({f32, f32, f32});
    return types;
}

} // namespace

int64_t exact_products(const implementation &chosen) {
    // Kernels add product by product (of 16 bits, pairs) to one register, but
    // those that multiply matrices, and of 1x1 windows, add up sums of rows or
    // tiles.
    if (is_narrow(chosen) && !contains(chosen.name, "dw"))
        return int64_t {1} << 14;
    const bool one_by_one = contains(chosen.name, "dw")
            || (!contains(chosen.name, "gemm")
                    && !contains(chosen.name, "1x1"));
    return int64_t {1} << (one_by_one ? 13 : 18);
}

std::vector<implementation> list_implementations(
        const geometry &problem, const choice_options &options) {
    std::vector<implementation> list;
    const dims src = with_batch(problem.src.sizes, options.images);
    const dims dst = with_batch(problem.dst.sizes, options.images);
    for (const auto &types : usable_types(problem, options.partial_sums)) {
        const memory::desc weights(
                problem.weights.sizes, types.weights, memory::format_tag::any);
        for (const auto wanted :
                {layout::ncx, layout::nxc, layout::blocked, layout::any}) {
            const auto descriptor = make_descriptor(problem,
                    activations(src, types.src, wanted), weights,
                    activations(dst, types.dst, wanted), options.fpmath);
            if (descriptor) list.push_back(query(problem, descriptor));
        }
    }
    return list;
}

implementation choose_implementation(const geometry &problem,
        const choice_options &options, std::string &refusal) {
    implementation best;
    if (has_narrow_groups(problem)) {
        // doc/performance/epyc.md, groups of 2 to 6 channels.
        refusal = "groups of more than 4 channels in or out, or of 4 to 4 in "
                  "some layouts and types: smaller ones leave vectors idle";
        return best;
    }
    bool reference = false;
    bool general = false;
    bool long_sums = false;
    bool product_of_points = false;
    // gradnn's own kernels know no other arithmetic.
    const bool relaxed = problem.src.type == detail::data_type::f32
            && (options.fpmath == fpmath_mode::bf16
                    || options.fpmath == fpmath_mode::any);
    const int64_t slack = relaxed && !is_depthwise(problem) ? relaxed_sums : 1;
    for (auto &found : list_implementations(problem, options)) {
        fill_up(problem, options.fpmath, found);
        if (is_reference(found.name)) {
            reference = true;
            continue;
        }
        if (is_faulty(problem, found)) continue;
        if (is_product_of_points(problem, found)) {
            product_of_points = true;
            continue;
        }
        if (has_long_sums(problem, found, slack)
                || is_inexact(problem, found, slack)) {
            long_sums = true;
            continue;
        }
        // Others compute a channel at a time.
        const bool depthwise
                = contains(found.name, "dw") || contains(found.name, "brdgmm");
        if (is_depthwise(problem) && !depthwise) {
            general = true;
            continue;
        }
        found.cost = estimate(problem, found);
        if (!best || gives_way(problem, best, found)
                || (found.cost < best.cost && !gives_way(problem, found, best)))
            best = std::move(found);
    }
    // Neither estimate was fitted to depthwise kernels.
    if (best && !is_depthwise(problem)
            && options.planes_nanoseconds < nanoseconds(problem, best)) {
        // README, "Few channels".
        refusal = "channels and planes for which oneDNN's " + best.name
                + " is estimated to be faster than few channels plane by plane";
        return {};
    }
    if (best && gemm_is_cheaper(problem, best, options.images)) {
        // or_gemm.cpp has what was measured, on which machine.
        refusal = "1x1 windows where oneDNN's " + best.name
                + " gains more than its copies cost";
        return {};
    }
    // What is left of long sums is oneDNN's product of matrices in f32.
    const bool in_f32 = !relaxed || (long_sums && contains(best.name, "gemm"));
    if (best && in_f32 && gemm_is_faster(problem, best, long_sums)) {
        // README, "What the rules of or_gemm changed".
        refusal = "windows, strides and sizes for which oneDNN's " + best.name
                + " was measured to be fast";
        return {};
    }
    if (!best)
        refusal = general ? "groups of one channel that oneDNN has a depthwise "
                            "implementation for"
                : long_sums
                ? "sums of so few products that oneDNN's are exact in f32"
                : product_of_points
                ? "1x1 windows that oneDNN computes by more than a product of "
                  "matrices for each image"
                : reference
                ? "what oneDNN has more for than its slow reference code (ref)"
                : "what oneDNN has an implementation for on this CPU";
    return best;
}

implementation with_images(const geometry &problem,
        const choice_options &options, const implementation &other) {
    const auto resized = [&](const memory::desc &desc) {
        const dims sizes = with_batch(desc.get_dims(), options.images);
        return desc.submemory_desc(sizes, dims(sizes.size(), 0), true);
    };
    const auto src = resized(other.src);
    const auto dst = resized(other.dst);
    if (!src || !dst) return {};
    const auto descriptor
            = make_descriptor(problem, src, other.weights, dst, options.fpmath);
    if (!descriptor) return {};
    auto found = query(problem, descriptor);
    fill_up(problem, options.fpmath, found);
    if (found.filled != other.filled) return {};
    if (found.name != other.name || is_faulty(problem, found)) return {};
    return found;
}

} // namespace gradnn::cpu::onednn
