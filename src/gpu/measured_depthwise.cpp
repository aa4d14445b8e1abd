// Depthwise convolutions. Figures are of an H200 by
//
//     bench/compare --engine gpu --kind convolution --name NAMES
//
// at the commit that is named.
#include "gpu/measured.hpp"

#include <algorithm>
#include <optional>

#include "gpu/convolution/depthwise/matrices/cut.hpp"
#include "gpu/convolution/depthwise/plan.hpp"
#include "gpu/convolution/depthwise/rows_nxc/cut.hpp"
#include "gpu/convolution/depthwise/walk/cut.hpp"
#include "gpu/device/rounding.hpp"

namespace gradnn::gpu {

namespace {

std::optional<depthwise::problem_facts> facts_of(
        const convolution_problem &problem, const compile_options &options) {
    std::string refusal;
    return depthwise::facts_of(problem, options, refusal);
}

} // namespace

// --name depthwise in bf16 at 56x56, before this kernel (66d7d92) and with it (cd750e7):
// 7x7 dX took 63 and 42 us, dW 88 and 42; 5x5 dX 54 and 38, dW 67 and 35. The limits below
// are where it was faster in those runs.
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

// --name depthwise, 6f70758: first the time from planes in shared memory, then that of
// threads that load whole vectors. 7x7 in bf16 takes 96 and 67 us for dX, 112 and 88 for
// dW; in f32 137 and 70, 115 and 97. 3x3 takes 0.38 and 0.31 ms in f32 for the three
// gradients together; in bf16 85 and 87 us for dX, 81 and 79 for dW.
std::string depthwise_planes_yields(
        const convolution_problem &problem, const compile_options &options) {
    const auto facts = facts_of(problem, options);
    if (!facts || facts->channels_last || !depthwise::walk::takes(*facts)
            || !depthwise::walk::rows_are_vectors(*facts))
        return {};
    return "planes in shared memory were slower where rows are vectors of 16 "
           "bytes";
}

// Gradients of weights by gradnn bench --every-kernel, 39314eb: 313 channels of 13x13 to
// 1x1, 5x5 with dilations of 3, bf16 NCX, take 610 us, by gpu_direct 78. A thread
// multiplies 8 columns by whole rows of taps, gaps of dilations included: 5 of 128 products
// are of use there. 9x9x13 to 5x5x9, 3x3x3 with dilations of 2, where a third of them are
// of use, take 629 us, by gpu_direct 759.
std::string depthwise_tiles_yields(
        const convolution_problem &problem, const compile_options &options) {
    const auto facts = facts_of(problem, options);
    if (!facts || facts->channels_last || !facts->of_weights()) return {};
    constexpr int columns = 8;
    constexpr int64_t least_share = 8; // an eighth
    const depthwise::window_axis &along = facts->shape.axes[2];
    const int64_t products = int64_t {round_up(along.written, columns)}
            * facts->shape.taps * facts->shape.chunks;
    return least_share * along.written * along.kernel < products
            ? "most of a thread's products would be of gaps"
            : std::string();
}

// By the machine code (1135b51) a thread multiplies by all the taps that it holds, 16 or
// 32. A thread of convolution.gpu_depthwise_blocks holds 8 at a time.
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

} // namespace gradnn::gpu
