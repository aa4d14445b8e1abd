// Depthwise windows along W alone, on tensor cores: which tensors and windows,
// and how the work is cut. Plain host arithmetic.
#include <algorithm>
#include <cstdint>

#include "gpu/convolution/depthwise/plan.hpp"
#include "gpu/device/rounding.hpp"

namespace gradnn::gpu::depthwise::lines {

namespace {

/// Blocks that a multiprocessor holds at once.
constexpr int blocks_at_once = 4;
/// Pieces of a warp, whose sums for the weights it adds up in f32.
constexpr int longest_chain = 1024;
/// gpu_sliding reads shorter windows from memory no faster than it multiplies them: an
/// element of 16 bits moves 4 bytes, 175 of which a multiprocessor gets in the time of its
/// 128 products, twice that in what a product costs beside itself. 31 points: 44 us there
/// and 30 here in bf16 (H100, b25b3c9).
constexpr int least_taps = 16;
/// Of shorter rows most of a product of matrices would be zeros.
constexpr int least_columns = 64;

/// A window of one point along D and H, none of them outside.
bool takes(const problem_facts &facts) {
    const auto &[deep, down, along] = facts.shape.axes;
    for (const window_axis *axis : {&deep, &down})
        if (axis->kernel != 1 || axis->stride != 1 || axis->pad != 0
                || axis->read != axis->written)
            return false;
    return deep.read == 1 && along.stride == 1 && along.dilation == 1
            && along.kernel >= least_taps && along.kernel < most_taps
            && pads_are_short(along, facts.shape.to_src)
            && std::min(along.read, along.written) >= least_columns;
}

} // namespace

bool cut(work_cut &work, const problem_facts &facts, bool /*vectors*/) {
    if (!takes(facts)) return false;
    const problem_shape &shape = facts.shape;
    const bool of_weights = facts.of_weights();
    const auto &[deep, down, along] = shape.axes;
    // Read begins at a multiple of so many columns where written does.
    const int multiple = of_weights ? 8 : 2;
    const int before = taps_before(along, shape.to_src);
    work.lead = round_up(before, multiple) - before;
    work.pieces = ceil_div(along.written, warp_columns);
    const int64_t pieces = shape.images * down.read * work.pieces;
    const int64_t most_parts = ceil_div(pieces, int64_t {block_warps});
    const int64_t least_parts
            = of_weights ? ceil_div(most_parts, int64_t {longest_chain}) : 1;
    work.parts = static_cast<int>(std::clamp<int64_t>(
            facts.multiprocessors * blocks_at_once / shape.channels,
            least_parts, most_parts));
    return pieces + int64_t {2} * block_warps * work.parts < INT32_MAX
            && shape.channels * work.parts < INT32_MAX;
}

} // namespace gradnn::gpu::depthwise::lines
