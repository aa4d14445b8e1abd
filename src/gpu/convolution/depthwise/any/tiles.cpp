#include <memory>
#include <string>
#include <utility>

#include "gpu/convolution/depthwise/any/cut.hpp"
#include "gpu/convolution/depthwise/plan.hpp"

namespace gradnn::gpu::depthwise::any {

namespace {

constexpr const char *what_it_takes
        = "NCX, any window: tiles of rows in shared memory";

struct tiles_cut {
    tile_shape tile;
    weights_parts parts;
};

class tiles_plan final : public family_plan {
public:
    tiles_plan(problem_facts facts, const both_cuts<tiles_cut> &cuts)
        : family_plan(std::move(facts)), cuts_(cuts) {}

private:
    int64_t parts(bool vectors) const override {
        return cuts_.of(vectors).parts.parts;
    }
    void launch_data(const tensor_pointers &pointers,
            const tensor_alignment &alignment,
            const launch_stream &stream) const override {
        launch_data_ncx(type(), shape(), cuts_.of(alignment.vectors).tile,
                pointers, stream);
    }
    void launch_weights(const tensor_pointers &pointers,
            const tensor_alignment &alignment,
            const launch_stream &stream) const override {
        const tiles_cut &cut = cuts_.of(alignment.vectors);
        launch_weights_ncx(
                type(), shape(), cut.tile, cut.parts, pointers, stream);
    }

    const both_cuts<tiles_cut> cuts_;
};

/// Blocks that fill the device.
int64_t blocks_for(const problem_facts &facts) {
    return facts.multiprocessors * 8;
}

bool cut_work(tiles_cut &cut, const problem_facts &facts, bool vectors) {
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
    return facts.of_weights() ? cut_tiles_weights(tile, cut.parts, facts.shape,
                   sum_bytes, blocks_for(facts), longest_f32_chain)
                              : cut_tiles(tile, facts.shape, sum_bytes);
}

} // namespace

plan_or_refusal make_tiles(
        const convolution_problem &problem, const compile_options &options) {
    std::string refusal;
    auto facts = facts_of(problem, options, refusal);
    if (!facts) return plan_or_refusal::refuse(refusal);
    if (facts->channels_last) return refuse(what_it_takes, *facts);
    both_cuts<tiles_cut> cuts;
    if (!cut_work(cuts.aligned, *facts, true)
            || !cut_work(cuts.unaligned, *facts, false))
        return plan_or_refusal::refuse(
                "takes windows that fit in shared memory, and tensors of less "
                "than 2^31 tiles; "
                + facts->given());
    return plan_within_limit(
            std::make_unique<tiles_plan>(std::move(*facts), cuts), options);
}

} // namespace gradnn::gpu::depthwise::any
