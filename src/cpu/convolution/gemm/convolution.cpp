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
#include <string>

#include "cpu/convolution/gemm/mapping.hpp"
#include "cpu/convolution/work.hpp"
#include "cpu/kernels.hpp"

namespace gradnn::cpu {

using detail::convolution_direction;
using detail::data_type;
using detail::size_of;
using detail::stream_impl;
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

class gemm_plan final : public detail::plan {
public:
    gemm_plan(
            const convolution_problem &problem, const compile_options &options);

    void execute(std::span<void *const> args, std::byte *workspace,
            stream_impl &stream) const override;
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
        return problem_.direction == convolution_direction::backward_weights;
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

const tensor_view &read_view(const convolution_problem &problem) {
    return problem.direction == convolution_direction::backward_data
            ? problem.dst
            : problem.src;
}

const tensor_view &written_view(const convolution_problem &problem) {
    return problem.direction == convolution_direction::backward_data
            ? problem.src
            : problem.dst;
}

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
        parallel_for(phase_count_ * groups_ * chunks_, 1,
                [&](int64_t begin, int64_t end) {
                    for (int64_t task = begin; task < end; ++task)
                        pack_weights(task, args, shared);
                });
    run_tasks(tasks_, slots_, [&](int64_t slot, int64_t task) {
        run_task(task, args, workspace + slot * slot_bytes_, shared);
    });
    if (pieces_ == 1) return;
    parallel_for(blocks(), 1, [&](int64_t begin, int64_t end) {
        for (int64_t number = begin; number < end; ++number)
            sum_pieces(number, args[1], shared);
    });
}

} // namespace

plan_or_refusal make_convolution_gemm(
        const convolution_problem &problem, const compile_options &options) {
    return std::make_unique<gemm_plan>(problem, options);
}

} // namespace gradnn::cpu
