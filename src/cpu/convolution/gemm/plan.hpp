// The plan of convolution.gemm: plan.cpp decides, execute.cpp carries out.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cpu/convolution/gemm/mapping.hpp"
#include "cpu/convolution/work.hpp"
#include "cpu/kernels.hpp"

namespace gradnn::cpu {

class gemm_plan final : public detail::plan {
public:
    gemm_plan(
            const convolution_problem &problem, const compile_options &options);

    void execute(std::span<void *const> args, std::byte *workspace,
            detail::stream_impl &stream) const override;
    size_t workspace_bytes() const override {
        return static_cast<size_t>(
                slots_ * slot_bytes_ + partial_bytes() + packed_bytes_);
    }
    std::string backend() const override {
        return std::string("Highway ") + kernels_.target;
    }

private:
    void decide_pieces(int64_t pixels);
    void decide_blocks(int threads);
    void decide_packing();
    std::array<const gather_axis *, 3> phase_axes(int64_t phase) const;
    int64_t packed_offset(int64_t phase, int64_t group, int64_t taps) const;
    void pack_weights(
            int64_t task, std::span<void *const> args, std::byte *packed) const;
    void run_task(int64_t task, std::span<void *const> args, std::byte *scratch,
            std::byte *shared) const;
    void sum_pieces(
            int64_t block, void *diff_weights, std::byte *partials) const;

    bool of_weights() const {
        return problem_.direction
                == detail::convolution_direction::backward_weights;
    }
    int64_t blocks() const {
        return groups_ * p_split_.pieces * q_split_.pieces;
    }
    int64_t partial_pitch() const {
        return kernels_.partial_bytes(p_split_.size, q_split_.size);
    }
    int64_t partial_bytes() const {
        return pieces_ > 1 ? blocks() * pieces_ * partial_pitch() : 0;
    }
    gemm_block block_at(int64_t number) const {
        gemm_block block;
        block.q = number % q_split_.pieces * q_split_.size;
        block.p = number / q_split_.pieces % p_split_.pieces * p_split_.size;
        return block;
    }
    weights_product product_of_weights() const;

    convolution_problem problem_;
    gemm_kernels kernels_;
    std::array<std::vector<gather_axis>, 3> phases_;
    int64_t phase_count_ = 1;
    int64_t groups_ = 1;
    product_channels channels_; ///< forward and backward_data
    bool taps_inner_ = false;
    /// p is the pixels; for backward_weights, the rows (t, i).
    bool pixels_in_lanes_ = true;
    int64_t p_ = 0; ///< of the largest phase
    int64_t q_ = 0;
    int64_t chunks_ = 0;
    int64_t pieces_ = 1;
    even_split p_split_ {0, 1};
    even_split q_split_ {0, 1};
    int64_t tasks_ = 0;
    int64_t slots_ = 0;
    int64_t slot_bytes_ = 0;
    /// Packed weights: taps of the phases before each one.
    std::vector<int64_t> first_taps_;
    int64_t packed_bytes_ = 0;
};

/// The tensor of data that a convolution reads, and the one that it writes; of a
/// weights gradient src and dst.
inline const detail::tensor_view &read_view(
        const convolution_problem &problem) {
    return problem.direction == detail::convolution_direction::backward_data
            ? problem.dst
            : problem.src;
}
inline const detail::tensor_view &written_view(
        const convolution_problem &problem) {
    return problem.direction == detail::convolution_direction::backward_data
            ? problem.src
            : problem.dst;
}

} // namespace gradnn::cpu
