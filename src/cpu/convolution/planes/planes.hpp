// What the two plans of the planes kernel share (data.cpp,
// weights.cpp): geometry and staging.
#pragma once

#include <algorithm>

#include "cpu/convolution/planes/geometry.hpp"
#include "cpu/convolution/planes/kernels.hpp"
#include "cpu/convolution/work.hpp"
#include "cpu/kernels.hpp"

namespace gradnn::cpu {

/// Bytes that all staged planes of a task aim at.
constexpr int64_t stage_aim = int64_t {256} << 10;

class planes_plan : public detail::plan {
public:
    explicit planes_plan(const detail::convolution_problem &problem);

    /// What stands against this kernel before a plan is made, or "".
    static std::string refusal(const detail::convolution_problem &problem);
    /// And after it.
    virtual std::string refusal() const;
    /// Estimated for one thread of a Zen 4, by what is copied and multiplied.
    double nanoseconds() const;

    std::string backend() const override {
        return std::string("Highway ") + kernels_.target;
    }

protected:
    bool to_src() const {
        return problem_.direction
                == detail::convolution_direction::backward_data;
    }
    const detail::tensor_view &read() const {
        return to_src() ? problem_.dst : problem_.src;
    }
    const detail::tensor_view &written() const {
        return to_src() ? problem_.src : problem_.dst;
    }
    /// Axes of the weights: output and input channels of the sums.
    size_t o_axis() const { return to_src() ? 2 : 1; }
    size_t i_axis() const { return to_src() ? 1 : 2; }

    staged_tile tile_at(int64_t number, size_t phase) const {
        return {staged_[phase], tiling_.range_of(number, phases_.all()[phase])};
    }
    int64_t out_pitch(const staged_tile &tile) const {
        return tile.out_pitch(kernels_.lanes);
    }
    int64_t vectors(const staged_tile &tile) const {
        return ceil_divide(tile.positions(), kernels_.lanes);
    }

    /// Channels [channel, channel + channels) of image n as staged planes.
    void stage(const staged_tile &tile, const void *data, int64_t n,
            int64_t channel, int64_t channels, std::byte *planes) const;
    /// 1 where a staged element lies inside the tensor.
    void stage_mask(const staged_tile &tile, std::byte *mask) const;
    /// Elements of a run = one ? 1 : 0, in the type of staged planes.
    void fill(std::byte *plane, const staged_run &run, bool one) const;
    /// What of a staged plane no position reads, except in whole vectors.
    staged_run end_of(const staged_tile &tile) const;
    /// Of a run of so many channels between the staged planes and a tensor.
    double copy_nanoseconds(const staged_run &run,
            const detail::tensor_view &view, int64_t channels) const;

    detail::convolution_problem problem_;
    plane_kernels kernels_;
    gather_phase_list phases_;
    std::array<std::vector<staged_axis>, 3> staged_axes_;
    std::vector<std::array<const staged_axis *, 3>> staged_; ///< by phase
    int64_t groups_ = 1;
    int64_t outs_ = 1; ///< of a group
    int64_t ins_ = 1;
    int64_t taps_ = 1; ///< of all phases
    position_tiling tiling_;
    int64_t plane_pitch_ = 0; ///< the largest of a phase and tile
    int64_t out_pitch_ = 0;

private:
    void decide_tiles();
};

plan_or_refusal make_planes_data_plan(
        const convolution_problem &, const compile_options &);
plan_or_refusal make_planes_weights_plan(
        const convolution_problem &, const compile_options &);

} // namespace gradnn::cpu
