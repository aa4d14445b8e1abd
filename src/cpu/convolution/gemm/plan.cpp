// Convolutions as products of virtual matrices (mapping.hpp)
// on the packed micro-kernel of gemm.cpp: takes every problem.
//
// There is no im2col buffer: panels are packed straight from the tensors. In
// the data directions the weights are packed once, before all else, where
// several tasks need them and they are not too large. Work is divided into
// tasks, a block of one group's and one phase's product each, which threads
// draw from a counter; each task owns its part of the output, or of the
// partial sums. The weights gradient of a problem with few weights is summed
// in pieces of the pixels, added up in their order by a second pass.
// Deterministic: chunks and pieces, which alone decide the order of a sum,
// follow from the problem; blocks and threads decide only who computes it.
//
// Workspace: for each thread (as counted at compile; more do not join in) at
// most about 1 MB, or 1.8 MB for sums over more than 64 chunks; packed weights
// of at most 64 MB; partial sums of at most 10 MB.
#include <algorithm>

#include "cpu/convolution/gemm/plan.hpp"

namespace gradnn::cpu {

using detail::convolution_direction;
using detail::tensor_view;
using detail::weights_view;

namespace {

constexpr int64_t block_bytes = int64_t {384} << 10;
constexpr int64_t most_packed_bytes = int64_t {64} << 20;
constexpr int64_t most_packed_phases = 4096;

/// Cycles that micro-kernels take for one k of a p x q product, when two FMAs
/// and two loads go in a cycle and an FMA takes four.
double cycles(const gemm_kernels &kernels, int64_t p, int64_t q) {
    const auto tile = [](int64_t vectors, int64_t columns) {
        return std::max({4.0, static_cast<double>(vectors * columns) / 2,
                static_cast<double>(vectors + columns) / 2});
    };
    const int64_t full_vectors = kernels.p_panel / kernels.lanes;
    const int64_t last_vectors
            = (p % kernels.p_panel + kernels.lanes - 1) / kernels.lanes;
    const int64_t last_columns = q % kernels.q_panel;
    const auto row = [&](int64_t vectors) {
        const auto panels = static_cast<double>(q / kernels.q_panel);
        return panels * tile(vectors, kernels.q_panel)
                + (last_columns > 0 ? tile(vectors, last_columns) : 0);
    };
    return static_cast<double>(p / kernels.p_panel) * row(full_vectors)
            + (last_vectors > 0 ? row(last_vectors) : 0);
}

} // namespace

gemm_plan::gemm_plan(
        const convolution_problem &problem, const compile_options &options)
    : problem_(problem),
      kernels_(gemm_kernels_for(problem.dst.type, problem.weights.type)),
      groups_(problem.weights.dims[0]) {
    const weights_view &weights = problem.weights;
    const tensor_view &read = read_view(problem);
    const tensor_view &written = written_view(problem);

    int64_t pixels = read.dims[0];
    int64_t taps = 1;
    for (size_t axis = 0; axis < 3; ++axis) {
        phases_[axis] = gather_phases(problem, static_cast<int>(axis));
        phase_count_ *= static_cast<int64_t>(phases_[axis].size());
        int64_t most_positions = 0;
        size_t most_taps = 0;
        for (const gather_axis &phase : phases_[axis]) {
            most_positions = std::max(most_positions, phase.count);
            most_taps = std::max(most_taps, phase.taps.size());
        }
        pixels *= most_positions;
        taps *= static_cast<int64_t>(most_taps);
    }

    int64_t wide = pixels;
    int64_t narrow = 0;
    bool wide_contiguous = false;
    bool narrow_contiguous = false;
    if (of_weights()) {
        wide = taps * weights.dims[2];
        narrow = weights.dims[1];
        wide_contiguous = weights.strides[2] == 1;
        narrow_contiguous = weights.strides[1] == 1;
        chunks_ = even_split(pixels, gemm_max_steps).pieces;
    } else {
        const bool to_src
                = problem.direction == convolution_direction::backward_data;
        const size_t m_axis = to_src ? 2 : 1;
        const size_t c_axis = to_src ? 1 : 2;
        channels_.m = narrow = weights.dims[m_axis];
        channels_.c = weights.dims[c_axis];
        channels_.weights_m_stride = weights.strides[m_axis];
        channels_.weights_c_stride = weights.strides[c_axis];
        channels_.read_stride = read.strides[1];
        channels_.written_stride = written.strides[1];
        taps_inner_ = channels_.weights_m_stride != 1
                && channels_.weights_c_stride > weights.strides[5];
        wide_contiguous = written.strides[4] == 1;
        narrow_contiguous = written.strides[1] == 1;
        // Of the phase with the most, which need not be that with most taps.
        for (int64_t t = phase_count_ > 1 ? 1 : taps; t <= taps; ++t)
            chunks_ = std::max(chunks_, data_mapping::chunks(channels_.c, t));
    }
    // A result that is contiguous along q is transposed on its way out.
    const double mismatch = 1.15;
    pixels_in_lanes_ = cycles(kernels_, wide, narrow)
                    * (narrow_contiguous && !wide_contiguous ? mismatch : 1)
            <= cycles(kernels_, narrow, wide)
                    * (wide_contiguous && !narrow_contiguous ? mismatch : 1);
    p_ = pixels_in_lanes_ ? wide : narrow;
    q_ = pixels_in_lanes_ ? narrow : wide;

    if (of_weights()) decide_pieces(pixels);
    decide_blocks(std::max(1, options.threads));
    if (!of_weights()) decide_packing();
}

/// Pieces of about a million products at least, enough of them to feed 32
/// threads. From the problem alone.
void gemm_plan::decide_pieces(int64_t pixels) {
    const auto &dims = problem_.weights.dims;
    const int64_t rows = dims[2] * dims[3] * dims[4] * dims[5];
    const int64_t tiles
            = groups_ * ((dims[1] + 63) / 64) * ((rows + 255) / 256);
    const double products = static_cast<double>(groups_ * dims[1] * rows)
            * static_cast<double>(pixels);
    const int64_t wanted = (32 + tiles - 1) / tiles;
    const int64_t worth = static_cast<int64_t>(std::min(products / 1e6, 64.0));
    pieces_ = std::max<int64_t>(
            1, std::min({wanted, worth, (chunks_ + 3) / 4}));
}

void gemm_plan::decide_blocks(int threads) {
    const int64_t element = kernels_.accumulator_bytes;
    // Blocks of whole panels: an element's place in its panel, and with it the
    // code that sums it, does not depend on the blocks.
    const auto split = [](int64_t count, int64_t most, int64_t panel) {
        even_split blocks(count, most);
        blocks.size = round_up(blocks.size, panel);
        blocks.pieces = ceil_divide(count, blocks.size);
        return blocks;
    };
    int64_t q_most = std::max<int64_t>(1,
                             block_bytes / (gemm_max_steps * element)
                                     / kernels_.q_panel)
            * kernels_.q_panel;
    const int64_t q_size = round_up(std::min(q_, q_most), kernels_.q_panel);
    int64_t p_most
            = std::max<int64_t>(
                      1, block_bytes / (q_size * element * kernels_.p_panel))
            * kernels_.p_panel;
    while (true) {
        p_split_ = split(p_, p_most, kernels_.p_panel);
        q_split_ = split(q_, q_most, kernels_.q_panel);
        tasks_ = phase_count_ * blocks() * pieces_;
        if (threads == 1 || tasks_ >= 4 * threads) break;
        // Smaller blocks, so that all threads have work till the end; but a
        // packed panel should serve several others.
        if (p_split_.size >= 4 * kernels_.p_panel)
            p_most = round_up(p_split_.size / 2, kernels_.p_panel);
        else if (q_split_.size >= 8 * kernels_.q_panel)
            q_most = round_up(q_split_.size / 2, kernels_.q_panel);
        else
            break;
    }
    slots_ = std::min<int64_t>(threads, tasks_);
    slot_bytes_ = kernels_.scratch_bytes(
            p_split_.size, q_split_.size, (chunks_ + pieces_ - 1) / pieces_);
}

void gemm_plan::decide_packing() {
    const int64_t pixel_blocks
            = pixels_in_lanes_ ? p_split_.pieces : q_split_.pieces;
    if (pixel_blocks == 1 || phase_count_ > most_packed_phases) return;
    int64_t taps = 0;
    for (int64_t phase = 0; phase < phase_count_; ++phase) {
        first_taps_.push_back(taps);
        const auto axes = phase_axes(phase);
        taps += static_cast<int64_t>(axes[0]->taps.size() * axes[1]->taps.size()
                * axes[2]->taps.size());
    }
    const int64_t bytes = packed_offset(
            phase_count_ - 1, groups_, taps - first_taps_.back());
    if (bytes <= most_packed_bytes) packed_bytes_ = bytes;
}

std::array<const gather_axis *, 3> gemm_plan::phase_axes(int64_t phase) const {
    std::array<const gather_axis *, 3> axes;
    for (size_t axis = 3; axis-- > 0;) {
        const auto count = static_cast<int64_t>(phases_[axis].size());
        axes[axis] = &phases_[axis][static_cast<size_t>(phase % count)];
        phase /= count;
    }
    return axes;
}

/// In bytes, of a group's weights of a phase that has so many taps.
int64_t gemm_plan::packed_offset(
        int64_t phase, int64_t group, int64_t taps) const {
    const gemm_side side
            = pixels_in_lanes_ ? gemm_side::broadcast : gemm_side::vector;
    const auto bytes = [&](int64_t steps) {
        return kernels_.packed_bytes(side, channels_.m, steps * channels_.c);
    };
    int64_t offset = group * bytes(taps);
    for (int64_t before = 0; before < phase; ++before)
        offset += groups_
                * bytes(first_taps_[static_cast<size_t>(before + 1)]
                        - first_taps_[static_cast<size_t>(before)]);
    return offset;
}

namespace {

/// Where a window is the whole src, once, as of patches that are images, its points
/// are channels: rows of the product are then in the order of memory.
convolution_problem with_points_as_channels(const convolution_problem &given) {
    convolution_problem made = given;
    int64_t points = 1;
    for (size_t axis = 3; axis-- > 0;) {
        int64_t &size = made.src.dims[2 + axis];
        int64_t &window = made.weights.dims[3 + axis];
        const bool follows = size == 1
                || (made.src.strides[2 + axis] == points
                        && made.weights.strides[3 + axis] == points
                        && made.dilations[axis] == 1);
        if (made.dst.dims[2 + axis] != 1 || window != size
                || made.pads_begin[axis] != 0 || !follows)
            return given;
        points *= size;
        size = window = 1;
    }
    const auto take = [&](int64_t &channels, int64_t &stride) {
        const bool follow = channels == 1 || stride == points;
        channels *= points;
        stride = 1;
        return follow;
    };
    const bool follow = take(made.src.dims[1], made.src.strides[1])
            && take(made.weights.dims[2], made.weights.strides[2]);
    return follow ? made : given;
}

} // namespace

plan_or_refusal make_convolution_gemm(
        const convolution_problem &problem, const compile_options &options) {
    return std::make_unique<gemm_plan>(
            with_points_as_channels(problem), options);
}

} // namespace gradnn::cpu
