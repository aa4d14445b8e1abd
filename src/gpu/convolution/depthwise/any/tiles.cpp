#include "gpu/convolution/depthwise/any/cut.hpp"
#include "gpu/convolution/depthwise/plan.hpp"

namespace gradnn::gpu::depthwise::any {

namespace {

/// Blocks that fill the device.
int64_t blocks_for(const problem_facts &facts) {
    return facts.multiprocessors * 8;
}

bool cut_work(tiles_cut &cut, const problem_facts &facts, bool vectors) {
    if (facts.channels_last) return false;
    tile_shape &tile = cut.tile;
    const detail::convolution_problem &problem = facts.problem;
    const bool to_src = facts.shape.to_src;
    const detail::tensor_view &read = to_src ? problem.dst : problem.src;
    const detail::tensor_view &written = to_src ? problem.src : problem.dst;
    const int64_t element_bytes = facts.element_bytes();
    const auto sum_bytes = static_cast<size_t>(facts.sum_bytes());
    if (vectors && read.strides[4] == 1)
        for (const int64_t count : {2, 4})
            if (vectors_divide(count, read, 4) && count * element_bytes <= 16)
                tile.dense_load = static_cast<int>(count);
    if (vectors && written.strides[4] == 1)
        for (const int64_t count : {int64_t {2}, 16 / element_bytes})
            if (vectors_divide(count, written, 4))
                tile.dense_store = static_cast<int>(count);
    return facts.of_weights() ? cut_tiles_weights(tile, cut.weights,
                   facts.shape, sum_bytes, blocks_for(facts), longest_f32_chain)
                              : cut_tiles(tile, facts.shape, sum_bytes);
}

constexpr family<tiles_cut> kernels {.takes
        = "NCX, any window of which tiles of rows fit in shared memory, less "
          "than 2^31 tiles",
        .cut = cut_work,
        .cuts_by_alignment = true,
        .launch_data = launch_data,
        .launch_weights = launch_weights};

} // namespace

plan_or_refusal make_tiles(
        const convolution_problem &problem, const compile_options &options) {
    return make_plan(kernels, problem, options);
}

} // namespace gradnn::gpu::depthwise::any
