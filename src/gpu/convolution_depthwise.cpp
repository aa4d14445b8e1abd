// Depthwise convolution, all directions: groups of one channel in and out.
//
// src and dst both have contiguous columns (NCX) or both contiguous channels
// (NXC); other strides are free, and those of the weights all are. The kernels:
//
//     forward, backward_data   convolution_depthwise_matrices_data.cu,
//                              convolution_depthwise_planes_data.cu,
//                              convolution_depthwise_walk_data.cu, or
//                              convolution_depthwise_data_{ncx,nxc}.cu
//     backward_weights         convolution_depthwise_matrices_weights.cu,
//                              convolution_depthwise_planes_weights.cu,
//                              convolution_depthwise_walk_weights.cu, or
//                              convolution_depthwise_weights_{ncx,nxc}.cu;
//                              then convolution_depthwise_parts.cu
//
// Those that multiply matrices on tensor cores take 16-bit NCX without gaps,
// windows of 5x5 and 7x7, and of 3x3 for data, with strides and dilations of 1,
// where planes and rows are long enough (matrices_take).
// Those that walk along H in global memory take windows of 3x3, 5x5 and 7x7 with
// dilations of 1, of NXC with strides of 1 and (gradient of src) 2, of NCX with
// strides of 1 where rows are whole vectors (walk_takes). Those that hold planes in
// shared memory take the same windows in NCX without gaps otherwise: strides of 1
// and (gradients) 2, rows of at most 1024 columns, or 512 (planes_take). Both
// leave f64 to the others, which take all: they walk D and H tap by tap, whatever
// strides and dilations are.
// W is laid out as a row of taps without gaps, of which threads take 3, 4, 5, 7
// or (again and again) 8 at a time over 8 neighbouring columns; so a dilation
// along W costs its multiple of the multiplications, and strides of 1 and 2 are
// taken alone.
//
// Workspace: of NXC the weights in the sums' type; of backward_weights partial
// sums, as many for each weight as it takes to fill the device and to keep
// chains of f32 sums to about 1024 terms.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>

#include "gpu/convolution_depthwise.hpp"
#include "gpu/convolution_operands.hpp"
#include "gpu/kernels.hpp"
#include "gpu/launch.hpp"
#include "gpu/rounding.hpp"

namespace gradnn::gpu {

namespace {

using detail::convolution_direction;
using detail::data_type;
using detail::size_of;
using detail::tensor_view;

constexpr int run = 8; // columns of a thread
constexpr int most_threads = 256;
constexpr int most_columns = 72; // of a window, gaps included
constexpr int64_t longest_chain = 1024;
/// Shared memory of a block: four of them fit a multiprocessor (of compute
/// capability 9.0).
constexpr size_t tile_bytes = 44 * 1024;

/// `whole` in equal pieces of at most `most`: the size of a piece.
int even_piece(int whole, int most) {
    return ceil_div(whole, ceil_div(whole, most));
}

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

depthwise_shape shape_of(const convolution_problem &problem) {
    depthwise_shape shape;
    shape.to_src = problem.direction == convolution_direction::backward_data;
    const tensor_view &read = shape.to_src ? problem.dst : problem.src;
    const tensor_view &written = shape.to_src ? problem.src : problem.dst;
    shape.images = read.dims[0];
    shape.channels = read.dims[1];
    std::copy(read.strides.begin(), read.strides.end(), shape.read_strides);
    std::copy(written.strides.begin(), written.strides.end(),
            shape.written_strides);
    shape.weights_strides[0] = problem.weights.strides[0];
    for (size_t i = 0; i < 3; ++i) {
        shape.weights_strides[i + 1] = problem.weights.strides[i + 3];
        depthwise_axis &axis = shape.axes[i];
        axis.read = static_cast<int>(read.dims[i + 2]);
        axis.written = static_cast<int>(written.dims[i + 2]);
        axis.kernel = static_cast<int>(problem.weights.dims[i + 3]);
        axis.stride = static_cast<int>(problem.strides[i]);
        axis.dilation = static_cast<int>(problem.dilations[i]);
        axis.pad = static_cast<int>(problem.pads_begin[i]);
    }
    const depthwise_axis &along = shape.axes[2];
    const int reach = (along.kernel - 1) * along.dilation;
    shape.base = -along.pad;
    if (shape.to_src) {
        shape.up = along.stride;
        shape.base = along.pad - reach;
        // The first tap of a thread's first column is to meet a column of dst.
        shape.lead = along.stride == 2 && shape.base % 2 != 0 ? 1 : 0;
        shape.base = (shape.base - shape.lead) / shape.up;
    } else {
        shape.step = along.stride;
    }
    shape.expanded = reach + 1 + shape.lead;
    // As with_window (convolution_depthwise.cuh) has kernels.
    const bool few = along.stride == 2 || read.type == data_type::f64;
    shape.taps = 8;
    for (const int taps : {7, 5, 4, 3})
        if (shape.expanded <= taps && few == (taps == 4)) shape.taps = taps;
    shape.chunks = ceil_div(shape.expanded, shape.taps);
    return shape;
}

/// Positions of read that `count` neighbouring written ones meet through
/// `kernel` taps.
int reach_of(const depthwise_axis &axis, bool to_src, int count, int kernel) {
    const int window = (kernel - 1) * axis.dilation;
    if (!to_src) return (count - 1) * axis.stride + window + 1;
    if (axis.stride == 1) return count + window;
    return (count - 1 + window) / axis.stride + 2;
}

/// What depends on where the data lies: at multiples of the vectors, or not.
struct depthwise_variant {
    depthwise_tile tile;
    depthwise_block block;
    depthwise_walk walk;
    depthwise_parts parts;
};

class depthwise_plan final : public detail::plan {
public:
    depthwise_plan(
            const convolution_problem &problem, bool channels_last, int device)
        : problem_(problem),
          shape_(shape_of(problem)),
          channels_last_(channels_last),
          sum_bytes_(problem.src.type == data_type::f64 ? 8 : 4),
          blocks_(int64_t {properties_of(device).multiprocessors} * 8) {
        multiplies_matrices_ = make_matrices();
        holds_planes_ = !multiplies_matrices_ && make_planes();
        ok_ = multiplies_matrices_ || holds_planes_
                || (make(aligned_, true) && make(unaligned_, false));
    }

    /// False where the window is too large for shared memory.
    bool ok() const { return ok_; }

    size_t workspace_bytes() const override {
        const int64_t rows
                = int64_t {shape_.axes[0].kernel} * shape_.axes[1].kernel;
        int64_t sums = 0;
        if (of_weights())
            sums = rows * shape_.axes[2].kernel
                    * std::max(parts_of(aligned_), parts_of(unaligned_));
        else if (channels_last_ && !walks())
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
        depthwise_matrices matrices = matrices_;
        if (!whole) matrices.read_gap = matrices.written_gap = 0;
        depthwise_pointers pointers;
        pointers.read = args[shape_.to_src ? 2 : 0];
        pointers.weights = args[1];
        pointers.written = args[shape_.to_src ? 0 : 2];
        pointers.workspace = workspace;
        if (!of_weights()) {
            if (multiplies_matrices_)
                launch_depthwise_matrices_data(
                        type, shape_, matrices, wide, pointers, scope.stream());
            else if (holds_planes_)
                launch_depthwise_planes_data(
                        type, shape_, planes_, wide, pointers, scope.stream());
            else if (walks())
                launch_depthwise_walk_data(
                        type, shape_, chosen.walk, pointers, scope.stream());
            else if (channels_last_)
                launch_depthwise_data_nxc(
                        type, shape_, chosen.block, pointers, scope.stream());
            else
                launch_depthwise_data_ncx(
                        type, shape_, chosen.tile, pointers, scope.stream());
            return;
        }
        if (multiplies_matrices_)
            launch_depthwise_matrices_weights(
                    type, shape_, matrices, wide, pointers, scope.stream());
        else if (holds_planes_)
            launch_depthwise_planes_weights(
                    type, shape_, planes_, wide, pointers, scope.stream());
        else if (walks())
            launch_depthwise_walk_weights(
                    type, shape_, chosen.walk, pointers, scope.stream());
        else if (channels_last_)
            launch_depthwise_weights_nxc(type, shape_, chosen.block,
                    chosen.parts, pointers, scope.stream());
        else
            launch_depthwise_weights_ncx(type, shape_, chosen.tile,
                    chosen.parts, pointers, scope.stream());
        pointers.written = args[1];
        launch_depthwise_parts(type, problem_.weights.type, shape_,
                parts_of(chosen), pointers, args[2], scope.stream());
    }

    std::string backend() const override { return "CUDA"; }

private:
    bool of_weights() const {
        return problem_.direction == convolution_direction::backward_weights;
    }
    bool walks() const {
        const bool strided = shape_.axes[1].stride > 1;
        return sum_bytes_ == 4 && walk_takes(shape_)
                && (channels_last_
                        || (!strided && (of_weights() || whole_rows())));
    }
    /// Partial sums of a weight.
    int64_t parts_of(const depthwise_variant &variant) const {
        if (multiplies_matrices_) return matrices_.parts();
        if (holds_planes_) return planes_.parts();
        return walks() ? int64_t {variant.walk.parts} : variant.parts.parts;
    }
    int64_t element_bytes() const { return size_of(problem_.src.type); }
    int64_t multiprocessors() const { return blocks_ / 8; }

    bool make(depthwise_variant &variant, bool whole) {
        if (walks()) return make_walk(variant.walk, whole);
        if (!channels_last_)
            return make_tile(variant.tile, whole)
                    && (!of_weights() || cut_tiles(variant));
        make_block(variant.block);
        // Cut the same way whatever the alignment, so that sums have the same
        // order.
        const bool fit = !of_weights() || cut_rows(variant);
        if (!whole) narrow(variant.block);
        if (of_weights())
            return fit
                    && fits(variant.parts.parts * variant.block.channel_tiles
                            * ceil_div(variant.parts.jobs,
                                    variant.parts.block_jobs));
        return fits(shape_.images * variant.block.depth_tiles
                * variant.block.row_tiles * variant.block.column_tiles
                * variant.block.channel_tiles);
    }

    static bool fits(int64_t count) { return count < INT32_MAX; }

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

    bool make_matrices() {
        // Tensor cores truncate when they add: not for weights in f32.
        if (channels_last_ || element_bytes() != 2
                || problem_.weights.type != problem_.src.type
                || !matrices_take(shape_, of_weights()))
            return false;
        wide_ = matrices_are_wide(shape_, of_weights());
        return cut_matrices(matrices_, shape_, of_weights(), multiprocessors());
    }

    bool make_planes() {
        if (channels_last_ || sum_bytes_ != 4
                || !planes_take(shape_, of_weights()))
            return false;
        // Threads that load vectors of whole rows are as fast or faster (measured
        // on an H200).
        if (walks() && whole_rows()) return false;
        wide_ = planes_are_wide(shape_, of_weights());
        return of_weights()
                ? cut_planes_weights(planes_, shape_, element_bytes(),
                          multiprocessors(), longest_chain)
                : cut_planes(
                          planes_, shape_, element_bytes(), multiprocessors());
    }

    bool make_walk(depthwise_walk &walk, bool whole) const {
        const int size = shape_.axes[2].kernel;
        int widest = 1;
        walk.channels_last = channels_last_;
        if (channels_last_)
            widest = both_divide(depthwise_walk_vector(size), 1)
                    ? depthwise_walk_vector(size)
                    : 1;
        else
            walk.dense = whole && whole_rows();
        walk.vector = whole ? widest : 1;
        return of_weights() ? cut_walk_units(walk, shape_, widest,
                                      multiprocessors(), longest_chain)
                            : cut_walk(walk, shape_, multiprocessors());
    }

    // The tile's sizes once its written positions are chosen.
    void size_tile(depthwise_tile &tile) const {
        const depthwise_axis &down = shape_.axes[1];
        const int kernel_rows = of_weights()
                ? std::min(depthwise_window_rows(shape_.taps), down.kernel)
                : down.kernel;
        tile.read_rows = reach_of(down, shape_.to_src, tile.rows, kernel_rows);
        tile.read_depths = of_weights()
                ? 1
                : reach_of(shape_.axes[0], shape_.to_src, tile.depths,
                        shape_.axes[0].kernel);
        const int each = 16 / static_cast<int>(sum_bytes_);
        const int span
                = ((run - 1) * shape_.step + shape_.taps - 1) / shape_.up + 1;
        const int chunks = of_weights() ? 1 : shape_.chunks;
        tile.columns = (tile.groups - 1) * run * shape_.step / shape_.up
                + (chunks - 1) * shape_.taps / shape_.up
                + ceil_div(span, each) * each;
        tile.pitch = ceil_div(tile.columns + 2 * depthwise_slack, each) | 1;
        tile.pitch *= each;
        tile.kernel_elements = of_weights()
                ? 0
                : tile.planes * shape_.axes[0].kernel * down.kernel
                        * shape_.chunks * ceil_div(shape_.taps, 4) * 4;
    }
    size_t bytes_of(depthwise_tile &tile) const {
        size_tile(tile);
        return depthwise_shared_bytes(tile, sum_bytes_);
    }

    bool make_tile(depthwise_tile &tile, bool whole) const {
        const depthwise_axis &deep = shape_.axes[0];
        const depthwise_axis &down = shape_.axes[1];
        const depthwise_axis &along = shape_.axes[2];
        const int64_t planes = shape_.images
                * (of_weights() ? deep.written : shape_.channels);
        const int all_groups = ceil_div(along.written, run);
        // As large as fits, and rather long rows than many.
        tile.groups = even_piece(all_groups, 32);
        tile.rows = down.written;
        while (tile.rows > 1 && bytes_of(tile) > tile_bytes)
            tile.rows = even_piece(down.written, tile.rows - 1);
        while (tile.groups > 1 && bytes_of(tile) > tile_bytes)
            tile.groups = even_piece(all_groups, tile.groups - 1);
        if (bytes_of(tile) > tile_bytes) return false;
        // Two rows a thread, unless that leaves many threads with one.
        tile.repeats = tile.rows > 12
                        || (tile.rows > 2 && tile.rows % 4 != 1
                                && tile.rows % 4 != 2)
                ? 2
                : 1;
        const int depths = of_weights() ? 1 : deep.written;
        const auto grow = [&](int &size, int64_t most) {
            while (size < most && tile.items() < 4 * most_threads) {
                ++size;
                if (bytes_of(tile) <= tile_bytes) continue;
                --size;
                break;
            }
        };
        if (tile.rows == down.written) grow(tile.depths, depths);
        if (tile.rows == down.written && tile.depths == depths)
            grow(tile.planes, std::min<int64_t>(planes, 64));
        tile.depths = even_piece(depths, tile.depths);
        size_tile(tile);

        const tensor_view &read = shape_.to_src ? problem_.dst : problem_.src;
        const tensor_view &written
                = shape_.to_src ? problem_.src : problem_.dst;
        tile.dense_load = 1;
        if (whole && read.strides[4] == 1)
            for (const int64_t count : {2, 4})
                if (divides(count, read, 4) && count * element_bytes() <= 16)
                    tile.dense_load = static_cast<int>(count);
        tile.dense_store = 1;
        if (whole && written.strides[4] == 1)
            for (const int64_t count : {int64_t {2}, 16 / element_bytes()})
                if (divides(count, written, 4))
                    tile.dense_store = static_cast<int>(count);
        tile.vectors = std::min(ceil_div(along.read, tile.dense_load),
                ceil_div(tile.columns + tile.dense_load - 1, tile.dense_load));
        tile.plane_tiles
                = static_cast<int>(ceil_div(planes, int64_t {tile.planes}));
        tile.depth_tiles = ceil_div(depths, tile.depths);
        tile.row_tiles = ceil_div(down.written, tile.rows);
        tile.column_tiles = ceil_div(all_groups, tile.groups);
        const int rounds = ceil_div(tile.items(), most_threads);
        tile.threads = ceil_div(ceil_div(tile.items(), rounds), 32) * 32;
        // A small tile is staged by more than need compute.
        tile.threads = std::max(tile.threads, 64);
        tile.by_vectors = small_divider(tile.vectors);
        tile.by_groups = small_divider(tile.groups);
        tile.by_row_blocks = small_divider(tile.row_blocks());
        tile.by_depths = small_divider(tile.depths);
        tile.by_read_rows = small_divider(tile.read_rows);
        tile.by_read_depths = small_divider(tile.read_depths);
        return fits(planes)
                && fits(int64_t {tile.plane_tiles} * tile.depth_tiles
                        * tile.row_tiles * tile.column_tiles)
                && int64_t {tile.staged_rows()} * tile.vectors < 1 << 16
                && tile.items() < 1 << 16;
    }

    bool cut_tiles(depthwise_variant &variant) const {
        const depthwise_tile &tile = variant.tile;
        depthwise_parts &parts = variant.parts;
        parts.window_rows = depthwise_window_rows(shape_.taps);
        parts.jobs = shape_.axes[0].kernel
                * ceil_div(shape_.axes[1].kernel, parts.window_rows)
                * shape_.chunks;
        parts.units = int64_t {tile.plane_tiles} * tile.row_tiles
                * tile.column_tiles;
        const int64_t blocks = shape_.channels * parts.jobs;
        const int64_t terms
                = parts.units * ceil_div(tile.items(), tile.threads) * run
                * tile.repeats;
        parts.parts
                = std::clamp<int64_t>(std::max(ceil_div(blocks_, blocks),
                                              ceil_div(terms, longest_chain)),
                        1, parts.units);
        return fits(parts.parts * blocks);
    }

    // One channel a thread, and so many blocks more.
    void narrow(depthwise_block &block) const {
        block.vector = 1;
        block.channel_tiles
                = ceil_div(static_cast<int>(shape_.channels), block.lanes);
    }

    void make_block(depthwise_block &block) const {
        const int64_t widest = sum_bytes_ == 8 ? 2 : 4;
        block.vector = divides(widest, problem_.src, 1)
                        && divides(widest, problem_.dst, 1)
                ? static_cast<int>(widest)
                : 1;
        // 128 bytes of channels where there are so many.
        const int vectors
                = ceil_div(static_cast<int>(shape_.channels), block.vector);
        const int most = std::clamp(
                static_cast<int>(128 / element_bytes()) / block.vector, 8, 32);
        block.lanes = even_piece(vectors, most);
        block.channel_tiles = ceil_div(vectors, block.lanes);
        const int slots = most_threads / block.lanes;
        const int groups = ceil_div(shape_.axes[2].written, run);
        const int rows = shape_.axes[1].written;
        const int depths = shape_.axes[0].written;
        block.groups = std::min(groups, 2);
        block.rows = even_piece(rows, slots / block.groups);
        block.groups = even_piece(groups, slots / block.rows);
        block.depths = even_piece(
                depths, std::max(1, slots / (block.rows * block.groups)));
        block.column_tiles = ceil_div(groups, block.groups);
        block.depth_tiles = ceil_div(depths, block.depths);
        block.row_tiles = ceil_div(rows, block.rows);
        const int64_t blocks = shape_.images * block.depth_tiles
                * block.row_tiles * block.column_tiles * block.channel_tiles;
        block.repeats = static_cast<int>(std::clamp<int64_t>(
                blocks / blocks_, 1, std::min(block.row_tiles, 4)));
        block.row_tiles = ceil_div(block.row_tiles, block.repeats);
    }

    bool cut_rows(depthwise_variant &variant) const {
        const depthwise_block &block = variant.block;
        depthwise_parts &parts = variant.parts;
        const int slots = most_threads / block.lanes;
        parts.jobs
                = shape_.axes[0].kernel * shape_.axes[1].kernel * shape_.chunks;
        parts.block_jobs = even_piece(parts.jobs, slots);
        parts.segments = ceil_div(shape_.axes[2].written, 256);
        parts.segment_columns
                = ceil_div(ceil_div(shape_.axes[2].written, parts.segments), run)
                * run;
        parts.units = shape_.images * shape_.axes[0].written
                * shape_.axes[1].written * parts.segments;
        parts.lanes = static_cast<int>(
                std::clamp<int64_t>(slots / parts.block_jobs, 1, parts.units));
        const int64_t blocks = int64_t {block.channel_tiles}
                * ceil_div(parts.jobs, parts.block_jobs);
        const int64_t terms = ceil_div(parts.units, int64_t {parts.lanes})
                * parts.segment_columns;
        // Half as many blocks as elsewhere: about as many as run at a time.
        parts.parts
                = std::clamp<int64_t>(std::max(ceil_div(blocks_ / 2, blocks),
                                              ceil_div(terms, longest_chain)),
                        1, ceil_div(parts.units, int64_t {parts.lanes}));
        return fits(parts.units);
    }

    convolution_problem problem_;
    depthwise_shape shape_;
    bool channels_last_;
    size_t sum_bytes_;
    int64_t blocks_; ///< that fill the device
    depthwise_variant aligned_;
    depthwise_variant unaligned_;
    // Whatever the alignment, where it takes the problem.
    depthwise_matrices matrices_;
    depthwise_planes planes_;
    bool multiplies_matrices_ = false;
    bool holds_planes_ = false;
    /// Two columns at a time, where tensors begin at multiples of two elements.
    bool wide_ = false;
    bool ok_ = false;
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
    const auto device = static_cast<int>(options.device);
    auto plan = std::make_unique<depthwise_plan>(
            problem, channels_last, device);
    if (!plan->ok())
        return plan_or_refusal::refuse(
                "the window does not fit into shared memory, or the tensors "
                "make 2^31 tiles");
    return within_workspace_limit(std::move(plan), device, "its sums");
}

} // namespace gradnn::gpu
