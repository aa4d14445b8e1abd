// Depthwise convolution in NXC, gradient of the weights, on tensor cores.
//
//     diff_weights[c,r,s] = sum over n, y, x of
//                           src[n,y - pad + r,x - pad + s,c] * dst[n,y,x,c]
//
// Four pixels of dst, of a column, of eight channels each are diagonal matrices
// side by side, and below them those of the column before. Eight pixels of src,
// of a column too, are an 8x8 matrix, and four of those, one row further down
// each, lie one below the other: the product has in its columns the sums of the
// taps r, in its rows those of the channels, of two taps s. A warp walks along
// four rows of dst, a column of src at a time, with as many of dst in registers
// as it meets.
//
// A block has some channels. Its rows of src and dst come to shared memory some
// stages ahead, each once, those of src in a ring; in the end it adds up its
// warps' sums, in a fixed order, and writes one partial sum a weight, which a
// second launch adds up (convolution/depthwise/parts.cu). Columns and rows
// outside are zeros; what comes out infinite or NaN is taken again there.
#include "gpu/convolution/depthwise/diagonals/device.cuh"
#include "gpu/convolution/depthwise/launch.hpp"
#include "gpu/runtime/cuda_check.hpp"
#include <cstddef>

namespace gradnn::gpu::depthwise::diagonals {

namespace {

using weights_stages = stage_queue<weights_stage_count>;

/// Rows of dst of an image, `stages` times as many as a stage has.
struct dst_strip {
    int image = 0;
    int begin = 0;
    int stages = 0;

    __device__ dst_strip(
            const problem_shape &shape, const weights_cut &cut, int strip) {
        image = cut.strips == 1 ? strip : strip / cut.strips;
        const int number = strip - image * cut.strips;
        begin = number * cut.strip_stages * cut.rows();
        stages = min(cut.strip_stages,
                ceil_div(shape.axes[1].written - begin, cut.rows()));
    }
};

/// What a block has: some groups of channels, and every `parts`-th of the strips of
/// all images; and where its stages lie in shared memory, those of src in a ring of
/// rows.
struct weights_block {
    const problem_shape &shape;
    const weights_cut &cut;
    int64_t first_channel;
    int groups; ///< of those of the cut, that the tensor has
    int part;
    int strips;
    uint32_t src_place;
    uint32_t dst_place;

    __device__ weights_block(
            const problem_shape &shape, const weights_cut &cut, uint32_t places)
        : shape(shape), cut(cut) {
        part = static_cast<int>(blockIdx.x / cut.channel_tiles);
        strips = static_cast<int>(shape.images) * cut.strips;
        first_channel
                = blockIdx.x % cut.channel_tiles * cut.groups * group_channels;
        groups = static_cast<int>(min(int64_t {cut.groups},
                (shape.channels - first_channel) / group_channels));
        src_place = places;
        dst_place = places + cut.src_bytes();
    }

    /// The row of the ring that is so many further on, fewer than there are.
    __device__ int slot_after(int slot, int rows) const {
        slot += rows;
        return slot >= cut.src_rows ? slot - cut.src_rows : slot;
    }
    /// From a stage's first row of src to that of the next.
    __device__ int advance(bool last_of_strip, int size) const {
        return cut.rows() + (last_of_strip ? size - 1 : 0);
    }
};

/// The work of a warp that copies, of which it is the `first_row`th.
template <typename Type, int size>
__device__ __forceinline__ void copy_strips(const weights_block &block,
        const weights_stages &stages, int first_row, const Type *src,
        const Type *dst, bool whole) {
    const problem_shape &shape = block.shape;
    const weights_cut &cut = block.cut;
    const auto &[deep, down, along] = shape.axes;
    const int rows = cut.rows();
    const pixel_rows<Type> src_pixels(along.read, shape.read_strides[4],
            cut.groups, block.groups, cut.src_rows * cut.src_pitch * 16);
    const pixel_rows<Type> dst_pixels(along.written, shape.written_strides[4],
            cut.groups, block.groups, rows * cut.dst_pitch * 16);
    const auto copy = [&](const pixel_rows<Type> &pixels, uint32_t to,
                              const Type *plane, int64_t row_stride, int row,
                              int inside) {
        const bool outside = !is_inside(row, inside);
        const Type *const from = outside ? plane : plane + row * row_stride;
        if (whole)
            pixels.submit(to, from, outside);
        else
            pixels.copy(to, from, outside);
    };
    int stage = 0;
    int slot = 0;
#pragma unroll 1
    for (int number = block.part; number < block.strips; number += cut.parts) {
        const dst_strip strip(shape, cut, number);
        const Type *const src_plane = src + block.first_channel
                + int64_t {strip.image} * shape.read_strides[0];
        const Type *const dst_plane = dst + block.first_channel
                + int64_t {strip.image} * shape.written_strides[0];
#pragma unroll 1
        for (int i = 0; i < strip.stages; ++i) {
            const int y = strip.begin + i * rows;
            // Columns of dst lie between zeros.
            const uint32_t dst_place = block.dst_place
                    + weights_stages::place(stage) * cut.dst_bytes()
                    + (size - along.pad) * 16;
            stages.wait_for_room(stage);
            // Those rows that the stage before has not.
#pragma unroll 1
            for (int row = (i == 0 ? 0 : size - 1) + first_row;
                    row < rows + size - 1; row += cut.copy_warps)
                copy(src_pixels,
                        block.src_place
                                + block.slot_after(slot, row) * cut.src_pitch
                                        * 16,
                        src_plane, shape.read_strides[3], y - down.pad + row,
                        down.read);
#pragma unroll 1
            for (int row = first_row; row < rows; row += cut.copy_warps)
                copy(dst_pixels, dst_place + row * cut.dst_pitch * 16,
                        dst_plane, shape.written_strides[3], y + row,
                        down.written);
            stages.submitted(stage, !whole);
            slot = block.slot_after(
                    slot, block.advance(i + 1 == strip.stages, size));
            ++stage;
        }
    }
}

/// A walk along the columns of src, four rows of dst of eight channels: sums[i]
/// has of channel g the taps s = 2i (words 0 and 1) and 2i + 1 and r = 2t, 2t +
/// 1.
template <typename Type, int size>
__device__ __forceinline__ void multiply_rows(float (&sums)[pairs_of(size)][4],
        uint32_t src_at, uint32_t dst_at, uint32_t two_rows, int columns,
        const lane_place &has) {
    const auto load_word
            = [&](uint32_t address) { return load_shared(address) & has.mask; };
    // Columns of dst for the column of src at u and for those before it: words 0
    // and 2 hold the column that it meets by the first tap, words 1 and 3 the one
    // before that. The places in `left` are reused one after the other.
    uint32_t left[size][4];
    left[1][1] = load_word(dst_at - size * 16);
    left[1][3] = load_word(dst_at - size * 16 + two_rows);
#pragma unroll
    for (int u = 1; u < size; ++u) {
        const uint32_t at = dst_at - (size - u) * 16;
        left[u][0] = load_word(at);
        left[u][2] = load_word(at + two_rows);
        if (u == 1) continue;
        left[u][1] = left[u - 1][0];
        left[u][3] = left[u - 1][2];
    }
    const auto step = [&](int u) {
        uint32_t right[4];
        load_matrices(right, src_at + u * 16);
        const int last = (u + size - 1) % size;
        left[u][0] = load_word(dst_at + u * 16);
        left[u][2] = load_word(dst_at + u * 16 + two_rows);
        left[u][1] = left[last][0];
        left[u][3] = left[last][2];
#pragma unroll
        for (int i = 0; i < pairs_of(size); ++i)
            multiply_diagonals<Type>(sums[i], left[(u + size - 2 * i) % size],
                    right, has.selected);
    };
    int column = 0;
#pragma unroll 1
    for (; column + size <= columns; column += size) {
#pragma unroll
        for (int u = 0; u < size; ++u)
            step(u);
        src_at += size * 16;
        dst_at += size * 16;
    }
#pragma unroll
    for (int u = 0; u < size - 1; ++u)
        if (column + u < columns) step(u);
}

/// The work of a warp that multiplies.
template <typename Type, int size>
__device__ __forceinline__ void multiply_strips(
        float (&total)[pairs_of(size)][4], const weights_block &block,
        const weights_stages &stages, int warp) {
    constexpr int pairs = pairs_of(size);
    const problem_shape &shape = block.shape;
    const weights_cut &cut = block.cut;
    const auto lane = static_cast<int>(threadIdx.x % 32);
    const lane_place has;
    const int group = warp % cut.groups;
    const int first_row = warp / cut.groups % cut.tiles * tile_dst_rows;
    const int first_column = warp / cut.groups / cut.tiles * cut.part_columns;
    const int columns
            = min(shape.axes[2].read - first_column, cut.part_columns);
    // The rows of src of the lane's matrix: those beyond the window are loaded
    // from its last one, to no effect.
    const int src_row = first_row + lane / 8 + min(lane % 8, size - 1);
    const uint32_t src_base = block.src_place
            + (group * cut.src_rows * cut.src_pitch + first_column) * 16;
    // Of dst the lane's word of the column that the first of src meets by the
    // first tap, and of the row two further down.
    const uint32_t dst_base = block.dst_place
            + ((group * cut.rows() + first_row + has.pixel) * cut.dst_pitch
                      + first_column + size)
                    * 16
            + has.channel / 2 * 4;
    float sums[pairs][4] = {};
    int chain = 0;
    int stage = 0;
    int slot = 0;
#pragma unroll 1
    for (int number = block.part; number < block.strips; number += cut.parts) {
        const dst_strip strip(shape, cut, number);
#pragma unroll 1
        for (int i = 0; i < strip.stages; ++i) {
            stages.wait_for(stage);
            if (group < block.groups
                    && strip.begin + i * cut.rows() + first_row
                            < shape.axes[1].written) {
                multiply_rows<Type, size>(sums,
                        src_base
                                + block.slot_after(slot, src_row)
                                        * cut.src_pitch * 16,
                        dst_base
                                + weights_stages::place(stage)
                                        * cut.dst_bytes(),
                        2 * cut.dst_pitch * 16, columns, has);
                chain += columns;
            }
            if (chain > longest_truncated_chain - cut.part_columns) {
                chain = 0;
#pragma unroll
                for (int pair = 0; pair < pairs; ++pair)
#pragma unroll
                    for (int e = 0; e < 4; ++e) {
                        total[pair][e] += sums[pair][e];
                        sums[pair][e] = 0;
                    }
            }
            slot = block.slot_after(
                    slot, block.advance(i + 1 == strip.stages, size));
            stages.done_with(stage);
            ++stage;
        }
    }
#pragma unroll
    for (int pair = 0; pair < pairs; ++pair)
#pragma unroll
        for (int e = 0; e < 4; ++e)
            total[pair][e] += sums[pair][e];
}

template <typename Type, int size>
__global__ void __launch_bounds__(weights_warps * 32, 1)
        depthwise_diagonals_weights_kernel(const Type *src, const Type *dst,
                float *partials, const __grid_constant__ problem_shape shape,
                const __grid_constant__ weights_cut cut, bool whole) {
    constexpr int taps = size * size;
    extern __shared__ uint4 shared[];
    const auto thread = static_cast<int>(threadIdx.x);
    const auto threads = static_cast<int>(blockDim.x);
    const int warp = __shfl_sync(0xffffffffU, thread / 32, 0);
    const auto base = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
    const weights_block block(
            shape, cut, base + barriers_bytes(weights_stage_count));
    clear_shared(shared, cut.shared_bytes);
    const weights_stages stages(base, cut.copy_warps, cut.warps());
    __syncthreads();
    wait_and_let_later_work_start();
    float total[pairs_of(size)][4] = {};
    if (warp < cut.warps())
        multiply_strips<Type, size>(total, block, stages, warp);
    else
        copy_strips<Type, size>(
                block, stages, warp - cut.warps(), src, dst, whole);

    // Beside the barriers, which are alive.
    auto *const of_warps = reinterpret_cast<float *>(shared)
            + barriers_bytes(weights_stage_count) / sizeof(float);
    __syncthreads();
    const int lane = thread % 32;
#pragma unroll
    for (int i = 0; i < pairs_of(size); ++i)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            const int s = 2 * i + e / 2;
            const int r = lane % 4 * 2 + e % 2;
            if (warp < cut.warps() && s < size && r < size)
                of_warps[(warp * group_channels + lane / 4) * taps + r * size
                        + s]
                        = total[i][e];
        }
    __syncthreads();
    for (int i = thread; i < block.groups * group_channels * taps;
            i += threads) {
        const int channel = i / taps;
        const int k = i - channel * taps;
        float sum = 0;
        for (int from = channel / group_channels; from < cut.warps();
                from += cut.groups)
            sum += of_warps[(from * group_channels + channel % group_channels)
                            * taps
                    + k];
        partials[((block.first_channel + channel) * taps + k) * cut.parts
                + block.part]
                = sum;
    }
}

} // namespace

void prepare_weights(detail::data_type type, const problem_shape &shape,
        size_t shared_bytes) {
    with_constants(type, shape, [&]<typename Type, int size>() {
        allow_shared_bytes(
                depthwise_diagonals_weights_kernel<Type, size>, shared_bytes);
    });
}

launcher weights_launcher(const launch_facts &facts, const work_cut &both) {
    const weights_cut &cut = both.weights;
    return with_constants(
            facts.type, facts.shape, [&]<typename Type, int size>() {
                return launch_of_weights(facts,
                        "convolution.gpu_depthwise_diagonals (weights)",
                        depthwise_diagonals_weights_kernel<Type, size>,
                        cut.blocks(), cut.all_warps() * 32, cut.shared_bytes,
                        cut, facts.alignment.vectors);
            });
}

} // namespace gradnn::gpu::depthwise::diagonals
