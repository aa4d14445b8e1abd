// Depthwise convolutions (groups of one channel) with contiguous channels:
//
//     written[x, c] = sum over t of weights[t, c] * read[x + t, c]
//     diff_weights[t, c] = sum over n, x of dst[x, c] * src[x + t, c]
//
// SIMD lanes are channels. A task computes the lines of one tile of pixels; or
// sums one piece of the (image, tile) pairs for a block of channels, and a
// second pass adds the pieces up in their order. Tensors are read where they
// are, and taps outside not at all. Deterministic: tiles of the weights
// gradient and pieces follow from the problem, and each sum is one thread's,
// in a fixed order.
//
// Workspace: the weights once more as f32 or f64 (forward, backward_data), or
// at most 32 partial gradients; for each thread (as counted at compile; more
// do not join in) at most 140 kB, or twice the weights of a few channels.
#include <cstring>
#include <string>

#include "cpu/convolution/depthwise/kernels.hpp"
#include "cpu/convolution/gather.hpp"
#include "cpu/convolution/work.hpp"
#include "cpu/kernels.hpp"

namespace gradnn::cpu {

using detail::convolution_direction;
using detail::size_of;
using detail::stream_impl;
using detail::tensor_view;
using detail::weights_view;

namespace {

/// Lines of the weights gradient that are summed apart: bounds the error of
/// f32 sums.
constexpr int64_t longest_run = 64;
constexpr int64_t most_phases = 4096;
/// Longer sums of f32, in one run, would lose digits.
constexpr int64_t most_taps = 2048;

class depthwise_plan final : public detail::plan {
public:
    depthwise_plan(const convolution_problem &problem, int64_t threads);

    void execute(std::span<void *const> args, std::byte *workspace,
            stream_impl &stream) const override;
    size_t workspace_bytes() const override {
        return static_cast<size_t>(
                shared_bytes_ + slots_ * (taps_bytes() + totals_bytes_));
    }
    std::string backend() const override {
        return std::string("Highway ") + kernels_.target;
    }

private:
    bool of_weights() const {
        return problem_.direction == convolution_direction::backward_weights;
    }
    bool to_src() const {
        return problem_.direction == convolution_direction::backward_data;
    }
    const tensor_view &read() const {
        return to_src() ? problem_.dst : problem_.src;
    }
    const tensor_view &written() const {
        return to_src() ? problem_.src : problem_.dst;
    }
    int64_t channels() const { return problem_.weights.dims[0]; }
    int64_t units() const { return read().dims[0] * tiling_.count(); }
    int64_t taps_bytes() const {
        return round_up(
                phases_.taps() * static_cast<int64_t>(sizeof(line_tap)), 64);
    }

    // Of the weights gradient: blocks of channels, the last of which may have
    // up to twice as many.
    int64_t block_first(int64_t block) const { return block * block_channels_; }
    int64_t block_size(int64_t block) const {
        return block + 1 == blocks_ ? channels() - block_first(block)
                                    : block_channels_;
    }
    int64_t slots_of(int64_t block) const {
        return round_up(block_size(block), kernels_.lanes);
    }
    std::byte *partial(
            std::byte *workspace, int64_t piece, int64_t block) const {
        return workspace
                + (piece * blocks_ + block) * phases_.taps()
                * slots_of(blocks_ - 1) * kernels_.wide_bytes;
    }

    int64_t find_taps(const gather_phase &phase, int64_t d, int64_t h,
            line_tap *taps) const;
    int64_t weights_offset(int64_t tap) const;
    template <typename Body>
    void for_each_line(
            const gather_phase &phase, int64_t unit, const Body &body) const;
    void run_data(int64_t unit, std::span<void *const> args,
            const std::byte *weights, line_tap *taps) const;
    void run_weights(int64_t task, std::span<void *const> args,
            std::byte *workspace, line_tap *taps, std::byte *totals) const;
    void sum_pieces(
            int64_t block, std::byte *workspace, void *diff_weights) const;

    convolution_problem problem_;
    depthwise_kernels kernels_;
    gather_phase_list phases_;
    position_tiling tiling_;
    int64_t block_channels_ = 0;
    int64_t blocks_ = 1;
    int64_t pieces_ = 1;
    int64_t tasks_ = 0;
    int64_t slots_ = 0;
    int64_t shared_bytes_ = 0;
    int64_t totals_bytes_ = 0;
};

depthwise_plan::depthwise_plan(
        const convolution_problem &problem, int64_t threads)
    : problem_(problem),
      kernels_(depthwise_kernels_for(problem.dst.type, problem.weights.type)),
      phases_(problem) {
    const auto positions = phases_.positions();
    const int64_t taps = phases_.taps();
    std::array<int64_t, 3> tile {1, std::min<int64_t>(8, positions[1]),
            std::min<int64_t>(256, positions[2])};
    if (!of_weights())
        while (tile[1] > 1
                && position_tiling(tile, positions).count() * read().dims[0]
                        < 4 * threads)
            tile[1] = ceil_divide(tile[1], 2);
    tiling_ = position_tiling(tile, positions);

    const int64_t wide = kernels_.wide_bytes;
    if (of_weights()) {
        const int64_t unit = 4 * kernels_.lanes;
        const int64_t fitting
                = (int64_t {32} << 10) / (std::max<int64_t>(1, taps) * wide);
        block_channels_ = std::max(unit, fitting / unit * unit);
        blocks_ = std::max<int64_t>(1, channels() / block_channels_);
        const auto &dims = problem.dst.dims;
        const double products = static_cast<double>(dims[1] * taps)
                * static_cast<double>(dims[0] * dims[2] * dims[3] * dims[4]);
        // Enough to feed 32 threads, of half a million products at least.
        pieces_ = std::max<int64_t>(1,
                std::min({ceil_divide(32, blocks_), units(),
                        static_cast<int64_t>(std::min(products / 5e5, 32.0))}));
        tasks_ = blocks_ * pieces_;
        totals_bytes_ = 2 * round_up(taps * slots_of(blocks_ - 1) * wide, 64);
        shared_bytes_
                = round_up(tasks_ * taps * slots_of(blocks_ - 1) * wide, 64);
    } else {
        tasks_ = units();
        shared_bytes_ = round_up(taps * channels() * wide, 64);
    }
    slots_ = std::min(threads, tasks_);
}

/// The taps of a phase that are inside in d and h, offsets from the image's
/// first element.
int64_t depthwise_plan::find_taps(
        const gather_phase &phase, int64_t d, int64_t h, line_tap *taps) const {
    const auto &strides = read().strides;
    const auto inside = [](const gather_tap &tap, int64_t at) {
        return at >= tap.begin && at < tap.end;
    };
    const auto &[axis_d, axis_h, axis_w] = phase.axes;
    int64_t index = phase.first_tap;
    int64_t count = 0;
    for (const gather_tap &tap_d : axis_d->taps)
        for (const gather_tap &tap_h : axis_h->taps) {
            if (!inside(tap_d, d) || !inside(tap_h, h)) {
                index += static_cast<int64_t>(axis_w->taps.size());
                continue;
            }
            const int64_t line = (d * axis_d->step + tap_d.offset) * strides[2]
                    + (h * axis_h->step + tap_h.offset) * strides[3];
            for (const gather_tap &tap_w : axis_w->taps)
                taps[count++] = {line + tap_w.offset * strides[4], index++,
                        tap_w.begin, tap_w.end};
        }
    return count;
}

/// Calls body(n, range, d, h) for the lines of a unit in one phase.
template <typename Body>
void depthwise_plan::for_each_line(
        const gather_phase &phase, int64_t unit, const Body &body) const {
    const tile_range range = tiling_.range_of(unit % tiling_.count(), phase);
    if (range.empty()) return;
    for (int64_t d = range.first[0]; d < range.first[0] + range.count[0]; ++d)
        for (int64_t h = range.first[1]; h < range.first[1] + range.count[1];
                ++h)
            body(unit / tiling_.count(), range, d, h);
}

void depthwise_plan::run_data(int64_t unit, std::span<void *const> args,
        const std::byte *weights, line_tap *taps) const {
    const int64_t element = size_of(problem_.dst.type);
    const auto *from = static_cast<const std::byte *>(args[to_src() ? 2 : 0]);
    auto *to = static_cast<std::byte *>(args[to_src() ? 0 : 2]);
    // All phases of a tile in one task: they write neighbouring elements.
    for (const gather_phase &phase : phases_.all())
        for_each_line(phase, unit,
                [&](int64_t n, const tile_range &range, int64_t d, int64_t h) {
                    const auto &axes = phase.axes;
                    const auto &strides = written().strides;
                    const int64_t line = n * strides[0]
                            + (axes[0]->first + d * axes[0]->pitch) * strides[2]
                            + (axes[1]->first + h * axes[1]->pitch) * strides[3]
                            + axes[2]->first * strides[4];
                    const int64_t count = find_taps(phase, d, h, taps);
                    kernels_.multiply(taps, count,
                            from + n * read().strides[0] * element,
                            axes[2]->step * read().strides[4], weights,
                            to + line * element, axes[2]->pitch * strides[4],
                            range.first[2], range.first[2] + range.count[2],
                            channels());
                });
}

void depthwise_plan::run_weights(int64_t task, std::span<void *const> args,
        std::byte *workspace, line_tap *taps, std::byte *totals) const {
    const int64_t element = size_of(problem_.dst.type);
    const int64_t block = task / pieces_;
    const int64_t piece = task % pieces_;
    const int64_t count = phases_.taps() * slots_of(block);
    std::byte *sums = partial(workspace, piece, block);
    const auto bytes = static_cast<size_t>(count * kernels_.wide_bytes);
    std::byte *lows = totals + totals_bytes_ / 2;
    std::memset(sums, 0, bytes);
    std::memset(totals, 0, bytes);
    std::memset(lows, 0, bytes);
    const auto *src = static_cast<const std::byte *>(args[0])
            + block_first(block) * element;
    const auto *dst = static_cast<const std::byte *>(args[2])
            + block_first(block) * element;
    const gather_phase &phase = phases_.all()[0];
    const auto &strides = problem_.dst.strides;
    int64_t lines = 0;
    for (int64_t unit = units() * piece / pieces_;
            unit < units() * (piece + 1) / pieces_; ++unit)
        for_each_line(phase, unit,
                [&](int64_t n, const tile_range &range, int64_t d, int64_t h) {
                    const int64_t line
                            = n * strides[0] + d * strides[2] + h * strides[3];
                    const int64_t found = find_taps(phase, d, h, taps);
                    kernels_.correlate(taps, found,
                            src + n * problem_.src.strides[0] * element,
                            phase.axes[2]->step * problem_.src.strides[4],
                            dst + line * element, strides[4], range.first[2],
                            range.first[2] + range.count[2], block_size(block),
                            totals);
                    if (++lines % longest_run != 0) return;
                    kernels_.accumulate_compensated(totals, count, sums, lows);
                    std::memset(totals, 0, bytes);
                });
    kernels_.accumulate_compensated(totals, count, sums, lows);
    kernels_.accumulate(lows, count, sums);
}

int64_t depthwise_plan::weights_offset(int64_t tap) const {
    int64_t offset = 0;
    for (size_t axis = 6; axis-- > 3;) {
        offset += tap % problem_.weights.dims[axis]
                * problem_.weights.strides[axis];
        tap /= problem_.weights.dims[axis];
    }
    return offset;
}

void depthwise_plan::sum_pieces(
        int64_t block, std::byte *workspace, void *diff_weights) const {
    const weights_view &view = problem_.weights;
    const int64_t slots = slots_of(block);
    std::byte *sums = partial(workspace, 0, block);
    for (int64_t piece = 1; piece < pieces_; ++piece)
        kernels_.accumulate(
                partial(workspace, piece, block), phases_.taps() * slots, sums);
    const auto write = [&](int64_t tap, int64_t slot, int64_t channel,
                               int64_t count) {
        const int64_t to = (block_first(block) + channel) * view.strides[0]
                + weights_offset(tap);
        kernels_.narrow(sums + (tap * slots + slot) * kernels_.wide_bytes,
                static_cast<std::byte *>(diff_weights)
                        + to * size_of(view.type),
                view.strides[0], count);
    };
    // The last vector of channels ends with the last channel.
    const int64_t size = block_size(block);
    const int64_t whole = size / kernels_.lanes * kernels_.lanes;
    for (int64_t tap = 0; tap < phases_.taps(); ++tap) {
        write(tap, 0, 0, whole);
        if (whole < size)
            write(tap, slots - (size - whole), whole, size - whole);
    }
}

void depthwise_plan::execute(std::span<void *const> args, std::byte *workspace,
        stream_impl &) const {
    const auto taps_of = [&](int64_t slot) {
        return workspace + shared_bytes_
                + slot * (taps_bytes() + totals_bytes_);
    };
    if (of_weights()) {
        run_tasks(tasks_, slots_, [&](int64_t slot, int64_t task) {
            run_weights(task, args, workspace,
                    reinterpret_cast<line_tap *>(taps_of(slot)),
                    taps_of(slot) + taps_bytes());
        });
        detail::parallel_for(blocks_, 1, [&](int64_t begin, int64_t end) {
            for (int64_t block = begin; block < end; ++block)
                sum_pieces(block, workspace, args[1]);
        });
        return;
    }
    const weights_view &view = problem_.weights;
    for (const gather_phase &phase : phases_.all()) {
        int64_t row = phase.first_tap;
        for (const gather_tap &d : phase.axes[0]->taps)
            for (const gather_tap &h : phase.axes[1]->taps)
                for (const gather_tap &w : phase.axes[2]->taps)
                    kernels_.widen(static_cast<const std::byte *>(args[1])
                                    + (d.index * view.strides[3]
                                              + h.index * view.strides[4]
                                              + w.index * view.strides[5])
                                            * size_of(view.type),
                            view.strides[0],
                            workspace
                                    + row++ * channels() * kernels_.wide_bytes,
                            channels());
    }
    run_tasks(tasks_, slots_, [&](int64_t slot, int64_t task) {
        run_data(task, args, workspace,
                reinterpret_cast<line_tap *>(taps_of(slot)));
    });
}

} // namespace

plan_or_refusal make_convolution_depthwise(
        const convolution_problem &problem, const compile_options &options) {
    const auto &dims = problem.weights.dims;
    if (dims[1] != 1 || dims[2] != 1)
        return plan_or_refusal::refuse("takes one input and one output channel"
                                       " a group, given "
                + std::to_string(dims[2]) + " and " + std::to_string(dims[1]));
    if (problem.src.strides[1] != 1 || problem.dst.strides[1] != 1)
        return plan_or_refusal::refuse("takes contiguous channels in src and"
                                       " dst, given strides "
                + std::to_string(problem.src.strides[1]) + " and "
                + std::to_string(problem.dst.strides[1]));
    if (dims[3] * dims[4] * dims[5] > most_taps)
        return plan_or_refusal::refuse("takes at most "
                + std::to_string(most_taps) + " taps, given "
                + std::to_string(dims[3] * dims[4] * dims[5]));
    const int64_t lanes
            = depthwise_kernels_for(problem.dst.type, problem.weights.type)
                      .lanes;
    if (dims[0] < lanes)
        return plan_or_refusal::refuse("takes at least " + std::to_string(lanes)
                + " channels, given " + std::to_string(dims[0]));
    if (gather_phase_list::count(problem) > most_phases)
        return plan_or_refusal::refuse("takes at most "
                + std::to_string(most_phases) + " phases of strides, given "
                + std::to_string(gather_phase_list::count(problem)));
    return std::make_unique<depthwise_plan>(
            problem, std::max(1, options.threads));
}

} // namespace gradnn::cpu
