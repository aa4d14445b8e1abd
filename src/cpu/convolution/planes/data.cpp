// The planes kernel (planes.cpp), forward and backward_data.
//
// Workspace: the weights once more as f32 or f64, in the order of the inner
// loop, and for each thread (as counted at compile; more do not join in)
// about 1 MB.
#include <cstring>

#include "cpu/convolution/planes/planes.hpp"

namespace gradnn::cpu {

using detail::size_of;
using detail::stream_impl;
using detail::tensor_view;
using detail::weights_view;

namespace {

/// Terms of one sum before it is put down: bounds the error of f32 sums.
constexpr int64_t longest_sum = 192;

class planes_data_plan final : public planes_plan {
public:
    planes_data_plan(const convolution_problem &problem, int64_t threads);

    void execute(std::span<void *const> args, std::byte *workspace,
            stream_impl &stream) const override;
    size_t workspace_bytes() const override {
        return static_cast<size_t>(weights_bytes() + slots_ * slot_bytes_);
    }

private:
    /// A task's memory.
    struct memory {
        std::byte *stage = nullptr;
        std::byte *out = nullptr; ///< planes of sums
        std::byte *mask = nullptr;
        int64_t *offsets = nullptr;
        int64_t bytes = 0;
    };
    memory take(std::byte *scratch) const;

    int64_t group_weights() const { return outs_ * ins_ * taps_; }
    int64_t flags_offset() const {
        return round_up(groups_ * group_weights() * kernels_.wide_bytes, 64);
    }
    int64_t weights_bytes() const {
        return flags_offset() + round_up(groups_, 64);
    }
    void pack_weights(
            const void *weights, std::byte *packed, int64_t group) const;
    void run(int64_t task, std::span<void *const> args,
            const std::byte *weights, const memory &place) const;
    void sum(const staged_tile &tile, const gather_phase &phase, int64_t group,
            int64_t groups, int64_t i_first, int64_t i_count,
            const std::byte *weights, const memory &place) const;
    void write(const staged_tile &tile, const gather_phase &phase, void *data,
            int64_t n, int64_t channel, int64_t channels,
            const std::byte *out) const;

    int64_t block_groups_ = 1;
    int64_t block_ins_ = 1;
    int64_t tasks_ = 0;
    int64_t slots_ = 0;
    int64_t slot_bytes_ = 0;
};

planes_data_plan::planes_data_plan(
        const convolution_problem &problem, int64_t threads)
    : planes_plan(problem) {
    const int64_t plane = plane_pitch_ * kernels_.wide_bytes;
    const int64_t out = out_pitch_ * kernels_.wide_bytes;
    const int64_t units = read().dims[0] * tiling_.count();
    block_ins_ = std::clamp<int64_t>(stage_aim / plane, 1, ins_);
    if (block_ins_ == ins_)
        block_groups_ = std::clamp<int64_t>(
                stage_aim / (plane * ins_ + out * outs_), 1, groups_);
    while (block_groups_ > 1
            && units * ceil_divide(groups_, block_groups_) < 4 * threads)
        block_groups_ = ceil_divide(block_groups_, 2);
    tasks_ = units * ceil_divide(groups_, block_groups_);
    slots_ = std::min(threads, tasks_);
    slot_bytes_ = take(nullptr).bytes;
}

planes_data_plan::memory planes_data_plan::take(std::byte *scratch) const {
    const int64_t wide = kernels_.wide_bytes;
    workspace_cursor cursor(scratch);
    memory place;
    place.stage = cursor.take(block_groups_ * block_ins_ * plane_pitch_ * wide);
    place.out = cursor.take(block_groups_ * outs_ * out_pitch_ * wide);
    place.mask = cursor.take(plane_pitch_ * wide);
    place.offsets = reinterpret_cast<int64_t *>(cursor.take(
            block_ins_ * taps_ * static_cast<int64_t>(sizeof(int64_t))));
    place.bytes = cursor.taken();
    return place;
}

/// [phase][up to 4 outputs][input][tap][output], and in the flags whether Inf
/// or NaN is among them.
void planes_data_plan::pack_weights(
        const void *weights, std::byte *packed, int64_t group) const {
    const weights_view &view = problem_.weights;
    const int64_t wide = kernels_.wide_bytes;
    std::byte *const start = packed + group * group_weights() * wide;
    for (const gather_phase &phase : phases_.all()) {
        int64_t t = 0;
        for (const gather_tap &d : phase.axes[0]->taps)
            for (const gather_tap &h : phase.axes[1]->taps)
                for (const gather_tap &w : phase.axes[2]->taps) {
                    for (int64_t o = 0; o < outs_;
                            o += plane_kernels::most_outputs) {
                        const int64_t some = std::min(
                                plane_kernels::most_outputs, outs_ - o);
                        const int64_t from = group * view.strides[0]
                                + o * view.strides[o_axis()]
                                + d.index * view.strides[3]
                                + h.index * view.strides[4]
                                + w.index * view.strides[5];
                        const int64_t to = outs_ * ins_ * phase.first_tap
                                + o * ins_ * phase.taps + t * some;
                        kernels_.widen(static_cast<const std::byte *>(weights)
                                        + from * size_of(view.type),
                                view.strides[o_axis()], view.strides[i_axis()],
                                start + to * wide, 1, phase.taps * some, some,
                                ins_);
                    }
                    ++t;
                }
    }
    packed[flags_offset() + group]
            = std::byte {kernels_.has_non_finite(start, group_weights())};
}

void planes_data_plan::sum(const staged_tile &tile, const gather_phase &phase,
        int64_t group, int64_t groups, int64_t i_first, int64_t i_count,
        const std::byte *weights, const memory &place) const {
    const int64_t wide = kernels_.wide_bytes;
    const int64_t terms = i_count * phase.taps;
    const int64_t pitch = tile.plane_pitch(kernels_.lanes);
    const int64_t count = vectors(tile);
    tile.find_offsets(i_count, pitch, place.offsets);
    bool mask_staged = false;
    for (int64_t g = 0; g < groups; ++g) {
        const bool mask = weights[flags_offset() + group + g] != std::byte {0}
                && tile.leaves(read());
        if (mask && !mask_staged) {
            stage_mask(tile, place.mask);
            mask_staged = true;
        }
        const std::byte *in = place.stage + g * i_count * pitch * wide;
        for (int64_t o = 0; o < outs_; o += plane_kernels::most_outputs) {
            const int64_t some
                    = std::min(plane_kernels::most_outputs, outs_ - o);
            std::byte *out
                    = place.out + (g * outs_ + o) * out_pitch(tile) * wide;
            const std::byte *packed = weights
                    + ((group + g) * group_weights()
                              + outs_ * ins_ * phase.first_tap
                              + o * ins_ * phase.taps
                              + i_first * phase.taps * some)
                            * wide;
            if (mask) {
                kernels_.multiply_masked(terms, place.offsets, packed, some, in,
                        place.mask, phase.taps, out, out_pitch(tile), count,
                        i_first > 0);
                continue;
            }
            for (int64_t t = 0; t < terms; t += longest_sum)
                kernels_.multiply(std::min(longest_sum, terms - t),
                        place.offsets + t, packed + t * some * wide, some, in,
                        out, out_pitch(tile), count, i_first + t > 0);
        }
    }
}

void planes_data_plan::write(const staged_tile &tile, const gather_phase &phase,
        void *data, int64_t n, int64_t channel, int64_t channels,
        const std::byte *out) const {
    const tensor_view &view = written();
    const auto &first = tile.range().first;
    int64_t base = n * view.strides[0] + channel * view.strides[1];
    std::array<int64_t, 3> strides {};
    for (size_t axis = 0; axis < 3; ++axis) {
        const gather_axis &positions = *phase.axes[axis];
        strides[axis] = positions.pitch * view.strides[axis + 2];
        base += positions.first * view.strides[axis + 2]
                + first[axis] * strides[axis];
    }
    tile.for_each_position(base, strides, channels, [&](const staged_run &run) {
        kernels_.narrow(out + run.at * kernels_.wide_bytes, run.step,
                out_pitch(tile),
                static_cast<std::byte *>(data)
                        + run.offset * size_of(view.type),
                run.stride, view.strides[1], run.length, channels);
    });
}

void planes_data_plan::run(int64_t task, std::span<void *const> args,
        const std::byte *weights, const memory &place) const {
    const int64_t blocks = ceil_divide(groups_, block_groups_);
    const int64_t group = task % blocks * block_groups_;
    const int64_t groups = std::min(block_groups_, groups_ - group);
    const int64_t number = task / blocks % tiling_.count();
    const int64_t n = task / blocks / tiling_.count();
    // All phases of a tile in one task: they write neighbouring elements.
    for (size_t p = 0; p < phases_.all().size(); ++p) {
        const gather_phase &phase = phases_.all()[p];
        const staged_tile tile = tile_at(number, p);
        if (tile.range().empty()) continue;
        if (phase.taps == 0)
            std::memset(place.out, 0,
                    static_cast<size_t>(groups * outs_ * out_pitch(tile)
                            * kernels_.wide_bytes));
        for (int64_t i = 0; i < ins_ && phase.taps > 0; i += block_ins_) {
            const int64_t some = std::min(block_ins_, ins_ - i);
            stage(tile, args[to_src() ? 2 : 0], n, group * ins_ + i,
                    some == ins_ ? groups * ins_ : some, place.stage);
            sum(tile, phase, group, groups, i, some, weights, place);
        }
        write(tile, phase, args[to_src() ? 0 : 2], n, group * outs_,
                groups * outs_, place.out);
    }
}

void planes_data_plan::execute(std::span<void *const> args,
        std::byte *workspace, stream_impl &) const {
    detail::parallel_for(groups_, ceil_divide(4096, group_weights() + 1),
            [&](int64_t begin, int64_t end) {
                for (int64_t group = begin; group < end; ++group)
                    pack_weights(args[1], workspace, group);
            });
    run_tasks(tasks_, slots_, [&](int64_t slot, int64_t task) {
        run(task, args, workspace,
                take(workspace + weights_bytes() + slot * slot_bytes_));
    });
}

} // namespace

plan_or_refusal make_planes_data_plan(
        const convolution_problem &problem, const compile_options &options) {
    auto plan = std::make_unique<planes_data_plan>(
            problem, std::max(1, options.threads));
    std::string refusal = plan->refusal();
    if (!refusal.empty()) return plan_or_refusal::refuse(std::move(refusal));
    return plan;
}

} // namespace gradnn::cpu
