// Depthwise convolution in NXC, gradient of the weights, on tensor cores.
//
//     diff_weights[c,r,s] = sum over n, y, x of
//                           src[n,y - pad + r,x - pad + s,c] * dst[n,y,x,c]
//
// Four pixels of dst, of a column, of eight channels each are diagonal matrices side
// by side, and below them those of the column before. Eight pixels of src, of a
// column too, are an 8x8 matrix, and four of those, one row further down each, lie
// one below the other: the product has in its columns the sums of the taps r, in its
// rows those of the channels, of two taps s. A warp walks along four rows of dst, a
// column of src at a time, with as many of dst in registers as it meets.
//
// A block has some channels. Its rows of src and dst come to shared memory some
// stages ahead, each once, those of src in a ring; in the end it adds up its warps'
// sums, in a fixed order, and writes one partial sum a weight, which a second launch adds up
// (convolution_depthwise_parts.cu). Columns and rows outside are zeros; what comes
// out infinite or NaN is taken again there.
#include <cstddef>

#include "gpu/convolution_depthwise_diagonals.cuh"
#include "gpu/cuda_check.hpp"
#include "gpu/launch.hpp"

namespace gradnn::gpu {

namespace {

/// Products that are added up on tensor cores, which truncate each time, before the
/// sums leave them.
constexpr int longest_chain = 448;

/// Rows of dst of an image, `stages` times as many as a stage has.
struct dst_strip {
    int image = 0;
    int begin = 0;
    int stages = 0;

    __device__ dst_strip(const depthwise_shape &shape,
            const depthwise_diagonals_weights &cut, int strip) {
        image = cut.strips == 1 ? strip : strip / cut.strips;
        const int number = strip - image * cut.strips;
        begin = number * cut.strip_stages * cut.rows();
        stages = min(cut.strip_stages,
                ceil_div(shape.axes[1].written - begin, cut.rows()));
    }
};

template <typename Type, int size>
__global__ void __launch_bounds__(diagonals_weights_warps * 32, 1)
        depthwise_diagonals_weights_kernel(const Type *src, const Type *dst,
                float *partials, const __grid_constant__ depthwise_shape shape,
                const __grid_constant__ depthwise_diagonals_weights cut,
                bool whole) {
    constexpr int pairs = diagonals_pairs(size);
    extern __shared__ uint4 shared[];
    const depthwise_axis &down = shape.axes[1];
    const depthwise_axis &along = shape.axes[2];
    const auto thread = static_cast<int>(threadIdx.x);
    const int lane = thread % 32;
    const int warp = __shfl_sync(0xffffffffU, thread / 32, 0);
    const int warps = cut.warps();
    const diagonal_lane has;

    const auto channel_tile
            = static_cast<int64_t>(blockIdx.x) % cut.channel_tiles;
    const auto part = static_cast<int>(blockIdx.x / cut.channel_tiles);
    const int64_t first_channel
            = channel_tile * cut.groups * diagonals_channels;
    const int groups = static_cast<int>(min(int64_t {cut.groups},
            (shape.channels - first_channel) / diagonals_channels));
    const int group = warp % cut.groups;
    const int tile = (warp / cut.groups) % cut.tiles;
    const int column_part = (warp / cut.groups) / cut.tiles;

    // Columns of dst lie `margin` pixels on, between zeros.
    const int margin = size - along.pad;
    const int rows = cut.rows();
    const pixel_rows<Type> src_rows(along.read, shape.read_strides[4],
            cut.groups, groups, cut.src_rows * cut.src_pitch * 16);
    const pixel_rows<Type> dst_rows(along.written, shape.written_strides[4],
            cut.groups, groups, rows * cut.dst_pitch * 16);
    const auto base = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
    const uint32_t src_place = base + diagonals_barriers_bytes(diagonals_weights_stages);
    const uint32_t dst_place = src_place + cut.src_bytes();

    for (int i = thread; i * 16 < static_cast<int>(cut.shared_bytes);
            i += static_cast<int>(blockDim.x))
        shared[i] = uint4 {};
    __syncthreads();
    using all_stages = diagonal_stages<diagonals_weights_stages>;
    const all_stages stages(base, cut.copy_warps, warps);
    __syncthreads();
    wait_for_earlier_work();
    let_later_work_start();

    // Where the next stage has its first row of src in the ring.
    const auto advance = [&](int slot, int by) {
        slot += by;
        return slot >= cut.src_rows ? slot - cut.src_rows : slot;
    };
    const int strips = static_cast<int>(shape.images) * cut.strips;
    int stage = 0;
    int slot = 0;
    if (warp >= warps) {
        const int first_row = warp - warps;
#pragma unroll 1
        for (int number = part; number < strips; number += cut.parts) {
            const dst_strip strip(shape, cut, number);
            const Type *const src_plane = src + first_channel
                    + int64_t {strip.image} * shape.read_strides[0];
            const Type *const dst_plane = dst + first_channel
                    + int64_t {strip.image} * shape.written_strides[0];
#pragma unroll 1
            for (int of_strip = 0; of_strip < strip.stages; ++of_strip) {
                const int y = strip.begin + of_strip * rows;
                const uint32_t place = dst_place
                        + all_stages::place(stage) * cut.dst_bytes()
                        + margin * 16;
                stages.wait_for_room(stage);
                // Those rows that the stage before has not.
#pragma unroll 1
                for (int row = (of_strip == 0 ? 0 : size - 1) + first_row;
                        row < rows + size - 1; row += cut.copy_warps) {
                    const int h = y - down.pad + row;
                    const bool outside = static_cast<unsigned>(h)
                            >= static_cast<unsigned>(down.read);
                    const uint32_t to = src_place
                            + advance(slot, row) * cut.src_pitch * 16;
                    const Type *const from = outside
                            ? src
                            : src_plane + h * shape.read_strides[3];
                    if (whole)
                        src_rows.submit(to, from, outside);
                    else
                        src_rows.copy(to, from, outside);
                }
#pragma unroll 1
                for (int row = first_row; row < rows;
                        row += cut.copy_warps) {
                    const bool outside = y + row >= down.written;
                    const uint32_t to = place + row * cut.dst_pitch * 16;
                    const Type *const from = outside
                            ? dst
                            : dst_plane + (y + row) * shape.written_strides[3];
                    if (whole)
                        dst_rows.submit(to, from, outside);
                    else
                        dst_rows.copy(to, from, outside);
                }
                stages.submitted(stage, !whole);
                slot = advance(slot,
                        rows + (of_strip + 1 < strip.stages ? 0 : size - 1));
                ++stage;
            }
        }
    }

    const int first_column = column_part * cut.part_columns;
    const int last_column
            = min(along.read, first_column + cut.part_columns);
    // The rows of src of the lane's matrix: those beyond the window are loaded
    // from its last one, to no effect.
    const int src_row = tile * diagonals_dst_rows + lane / 8
            + min(lane % 8, size - 1);
    const uint32_t src_base = src_place
            + (group * cut.src_rows * cut.src_pitch + first_column) * 16;
    // Of dst the lane's word of the column that the first of src meets by the
    // first tap, and of the row two further down.
    const uint32_t dst_base = dst_place
            + ((group * rows + tile * diagonals_dst_rows + has.pixel)
                              * cut.dst_pitch
                      + first_column + size)
                    * 16
            + has.channel / 2 * 4;
    const auto two_rows = static_cast<uint32_t>(2 * cut.dst_pitch * 16);
    const auto load_word = [&](uint32_t address) {
        uint32_t word;
        asm volatile("ld.shared.b32 %0, [%1];"
                     : "=r"(word)
                     : "r"(address)
                     : "memory");
        return word & has.mask;
    };

    float sums[pairs][4] = {};
    float total[pairs][4] = {};
    int chain = 0;
#pragma unroll 1
    for (int number = warp < warps ? part : strips; number < strips; number += cut.parts) {
        const dst_strip strip(shape, cut, number);
#pragma unroll 1
        for (int of_strip = 0; of_strip < strip.stages; ++of_strip) {
            stages.wait_for(stage);
            const bool any = group < groups
                    && strip.begin + of_strip * rows
                                    + tile * diagonals_dst_rows
                            < down.written;
            if (any && first_column < last_column) {
                uint32_t src_at = src_base
                        + advance(slot, src_row) * cut.src_pitch * 16;
                uint32_t dst_at = dst_base
                        + all_stages::place(stage) * cut.dst_bytes();
                // Of the columns of src that are ahead and those before, in turns:
                // of dst the column that is met by the first tap, and in words 1
                // and 3 the one before that.
                uint32_t left[size][4];
                uint32_t before[2] = {load_word(dst_at - size * 16),
                        load_word(dst_at - size * 16 + two_rows)};
#pragma unroll
                for (int u = 1; u < size; ++u) {
                    const uint32_t at = dst_at - (size - u) * 16;
                    left[u][0] = load_word(at);
                    left[u][2] = load_word(at + two_rows);
                    left[u][1] = u == 1 ? before[0] : left[u - 1][0];
                    left[u][3] = u == 1 ? before[1] : left[u - 1][2];
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
                    for (int i = 0; i < pairs; ++i)
                        multiply_diagonals<Type>(sums[i],
                                left[(u + size - 2 * i) % size], right,
                                has.selected);
                };
                int column = first_column;
#pragma unroll 1
                for (; column + size <= last_column; column += size) {
#pragma unroll
                    for (int u = 0; u < size; ++u)
                        step(u);
                    src_at += size * 16;
                    dst_at += size * 16;
                }
#pragma unroll
                for (int u = 0; u < size - 1; ++u)
                    if (column + u < last_column) step(u);
                chain += last_column - first_column;
                if (chain > longest_chain - cut.part_columns) {
                    chain = 0;
#pragma unroll
                    for (int i = 0; i < pairs; ++i)
#pragma unroll
                        for (int e = 0; e < 4; ++e) {
                            total[i][e] += sums[i][e];
                            sums[i][e] = 0;
                        }
                }
            }
            slot = advance(slot,
                    rows + (of_strip + 1 < strip.stages ? 0 : size - 1));
            stages.done_with(stage);
            ++stage;
        }
    }

    // Of channel g: rows g are of even taps s, g + 8 of odd ones.
    constexpr int taps = size * size;
    auto *const of_warps = reinterpret_cast<float *>(shared);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < pairs; ++i)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            const int s = 2 * i + e / 2;
            const int r = lane % 4 * 2 + e % 2;
            if (warp < warps && s < size && r < size)
                of_warps[(warp * diagonals_channels + has.channel) * taps
                        + r * size + s]
                        = total[i][e] + sums[i][e];
        }
    __syncthreads();
    for (int i = thread; i < groups * diagonals_channels * taps;
            i += static_cast<int>(blockDim.x)) {
        const int channel = i / taps;
        const int k = i - channel * taps;
        float sum = 0;
        for (int from = channel / diagonals_channels; from < warps;
                from += cut.groups)
            sum += of_warps[(from * diagonals_channels
                                    + channel % diagonals_channels)
                            * taps
                    + k];
        partials[((first_channel + channel) * taps + k) * cut.parts + part]
                = sum;
    }
}

} // namespace

void prepare_depthwise_diagonals_weights(detail::data_type type,
        const depthwise_shape &shape, size_t shared_bytes) {
    with_float_type(type, [&]<typename Type>() {
        if constexpr (sizeof(Type) == 2)
            with_diagonals(shape, [&]<int size>() {
                check(cudaFuncSetAttribute(
                              depthwise_diagonals_weights_kernel<Type, size>,
                              cudaFuncAttributeMaxDynamicSharedMemorySize,
                              static_cast<int>(shared_bytes)),
                        "cudaFuncSetAttribute");
            });
    });
}

void launch_depthwise_diagonals_weights(detail::data_type type,
        const depthwise_shape &shape, const depthwise_diagonals_weights &cut,
        bool whole, const depthwise_pointers &pointers,
        const launch_stream &stream) {
    with_float_type(type, [&]<typename Type>() {
        if constexpr (sizeof(Type) == 2)
            with_diagonals(shape, [&]<int size>() {
                launch_early("convolution.gpu_depthwise (diagonals, weights)",
                        depthwise_diagonals_weights_kernel<Type, size>,
                        static_cast<unsigned>(cut.blocks()),
                        static_cast<unsigned>(
                                cut.all_warps() * 32),
                        cut.shared_bytes, stream,
                        static_cast<const Type *>(pointers.read),
                        static_cast<const Type *>(pointers.written),
                        static_cast<float *>(pointers.workspace), shape, cut,
                        whole);
            });
    });
}

} // namespace gradnn::gpu
