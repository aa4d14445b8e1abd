// The planes kernel (planes.cpp), backward_weights.
//
// The (image, tile) pairs are summed in pieces, one piece of one block of
// groups a task. Within a piece, lanes are summed apart, put together every
// few tiles, and added to the piece's sum, which keeps what that rounds off.
//
// Workspace: for each thread (as counted at compile; more do not join in)
// about 1.5 MB, and as many partial gradients as there are pieces, at most 32.
#include <cstring>

#include "cpu/convolution/planes/planes.hpp"

namespace gradnn::cpu {

using detail::size_of;
using detail::stream_impl;
using detail::tensor_view;
using detail::weights_view;

namespace {

/// Bytes of lane totals.
constexpr int64_t totals_most = int64_t {512} << 10;
/// Tiles whose lanes are summed apart: bounds the error of f32 sums.
constexpr int64_t longest_run = 64;

class planes_weights_plan final : public planes_plan {
public:
    planes_weights_plan(const convolution_problem &problem, int64_t threads);

    std::string refusal() const override;
    void execute(std::span<void *const> args, std::byte *workspace,
            stream_impl &stream) const override;
    size_t workspace_bytes() const override {
        return static_cast<size_t>(
                slots_ * slot_bytes_ + pieces_ * partial_bytes_);
    }

private:
    /// A task's memory.
    struct memory {
        std::byte *src = nullptr; ///< staged planes
        std::byte *dst = nullptr; ///< planes in the positions of the tile
        std::byte *src_mask = nullptr;
        std::byte *dst_mask = nullptr;
        std::byte *totals = nullptr; ///< [output][term][lane]
        std::byte *lows = nullptr; ///< what sums of them round off
        int64_t *offsets = nullptr;
        int64_t bytes = 0;
    };
    memory take(std::byte *scratch) const;

    int64_t units() const { return problem_.dst.dims[0] * tiling_.count(); }
    int64_t terms() const { return ins_ * taps_; }
    int64_t totals_bytes() const {
        return outs_ * terms() * kernels_.lanes * kernels_.wide_bytes;
    }
    void stage_dst(const staged_tile &tile, const void *data, int64_t n,
            int64_t channel, int64_t channels, std::byte *planes) const;
    void stage_dst_mask(const staged_tile &tile, std::byte *mask) const;
    void correlate(
            const staged_tile &tile, int64_t groups, const memory &place) const;
    void run(int64_t task, std::span<void *const> args, std::byte *partials,
            const memory &place) const;
    void write(const std::byte *sums, int64_t group, int64_t groups,
            void *diff_weights) const;

    int64_t block_groups_ = 1;
    int64_t pieces_ = 1;
    int64_t tasks_ = 0;
    int64_t slots_ = 0;
    int64_t slot_bytes_ = 0;
    int64_t partial_bytes_ = 0;
};

planes_weights_plan::planes_weights_plan(
        const convolution_problem &problem, int64_t threads)
    : planes_plan(problem) {
    const int64_t wide = kernels_.wide_bytes;
    block_groups_ = std::clamp<int64_t>(
            std::min(stage_aim
                            / ((plane_pitch_ * ins_ + out_pitch_ * outs_)
                                    * wide),
                    totals_most / totals_bytes()),
            1, groups_);
    const int64_t blocks = ceil_divide(groups_, block_groups_);
    const auto &dims = problem.dst.dims;
    const double products = static_cast<double>(groups_ * outs_ * terms())
            * static_cast<double>(dims[0] * dims[2] * dims[3] * dims[4]);
    // Enough to feed 32 threads, of half a million products at least.
    pieces_ = std::max<int64_t>(1,
            std::min({ceil_divide(32, blocks), units(),
                    static_cast<int64_t>(std::min(products / 5e5, 32.0))}));
    partial_bytes_ = round_up(groups_ * outs_ * terms() * wide, 64);
    tasks_ = blocks * pieces_;
    slots_ = std::min(threads, tasks_);
    slot_bytes_ = take(nullptr).bytes;
}

std::string planes_weights_plan::refusal() const {
    std::string refusal = planes_plan::refusal();
    if (refusal.empty() && totals_bytes() > totals_most)
        refusal = "a group has " + std::to_string(outs_ * terms())
                + " weights, more than a task can sum at a time";
    return refusal;
}

planes_weights_plan::memory planes_weights_plan::take(
        std::byte *scratch) const {
    const int64_t wide = kernels_.wide_bytes;
    workspace_cursor cursor(scratch);
    memory place;
    place.src = cursor.take(block_groups_ * ins_ * plane_pitch_ * wide);
    place.dst = cursor.take(block_groups_ * outs_ * out_pitch_ * wide);
    place.src_mask = cursor.take(plane_pitch_ * wide);
    place.dst_mask = cursor.take(out_pitch_ * wide);
    place.totals = cursor.take(block_groups_ * totals_bytes());
    place.lows = cursor.take(block_groups_ * outs_ * terms() * wide);
    place.offsets = reinterpret_cast<int64_t *>(
            cursor.take(terms() * static_cast<int64_t>(sizeof(int64_t))));
    place.bytes = cursor.taken();
    return place;
}

/// dst in the positions of the tile, 0 between the lines.
void planes_weights_plan::stage_dst(const staged_tile &tile, const void *data,
        int64_t n, int64_t channel, int64_t channels, std::byte *planes) const {
    const tensor_view &view = problem_.dst;
    const int64_t wide = kernels_.wide_bytes;
    std::memset(
            planes, 0, static_cast<size_t>(channels * out_pitch(tile) * wide));
    std::array<int64_t, 3> strides {};
    int64_t base = n * view.strides[0] + channel * view.strides[1];
    for (size_t axis = 0; axis < 3; ++axis) {
        strides[axis] = view.strides[axis + 2];
        base += tile.range().first[axis] * strides[axis];
    }
    tile.for_each_position(base, strides, channels, [&](const staged_run &run) {
        kernels_.widen(static_cast<const std::byte *>(data)
                        + run.offset * size_of(view.type),
                run.stride, view.strides[1], planes + run.at * wide, run.step,
                out_pitch(tile), run.length, channels);
    });
}

void planes_weights_plan::stage_dst_mask(
        const staged_tile &tile, std::byte *mask) const {
    staged_run all;
    all.length = out_pitch(tile);
    fill(mask, all, false);
    tile.for_each_position(
            0, {}, 1, [&](const staged_run &run) { fill(mask, run, true); });
}

void planes_weights_plan::correlate(
        const staged_tile &tile, int64_t groups, const memory &place) const {
    const int64_t wide = kernels_.wide_bytes;
    const int64_t pitch = tile.plane_pitch(kernels_.lanes);
    const int64_t count = vectors(tile);
    tile.find_offsets(ins_, pitch, place.offsets);
    bool masks_staged = false;
    for (int64_t g = 0; g < groups; ++g) {
        const std::byte *src = place.src + g * ins_ * pitch * wide;
        const std::byte *dst = place.dst + g * outs_ * out_pitch(tile) * wide;
        const bool mask = kernels_.has_non_finite(src, ins_ * pitch)
                || kernels_.has_non_finite(dst, outs_ * out_pitch(tile));
        if (mask && !masks_staged) {
            stage_mask(tile, place.src_mask);
            stage_dst_mask(tile, place.dst_mask);
            masks_staged = true;
        }
        for (int64_t o = 0; o < outs_; o += plane_kernels::most_outputs) {
            const int64_t some
                    = std::min(plane_kernels::most_outputs, outs_ - o);
            const std::byte *out = dst + o * out_pitch(tile) * wide;
            std::byte *totals = place.totals
                    + (g * outs_ + o) * terms() * kernels_.lanes * wide;
            if (mask)
                kernels_.correlate_masked(terms(), place.offsets, some, src,
                        out, out_pitch(tile), place.src_mask, taps_,
                        place.dst_mask, count, totals);
            else
                kernels_.correlate(terms(), place.offsets, some, src, out,
                        out_pitch(tile), count, totals);
        }
    }
}

void planes_weights_plan::run(int64_t task, std::span<void *const> args,
        std::byte *partials, const memory &place) const {
    const int64_t group = task / pieces_ * block_groups_;
    const int64_t groups = std::min(block_groups_, groups_ - group);
    const int64_t piece = task % pieces_;
    const int64_t begin = units() * piece / pieces_;
    const int64_t end = units() * (piece + 1) / pieces_;
    std::byte *sums = partials + piece * partial_bytes_
            + group * outs_ * terms() * kernels_.wide_bytes;
    const int64_t count = groups * outs_ * terms();
    const auto bytes = static_cast<size_t>(count * kernels_.wide_bytes);
    std::memset(sums, 0, bytes);
    std::memset(place.lows, 0, bytes);
    for (int64_t run = begin; run < end; run += longest_run) {
        std::memset(
                place.totals, 0, static_cast<size_t>(groups * totals_bytes()));
        for (int64_t unit = run; unit < std::min(end, run + longest_run);
                ++unit) {
            const staged_tile tile = tile_at(unit % tiling_.count(), 0);
            const int64_t n = unit / tiling_.count();
            stage(tile, args[0], n, group * ins_, groups * ins_, place.src);
            stage_dst(
                    tile, args[2], n, group * outs_, groups * outs_, place.dst);
            correlate(tile, groups, place);
        }
        kernels_.sum_lanes(place.totals, count, sums, place.lows);
    }
    kernels_.accumulate(place.lows, count, sums);
    if (pieces_ == 1) write(sums, group, groups, args[1]);
}

void planes_weights_plan::write(const std::byte *sums, int64_t group,
        int64_t groups, void *diff_weights) const {
    const weights_view &view = problem_.weights;
    for (int64_t g = 0; g < groups; ++g)
        for (int64_t t = 0; t < taps_; ++t) {
            int64_t at = t;
            int64_t to = (group + g) * view.strides[0];
            for (size_t axis = 6; axis-- > 3;) {
                to += at % view.dims[axis] * view.strides[axis];
                at /= view.dims[axis];
            }
            kernels_.narrow(
                    sums + (g * outs_ * terms() + t) * kernels_.wide_bytes,
                    terms(), taps_,
                    static_cast<std::byte *>(diff_weights)
                            + to * size_of(view.type),
                    view.strides[1], view.strides[2], outs_, ins_);
        }
}

void planes_weights_plan::execute(std::span<void *const> args,
        std::byte *workspace, stream_impl &) const {
    std::byte *partials = workspace + slots_ * slot_bytes_;
    run_tasks(tasks_, slots_, [&](int64_t slot, int64_t task) {
        run(task, args, partials, take(workspace + slot * slot_bytes_));
    });
    if (pieces_ == 1) return;
    detail::parallel_for(groups_, 64, [&](int64_t begin, int64_t end) {
        const int64_t count = outs_ * terms();
        std::byte *sums = partials + begin * count * kernels_.wide_bytes;
        for (int64_t piece = 1; piece < pieces_; ++piece)
            kernels_.accumulate(
                    sums + piece * partial_bytes_, (end - begin) * count, sums);
        write(sums, begin, end - begin, args[1]);
    });
}

} // namespace

plan_or_refusal make_planes_weights_plan(
        const convolution_problem &problem, const compile_options &options) {
    auto plan = std::make_unique<planes_weights_plan>(
            problem, std::max(1, options.threads));
    std::string refusal = plan->refusal();
    if (!refusal.empty()) return plan_or_refusal::refuse(std::move(refusal));
    return plan;
}

} // namespace gradnn::cpu
