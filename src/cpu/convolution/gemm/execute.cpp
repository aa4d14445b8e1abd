// The tasks of convolution.gemm.
#include <algorithm>

#include "cpu/convolution/gemm/plan.hpp"

namespace gradnn::cpu {

using detail::convolution_direction;
using detail::data_type;
using detail::size_of;
using detail::stream_impl;
using detail::tensor_view;
using detail::weights_view;

void gemm_plan::pack_weights(
        int64_t task, std::span<void *const> args, std::byte *packed) const {
    const int64_t chunk = task % chunks_;
    const int64_t group = task / chunks_ % groups_;
    const int64_t phase = task / chunks_ / groups_;
    const weights_view &weights = problem_.weights;
    const gather_grid grid(phase_axes(phase), read_view(problem_),
            written_view(problem_), weights);
    const data_mapping mapping(grid, channels_, taps_inner_, pixels_in_lanes_);
    if (chunk >= mapping.chunks()) return; // a phase with fewer taps
    kernels_.pack(mapping,
            pixels_in_lanes_ ? gemm_side::broadcast : gemm_side::vector,
            static_cast<const std::byte *>(args[1])
                    + group * weights.strides[0] * size_of(weights.type),
            channels_.m, chunk,
            packed + packed_offset(phase, group, grid.taps()));
}

weights_product gemm_plan::product_of_weights() const {
    const weights_view &weights = problem_.weights;
    return {weights.dims[2], weights.dims[1], problem_.src.strides[1],
            problem_.dst.strides[1], weights.strides[2], weights.strides[1]};
}

void gemm_plan::run_task(int64_t task, std::span<void *const> args,
        std::byte *scratch, std::byte *shared) const {
    const int64_t piece = task % pieces_;
    const int64_t number = task / pieces_ % blocks();
    const int64_t group = number / (p_split_.pieces * q_split_.pieces);
    const int64_t phase = task / pieces_ / blocks();
    const tensor_view &read = read_view(problem_);
    const tensor_view &written = written_view(problem_);
    const weights_view &weights = problem_.weights;
    const gather_grid grid(phase_axes(phase), read, written, weights);

    const auto at = [](void *data, int64_t offset, data_type type) {
        return static_cast<std::byte *>(data) + offset * size_of(type);
    };
    void *src = at(args[0], group * weights.dims[2] * problem_.src.strides[1],
            problem_.src.type);
    void *kernel = at(args[1], group * weights.strides[0], weights.type);
    void *dst = at(args[2], group * weights.dims[1] * problem_.dst.strides[1],
            problem_.dst.type);

    gemm_block block = block_at(number);
    gemm_pointers pointers;
    pointers.scratch = scratch;
    if (of_weights()) {
        const weights_product product = product_of_weights();
        const weights_mapping mapping(grid, product, pixels_in_lanes_);
        block.ps = std::min(p_split_.size, p_ - block.p);
        block.qs = std::min(q_split_.size, q_ - block.q);
        block.chunk_begin = chunks_ * piece / pieces_;
        block.chunk_end = chunks_ * (piece + 1) / pieces_;
        pointers.vector_side = pixels_in_lanes_ ? src : dst;
        pointers.broadcast_side = pixels_in_lanes_ ? dst : src;
        if (pieces_ == 1)
            pointers.result = kernel;
        else
            pointers.partial
                    = shared + (number * pieces_ + piece) * partial_pitch();
        kernels_.run(mapping, block, pointers);
        return;
    }
    const bool forward = problem_.direction == convolution_direction::forward;
    const data_mapping mapping(grid, channels_, taps_inner_, pixels_in_lanes_);
    block.ps = std::min(
            p_split_.size, (pixels_in_lanes_ ? grid.pixels() : p_) - block.p);
    block.qs = std::min(
            q_split_.size, (pixels_in_lanes_ ? q_ : grid.pixels()) - block.q);
    if (block.ps <= 0 || block.qs <= 0) return; // a smaller phase
    block.chunk_end = mapping.chunks();
    void *pixels = forward ? src : dst;
    pointers.vector_side = pixels_in_lanes_ ? pixels : kernel;
    pointers.broadcast_side = pixels_in_lanes_ ? kernel : pixels;
    pointers.result = forward ? dst : src;
    if (packed_bytes_ > 0) {
        (pixels_in_lanes_ ? pointers.packed_broadcast_side
                          : pointers.packed_vector_side)
                = shared + packed_offset(phase, group, grid.taps());
        pointers.packed_rows = channels_.m;
    }
    kernels_.run(mapping, block, pointers);
}

void gemm_plan::sum_pieces(
        int64_t number, void *diff_weights, std::byte *partials) const {
    const gather_grid grid({&phases_[0][0], &phases_[1][0], &phases_[2][0]},
            problem_.src, problem_.dst, problem_.weights);
    const weights_product product = product_of_weights();
    const weights_mapping mapping(grid, product, pixels_in_lanes_);
    gemm_block block = block_at(number);
    block.ps = std::min(p_split_.size, p_ - block.p);
    block.qs = std::min(q_split_.size, q_ - block.q);
    const int64_t group = number / (p_split_.pieces * q_split_.pieces);
    kernels_.sum_partials(mapping, block,
            partials + number * pieces_ * partial_pitch(), pieces_,
            partial_pitch(),
            static_cast<std::byte *>(diff_weights)
                    + group * problem_.weights.strides[0]
                            * size_of(problem_.weights.type));
}

void gemm_plan::execute(std::span<void *const> args, std::byte *workspace,
        stream_impl &) const {
    // Packed weights or partial sums.
    std::byte *shared = workspace + slots_ * slot_bytes_;
    if (packed_bytes_ > 0)
        detail::parallel_for(phase_count_ * groups_ * chunks_, 1,
                [&](int64_t begin, int64_t end) {
                    for (int64_t task = begin; task < end; ++task)
                        pack_weights(task, args, shared);
                });
    run_tasks(tasks_, slots_, [&](int64_t slot, int64_t task) {
        run_task(task, args, workspace + slot * slot_bytes_, shared);
    });
    if (pieces_ == 1) return;
    detail::parallel_for(blocks(), 1, [&](int64_t begin, int64_t end) {
        for (int64_t number = begin; number < end; ++number)
            sum_pieces(number, args[1], shared);
    });
}

} // namespace gradnn::cpu
