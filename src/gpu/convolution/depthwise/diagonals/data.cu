// Depthwise convolution in NXC, forward and gradient of src, on tensor cores.
//
//     written[n,h,w,c] = sum over r, s of
//                        window[c,r,s] * read[n,h - before + r,w - before + s,c]
//
// where the window of the gradient of src is turned around. Eight pixels of a
// row of eight channels each are an 8x8 matrix; those of four taps, one below
// the other, times the taps' weights, as diagonal matrices side by side (those
// of a row of written, and below them those of the next one), are a part of two
// rows of written of eight columns. So a pair of rows of read, of `size`
// matrices each that lie a pixel apart, takes some four taps at a time for
// every pair of rows of written that it meets.
//
// A block has some channels and columns. Its rows of read come to shared memory
// some stages ahead, each once; a warp has eight channels and columns, the
// weights and the open rows of written in registers, and walks down the rows.
// Products with the matrices' zeros are NaN where read or the window is
// infinite or NaN: what came out NaN is in the end taken again from the
// definition.
#include "gpu/convolution/depthwise/diagonals/device.cuh"
#include "gpu/convolution/depthwise/launch.hpp"
#include "gpu/runtime/cuda_check.hpp"
#include <cstddef>

namespace gradnn::gpu::depthwise::diagonals {

namespace {

using data_stages = stage_queue<data_stage_count>;

/// A pair of rows of read at a time, those of a strip: step m has rows `first`
/// + 2m and on, opens the pair of rows of written `open` + 2m and completes the
/// one that was opened pairs_of - 1 steps ago. Pairs of rows of read
/// begin at even ones of the plane, so that of the last alone one may be
/// outside.
template <int size>
struct strip_steps {
    int image = 0;
    int written_begin = 0;
    int written_end = 0;
    int first = 0; ///< may be outside, as may the next
    int open = 0;
    int begin = 0; ///< the first step that meets a row of read
    int multiply_end = 0; ///< no step from here on does
    int end = 0;

    __device__ strip_steps(
            const problem_shape &shape, const data_cut &cut, int strip) {
        const window_axis &down = shape.axes[1];
        const int before = taps_before(down, shape.to_src);
        image = cut.strips == 1 ? strip : strip / cut.strips;
        written_begin = (strip - image * cut.strips) * cut.strip_rows;
        written_end = min(down.written, written_begin + cut.strip_rows);
        open = written_begin - ((written_begin + before) & 1);
        first = open - before;
        begin = max(0, -first / 2);
        end = (written_end - open + 1) / 2 + pairs_of(size) - 1;
        multiply_end = min(end, (down.read - first + 1) / 2);
    }
};

/// Two neighbours, together where they are aligned as two (`whole`).
template <typename Type>
__device__ __forceinline__ void store_two(Type *to, uint32_t word, bool whole) {
    if (whole) {
        *reinterpret_cast<uint32_t *>(to) = word;
        return;
    }
    auto *const elements = reinterpret_cast<unsigned short *>(to);
    elements[0] = static_cast<unsigned short>(word);
    elements[1] = static_cast<unsigned short>(word >> 16);
}

/// What a block has: some groups of channels, a band of columns, and every
/// `parts`-th of the strips of all images.
template <typename Type>
struct data_block {
    const problem_shape &shape;
    const data_cut &cut;
    int64_t first_channel;
    int groups; ///< of those of the cut, that the tensor has
    int part;
    int strips;
    // Columns of written, and those of read that are inside, which lie `margin`
    // pixels on in shared memory, between zeros.
    int written_column;
    int written_columns;
    int read_column;
    int read_columns;
    int margin;

    __device__ data_block(
            const problem_shape &shape, const data_cut &cut, int size)
        : shape(shape), cut(cut) {
        const window_axis &along = shape.axes[2];
        const auto rest = static_cast<int>(blockIdx.x / cut.channel_tiles);
        part = rest / cut.column_bands;
        strips = static_cast<int>(shape.images) * cut.strips;
        first_channel
                = blockIdx.x % cut.channel_tiles * cut.groups * group_channels;
        groups = static_cast<int>(min(int64_t {cut.groups},
                (shape.channels - first_channel) / group_channels));
        const int columns = cut.tiles * tile_columns;
        written_column = rest % cut.column_bands * columns;
        written_columns = min(along.written - written_column, columns);
        const int met = written_column - taps_before(along, shape.to_src);
        read_column = max(0, met);
        read_columns = max(
                0, min(along.read, met + columns + size - 1) - read_column);
        margin = read_column - met;
    }

    /// The first column's first channel of an image.
    __device__ const Type *from(const Type *read, int image) const {
        return read + first_channel + int64_t {image} * shape.read_strides[0]
                + read_column * shape.read_strides[4];
    }
    __device__ Type *to(Type *written, int image) const {
        return written + first_channel
                + int64_t {image} * shape.written_strides[0]
                + written_column * shape.written_strides[4];
    }
};

/// The work of a warp that copies, of which it is the `first_row`th.
template <typename Type, int size>
__device__ __forceinline__ void copy_strips(const data_block<Type> &block,
        const data_stages &stages, uint32_t places, int first_row,
        const Type *read, bool whole) {
    const problem_shape &shape = block.shape;
    const data_cut &cut = block.cut;
    const pixel_rows<Type> pixels(block.read_columns, shape.read_strides[4],
            cut.groups, block.groups, cut.pitch * 16);
    int stage = 0;
#pragma unroll 1
    for (int strip = block.part; strip < block.strips; strip += cut.parts) {
        const strip_steps<size> steps(shape, cut, strip);
        const Type *const plane = block.from(read, steps.image);
#pragma unroll 1
        for (int step = steps.begin; step < steps.end; step += stage_steps) {
            const int rows = 2 * min(stage_steps, steps.multiply_end - step);
            const int first = steps.first + 2 * step;
            const uint32_t place = places
                    + data_stages::place(stage) * cut.stage_bytes()
                    + block.margin * 16;
            stages.wait_for_room(stage);
#pragma unroll 1
            for (int row = first_row; row < rows; row += cut.copy_warps) {
                const bool outside = first + row >= shape.axes[1].read;
                const uint32_t to = place + row * cut.row_bytes();
                const Type *const from = outside
                        ? read
                        : plane + (first + row) * shape.read_strides[3];
                if (whole)
                    pixels.submit(to, from, outside);
                else
                    pixels.copy(to, from, outside);
            }
            stages.submitted(stage, !whole);
            ++stage;
        }
    }
}

/// The weights of eight channels: of a pair of rows of read, tap after tap of
/// the upper one, then of the lower one, four at a time, for the pair of rows
/// of written that was opened so many steps ago.
template <typename Type, int size>
__device__ __forceinline__ void load_window(
        uint32_t (&left)[pairs_of(size)][quads_of(size)][4],
        const Type *weights, const problem_shape &shape, int64_t channel,
        const lane_place &has) {
    const int turned = shape.to_src ? -1 : 1;
    const int64_t down_taps = turned * shape.weights_strides[2];
    const int64_t along_taps = turned * shape.weights_strides[3];
    const auto *window = reinterpret_cast<const unsigned short *>(weights)
            + (channel + has.channel) * shape.weights_strides[0];
    if (shape.to_src) window -= (size - 1) * (down_taps + along_taps);
#pragma unroll
    for (int q = 0; q < quads_of(size); ++q)
#pragma unroll
        for (int word = 0; word < 4; ++word) {
            const int tap = 4 * q + 2 * (word / 2) + has.pixel;
            const int row = tap / size;
            int r = row - word % 2;
            const auto *at
                    = window + r * down_taps + (tap - row * size) * along_taps;
            const bool any = has.any && row < 2;
#pragma unroll
            for (int i = 0; i < pairs_of(size); ++i) {
                uint32_t bits = 0;
                if (any && r >= 0 && r < size) bits = *at;
                left[i][q][word] = (bits | bits << 16) & has.mask;
                r += 2;
                at += 2 * down_taps;
            }
        }
}

/// The work of a warp that multiplies; whether all that came out is finite.
template <typename Type, int size>
__device__ __forceinline__ bool multiply_strips(const data_block<Type> &block,
        const data_stages &stages, uint32_t places, int warp,
        const Type *weights, Type *written, bool whole) {
    constexpr int pairs = pairs_of(size);
    constexpr int quads = quads_of(size);
    const problem_shape &shape = block.shape;
    const data_cut &cut = block.cut;
    const auto lane = static_cast<int>(threadIdx.x % 32);
    const lane_place has;
    const int group = warp % cut.groups;
    const int first_column = warp / cut.groups * tile_columns;
    // A group beyond the tensor's multiplies zeros by what the first group has.
    const bool any = group < block.groups;
    uint32_t left[pairs][quads][4];
    load_window<Type, size>(left, weights, shape,
            block.first_channel + (any ? group : 0) * group_channels, has);
    // Of the eight pixels of each of a quad's taps: the lane's, from the first.
    uint32_t offsets[quads];
#pragma unroll
    for (int q = 0; q < quads; ++q) {
        const int tap = min(4 * q + lane / 8, 2 * size - 1);
        offsets[q] = places + tap / size * cut.row_bytes() + tap % size * 16
                + (group * cut.pitch + first_column + lane % 8) * 16;
    }
    // The pixel whose results the lane has, two channels of them.
    const int column = first_column + lane / 4;
    const bool stores = any && column < block.written_columns;
    const int64_t pixel = column * shape.written_strides[4]
            + group * group_channels + lane % 4 * 2;

    float sums[pairs][4] = {};
    uint32_t products = 0;
    int stage = 0;
#pragma unroll 1
    for (int strip = block.part; strip < block.strips; strip += cut.parts) {
        const strip_steps<size> steps(shape, cut, strip);
        int h = steps.open + 2 * (steps.begin - (pairs - 1));
        Type *to = block.to(written, steps.image) + pixel
                + h * shape.written_strides[3];
#pragma unroll 1
        for (int step = steps.begin; step < steps.end; step += stage_steps) {
            stages.wait_for(stage);
            uint32_t from = data_stages::place(stage) * cut.stage_bytes();
            const int end = min(step + stage_steps, steps.end);
#pragma unroll 1
            for (int m = step; m < end; ++m) {
                if (m < steps.multiply_end) {
                    uint32_t right[quads][4];
#pragma unroll
                    for (int q = 0; q < quads; ++q)
                        load_matrices(right[q], from + offsets[q]);
#pragma unroll
                    for (int q = 0; q < quads; ++q)
#pragma unroll
                        for (int i = 0; i < pairs; ++i)
                            multiply_diagonals<Type>(sums[i], left[i][q],
                                    right[q], has.selected);
                }
#pragma unroll
                for (int row = 0; row < 2; ++row) {
                    const float two[2] = {sums[pairs - 1][2 * row],
                            sums[pairs - 1][2 * row + 1]};
                    const uint32_t word
                            = transpose_matrix(pack<Type, 2>::of(two).bits);
                    products = add_zero_times<Type>(word, products);
                    if (stores && h >= steps.written_begin
                            && h < steps.written_end)
                        store_two(to, word, whole);
                    ++h;
                    to += shape.written_strides[3];
                }
#pragma unroll
                for (int e = 0; e < 4; ++e) {
#pragma unroll
                    for (int i = pairs - 1; i > 0; --i)
                        sums[i][e] = sums[i - 1][e];
                    sums[0][e] = 0;
                }
                from += 2 * cut.row_bytes();
            }
            stages.done_with(stage);
            ++stage;
        }
        // Pairs of rows beyond the strip.
#pragma unroll
        for (int i = 0; i < pairs; ++i)
#pragma unroll
            for (int e = 0; e < 4; ++e)
                sums[i][e] = 0;
    }
    return products == 0;
}

/// By all threads of a block: what it wrote that is NaN, from the definition.
template <typename Type, int size>
__device__ void take_all_again(const data_block<Type> &block, const Type *read,
        const Type *weights, Type *written) {
    const problem_shape &shape = block.shape;
    const int channels = block.groups * group_channels;
#pragma unroll 1
    for (int strip = block.part; strip < block.strips;
            strip += block.cut.parts) {
        const strip_steps<size> steps(shape, block.cut, strip);
        Type *const plane = block.to(written, steps.image);
#pragma unroll 1
        for (int h = steps.written_begin; h < steps.written_end; ++h)
#pragma unroll 1
            for (auto i = static_cast<int>(threadIdx.x);
                    i < block.written_columns * channels;
                    i += static_cast<int>(blockDim.x)) {
                const int column = i / channels;
                const int channel = i - column * channels;
                Type &result = plane[h * shape.written_strides[3]
                        + column * shape.written_strides[4] + channel];
                take_again(result, read, weights, shape, steps.image,
                        block.first_channel + channel, 0, h,
                        block.written_column + column);
            }
    }
}

template <typename Type, int size>
__global__ void __launch_bounds__(data_warps(size) * 32, 1)
        depthwise_diagonals_data_kernel(const Type *read, const Type *weights,
                Type *written, const __grid_constant__ problem_shape shape,
                const __grid_constant__ data_cut cut, bool whole) {
    extern __shared__ uint4 shared[];
    const auto thread = static_cast<int>(threadIdx.x);
    const int warp = __shfl_sync(0xffffffffU, thread / 32, 0);
    const data_block<Type> block(shape, cut, size);
    const auto base = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
    const uint32_t places = base + barriers_bytes(data_stage_count);
    clear_shared(shared, cut.shared_bytes);
    const data_stages stages(base, cut.copy_warps, cut.warps());
    __syncthreads();
    wait_for_earlier_work();
    bool finite = true;
    if (warp < cut.warps())
        finite = multiply_strips<Type, size>(
                block, stages, places, warp, weights, written, whole);
    else
        copy_strips<Type, size>(
                block, stages, places, warp - cut.warps(), read, whole);
    if (__syncthreads_or(!finite) != 0)
        take_all_again<Type, size>(block, read, weights, written);
}

} // namespace

void prepare_data(detail::data_type type, const problem_shape &shape,
        size_t shared_bytes) {
    with_constants(type, shape, [&]<typename Type, int size>() {
        allow_shared_bytes(
                depthwise_diagonals_data_kernel<Type, size>, shared_bytes);
    });
}

launcher data_launcher(const launch_facts &facts, const work_cut &both) {
    const data_cut &cut = both.data;
    return with_constants(
            facts.type, facts.shape, [&]<typename Type, int size>() {
                return launch_of_data(facts,
                        "convolution.gpu_depthwise_diagonals",
                        depthwise_diagonals_data_kernel<Type, size>,
                        cut.blocks(), cut.all_warps() * 32, cut.shared_bytes,
                        cut, facts.alignment.vectors);
            });
}

} // namespace gradnn::gpu::depthwise::diagonals
