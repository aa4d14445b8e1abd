// The constants are ratios measured on two Zen 5 cores (oneDNN 3.2), where 480 of
// the operations that are the unit take a nanosecond, and for AMX on two cores of
// a Xeon. What matters is the order in which they put the candidates; the gaps
// are mostly wide.
#include "cpu/convolution/onednn/cost.hpp"

#include <algorithm>
#include <string_view>

#include "base/whole_numbers.hpp"
#include "cpu/convolution/onednn/copy.hpp"

namespace gradnn::cpu::onednn {

namespace {

using detail::convolution_direction;
using detail::round_up;
using dnnl::memory;

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
/// Depthwise kernels are bound by loads, not by arithmetic.
constexpr double depthwise_factor = 6;

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
                * (taps > 1                  ? 1
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

} // namespace

bool cpu_has(dnnl::cpu_isa wanted) {
    const auto bits = static_cast<unsigned>(wanted);
    const auto isa = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
    return (isa & bits) == bits;
}

double estimate(const geometry &problem, const implementation &found) {
    const auto copies
            = [&](operand tensor, const memory::desc &layout, bool is_weights) {
                  if (!is_weights) tensor.sizes[0] = layout.get_dims()[0];
                  const double bytes = copy_bytes(tensor, layout, is_weights);
                  return bytes > 0 ? bytes * copied_byte_cost + step_cost : 0;
              };
    return compute_cost(problem, found) + copies(problem.src, found.src, false)
            + copies(problem.weights, found.weights, true)
            + copies(problem.dst, found.dst, false);
}

// Fitted to some 600 random problems (README).
double nanoseconds(const geometry &problem, const implementation &found) {
    const std::string_view name = found.name;
    const bool of_matrices = contains(name, "gemm");
    const auto batch = static_cast<double>(problem.src.sizes[0]);
    const double images = batch
            * static_cast<double>(
                    problem.grouped ? problem.weights.sizes[0] : 1);
    const operand &written
            = problem.direction == convolution_direction::backward_data
            ? problem.src
            : problem.dst;
    double lines = images;
    for (size_t axis = 2; axis + 1 < written.sizes.size(); ++axis)
        lines *= static_cast<double>(written.sizes[axis]);
    const double calls = of_matrices        ? 300 * images
            : contains(name, "brgconv_1x1") ? 100 * images
            : contains(name, "brg")         ? 110 * lines
                                            : 20 * lines;
    return calls
            + (of_matrices ? 0.006 : 0.0025) * found.cost * batch
            / static_cast<double>(found.src.get_dims()[0]);
}

} // namespace gradnn::cpu::onednn
