#include "cpu/convolution_onednn_choice.hpp"

#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

#include "cpu/convolution_onednn_copy.hpp"
#include "cpu/convolution_onednn_engine.hpp"

namespace gradnn::cpu::onednn {

namespace {

using dnnl::memory;
using detail::convolution_direction;

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
                    sizes.size() == 3       ? tag::nCw16c
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

dnnl::primitive_attr attributes(fpmath_mode mode) {
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    if (mode == fpmath_mode::bf16)
        attributes.set_fpmath_mode(dnnl::fpmath_mode::bf16);
    if (mode == fpmath_mode::any)
        attributes.set_fpmath_mode(dnnl::fpmath_mode::any);
    return attributes;
}

/// The implementation that oneDNN takes for these layouts, or an empty
/// descriptor. Never another one of its list: those further down are not what
/// its users run, and not all of them are right (3.2's jit_bf16_1x1 in NXC
/// with 41 channels).
dnnl::primitive_desc make_descriptor(const geometry &problem,
        const memory::desc &src, const memory::desc &weights,
        const memory::desc &dst, fpmath_mode mode) {
    constexpr auto algorithm = dnnl::algorithm::convolution_direct;
    constexpr auto training = dnnl::prop_kind::forward_training;
    const dnnl::engine &engine = cpu_engine();
    const auto attr = attributes(mode);
    const auto &p = problem;
    if (p.direction == convolution_direction::forward)
        return dnnl::convolution_forward::primitive_desc(engine, training,
                algorithm, src, weights, dst, p.strides, p.dilates,
                p.pads_begin, p.pads_end, attr, true);
    // Backward descriptors want a forward one as a hint; its layouts, and the
    // type of its weights, are of no consequence.
    const auto free = [](const memory::desc &desc, memory::data_type type) {
        return memory::desc(desc.get_dims(), type, memory::format_tag::any);
    };
    const auto type = src.get_data_type();
    const dnnl::convolution_forward::primitive_desc hint(engine, training,
            algorithm, free(src, type), free(weights, type), free(dst, type),
            p.strides, p.dilates, p.pads_begin, p.pads_end, attr, true);
    if (!hint) return {};
    if (p.direction == convolution_direction::backward_data)
        return dnnl::convolution_backward_data::primitive_desc(engine,
                algorithm, src, weights, dst, p.strides, p.dilates,
                p.pads_begin, p.pads_end, hint, attr, true);
    return dnnl::convolution_backward_weights::primitive_desc(engine, algorithm,
            src, weights, dst, p.strides, p.dilates, p.pads_begin, p.pads_end,
            hint, attr, true);
}

implementation query(
        const geometry &problem, const dnnl::primitive_desc &descriptor) {
    implementation found;
    found.descriptor = descriptor;
    found.name = descriptor.impl_info_str();
    const auto get = [&](dnnl::query what) {
        return descriptor.query_md(what, 0);
    };
    const auto direction = problem.direction;
    found.src = get(direction == convolution_direction::backward_data
                    ? dnnl::query::diff_src_md
                    : dnnl::query::src_md);
    found.weights = get(direction == convolution_direction::backward_weights
                    ? dnnl::query::diff_weights_md
                    : dnnl::query::weights_md);
    found.dst = get(direction == convolution_direction::forward
                    ? dnnl::query::dst_md
                    : dnnl::query::diff_dst_md);
    return found;
}

bool contains(std::string_view text, std::string_view part) {
    return text.find(part) != std::string_view::npos;
}

bool is_reference(std::string_view name) {
    return contains(name, "ref");
}

bool is_plain(const memory::desc &layout) {
    return layout.get_inner_nblks() == 0;
}

/// Implementations that are wrong for some problems in oneDNN 3.2 (found by
/// running them with different contents of the scratchpad and guards around
/// it). Nothing in a later version's name says that it is not.
bool is_faulty(const geometry &problem, const implementation &found) {
    const std::string_view name = found.name;
    const auto partial = [](const memory::desc &layout) {
        constexpr int64_t lanes = 16;
        return is_plain(layout) && layout.get_dims()[1] % lanes != 0;
    };
    // In NXC they write past the scratchpad (stride above 1) or get channels
    // wrong (bf16) where the last vector of channels is not full.
    if (contains(name, "jit") && contains(name, "1x1")
            && !contains(name, "brg")
            && (partial(found.src) || partial(found.dst)))
        return true;
    const bool of_weights
            = problem.direction == convolution_direction::backward_weights;
    const bool brg = contains(name, "brg");
    const bool amx = contains(name, "amx");
    for (size_t axis = 0; axis < problem.strides.size(); ++axis) {
        const int64_t src = problem.src.sizes[axis + 2];
        const int64_t kernel
                = problem.weights.sizes[axis + (problem.grouped ? 3 : 2)];
        const int64_t dilate = problem.dilates[axis];
        const int64_t stride = problem.strides[axis];
        // Where not all taps, or not all steps, of an axis fit src: jit_bf16
        // reads parts of the scratchpad that it has not written, and may write
        // past its end; AMX's sums miss terms; brgemm's, with AMX, end in a
        // null pointer when they are made.
        const bool outside = src < kernel + (kernel - 1) * dilate
                || src < stride;
        if (outside
                && (amx || brg || (of_weights && contains(name, "jit_bf16"))))
            return true;
        // Terms are missed at src's ends.
        if (brg && dilate > 0 && stride > 1) return true;
    }
    return false;
}

bool is_depthwise(const geometry &problem) {
    const auto &weights = problem.weights.sizes;
    return problem.grouped && weights[1] == 1 && weights[2] == 1;
}

/// Groups that fill a small part of a vector, in planes: copied into blocks of
/// channels they are computed with the lanes mostly idle.
bool has_narrow_groups(const geometry &problem) {
    constexpr int64_t narrow = 4;
    const auto &weights = problem.weights.sizes;
    const auto in_planes = [](const operand &tensor) {
        return tensor.strides.back() == 1 && tensor.strides[1] != 1;
    };
    return problem.grouped && weights[0] > 1 && weights[1] <= narrow
            && weights[2] <= narrow && !is_depthwise(problem)
            && in_planes(problem.src) && in_planes(problem.dst);
}

/// Whether a single image already has too many products for it.
bool is_inexact(const geometry &problem, const implementation &found) {
    if (problem.direction != convolution_direction::backward_weights)
        return false;
    // An image is not divided, so what is just above the limit is let through
    // (112 x 112 points).
    constexpr double allowance = 1.6;
    const dims dst = found.dst.get_dims();
    double points = 1;
    for (size_t axis = 2; axis < dst.size(); ++axis)
        points *= static_cast<double>(dst[axis]);
    return points > allowance * static_cast<double>(exact_products(found));
}

int64_t round_up(int64_t value, int64_t multiple) {
    return (value + multiple - 1) / multiple * multiple;
}

// The cost rule. The unit is one f32 operation of a dense convolution at full
// speed; the constants are ratios measured on two Zen 5 cores (oneDNN 3.2),
// where 480 of them take a nanosecond, and for AMX on two cores of a Xeon. What
// matters is the order in which they put the candidates; the gaps are mostly
// wide.

/// A step's fixed price: its threads start and meet (4 us).
constexpr double step_cost = 2e6;
/// A byte read or written by a plain copy within the caches (120 bytes in a
/// ns).
constexpr double copied_byte_cost = 4;
/// An element of the column matrix of a GEMM-based convolution, written and
/// read (0.3 ns).
constexpr double column_cost = 150;
/// The same, in the gradient of src, where the product runs on AMX.
constexpr double amx_column_cost = 230;
/// How much more it costs where the kernel has one tap: the columns are then
/// collected with strides, one by one.
constexpr double strided_column_factor = 3;
/// A byte of src or dst that AMX's gradient of weights transposes for itself.
constexpr double amx_transposed_byte_cost = 27;
/// brgemm kernels in f32 are faster than jit ones, where rows are so long that
/// they fill their tiles.
constexpr double brgemm_gain = 1.1;
constexpr int64_t brgemm_row = 24;
/// jit kernels for the gradient of weights in NXC with strides above 1.
constexpr double strided_nxc_factor = 1.25;
/// What an implementation of the right order of exactness may cost more.
constexpr double inexact_factor = 8;
/// Depthwise kernels are bound by loads, not by arithmetic.
constexpr double depthwise_factor = 6;

bool cpu_has(dnnl::cpu_isa wanted) {
    const auto bits = static_cast<unsigned>(wanted);
    const auto isa = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
    return (isa & bits) == bits;
}

/// Whether a GEMM-based convolution runs on AMX; its name does not say so.
bool is_amx_gemm(memory::data_type type, std::string_view name) {
    return type == memory::data_type::bf16 && contains(name, "gemm")
            && cpu_has(dnnl::cpu_isa::avx512_core_amx);
}

/// Products in a unit of time, those of f32 on the widest vectors being 1.
double speed(memory::data_type type, std::string_view name) {
    if (type == memory::data_type::f32) {
        const bool halved = cpu_has(dnnl::cpu_isa::avx512_core)
                && (contains(name, "avx2") || contains(name, "sse41"));
        return halved ? 0.5 : 1;
    }
    if (contains(name, "amx")) return 8;
    if (is_amx_gemm(type, name)) return 5;
    // f16 is widened to f32 on its way; bf16 is emulated where the CPU has no
    // products of it.
    if (type == memory::data_type::f16) return 1;
    return cpu_has(dnnl::cpu_isa::avx512_core_bf16) ? 2 : 0.5;
}

/// What an implementation costs, copies apart: its operations, those on the
/// channels that it pads with zeros included, over its speed.
double compute_cost(const geometry &problem, const implementation &found) {
    const auto &weights = problem.weights.sizes;
    const size_t first = problem.grouped ? 1 : 0;
    const int64_t groups = problem.grouped ? weights[0] : 1;
    const int64_t outputs = weights[first];
    const int64_t inputs = weights[first + 1];
    int64_t taps = 1;
    for (size_t axis = first + 2; axis < weights.size(); ++axis)
        taps *= weights[axis];
    const dims dst = found.dst.get_dims();
    int64_t space = 1;
    for (size_t axis = 2; axis < dst.size(); ++axis)
        space *= dst[axis];
    const double points = static_cast<double>(dst[0] * space);
    const double filter = static_cast<double>(taps * groups);

    const bool is_strided = std::any_of(problem.strides.begin(),
            problem.strides.end(), [](int64_t stride) { return stride > 1; });

    const std::string_view name = found.name;
    const auto type = found.src.get_data_type();
    const double operations = 2 * points * filter
            * static_cast<double>(outputs * inputs) / speed(type, name);

    if (contains(name, "gemm")) {
        bool padded = false;
        for (size_t axis = 0; axis < problem.strides.size(); ++axis)
            padded = padded || problem.pads_begin[axis] != 0
                    || problem.pads_end[axis] != 0;
        const double columns = points * filter * static_cast<double>(inputs)
                * (taps > 1                ? 1
                                : is_strided ? strided_column_factor
                                : padded     ? 1
                                             : 0);
        // One product of matrices an image: narrow ones are inefficient.
        const double efficiency = 0.95 * static_cast<double>(space)
                / static_cast<double>(space + 20)
                * (type == memory::data_type::f32 ? 1 : 0.7);
        const bool on_amx = is_amx_gemm(type, name)
                && problem.direction == convolution_direction::backward_data;
        return operations / efficiency
                + columns * (on_amx ? amx_column_cost : column_cost)
                + step_cost;
    }
    if (contains(name, "dw")) return operations * depthwise_factor + step_cost;

    const int64_t lanes = contains(name, "avx512") ? 16 : 8;
    const dims src_padded = found.src.get_padded_dims();
    const dims dst_padded = found.dst.get_padded_dims();
    const dims src = found.src.get_dims();
    double padding = static_cast<double>(src_padded[1] * dst_padded[1])
            / static_cast<double>(src[1] * dst[1]);
    const bool plain = is_plain(found.dst);
    const auto waste = [&](int64_t channels) {
        return static_cast<double>(round_up(channels, lanes))
                / static_cast<double>(channels);
    };
    // Registers hold the channels that are computed; of a plain layout (or of
    // a group) their last lanes stay unused.
    if (problem.direction == convolution_direction::backward_weights) {
        if (groups == 1 && contains(name, "amx"))
            // Measured: 3 input channels cost no more than twice their share.
            return operations * waste(outputs) * std::min(waste(inputs), 2.0)
                    + static_cast<double>(
                              found.src.get_size() + found.dst.get_size())
                    * amx_transposed_byte_cost
                    + step_cost;
        if (groups > 1)
            padding = std::min(20.0, waste(outputs) * waste(inputs));
        else if (plain)
            padding *= waste(outputs)
                    * (is_strided && taps > 1 ? strided_nxc_factor : 1);
    } else if (plain) {
        const bool forward
                = problem.direction == convolution_direction::forward;
        padding *= waste(forward ? outputs : inputs);
        const dims written = forward ? dst : src;
        if (type == memory::data_type::f32 && taps > 1
                && contains(name, "brgconv:") && written.back() >= brgemm_row)
            padding /= brgemm_gain;
    }
    return operations * padding + step_cost;
}

double estimate(const geometry &problem, const implementation &found) {
    const auto copies = [&](operand tensor, const memory::desc &layout,
                                bool is_weights) {
        if (!is_weights) tensor.sizes[0] = layout.get_dims()[0];
        const double bytes = copy_bytes(tensor, layout, is_weights);
        return bytes > 0 ? bytes * copied_byte_cost + step_cost : 0;
    };
    return compute_cost(problem, found)
            + copies(problem.src, found.src, false)
            + copies(problem.weights, found.weights, true)
            + copies(problem.dst, found.dst, false);
}

/// What convolution.gemm is estimated to cost, which copies nothing: in f32
/// gradients of weights of 1x1 windows it reaches 0.7 to 1 of the rate of
/// oneDNN's kernels (measured on two cores of a Xeon). Nothing elsewhere.
std::optional<double> gemm_cost(
        const geometry &problem, const choice_options &options) {
    constexpr double gemm_efficiency = 0.7;
    const auto &weights = problem.weights.sizes;
    if (problem.direction != convolution_direction::backward_weights
            || problem.grouped || problem.src.type != detail::data_type::f32)
        return {};
    for (size_t axis = 2; axis < weights.size(); ++axis)
        if (weights[axis] != 1) return {};
    const double points = static_cast<double>(problem.dst.elements())
            / static_cast<double>(problem.dst.sizes[0] * problem.dst.sizes[1])
            * static_cast<double>(options.images);
    return 2 * points * static_cast<double>(weights[0] * weights[1])
            / gemm_efficiency
            + step_cost;
}

bool has_contiguous_channels(const geometry &problem) {
    return problem.src.strides[1] == 1 && problem.dst.strides[1] == 1;
}

/// Sums over overlapping windows along one axis whose positions lie a multiple
/// of 4096 bytes apart, once channels are contiguous: they meet in the same lines
/// of the first-level cache (oneDNN's brgemm has 50 to 100 GFLOP/s where it
/// otherwise has 350). In NXC, where convolution.gemm's own loads do so too, it is
/// faster all the same with few positions or little overlap.
bool meets_in_cache(const geometry &problem) {
    constexpr int64_t apart = 4096 / static_cast<int64_t>(sizeof(float));
    if (problem.strides.size() != 1
            || problem.strides[0] * problem.src.sizes[1] % apart != 0)
        return false;
    const int64_t window = problem.weights.sizes.back();
    const int64_t positions = problem.dst.sizes.back();
    if (has_contiguous_channels(problem))
        return window >= 2 * problem.strides[0] && positions >= 1024;
    return window > problem.strides[0] && positions >= 256;
}

/// Gradients of weights, as below. `large_planes`: oneDNN's kernels for blocks
/// of channels add up too many products one by one.
bool weights_are_for_gemm(const geometry &problem, const implementation &best,
        bool large_planes) {
    constexpr int64_t short_side = 32;
    constexpr int64_t wide_side = 48;
    const auto &weights = problem.weights.sizes;
    const size_t axes = problem.strides.size();
    const int64_t taps = problem.weights.elements() / (weights[0] * weights[1]);
    const bool nxc = has_contiguous_channels(problem);
    const int64_t narrowest = std::min(weights[0], weights[1]);
    if (contains(best.name, "gemm"))
        return std::min(weights[0], weights[1] * taps) <= short_side
                || (nxc && taps > 1 && narrowest >= short_side);
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

/// Whether convolution.gemm is faster than oneDNN in f32, as measured on two
/// cores of an EPYC: windows over a single position, sums whose positions meet
/// in the cache, and gradients of weights
/// - by products of matrices of which one side is short (about half the time), or
///   in NXC with windows (0.3 to 0.6 of it);
/// - of windows side by side, in NXC or of large planes (0.2 to 1.1);
/// - along one axis in NXC (0.65 to 1);
/// - of large planes and windows of 3x3 (0.2 to 0.95).
bool is_for_gemm(const geometry &problem, const implementation &best,
        bool large_planes) {
    if (problem.grouped || problem.src.type != detail::data_type::f32
            || problem.direction == convolution_direction::backward_data)
        return false;
    const auto &weights = problem.weights.sizes;
    const auto &dst = problem.dst.sizes;
    const auto is_one = [](int64_t size) { return size == 1; };
    if (!std::all_of(weights.begin() + 2, weights.end(), is_one)
            && std::all_of(dst.begin() + 2, dst.end(), is_one))
        return true;
    if (problem.direction == convolution_direction::forward)
        return meets_in_cache(problem);
    return weights_are_for_gemm(problem, best, large_planes);
}

/// The types that the problem can be computed in.
std::vector<compute_types> usable_types(
        const geometry &problem, bool partial_sums) {
    constexpr auto f32 = memory::data_type::f32;
    const auto type = to_onednn(problem.src.type);
    std::vector<compute_types> types;
    types.push_back({type,
            partial_sums ? f32 : to_onednn(problem.weights.type),
            to_onednn(problem.dst.type)});
    // bf16 and f16 where the CPU has no products of them.
    if (type != f32) types.push_back({f32, f32, f32});
    return types;
}

} // namespace

int64_t exact_products(const implementation &chosen) {
    // The f32 kernels on blocks, and all depthwise ones, add product by product
    // into one register; their error grows as 1.8e-8 times the square root of
    // the number. The others add up sums of rows or tiles.
    const bool narrow = chosen.src.get_data_type() != memory::data_type::f32;
    const bool one_by_one = contains(chosen.name, "dw")
            || (!narrow && !is_plain(chosen.dst)
                    && !contains(chosen.name, "1x1"));
    return int64_t {1} << (one_by_one ? 13 : 18);
}

implementation choose_implementation(const geometry &problem,
        const choice_options &options, std::string &refusal) {
    implementation best;
    if (has_narrow_groups(problem)) {
        refusal = "oneDNN is slow with groups of so few channels in NCX";
        return best;
    }
    bool reference = false;
    bool general = false;
    bool large_planes = false;
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
            if (!descriptor) continue;
            auto found = query(problem, descriptor);
            if (is_reference(found.name)) {
                reference = true;
                continue;
            }
            if (is_faulty(problem, found)) continue;
            // Others compute a channel at a time.
            const bool depthwise = contains(found.name, "dw")
                    || contains(found.name, "brdgmm");
            if (is_depthwise(problem)
                    && (!depthwise || is_inexact(problem, found))) {
                general = true;
                continue;
            }
            found.cost = estimate(problem, found);
            if (is_inexact(problem, found)) {
                large_planes = true;
                found.cost *= inexact_factor;
            }
            if (!best || found.cost < best.cost) best = std::move(found);
        }
    }
    const auto gemm = gemm_cost(problem, options);
    if (best && gemm && *gemm < best.cost) {
        refusal = "convolution.gemm, which copies nothing, should be faster";
        return {};
    }
    if (best && is_for_gemm(problem, best, large_planes)) {
        refusal = "convolution.gemm is faster for windows like these";
        return {};
    }
    if (!best)
        refusal = general ? "oneDNN has no depthwise implementation of it"
                : reference
                ? "oneDNN has it in its slow reference code (ref) only"
                : "oneDNN has no implementation of it on this CPU";
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
    const auto descriptor = make_descriptor(
            problem, src, other.weights, dst, options.fpmath);
    if (!descriptor) return {};
    auto found = query(problem, descriptor);
    if (found.name != other.name || is_faulty(problem, found)) return {};
    return found;
}

} // namespace gradnn::cpu::onednn
