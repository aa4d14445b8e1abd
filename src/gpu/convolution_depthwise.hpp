// Depthwise convolution on the GPU: what its kernels are told, and who starts
// them. See convolution_depthwise.cpp.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/launch.hpp"
#include "problem.hpp"

namespace gradnn::gpu {

/// One spatial axis: read position = written position * stride - pad +
/// k * dilation; with `to_src` (below) the other way round.
struct depthwise_axis {
    int read = 1;
    int written = 1;
    int kernel = 1;
    int stride = 1;
    int dilation = 1;
    int pad = 0;
};

/// forward: reads src, writes dst. backward_data: reads dst, writes src.
/// backward_weights: `read` is src and `written` dst, which is read too.
struct depthwise_shape {
    depthwise_axis axes[3];
    int64_t images = 1;
    int64_t channels = 1;
    int64_t read_strides[5] = {}; // N, C, D, H, W
    int64_t written_strides[5] = {};
    int64_t weights_strides[4] = {}; // C, D, H, W
    bool to_src = false; ///< backward_data

    // The taps along W as a row without gaps: dilation fills it with zeros, and
    // backward_data reverses it. Written columns x (a multiple of 8) and on
    // read columns x * step / up + base and on.
    int step = 1; ///< read columns a written one
    int up = 1; ///< written columns a read one
    int lead = 0; ///< zeros before the first tap (0 or 1)
    int expanded = 1; ///< lead and taps and gaps
    int base = 0;
    /// The row is taken `taps` at a time, in so many chunks.
    int taps = 8;
    int chunks = 1;
};

/// n / by, as the upper half of 2 * n * magic, for n * by below 2^31.
struct small_divider {
    uint32_t magic = 0x80000001U;

    small_divider() = default;
    __host__ __device__ explicit small_divider(int by)
        : magic(0x80000000U / static_cast<uint32_t>(by) + 1) {}
};

/// NCX: a block's tile, in written positions, and the read rows it stages in
/// shared memory. A plane is one channel of one image; of the weights gradient,
/// one depth of one image.
struct depthwise_tile {
    int planes = 1;
    int depths = 1; ///< written
    int rows = 1;
    int groups = 1; ///< of 8 columns
    int repeats = 1;
    int read_depths = 1; ///< staged
    int read_rows = 1;
    int pitch = 4; ///< elements of a staged row: an odd multiple of 16 bytes
    int kernel_elements
            = 0; ///< of the weights, staged too but for their gradient
    int columns = 1; ///< of them that may be read
    int vectors = 1; ///< to be copied of a row
    int plane_tiles = 1;
    int depth_tiles = 1;
    int row_tiles = 1;
    int column_tiles = 1;
    int threads = 32;
    int dense_load = 1; ///< elements an access to read: 4, 2 or 1
    int dense_store = 1; ///< elements an access to written: 16 bytes, 2 or 1
    small_divider by_vectors, by_groups, by_row_blocks, by_depths, by_read_rows,
            by_read_depths;

    __host__ __device__ constexpr int staged_rows() const {
        return planes * read_depths * read_rows;
    }
    /// Neighbouring threads have two rows, where there are two; a thread has
    /// `repeats` rows, so far apart.
    __host__ __device__ constexpr int paired() const {
        return rows > 1 ? 2 : 1;
    }
    __host__ __device__ constexpr int row_blocks() const {
        const int block = paired() * repeats;
        return (rows + block - 1) / block;
    }
    __host__ __device__ constexpr int items() const {
        return planes * depths * row_blocks() * groups * paired();
    }
};

/// NXC: a block's threads, channels first.
struct depthwise_block {
    int vector = 1; ///< channels of a thread
    int lanes = 1; ///< threads along the channels
    int groups = 1; ///< of 8 columns
    int rows = 1;
    int depths = 1;
    int repeats = 1; ///< so many times, further down
    int channel_tiles = 1;
    int column_tiles = 1;
    int row_tiles = 1;
    int depth_tiles = 1;
};

/// The weights gradient: how it is cut.
struct depthwise_parts {
    int window_rows = 1; ///< NCX: rows of the window that a thread sums
    int jobs = 1; ///< pieces of the window
    int block_jobs = 1; ///< NXC: of them in a block
    int lanes = 1; ///< NXC: threads that share the rows of a part
    int segments = 1; ///< NXC: of a row of dst
    int segment_columns = 8;
    int64_t units = 1; ///< tiles (NCX) or segments of rows of dst (NXC)
    int64_t parts = 1;
};

/// How threads of the data kernels walk along H: as the gradient of src does, from
/// the last row to the first, so that the taps come in ascending order. In the
/// forward direction, whose stride is 1, rows are mirrored. Step y reads row y and
/// completes written rows y * stride + size - stride - pad and on, `stride` of
/// them.
struct depthwise_steps {
    int top = 0; ///< y of the first step that completes a row of written
    int count = 1; ///< of such steps
    int pad = 0;
};

/// Windows of 3x3, 5x5 and 7x7 with dilations of 1 and strides of 1, or 2 in the
/// gradient of src of NXC: threads that walk along H, each of some channels,
/// columns and rows of written. And windows of 3x3x3, whose threads have some
/// depths too (convolution_depthwise_volume.hpp).
struct depthwise_walk {
    bool channels_last = false;
    /// NCX: rows are whole vectors, and the window's middle column is the
    /// written one.
    bool dense = false;
    int together = 1; ///< 3x3x3, NCX: columns that are loaded together
    int vector = 1; ///< channels; 1 in NCX
    int sum_bytes = 4;
    uint32_t groups = 1; ///< of neighbouring columns
    depthwise_steps steps; ///< of the data kernel
    uint32_t strips = 1; ///< of neighbouring rows, or steps
    int strip_rows = 1;
    uint32_t items = 1; ///< threads of the data kernel
    // The weights gradient, and channel_tiles and lanes of the data kernel of
    // 3x3x3 too. A thread takes every so manyeth unit, a strip of a group.
    uint32_t units = 1;
    uint32_t parts = 1; ///< blocks with the same channels
    uint32_t channel_tiles = 1;
    int lanes = 1; ///< neighbouring threads along the channels; 1 in NCX
    int slots = 1; ///< threads of a block with the same channels
};

/// How long the blocks of such a walk take, a turn for each row or step.
struct depthwise_turns {
    int64_t blocks = 1; ///< at a time
    /// Those of a multiprocessor share its time, so that `blocks` counts one of
    /// them; few do not fill it: a turn more.
    bool shared = false;
    /// What else a block takes, in rows: to load the weights, to add up sums.
    int load_rows = 0;
    int sum_rows = 8;

    /// Turns for a row of each of so many blocks.
    constexpr int64_t of(int64_t count) const {
        return (count + blocks - 1) / blocks + (shared ? 1 : 0);
    }
};

/// NCX without gaps, windows of 3x3, 5x5 and 7x7 with strides of 1 or (of the
/// gradients) 2 and dilations of 1, rows that a block's threads cover: whole
/// planes, or bands of the rows of one, lie in shared memory as they do in the
/// tensors. Threads walk along H there, each of some neighbouring columns and rows
/// of what they compute (of the weights gradient, of dst).
struct depthwise_planes {
    int planes = 1; ///< of a block, neighbours in memory
    depthwise_steps steps; ///< of the data kernel
    /// Of the steps, or of the rows of dst, a block's each; one where planes > 1.
    int bands = 1;
    int band_steps = 1;
    int strips = 1; ///< of a band, a thread's each
    int strip_steps = 1;
    int groups = 1; ///< of neighbouring columns
    // Threads from one of these to the next: the order in which neighbouring
    // threads meet the fewest bank conflicts.
    int plane_distance = 1;
    int strip_distance = 1;
    int group_distance = 1;
    int threads = 32;
    int64_t tiles = 1; ///< blocks of a band: groups of planes, or of channels
    int image_parts = 1; ///< of the weights gradient: every so manyeth image
    size_t read_bytes = 0; ///< of shared memory, as the next two
    size_t written_bytes = 0;
    size_t shared_bytes = 0;

    __host__ __device__ constexpr int64_t parts() const {
        return int64_t {image_parts} * bands;
    }
};

/// Threads of a block.
constexpr int walk_threads = 128;
/// The padding that keeps the size of a plane. For the gradient of src with a
/// stride of 2 the kernels are made for paddings along W of the same remainder
/// modulo 2: its even columns then meet the odd taps (1) or the even ones (0).
__host__ __device__ constexpr int usual_pad(int size) {
    return (size - 1) / 2;
}
__host__ __device__ constexpr int odd_taps(int size, int stride) {
    return stride == 2 ? usual_pad(size) % 2 : 0;
}
/// A thread of the data kernel has a bit for each step of its strip.
constexpr int depthwise_longest_strip = 64;

/// Channels of a thread at most, and its columns: what its registers hold.
constexpr int depthwise_walk_vector(int size, int64_t sum_bytes = 4) {
    return size == 7 || sum_bytes == 8 ? 1 : 2;
}
constexpr int depthwise_walk_run(int size, int vector, int64_t sum_bytes) {
    const bool few = sum_bytes == 8 ? size > 3 : size == 5 && vector == 2;
    return few ? 4 : 8;
}
/// The same for all vectors, and so the order of the sums.
constexpr int depthwise_walk_weights_run(int size, int64_t sum_bytes) {
    return size == 3 ? 8 : size == 7 && sum_bytes == 8 ? 3 : 4;
}
/// Blocks of walk_threads that a multiprocessor's registers hold, of f64.
constexpr int walk_f64_blocks(int size, bool of_weights) {
    return of_weights || size == 7 ? 2 : size == 5 ? 3 : 4;
}

// In convolution_depthwise_shape.cpp.
depthwise_shape depthwise_shape_of(const detail::convolution_problem &);
/// A window of 3x3, 5x5 or 7x7 with the same stride along H and W and dilations of
/// 1, in each depth alone.
bool window_is_usual(const depthwise_shape &);
/// Positions after the last of read that the last written one meets.
int positions_after(const depthwise_axis &, bool to_src);
/// Such a window on planes (one depth), with strides of 1, and on either side fewer
/// positions outside than it has taps.
bool window_slides(const depthwise_shape &);
/// NCX: whether rows are whole vectors of so many elements and begin at multiples of
/// that where the tensor does.
bool rows_of_read_divide(const depthwise_shape &, int64_t by);
bool rows_of_written_divide(const depthwise_shape &, int64_t by);

// In convolution_depthwise_tiles.cpp.
/// Cuts the work of the data kernel of NCX; dense_load and dense_store are set.
/// False where the window is too large for shared memory, or the tensors are.
bool cut_tiles(depthwise_tile &, const depthwise_shape &, size_t sum_bytes);
/// Of the weights gradient, in about so many blocks.
bool cut_tiles_weights(depthwise_tile &, depthwise_parts &,
        const depthwise_shape &, size_t sum_bytes, int64_t wanted_blocks,
        int64_t longest_chain);
/// Of NXC; `vector` is set, to `widest` or to 1: the work is cut the same way, and
/// so sums have the same order.
bool cut_blocks(depthwise_block &, const depthwise_shape &, int widest,
        int64_t element_bytes, int64_t wanted_blocks);
bool cut_blocks_weights(depthwise_block &, depthwise_parts &,
        const depthwise_shape &, int widest, int64_t element_bytes,
        int64_t wanted_blocks, int64_t longest_chain);

// In convolution_depthwise_walk.cpp.
depthwise_steps steps_of(const depthwise_shape &);
/// Cuts `rows` rows, or steps, into strips, each of which takes `ahead` more. A
/// strip of all planes is so many threads. False where there are too many.
bool cut_strips(depthwise_walk &, int rows, int ahead, int64_t of_strip,
        const depthwise_turns &);
/// The same of the weights gradient, and its units into parts; lanes is set. A
/// strip of all planes is so many units, of which a row is `width` elements.
bool cut_units(depthwise_walk &, const depthwise_shape &, int widest, int width,
        int64_t of_strip, const depthwise_turns &, int64_t longest_chain);
/// Threads of a block along the channels, of `widest` channels each.
int lanes_of(const depthwise_shape &, int widest);
/// Whether the kernels that walk along H take the window.
bool walk_takes(const depthwise_shape &);
/// Cuts the work of the data kernel; vector, dense, sum_bytes and channels_last
/// are set. False where the tensors are too large.
bool cut_walk(depthwise_walk &, const depthwise_shape &, int64_t multiprocessors);
/// Of the weights gradient, whose sums are in the order of vectors of `widest`
/// channels whatever `vector` is, and in chains of at most so many terms.
bool cut_walk_units(depthwise_walk &, const depthwise_shape &, int widest,
        int64_t multiprocessors, int64_t longest_chain);

/// Elements before and after what a block holds in shared memory that threads
/// may load, to no effect.
constexpr int planes_slack = 16;
/// Blocks of walk_threads that a multiprocessor's registers hold.
constexpr int planes_resident_blocks(int size, int64_t element_bytes) {
    if (size == 3) return 5;
    return (size == 5 ? 4 : 3) - (element_bytes == 8 ? 1 : 0);
}
/// Columns of a thread of the data kernel, and of the weights'.
__host__ __device__ constexpr int planes_run(int64_t element_bytes) {
    return element_bytes == 8 ? 4 : 8;
}
constexpr int planes_weights_run(int size, int64_t element_bytes) {
    return element_bytes == 8 ? 4
                              : depthwise_walk_weights_run(size, element_bytes);
}
/// The first column that a thread loads of read (`data`) or of src, modulo 2,
/// with a padding of usual_pad.
__host__ __device__ constexpr int planes_lead(int size, int stride, bool data) {
    return data && stride == 2
            ? (size - 1 - usual_pad(size) - odd_taps(size, 2)) / 2 % 2
            : usual_pad(size) % 2;
}

// In convolution_depthwise_planes.cpp.
/// NCX: whether the planes of both tensors, of which each has less than 2^31
/// elements, follow one another, and their rows.
bool planes_without_gaps(const depthwise_shape &);
/// Whether the kernels that hold planes take the tensors and the window.
bool planes_take(
        const depthwise_shape &, int64_t element_bytes, bool of_weights);
/// Whether threads may load and store two columns at a time, of tensors that
/// begin at multiples of two elements.
bool planes_are_wide(const depthwise_shape &, bool of_weights);
/// Cut the work of either kernel; false where a row does not fit.
bool cut_planes(depthwise_planes &, const depthwise_shape &,
        int64_t element_bytes, int64_t multiprocessors);
bool cut_planes_weights(depthwise_planes &, const depthwise_shape &,
        int64_t element_bytes, int64_t multiprocessors, int64_t longest_chain);

/// NCX without gaps of 16-bit types, windows of 3x3, 5x5 and 7x7 with strides and
/// dilations of 1, on tensor cores: whole planes of neighbouring channels, or bands
/// of the rows of one, lie in shared memory as they do in the tensors, of some
/// images at a time, and of the next ones on their way.
struct depthwise_matrices {
    int planes = 1; ///< of an image that a block has: a power of two
    int images = 1; ///< of a stage
    int bands = 1; ///< of the rows of written (of dst), a block's each
    int band_rows = 1;
    int64_t tiles = 1; ///< groups of channels
    int image_parts = 1; ///< a block has every so manyeth stage
    // Bytes of shared memory: before the first plane of an image, from one plane
    // to the next, of an image, in all. Before, between and after planes of read
    // there are zeros for the rows that windows reach beyond.
    int read_lead = 0;
    int read_distance = 0;
    int read_bytes = 0;
    int written_distance = 0; ///< of dst; the data kernel's follow closely
    int written_bytes = 0;
    size_t shared_bytes = 0;
    // Bytes between rows, which then are whole vectors that begin at multiples of
    // 16 bytes: where rows would meet in the same banks. And the vectors of a row.
    int read_gap = 0;
    int written_gap = 0; ///< of dst
    small_divider by_read_vectors, by_written_vectors;

    __host__ __device__ constexpr int64_t parts() const {
        return int64_t {image_parts} * bands;
    }
    __host__ __device__ constexpr int64_t blocks() const {
        return tiles * parts();
    }
};

constexpr int matrices_warps = 4; ///< of a block
/// Rows of written of a tile, and of dst; columns of written of a tile, and read
/// ones that they may meet.
constexpr int matrices_rows = 16;
constexpr int matrices_dst_rows = 8;
constexpr int matrices_columns = 8;
constexpr int matrices_span = 16;
/// A row of the window lies in shared memory twice, the second time a tap further
/// on, each time between so many zeros on either side.
constexpr int matrices_row_elements = 24;
constexpr int matrices_row_zeros = 8;

/// Bytes before and after what a block holds of an image that threads may load, to
/// no effect.
constexpr int matrices_slack = 64;

/// The weights' kernel: bytes of zeros, for rows of dst that are none.
constexpr int matrices_zeros = 64;

/// Taps before the written position, along one axis.
__host__ __device__ constexpr int taps_before(
        const depthwise_axis &axis, bool to_src) {
    return to_src ? axis.kernel - 1 - axis.pad : axis.pad;
}

// In convolution_depthwise_matrices.cpp.
/// Whether tensor cores take the tensors and the window, of bf16 and f16, and are
/// faster than the others.
bool matrices_take(const depthwise_shape &, bool of_weights);
/// Whether threads may load and store two columns at a time, of tensors that
/// begin at multiples of two elements.
bool matrices_are_wide(const depthwise_shape &, bool of_weights);
/// Cut the work of either kernel; false where rows do not fit, 16 of them are all,
/// or there would be too many blocks.
bool cut_matrices(depthwise_matrices &, const depthwise_shape &,
        bool of_weights, int64_t multiprocessors);

struct depthwise_pointers {
    const void *read = nullptr;
    const void *weights = nullptr;
    void *written = nullptr;
    void *workspace = nullptr;
};

/// Elements before and after a staged row that copies of whole vectors may
/// spoil.
constexpr int depthwise_slack = 4;

/// Of a block: rows and weights in the type of the sums, addresses of rows.
constexpr size_t depthwise_shared_bytes(
        const depthwise_tile &tile, size_t sum_bytes) {
    const auto rows = static_cast<size_t>(tile.staged_rows());
    return (rows * static_cast<size_t>(tile.pitch) + depthwise_slack
                   + static_cast<size_t>(tile.kernel_elements))
            * sum_bytes
            + rows * sizeof(int64_t);
}

/// NCX, gradient of the weights: rows of the window that a thread sums, where it
/// sums so many taps of each.
constexpr int depthwise_window_rows(int taps) {
    return taps == 8 ? 4 : taps == 4 ? 3 : taps;
}

// One file each. `type` is that of src and dst.
void launch_depthwise_data_ncx(detail::data_type type, const depthwise_shape &,
        const depthwise_tile &, const depthwise_pointers &, cudaStream_t);
void launch_depthwise_data_nxc(detail::data_type type, const depthwise_shape &,
        const depthwise_block &, const depthwise_pointers &, cudaStream_t);
/// Of f64 in NXC alone, as launch_depthwise_walk_weights.
void launch_depthwise_walk_data(detail::data_type type,
        const depthwise_shape &, const depthwise_walk &,
        const depthwise_pointers &, const launch_stream &);
void launch_depthwise_planes_data(detail::data_type type,
        const depthwise_shape &, const depthwise_planes &, bool wide,
        const depthwise_pointers &, const launch_stream &);
/// For bf16 and f16.
void launch_depthwise_matrices_data(detail::data_type type,
        const depthwise_shape &, const depthwise_matrices &, bool wide,
        const depthwise_pointers &, const launch_stream &);
/// All that follow leave sums[weight][part] in the workspace, weights counted C,
/// D, H, W.
void launch_depthwise_weights_ncx(detail::data_type type,
        const depthwise_shape &, const depthwise_tile &,
        const depthwise_parts &, const depthwise_pointers &, cudaStream_t);
void launch_depthwise_weights_nxc(detail::data_type type,
        const depthwise_shape &, const depthwise_block &,
        const depthwise_parts &, const depthwise_pointers &, cudaStream_t);
void launch_depthwise_walk_weights(detail::data_type type,
        const depthwise_shape &, const depthwise_walk &,
        const depthwise_pointers &, const launch_stream &);
void launch_depthwise_planes_weights(detail::data_type type,
        const depthwise_shape &, const depthwise_planes &, bool wide,
        const depthwise_pointers &, const launch_stream &);
/// For bf16 and f16.
void launch_depthwise_matrices_weights(detail::data_type type,
        const depthwise_shape &, const depthwise_matrices &, bool wide,
        const depthwise_pointers &, const launch_stream &);
/// Adds the parts up; `written` is diff_weights, `dst` the gradient.
void launch_depthwise_parts(detail::data_type type,
        detail::data_type weights_type, const depthwise_shape &, int64_t parts,
        const depthwise_pointers &, const void *dst, const launch_stream &);

} // namespace gradnn::gpu
