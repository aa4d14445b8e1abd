// Depthwise convolution, all directions: groups of one channel in and out.
//
// src and dst both have contiguous columns (NCX) or both contiguous channels
// (NXC); other strides are free, and those of the weights all are. The kernels:
//
//     forward, backward_data   convolution/depthwise/diagonals/data.cu,
//                              convolution/depthwise/lines/data.cu,
//                              convolution/depthwise/matrices/data.cu,
//                              convolution/depthwise/planes/data.cu,
//                              convolution/depthwise/rows_ncx/data.cu,
//                              convolution/depthwise/rows_nxc/data.cu,
//                              convolution/depthwise/volume/data.cu,
//                              convolution/depthwise/walk/data.cu, or
//                              convolution_depthwise_data_{ncx,nxc}.cu
//     backward_weights         convolution/depthwise/diagonals/weights.cu,
//                              convolution/depthwise/lines/weights.cu,
//                              convolution/depthwise/matrices/weights.cu,
//                              convolution/depthwise/planes/weights.cu,
//                              convolution/depthwise/rows_ncx/weights.cu,
//                              convolution/depthwise/rows_nxc/weights.cu,
//                              convolution/depthwise/volume/weights.cu,
//                              convolution/depthwise/walk/weights.cu, or
//                              convolution_depthwise_weights_{ncx,nxc}.cu;
//                              then parts.cu
//
// On tensor cores, 16 bits with strides and dilations of 1: those of diagonal
// matrices take NXC, channels in vectors of 16 bytes, windows of 5x5 and 7x7
// (diagonals_take); those of lines NCX without gaps, windows of 5 to 63 points
// along W alone (lines_take); those that multiply matrices NCX without gaps,
// windows of 5x5 and 7x7, and of 3x3 for data, where planes and rows are long
// enough (matrices_take). Those that walk along H in global memory take windows
// of 3x3, 5x5 and 7x7 with dilations of 1, of NXC with strides of 1 and
// (gradient of src) 2, of NCX with strides of 1 where rows are whole vectors
// (walk_takes). Those that hold planes in shared memory take the same windows
// in NCX without gaps otherwise, and of f64 all in NCX without gaps: strides of
// 1 and (gradients) 2, rows of at most 1024 columns, or 512 (planes_take). Of
// windows along W alone with strides and dilations of 1, those that hold rows in
// shared memory take f32 and f64 in NCX (rows_ncx_take), those that keep the
// window in registers NXC, of 9 points and more where they need not hold more
// taps than the last ones take (rows_nxc_take). Windows of 3x3x3 with strides
// and dilations of 1 have kernels that walk along H with some depths each
// (volume_takes). All else is left to the last ones: they walk D and H tap by
// tap, whatever strides and dilations are. W is laid out as a row of taps without
// gaps, of which threads take 3, 4, 5, 7 or (again and again) 8 at a time over
// 8 neighbouring columns; so a dilation along W costs its multiple of the
// multiplications, and strides of 1 and 2 are taken alone.
//
// Workspace: of NXC the weights in the sums' type; of backward_weights partial
// sums, as many for each weight as it takes to fill the device and to keep
// chains of f32 sums to about 1024 terms (on tensor cores to about 512
// products, which are then added in f32).
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>

#include "gpu/convolution/depthwise/any/cut.hpp"
#include "gpu/convolution/depthwise/diagonals/cut.hpp"
#include "gpu/convolution/depthwise/lines/cut.hpp"
#include "gpu/convolution/depthwise/matrices/cut.hpp"
#include "gpu/convolution/depthwise/planes/cut.hpp"
#include "gpu/convolution/depthwise/rows_ncx/cut.hpp"
#include "gpu/convolution/depthwise/rows_nxc/cut.hpp"
#include "gpu/convolution/depthwise/shape.hpp"
#include "gpu/convolution/depthwise/volume/cut.hpp"
#include "gpu/convolution/depthwise/walk/cut.hpp"
#include "gpu/convolution/operands.hpp"
#include "gpu/device/rounding.hpp"
#include "gpu/kernels.hpp"
#include "gpu/runtime/launch.hpp"

namespace gradnn::gpu {

namespace {

using detail::convolution_direction;
using detail::data_type;
using detail::size_of;
using detail::tensor_view;

constexpr int most_columns = 72; // of a window, gaps included
constexpr int64_t longest_chain = 1024;
constexpr int64_t longest_data_chain = 4096;

/// Whether vectors of `count` elements begin at multiples of their size: along
/// `axis`, contiguous, on all positions of the other axes.
bool divides(int64_t count, const tensor_view &tensor, size_t axis) {
    if (tensor.dims[axis] % count != 0) return false;
    for (size_t other = 0; other < 5; ++other)
        if (other != axis && tensor.dims[other] > 1
                && tensor.strides[other] % count != 0)
            return false;
    return true;
}

/// Contiguous along an axis, or of one position there.
bool contiguous(const tensor_view &tensor, size_t axis) {
    return tensor.dims[axis] == 1 || tensor.strides[axis] == 1;
}

/// The kernels that a plan has, in the order in which they are asked.
enum class kind {
    none,
    diagonals, ///< convolution_depthwise_diagonals*
    lines, ///< convolution_depthwise_lines*
    matrices, ///< convolution_depthwise_matrices*
    planes, ///< convolution_depthwise_planes*
    rows_ncx, ///< convolution_depthwise_rows_ncx*
    rows_nxc, ///< convolution_depthwise_rows_nxc*
    walk, ///< convolution_depthwise_walk*
    volume, ///< convolution_depthwise_volume*
    tiles, ///< convolution_depthwise_{data,weights}_ncx.cu
    blocks, ///< convolution_depthwise_{data,weights}_nxc.cu
};

/// What depends on where the data lies: at multiples of 16 bytes, or not.
struct depthwise_variant {
    depthwise_matrices matrices;
    depthwise_rows_nxc rows_nxc;
    depthwise_walk walk; ///< of walk or volume
    depthwise_tile tile;
    depthwise_block block;
    depthwise_parts parts; ///< of tiles or blocks
};

class depthwise_plan final : public detail::plan {
public:
    depthwise_plan(
            const convolution_problem &problem, bool channels_last, int device)
        : problem_(problem),
          shape_(depthwise_shape_of(problem)),
          channels_last_(channels_last),
          sum_bytes_(problem.src.type == data_type::f64 ? 8 : 4),
          device_(device),
          multiprocessors_(properties_of(device).multiprocessors),
          most_shared_bytes_(properties_of(device).block_shared_bytes),
          kind_(choose()) {}

    /// False where the window is too large for shared memory.
    bool ok() const { return kind_ != kind::none; }

    size_t workspace_bytes() const override {
        const int64_t rows
                = int64_t {shape_.axes[0].kernel} * shape_.axes[1].kernel;
        int64_t sums = 0;
        if (of_weights())
            sums = rows * shape_.axes[2].kernel
                    * std::max(parts_of(aligned_), parts_of(unaligned_));
        else if (kind_ == kind::blocks)
            sums = rows * shape_.chunks * shape_.taps;
        return static_cast<size_t>(sums * shape_.channels) * sum_bytes_;
    }

    void execute(std::span<void *const> args, std::byte *workspace,
            detail::stream_impl &stream) const override {
        const launch_scope scope(stream);
        const data_type type = problem_.src.type;
        const bool whole = is_aligned(args[0], 16) && is_aligned(args[2], 16);
        const depthwise_variant &chosen = whole ? aligned_ : unaligned_;
        const auto pair = static_cast<size_t>(2 * element_bytes());
        const bool wide = wide_ && is_aligned(args[0], pair)
                && is_aligned(args[2], pair);
        depthwise_pointers pointers;
        pointers.read = args[shape_.to_src ? 2 : 0];
        pointers.weights = args[1];
        pointers.written = args[shape_.to_src ? 0 : 2];
        pointers.workspace = workspace;
        if (!of_weights())
            return launch_data(chosen, whole, wide, pointers, scope.stream());
        launch_weights(chosen, whole, wide, pointers, scope.stream());
        pointers.written = args[1];
        launch_depthwise_parts(type, problem_.weights.type, shape_,
                parts_of(chosen), pointers, args[2], scope.stream());
    }

    std::string backend() const override { return "CUDA"; }

private:
    void launch_data(const depthwise_variant &chosen, bool whole, bool wide,
            const depthwise_pointers &pointers,
            const launch_stream &stream) const {
        const data_type type = problem_.src.type;
        switch (kind_) {
            case kind::diagonals:
                return launch_depthwise_diagonals_data(
                        type, shape_, diagonals_data_, whole, pointers, stream);
            case kind::lines:
                return launch_depthwise_lines_data(
                        type, shape_, lines_, wide, pointers, stream);
            case kind::matrices:
                return launch_depthwise_matrices_data(
                        type, shape_, chosen.matrices, wide, pointers, stream);
            case kind::planes:
                return launch_depthwise_planes_data(
                        type, shape_, planes_, wide, pointers, stream);
            case kind::rows_ncx:
                return launch_depthwise_rows_ncx_data(
                        type, shape_, rows_ncx_, pointers, stream);
            case kind::rows_nxc:
                return launch_depthwise_rows_nxc_data(
                        type, shape_, chosen.rows_nxc, pointers, stream);
            case kind::walk:
                return launch_depthwise_walk_data(
                        type, shape_, chosen.walk, pointers, stream);
            case kind::volume:
                return launch_depthwise_volume_data(
                        type, shape_, chosen.walk, pointers, stream);
            case kind::tiles:
                return launch_depthwise_data_ncx(
                        type, shape_, chosen.tile, pointers, stream);
            case kind::blocks:
                return launch_depthwise_data_nxc(
                        type, shape_, chosen.block, pointers, stream);
            case kind::none: return;
        }
    }

    /// Leaves the parts' sums in the workspace.
    void launch_weights(const depthwise_variant &chosen, bool whole, bool wide,
            const depthwise_pointers &pointers,
            const launch_stream &stream) const {
        const data_type type = problem_.src.type;
        switch (kind_) {
            case kind::diagonals:
                return launch_depthwise_diagonals_weights(type, shape_,
                        diagonals_weights_, whole, pointers, stream);
            case kind::lines:
                return launch_depthwise_lines_weights(
                        type, shape_, lines_, pointers, stream);
            case kind::matrices:
                return launch_depthwise_matrices_weights(
                        type, shape_, chosen.matrices, wide, pointers, stream);
            case kind::planes:
                return launch_depthwise_planes_weights(
                        type, shape_, planes_, wide, pointers, stream);
            case kind::rows_ncx:
                return launch_depthwise_rows_ncx_weights(
                        type, shape_, rows_ncx_, pointers, stream);
            case kind::rows_nxc:
                return launch_depthwise_rows_nxc_weights(
                        type, shape_, chosen.rows_nxc, pointers, stream);
            case kind::walk:
                return launch_depthwise_walk_weights(
                        type, shape_, chosen.walk, pointers, stream);
            case kind::volume:
                return launch_depthwise_volume_weights(
                        type, shape_, chosen.walk, pointers, stream);
            case kind::tiles:
                return launch_depthwise_weights_ncx(type, shape_, chosen.tile,
                        chosen.parts, pointers, stream);
            case kind::blocks:
                return launch_depthwise_weights_nxc(type, shape_, chosen.block,
                        chosen.parts, pointers, stream);
            case kind::none: return;
        }
    }

    /// Partial sums of a weight.
    int64_t parts_of(const depthwise_variant &variant) const {
        switch (kind_) {
            case kind::diagonals: return diagonals_weights_.parts;
            case kind::lines: return lines_.parts;
            case kind::matrices: return variant.matrices.parts();
            case kind::planes: return planes_.parts();
            case kind::rows_ncx: return rows_ncx_.parts;
            case kind::rows_nxc: return variant.rows_nxc.parts;
            case kind::walk:
            case kind::volume: return variant.walk.parts;
            case kind::tiles:
            case kind::blocks: return variant.parts.parts;
            case kind::none: break;
        }
        return 0;
    }

    bool of_weights() const {
        return problem_.direction == convolution_direction::backward_weights;
    }
    int64_t element_bytes() const { return size_of(problem_.src.type); }
    /// That fill the device.
    int64_t wanted_blocks() const { return multiprocessors_ * 8; }

    bool both_divide(int64_t count, size_t axis) const {
        return divides(count, problem_.src, axis)
                && divides(count, problem_.dst, axis);
    }
    /// NCX: rows of 16 bytes, that the walk loads and stores together.
    bool whole_rows() const {
        return shape_.base == -(shape_.taps / 2) && contiguous(problem_.src, 4)
                && contiguous(problem_.dst, 4)
                && both_divide(16 / element_bytes(), 4);
    }
    bool walks() const {
        const bool strided = shape_.axes[1].stride > 1;
        return (sum_bytes_ == 4 || channels_last_) && walk_takes(shape_)
                && (channels_last_
                        || (!strided && (of_weights() || whole_rows())));
    }

    // Chooses the kernels and cuts their work.
    kind choose() {
        if (make_diagonals()) return kind::diagonals;
        if (make_lines()) return kind::lines;
        if (make_matrices()) return kind::matrices;
        if (make_planes()) return kind::planes;
        if (make_rows_ncx()) return kind::rows_ncx;
        if (make_rows_nxc()) return kind::rows_nxc;
        const kind any = channels_last_ ? kind::blocks : kind::tiles;
        if (walks() && make_both(kind::walk)) return kind::walk;
        if (volume_takes(shape_, channels_last_) && make_both(kind::volume))
            return kind::volume;
        return make_both(any) ? any : kind::none;
    }
    bool make_both(kind of) {
        return make(of, aligned_, true) && make(of, unaligned_, false);
    }
    bool make(kind of, depthwise_variant &variant, bool whole) const {
        if (of == kind::walk) return make_walk(variant.walk, whole);
        if (of == kind::volume) return make_volume(variant.walk, whole);
        if (of == kind::tiles) return make_tile(variant, whole);
        return make_block(variant, whole);
    }

    /// Tensor cores truncate when they add: not for weights in f32.
    bool tensor_cores_take() const {
        return element_bytes() == 2
                && problem_.weights.type == problem_.src.type;
    }

    bool make_diagonals() {
        if (!channels_last_ || !tensor_cores_take()
                || !both_divide(diagonals_channels, 1)
                || !diagonals_take(shape_))
            return false;
        const data_type type = problem_.src.type;
        const auto most = static_cast<int64_t>(most_shared_bytes_);
        const device_guard current(device_);
        const capture_mode_guard relaxed; // attributes load the kernel
        if (of_weights()) {
            if (!cut_diagonals(
                        diagonals_weights_, shape_, multiprocessors_, most))
                return false;
            prepare_depthwise_diagonals_weights(
                    type, shape_, most_shared_bytes_);
        } else {
            if (!cut_diagonals(diagonals_data_, shape_, multiprocessors_, most))
                return false;
            prepare_depthwise_diagonals_data(type, shape_, most_shared_bytes_);
        }
        return true;
    }

    bool make_lines() {
        if (channels_last_ || !tensor_cores_take() || !lines_take(shape_))
            return false;
        wide_ = lines_are_wide(shape_);
        return cut_lines(lines_, shape_, of_weights(), multiprocessors_);
    }

    bool make_matrices() {
        if (channels_last_ || !tensor_cores_take()
                || !matrices_take(shape_, of_weights()))
            return false;
        wide_ = matrices_are_wide(shape_, of_weights());
        depthwise_matrices &cut = aligned_.matrices;
        if (!cut_matrices(cut, shape_, of_weights(), multiprocessors_))
            return false;
        unaligned_.matrices = cut;
        unaligned_.matrices.read_gap = unaligned_.matrices.written_gap = 0;
        return true;
    }

    bool make_planes() {
        if (channels_last_
                || !planes_take(shape_, element_bytes(), of_weights()))
            return false;
        // Threads that load vectors of whole rows are as fast or faster
        // (measured on an H200).
        if (walks() && whole_rows()) return false;
        wide_ = planes_are_wide(shape_, of_weights());
        return of_weights() ? cut_planes_weights(planes_, shape_,
                       element_bytes(), multiprocessors_, longest_chain)
                            : cut_planes(planes_, shape_, element_bytes(),
                                    multiprocessors_);
    }

    bool make_rows_ncx() {
        return !channels_last_ && rows_ncx_take(shape_, element_bytes())
                && cut_rows_ncx(rows_ncx_, shape_, element_bytes(),
                        of_weights(), multiprocessors_, longest_chain);
    }

    bool make_rows_nxc() {
        if (!channels_last_ || !rows_nxc_take(shape_)) return false;
        const int widest = sum_bytes_ == 4 && both_divide(2, 1) ? 2 : 1;
        const auto cut = [&](depthwise_rows_nxc &rows, int vector) {
            rows.vector = vector;
            return of_weights()
                    ? cut_rows_nxc_weights(rows, shape_, widest,
                            multiprocessors_, longest_chain)
                    : cut_rows_nxc(rows, shape_, widest, multiprocessors_);
        };
        return cut(aligned_.rows_nxc, widest) && cut(unaligned_.rows_nxc, 1);
    }

    bool make_walk(depthwise_walk &walk, bool whole) const {
        int widest = 1;
        walk.channels_last = channels_last_;
        walk.sum_bytes = static_cast<int>(sum_bytes_);
        if (channels_last_) {
            const int most = depthwise_walk_vector(
                    shape_.axes[2].kernel, walk.sum_bytes);
            if (both_divide(most, 1)) widest = most;
        } else {
            walk.dense = whole && whole_rows();
        }
        walk.vector = whole ? widest : 1;
        return of_weights() ? cut_walk_units(
                       walk, shape_, widest, multiprocessors_, longest_chain)
                            : cut_walk(walk, shape_, multiprocessors_);
    }

    bool make_volume(depthwise_walk &walk, bool whole) const {
        int widest = 1;
        walk.channels_last = channels_last_;
        walk.sum_bytes = static_cast<int>(sum_bytes_);
        if (channels_last_) {
            const int most = volume_vector(element_bytes());
            if (both_divide(most, 1)) widest = most;
        } else if (whole) {
            walk.together = volume_together(shape_, element_bytes());
        }
        walk.vector = whole ? widest : 1;
        return of_weights() ? cut_volume_units(
                       walk, shape_, widest, multiprocessors_, longest_chain)
                            : cut_volume(walk, shape_, multiprocessors_);
    }

    bool make_tile(depthwise_variant &variant, bool whole) const {
        depthwise_tile &tile = variant.tile;
        const tensor_view &read = shape_.to_src ? problem_.dst : problem_.src;
        const tensor_view &written
                = shape_.to_src ? problem_.src : problem_.dst;
        if (whole && read.strides[4] == 1)
            for (const int64_t count : {2, 4})
                if (divides(count, read, 4) && count * element_bytes() <= 16)
                    tile.dense_load = static_cast<int>(count);
        if (whole && written.strides[4] == 1)
            for (const int64_t count : {int64_t {2}, 16 / element_bytes()})
                if (divides(count, written, 4))
                    tile.dense_store = static_cast<int>(count);
        return of_weights() ? cut_tiles_weights(tile, variant.parts, shape_,
                       sum_bytes_, wanted_blocks(), longest_chain)
                            : cut_tiles(tile, shape_, sum_bytes_);
    }

    bool make_block(depthwise_variant &variant, bool whole) const {
        const int most = sum_bytes_ == 8 ? 2 : 4;
        const int widest = both_divide(most, 1) ? most : 1;
        variant.block.vector = whole ? widest : 1;
        return of_weights()
                ? cut_blocks_weights(variant.block, variant.parts, shape_,
                        widest, element_bytes(), wanted_blocks(), longest_chain)
                : cut_blocks(variant.block, shape_, widest, element_bytes(),
                        wanted_blocks());
    }

    convolution_problem problem_;
    depthwise_shape shape_;
    bool channels_last_;
    size_t sum_bytes_;
    int device_;
    int64_t multiprocessors_;
    size_t most_shared_bytes_;
    depthwise_variant aligned_;
    depthwise_variant unaligned_;
    // Whatever the alignment.
    depthwise_diagonals_data diagonals_data_;
    depthwise_diagonals_weights diagonals_weights_;
    depthwise_lines lines_;
    depthwise_planes planes_;
    depthwise_rows_ncx rows_ncx_;
    /// Two columns at a time, where tensors begin at multiples of two elements.
    bool wide_ = false;
    kind kind_; ///< last, as choosing sets what is above
};

} // namespace

plan_or_refusal make_convolution_depthwise(
        const convolution_problem &problem, const compile_options &options) {
    const auto &weights = problem.weights.dims;
    if (weights[1] != 1 || weights[2] != 1)
        return plan_or_refusal::refuse(
                "wants groups of one input and one output channel, given "
                + std::to_string(weights[2]) + " and "
                + std::to_string(weights[1]));
    constexpr int64_t most = int64_t {1} << 28;
    for (size_t i = 0; i < 3; ++i)
        if (problem.src.dims[i + 2] > most || problem.dst.dims[i + 2] > most
                || weights[i + 3] > most || problem.strides[i] > most
                || problem.dilations[i] > most / weights[i + 3]
                || problem.pads_begin[i] > most || problem.pads_begin[i] < -most
                || problem.dst.dims[i + 2] > most / problem.strides[i])
            return plan_or_refusal::refuse(
                    "wants less than 2^28 points along an axis");
    if (problem.strides[2] > 2)
        return plan_or_refusal::refuse(
                "wants a stride of 1 or 2 along the last axis, given "
                + std::to_string(problem.strides[2]));
    const int64_t reach = (weights[5] - 1) * problem.dilations[2] + 1;
    if (reach > most_columns)
        return plan_or_refusal::refuse("wants windows that reach over at most "
                + std::to_string(most_columns)
                + " points of the last axis, given " + std::to_string(reach));
    // None of the three factors reaches 2^29.
    const int64_t of_planes
            = std::min(weights[3] * weights[4], longest_data_chain + 1);
    if (problem.direction != convolution_direction::backward_weights
            && of_planes * weights[5] > longest_data_chain)
        return plan_or_refusal::refuse("wants sums of at most "
                + std::to_string(longest_data_chain)
                + " terms, given windows of " + std::to_string(weights[3]) + "x"
                + std::to_string(weights[4]) + "x"
                + std::to_string(weights[5]));
    const bool channels_last = problem.src.dims[1] > 1
            && problem.src.strides[1] == 1 && problem.dst.strides[1] == 1;
    if (!channels_last
            && !(contiguous(problem.src, 4) && contiguous(problem.dst, 4)))
        return plan_or_refusal::refuse(
                "wants src and dst both with contiguous channels or both with "
                "contiguous columns");
    if (problem.src.dims[0] > most || problem.src.dims[1] > most >> 4)
        return plan_or_refusal::refuse(
                "wants at most 2^28 images and 2^24 channels");
    auto plan = std::make_unique<depthwise_plan>(
            problem, channels_last, static_cast<int>(options.device));
    if (!plan->ok())
        return plan_or_refusal::refuse(
                "the window does not fit into shared memory, or the tensors "
                "make 2^31 tiles");
    return within_workspace_limit(std::move(plan), options, "its sums");
}

} // namespace gradnn::gpu
