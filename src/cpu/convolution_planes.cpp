// Convolutions with few channels to a group, depthwise ones among them, plane
// by plane:
//
//     written[o, x] = sum over i, t of weights[o, i, t] * read[i, x + t]
//     diff_weights[o, i, t] = sum over n, x of dst[o, x] * src[i, x + t]
//
// A task stages a tile of the planes of some groups' channels (and of dst, for
// the weights) in its scratch, widened to f32 or f64, with a border of zeros
// (convolution_planes_geometry.hpp), runs the inner loops of
// convolution_planes_kernels.cpp over it, and writes its own part of the
// output. Any layout is staged; where channels are contiguous, by transposing.
// Of the weights gradient a task sums one piece of all tiles, and a second
// pass adds the pieces up in their order. Deterministic: tiles and pieces
// follow from the problem, and each sum is one thread's in a fixed order.
//
// Where a border of zeros would meet Inf or NaN, terms outside are masked out
// instead, so that they contribute nothing.
//
// Workspace: the weights once more as f32 or f64, about 1 MB for each thread
// (as counted at compile; more do not join in), and for the weights gradient
// `pieces`, at most 32, partial gradients.
#include <atomic>
#include <cstring>
#include <string>

#include "cpu/convolution_planes_geometry.hpp"
#include "cpu/convolution_planes_kernels.hpp"
#include "cpu/kernels.hpp"
#include "cpu/parallel.hpp"

namespace gradnn::cpu {

using detail::convolution_direction;
using detail::size_of;
using detail::stream_impl;
using detail::tensor_view;
using detail::weights_view;

namespace {

/// Terms of one sum before it is put down: bounds the error of f32 sums.
constexpr int64_t longest_sum = 256;
/// Staged elements of one plane that tiles aim at, and that they may have.
constexpr int64_t plane_aim = 6144;
constexpr int64_t plane_most = 65536;
/// Bytes that all staged planes of a task aim at.
constexpr int64_t stage_aim = int64_t {256} << 10;
/// Bytes of lane totals of a weights gradient.
constexpr int64_t totals_most = int64_t {512} << 10;

int64_t round_up(int64_t value, int64_t multiple) {
    return (value + multiple - 1) / multiple * multiple;
}

int64_t ceil_divide(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

class planes_plan final : public detail::plan {
public:
    planes_plan(const convolution_problem &problem,
            const compile_options &options);

    /// What stands against this kernel, or an empty string.
    std::string refusal() const;

    void execute(std::span<void *const> args, std::byte *workspace,
            stream_impl &stream) const override;
    size_t workspace_bytes() const override {
        return static_cast<size_t>(weights_bytes_ + slots_ * slot_bytes_
                + (pieces_ > 1 ? pieces_ * partial_bytes_ : 0));
    }
    std::string backend() const override {
        return std::string("Highway ") + kernels_.target;
    }

private:
    struct phase {
        std::array<const gather_axis *, 3> gather;
        std::array<const staged_axis *, 3> staged;
        /// Of this phase's taps in the packed weights of a group.
        int64_t weights_offset = 0;
    };
    /// A task's memory; sizes are those of the largest tile.
    struct memory {
        std::byte *stage; ///< planes of read
        std::byte *out; ///< planes of sums, or of dst
        std::byte *mask;
        std::byte *out_mask;
        std::byte *totals;
        std::byte *sums;
        int64_t *offsets;
    };

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
    /// Of output and input channels in the sense of the sums above.
    size_t o_axis() const { return to_src() ? 2 : 1; }
    size_t i_axis() const { return to_src() ? 1 : 2; }

    void make_phases();
    void decide_tiles();
    void decide_blocks(int threads);
    memory take(std::byte *scratch) const;
    tile_range range_of(int64_t tile, const phase &now) const;
    void pack_weights(const void *weights, std::byte *packed, int64_t first,
            int64_t last) const;
    void stage(const staged_tile &tile, const void *data, int64_t n,
            int64_t channel, int64_t channels, std::byte *planes) const;
    void stage_mask(const staged_tile &tile, std::byte *mask) const;
    void stage_out(const staged_tile &tile, const void *data, int64_t n,
            int64_t channel, int64_t channels, const memory &place) const;
    void run_data(int64_t task, std::span<void *const> args,
            const std::byte *weights, const memory &place) const;
    void sum_data(const staged_tile &tile, const phase &now, int64_t group,
            int64_t groups, int64_t i_first, int64_t i_count,
            const std::byte *weights, const memory &place) const;
    void write_out(const staged_tile &tile, const phase &now, void *data,
            int64_t n, int64_t channel, int64_t channels,
            const std::byte *out) const;
    void run_weights(int64_t task, std::span<void *const> args,
            std::byte *partials, const memory &place) const;
    void write_weights(const void *sums, int64_t group, int64_t groups,
            void *diff_weights) const;

    convolution_problem problem_;
    plane_kernels kernels_;
    std::array<std::vector<gather_axis>, 3> gather_;
    std::array<std::vector<staged_axis>, 3> staged_;
    std::vector<phase> phases_;
    int64_t groups_ = 1;
    int64_t outs_ = 1; ///< of a group
    int64_t ins_ = 1;
    int64_t taps_ = 1; ///< of all phases

    std::array<int64_t, 3> tile_ {}; ///< positions
    std::array<int64_t, 3> tiles_ {}; ///< on each axis
    int64_t plane_pitch_ = 0; ///< the largest of a phase and tile
    int64_t out_pitch_ = 0;

    int64_t block_groups_ = 1;
    int64_t block_ins_ = 1;
    int64_t pieces_ = 1;
    int64_t tasks_ = 0;
    int64_t slots_ = 0;
    int64_t weights_bytes_ = 0;
    int64_t slot_bytes_ = 0;
    int64_t partial_bytes_ = 0;
};

planes_plan::planes_plan(
        const convolution_problem &problem, const compile_options &options)
    : problem_(problem)
    , kernels_(plane_kernels_for(problem.dst.type, problem.weights.type))
    , groups_(problem.weights.dims[0])
    , outs_(problem.weights.dims[o_axis()])
    , ins_(problem.weights.dims[i_axis()]) {
    make_phases();
    decide_tiles();
    decide_blocks(std::max(1, options.threads));
}

void planes_plan::make_phases() {
    for (size_t axis = 0; axis < 3; ++axis) {
        gather_[axis] = gather_phases(problem_, static_cast<int>(axis));
        for (const gather_axis &one : gather_[axis])
            staged_[axis].emplace_back(one);
    }
    taps_ = 0;
    for (size_t d = 0; d < gather_[0].size(); ++d)
        for (size_t h = 0; h < gather_[1].size(); ++h)
            for (size_t w = 0; w < gather_[2].size(); ++w) {
                phase one {{&gather_[0][d], &gather_[1][h], &gather_[2][w]},
                        {&staged_[0][d], &staged_[1][h], &staged_[2][w]},
                        outs_ * ins_ * taps_};
                phases_.push_back(one);
                taps_ += static_cast<int64_t>(one.staged[0]->taps.size()
                        * one.staged[1]->taps.size()
                        * one.staged[2]->taps.size());
            }
}

/// Whole planes where they are small; else the longest axis but the innermost
/// is halved, and that one last. From the problem alone.
void planes_plan::decide_tiles() {
    for (size_t axis = 0; axis < 3; ++axis)
        tile_[axis] = gather_[axis][0].count; // the first phase has the most
    const auto measure = [&] {
        plane_pitch_ = 0;
        out_pitch_ = 0;
        for (const phase &one : phases_) {
            const staged_tile tile(one.staged, tile_range {{}, tile_});
            plane_pitch_ = std::max(
                    plane_pitch_, tile.plane_pitch(kernels_.lanes));
            out_pitch_ = std::max(
                    out_pitch_, round_up(tile.positions(), kernels_.lanes));
        }
    };
    const auto halve = [&](size_t axis) {
        tile_[axis] = ceil_divide(tile_[axis], 2);
    };
    measure();
    while (std::max(plane_pitch_, out_pitch_) > plane_aim) {
        if (tile_[0] > 1)
            halve(0);
        else if (tile_[1] > 8)
            halve(1);
        else if (tile_[2] > 256)
            halve(2);
        else
            break;
        measure();
    }
    while (std::max(plane_pitch_, out_pitch_) > plane_most
            && tile_[1] * tile_[2] > 1) {
        halve(tile_[1] > 1 ? 1 : 2);
        measure();
    }
    for (size_t axis = 0; axis < 3; ++axis)
        tiles_[axis] = ceil_divide(gather_[axis][0].count, tile_[axis]);
}

void planes_plan::decide_blocks(int threads) {
    const int64_t wide = kernels_.wide_bytes;
    const int64_t plane = plane_pitch_ * wide;
    const int64_t out = out_pitch_ * wide;
    const int64_t units
            = problem_.dst.dims[0] * tiles_[0] * tiles_[1] * tiles_[2];
    block_ins_ = std::clamp<int64_t>(stage_aim / plane, 1, ins_);
    if (of_weights()) block_ins_ = ins_;
    if (block_ins_ == ins_)
        block_groups_ = std::clamp<int64_t>(
                stage_aim / (plane * ins_ + out * outs_), 1, groups_);

    int64_t totals = 0;
    if (of_weights()) {
        const int64_t weights = outs_ * ins_ * taps_;
        totals = weights * kernels_.lanes * wide;
        block_groups_ = std::clamp<int64_t>(
                totals_most / totals, 1, block_groups_);
        const int64_t blocks = ceil_divide(groups_, block_groups_);
        const double products = static_cast<double>(groups_ * weights)
                * static_cast<double>(problem_.dst.dims[0])
                * static_cast<double>(problem_.dst.dims[2]
                        * problem_.dst.dims[3] * problem_.dst.dims[4]);
        pieces_ = std::max<int64_t>(1,
                std::min({ceil_divide(32, blocks), units,
                        static_cast<int64_t>(std::min(products / 5e5, 32.0))}));
        partial_bytes_ = round_up(groups_ * weights * wide, 64);
        tasks_ = blocks * pieces_;
        totals *= block_groups_;
    } else {
        while (block_groups_ > 1
                && units * ceil_divide(groups_, block_groups_)
                        < 4 * static_cast<int64_t>(threads))
            block_groups_ = ceil_divide(block_groups_, 2);
        tasks_ = units * ceil_divide(groups_, block_groups_);
        // The weights, and for each group whether Inf or NaN is among them.
        weights_bytes_ = round_up(groups_ * outs_ * ins_ * taps_ * wide, 64)
                + round_up(groups_, 64);
    }
    slots_ = std::min<int64_t>(threads, tasks_);
    // In the order of take().
    slot_bytes_ = round_up(block_groups_ * block_ins_ * plane, 64)
            + round_up(block_groups_ * outs_ * out, 64) + round_up(plane, 64)
            + round_up(out, 64) + round_up(totals, 64)
            + round_up(totals / kernels_.lanes, 64)
            + round_up(block_ins_ * taps_
                            * static_cast<int64_t>(sizeof(int64_t)),
                    64);
}

planes_plan::memory planes_plan::take(std::byte *scratch) const {
    const int64_t wide = kernels_.wide_bytes;
    const auto next = [&](int64_t bytes) {
        std::byte *taken = scratch;
        scratch += round_up(bytes, 64);
        return taken;
    };
    const int64_t totals = of_weights() ? block_groups_ * outs_ * ins_ * taps_
                    * kernels_.lanes * wide
                                        : 0;
    memory place {};
    place.stage = next(block_groups_ * block_ins_ * plane_pitch_ * wide);
    place.out = next(block_groups_ * outs_ * out_pitch_ * wide);
    place.mask = next(plane_pitch_ * wide);
    place.out_mask = next(out_pitch_ * wide);
    place.totals = next(totals);
    place.sums = next(totals / kernels_.lanes);
    place.offsets = reinterpret_cast<int64_t *>(scratch);
    return place;
}

std::string planes_plan::refusal() const {
    constexpr int64_t most_channels = 16;
    const int64_t most = of_weights() ? std::max(outs_, ins_) : outs_;
    if (most > most_channels)
        return "wants at most " + std::to_string(most_channels)
                + " channels a group, given " + std::to_string(most);
    if (std::max(plane_pitch_, out_pitch_) > plane_most)
        return "a tile of one position, with all that its taps span, has "
                + std::to_string(plane_pitch_) + " elements of at most "
                + std::to_string(plane_most);
    if (of_weights()
            && outs_ * ins_ * taps_ * kernels_.lanes * kernels_.wide_bytes
                    > totals_most)
        return "a group has " + std::to_string(outs_ * ins_ * taps_)
                + " weights, more than fit into a task's scratch";
    return {};
}

tile_range planes_plan::range_of(int64_t tile, const phase &now) const {
    tile_range range;
    for (size_t axis = 3; axis-- > 0;) {
        range.first[axis] = tile % tiles_[axis] * tile_[axis];
        range.count[axis] = std::min(
                tile_[axis], now.gather[axis]->count - range.first[axis]);
        tile /= tiles_[axis];
    }
    return range;
}

/// Widens the weights of groups [first, last) and puts them into the order of
/// the inner loop: [group][phase][up to 4 outputs][input][tap][output].
void planes_plan::pack_weights(const void *weights, std::byte *packed,
        int64_t first, int64_t last) const {
    const weights_view &view = problem_.weights;
    const int64_t wide = kernels_.wide_bytes;
    const int64_t group_weights = outs_ * ins_ * taps_;
    std::byte *flags = packed + round_up(groups_ * group_weights * wide, 64);
    for (int64_t group = first; group < last; ++group) {
        std::byte *const group_packed = packed + group * group_weights * wide;
        for (const phase &one : phases_) {
            const auto &axes = one.gather;
            const auto phase_taps = static_cast<int64_t>(axes[0]->taps.size()
                    * axes[1]->taps.size() * axes[2]->taps.size());
            int64_t t = 0;
            for (const gather_tap &d : axes[0]->taps)
                for (const gather_tap &h : axes[1]->taps)
                    for (const gather_tap &w : axes[2]->taps) {
                        for (int64_t o = 0; o < outs_;
                                o += plane_kernels::most_outputs) {
                            const int64_t some = std::min(
                                    plane_kernels::most_outputs, outs_ - o);
                            const int64_t from = group * view.strides[0]
                                    + o * view.strides[o_axis()]
                                    + d.index * view.strides[3]
                                    + h.index * view.strides[4]
                                    + w.index * view.strides[5];
                            const int64_t to = one.weights_offset
                                    + o * ins_ * phase_taps + t * some;
                            kernels_.widen(
                                    static_cast<const std::byte *>(weights)
                                            + from * size_of(view.type),
                                    view.strides[o_axis()],
                                    view.strides[i_axis()],
                                    group_packed + to * wide, 1,
                                    phase_taps * some, some, ins_);
                        }
                        ++t;
                    }
        }
        flags[group] = std::byte {
                kernels_.has_non_finite(group_packed, group_weights)};
    }
}

void planes_plan::stage(const staged_tile &tile, const void *data, int64_t n,
        int64_t channel, int64_t channels, std::byte *planes) const {
    const tensor_view &view = read();
    const int64_t wide = kernels_.wide_bytes;
    const int64_t pitch = tile.plane_pitch(kernels_.lanes);
    const int64_t base = n * view.strides[0] + channel * view.strides[1];
    const auto zero = [&](int64_t at, int64_t length) {
        for (int64_t c = 0; c < channels; ++c)
            std::memset(planes + (c * pitch + at) * wide, 0,
                    static_cast<size_t>(length * wide));
    };
    tile.for_each_piece(view,
            [&](int64_t at, int64_t length, bool inside, int64_t offset) {
                if (!inside) {
                    zero(at, length);
                    return;
                }
                kernels_.widen(static_cast<const std::byte *>(data)
                                + (base + offset) * size_of(view.type),
                        tile.read_stride(view), view.strides[1],
                        planes + at * wide, 1, pitch, length, channels);
            });
    zero(tile.plane_elements(), pitch - tile.plane_elements());
}

namespace {

void fill(std::byte *wide, int64_t at, int64_t length, bool one,
        int64_t element_bytes) {
    for (int64_t i = at; i < at + length; ++i) {
        if (element_bytes == 8)
            reinterpret_cast<double *>(wide)[i] = one ? 1 : 0;
        else
            reinterpret_cast<float *>(wide)[i] = one ? 1 : 0;
    }
}

} // namespace

/// 1 where a staged element lies inside the tensor.
void planes_plan::stage_mask(const staged_tile &tile, std::byte *mask) const {
    tile.for_each_piece(
            read(), [&](int64_t at, int64_t length, bool inside, int64_t) {
                fill(mask, at, length, inside, kernels_.wide_bytes);
            });
    fill(mask, tile.plane_elements(),
            tile.plane_pitch(kernels_.lanes) - tile.plane_elements(), false,
            kernels_.wide_bytes);
}

void planes_plan::sum_data(const staged_tile &tile, const phase &now,
        int64_t group, int64_t groups, int64_t i_first, int64_t i_count,
        const std::byte *weights, const memory &place) const {
    const int64_t wide = kernels_.wide_bytes;
    const int64_t taps = tile.taps();
    const int64_t terms = i_count * taps;
    const int64_t pitch = tile.plane_pitch(kernels_.lanes);
    const int64_t out_pitch = round_up(tile.positions(), kernels_.lanes);
    const int64_t group_weights = outs_ * ins_ * taps_;
    const std::byte *flags
            = weights + round_up(groups_ * group_weights * wide, 64);
    tile.find_offsets(i_count, pitch, place.offsets);
    bool masked = false;
    for (int64_t g = 0; g < groups; ++g) {
        const bool mask
                = flags[group + g] != std::byte {0} && tile.leaves(read());
        if (mask && !masked) stage_mask(tile, place.mask);
        masked = masked || mask;
        for (int64_t o = 0; o < outs_; o += plane_kernels::most_outputs) {
            const int64_t some
                    = std::min(plane_kernels::most_outputs, outs_ - o);
            const std::byte *in = place.stage + g * i_count * pitch * wide;
            std::byte *out = place.out + (g * outs_ + o) * out_pitch * wide;
            const std::byte *packed = weights
                    + ((group + g) * group_weights + now.weights_offset
                              + o * ins_ * taps + i_first * taps * some)
                            * wide;
            if (mask) {
                kernels_.multiply_masked(terms, place.offsets, packed, some, in,
                        place.mask, taps, out, out_pitch,
                        out_pitch / kernels_.lanes, i_first > 0);
                continue;
            }
            for (int64_t t = 0; t < terms; t += longest_sum)
                kernels_.multiply(std::min(longest_sum, terms - t),
                        place.offsets + t, packed + t * some * wide, some, in,
                        out, out_pitch, out_pitch / kernels_.lanes,
                        i_first + t > 0);
        }
    }
}

void planes_plan::write_out(const staged_tile &tile, const phase &now,
        void *data, int64_t n, int64_t channel, int64_t channels,
        const std::byte *out) const {
    const tensor_view &view = written();
    const int64_t out_pitch = round_up(tile.positions(), kernels_.lanes);
    const auto &first = tile.range().first;
    const auto &count = tile.range().count;
    int64_t base = n * view.strides[0] + channel * view.strides[1];
    for (size_t axis = 0; axis < 3; ++axis)
        base += (now.gather[axis]->first
                        + first[axis] * now.gather[axis]->pitch)
                * view.strides[axis + 2];
    for (int64_t d = 0; d < count[0]; ++d)
        for (int64_t h = 0; h < count[1]; ++h) {
            const int64_t to = base
                    + d * now.gather[0]->pitch * view.strides[2]
                    + h * now.gather[1]->pitch * view.strides[3];
            kernels_.narrow(out + tile.line(d, h) * kernels_.wide_bytes, 1,
                    out_pitch,
                    static_cast<std::byte *>(data) + to * size_of(view.type),
                    now.gather[2]->pitch * view.strides[4], view.strides[1],
                    count[2], channels);
        }
}

void planes_plan::run_data(int64_t task, std::span<void *const> args,
        const std::byte *weights, const memory &place) const {
    const int64_t blocks = ceil_divide(groups_, block_groups_);
    const int64_t tiles = tiles_[0] * tiles_[1] * tiles_[2];
    const int64_t group = task % blocks * block_groups_;
    const int64_t groups = std::min(block_groups_, groups_ - group);
    const int64_t number = task / blocks % tiles;
    const int64_t n = task / blocks / tiles;
    const void *from = args[to_src() ? 2 : 0];
    void *to = args[to_src() ? 0 : 2];
    // All phases of a tile in one task: they write neighbouring elements.
    for (const phase &now : phases_) {
        const tile_range range = range_of(number, now);
        if (range.empty()) continue;
        const staged_tile tile(now.staged, range);
        if (tile.taps() == 0)
            std::memset(place.out, 0,
                    static_cast<size_t>(groups * outs_
                            * round_up(tile.positions(), kernels_.lanes)
                            * kernels_.wide_bytes));
        for (int64_t i = 0; i < ins_ && tile.taps() > 0; i += block_ins_) {
            const int64_t some = std::min(block_ins_, ins_ - i);
            stage(tile, from, n, group * ins_ + i,
                    some == ins_ ? groups * ins_ : some, place.stage);
            sum_data(tile, now, group, groups, i, some, weights, place);
        }
        write_out(tile, now, to, n, group * outs_, groups * outs_, place.out);
    }
}

/// dst in the positions of the tile, 0 between the lines.
void planes_plan::stage_out(const staged_tile &tile, const void *data,
        int64_t n, int64_t channel, int64_t channels,
        const memory &place) const {
    const tensor_view &view = written();
    const int64_t wide = kernels_.wide_bytes;
    const int64_t out_pitch = round_up(tile.positions(), kernels_.lanes);
    const auto &first = tile.range().first;
    const auto &count = tile.range().count;
    std::memset(place.out, 0, static_cast<size_t>(channels * out_pitch * wide));
    const int64_t base = n * view.strides[0] + channel * view.strides[1]
            + first[0] * view.strides[2] + first[1] * view.strides[3]
            + first[2] * view.strides[4];
    for (int64_t d = 0; d < count[0]; ++d)
        for (int64_t h = 0; h < count[1]; ++h)
            kernels_.widen(static_cast<const std::byte *>(data)
                            + (base + d * view.strides[2] + h * view.strides[3])
                                    * size_of(view.type),
                    view.strides[4], view.strides[1],
                    place.out + tile.line(d, h) * wide, 1, out_pitch, count[2],
                    channels);
}

void planes_plan::run_weights(int64_t task, std::span<void *const> args,
        std::byte *partials, const memory &place) const {
    const int64_t wide = kernels_.wide_bytes;
    const int64_t lanes = kernels_.lanes;
    const int64_t group = task / pieces_ * block_groups_;
    const int64_t groups = std::min(block_groups_, groups_ - group);
    const int64_t piece = task % pieces_;
    const int64_t tiles = tiles_[0] * tiles_[1] * tiles_[2];
    const int64_t units = problem_.dst.dims[0] * tiles;
    const int64_t terms = ins_ * taps_;
    const phase &now = phases_[0];
    std::memset(place.totals, 0,
            static_cast<size_t>(groups * outs_ * terms * lanes * wide));
    for (int64_t unit = units * piece / pieces_;
            unit < units * (piece + 1) / pieces_; ++unit) {
        const staged_tile tile(now.staged, range_of(unit % tiles, now));
        const int64_t n = unit / tiles;
        const int64_t pitch = tile.plane_pitch(lanes);
        const int64_t out_pitch = round_up(tile.positions(), lanes);
        stage(tile, args[0], n, group * ins_, groups * ins_, place.stage);
        stage_out(tile, args[2], n, group * outs_, groups * outs_, place);
        tile.find_offsets(ins_, pitch, place.offsets);
        bool masked = false;
        for (int64_t g = 0; g < groups; ++g) {
            const std::byte *in = place.stage + g * ins_ * pitch * wide;
            const bool mask = kernels_.has_non_finite(in, ins_ * pitch)
                    || kernels_.has_non_finite(
                            place.out + g * outs_ * out_pitch * wide,
                            outs_ * out_pitch);
            if (mask && !masked) {
                masked = true;
                stage_mask(tile, place.mask);
                fill(place.out_mask, 0, out_pitch, false, wide);
                for (int64_t d = 0; d < tile.range().count[0]; ++d)
                    for (int64_t h = 0; h < tile.range().count[1]; ++h)
                        fill(place.out_mask, tile.line(d, h),
                                tile.range().count[2], true, wide);
            }
            for (int64_t o = 0; o < outs_; o += plane_kernels::most_outputs) {
                const int64_t some
                        = std::min(plane_kernels::most_outputs, outs_ - o);
                const std::byte *out
                        = place.out + (g * outs_ + o) * out_pitch * wide;
                std::byte *totals = place.totals
                        + (g * outs_ + o) * terms * lanes * wide;
                if (mask)
                    kernels_.correlate_masked(terms, place.offsets, some, in,
                            out, out_pitch, place.mask, taps_, place.out_mask,
                            out_pitch / lanes, totals);
                else
                    kernels_.correlate(terms, place.offsets, some, in, out,
                            out_pitch, out_pitch / lanes, totals);
            }
        }
    }
    const int64_t sums = groups * outs_ * terms;
    if (pieces_ > 1) {
        kernels_.sum_lanes(place.totals, sums,
                partials + piece * partial_bytes_ + group * outs_ * terms * wide);
        return;
    }
    kernels_.sum_lanes(place.totals, sums, place.sums);
    write_weights(place.sums, group, groups, args[1]);
}

void planes_plan::write_weights(const void *sums, int64_t group, int64_t groups,
        void *diff_weights) const {
    const weights_view &view = problem_.weights;
    for (int64_t g = 0; g < groups; ++g)
        for (int64_t t = 0; t < taps_; ++t) {
            int64_t at = t;
            int64_t to = (group + g) * view.strides[0];
            for (size_t axis = 6; axis-- > 3;) {
                to += at % view.dims[axis] * view.strides[axis];
                at /= view.dims[axis];
            }
            kernels_.narrow(static_cast<const std::byte *>(sums)
                            + (g * outs_ * ins_ * taps_ + t)
                                    * kernels_.wide_bytes,
                    ins_ * taps_, taps_,
                    static_cast<std::byte *>(diff_weights)
                            + to * size_of(view.type),
                    view.strides[1], view.strides[2], outs_, ins_);
        }
}

void planes_plan::execute(std::span<void *const> args, std::byte *workspace,
        stream_impl &) const {
    std::byte *slots = workspace + weights_bytes_;
    std::byte *partials = slots + slots_ * slot_bytes_;
    if (!of_weights())
        parallel_for(groups_, ceil_divide(4096, outs_ * ins_),
                [&](int64_t begin, int64_t end) {
                    pack_weights(args[1], workspace, begin, end);
                });
    std::atomic<int64_t> next {0};
    parallel_for(slots_, 1, [&](int64_t begin, int64_t end) {
        for (int64_t slot = begin; slot < end; ++slot) {
            const memory place = take(slots + slot * slot_bytes_);
            for (int64_t task; (task = next.fetch_add(
                                        1, std::memory_order_relaxed))
                    < tasks_;) {
                if (of_weights())
                    run_weights(task, args, partials, place);
                else
                    run_data(task, args, workspace, place);
            }
        }
    });
    if (pieces_ == 1) return;
    parallel_for(groups_, 64, [&](int64_t begin, int64_t end) {
        const int64_t count = outs_ * ins_ * taps_;
        std::byte *sums = partials + begin * count * kernels_.wide_bytes;
        for (int64_t piece = 1; piece < pieces_; ++piece)
            kernels_.accumulate(sums + piece * partial_bytes_,
                    (end - begin) * count, sums);
        write_weights(sums, begin, end - begin, args[1]);
    });
}

} // namespace

plan_or_refusal make_convolution_planes(
        const convolution_problem &problem, const compile_options &options) {
    auto plan = std::make_unique<planes_plan>(problem, options);
    std::string refusal = plan->refusal();
    if (!refusal.empty()) return plan_or_refusal::refuse(std::move(refusal));
    return plan;
}

} // namespace gradnn::cpu
