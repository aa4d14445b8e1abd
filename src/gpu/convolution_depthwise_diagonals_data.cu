// Depthwise convolution in NXC, forward and gradient of src, on tensor cores.
//
//     written[n,h,w,c] = sum over r, s of
//                        window[c,r,s] * read[n,h - before + r,w - before + s,c]
//
// where the window of the gradient of src is turned around. Eight pixels of a row
// of eight channels each are an 8x8 matrix; those of four taps, one below the other,
// times the taps' weights, as diagonal matrices side by side (those of a row of
// written, and below them those of the next one), are a part of two rows of written
// of eight columns. So a pair of rows of read, of `size` matrices each that lie a
// pixel apart, takes some four taps at a time for every pair of rows of written that
// it meets.
//
// A block has some channels and columns. Its rows of read come to shared memory some
// stages ahead, each once; a warp has eight channels and columns, the weights and
// the open rows of written in registers, and walks down the rows. Products with the matrices' zeros are NaN where read or the window is infinite or
// NaN: what came out infinite or NaN is in the end taken again from the definition.
#include <cstddef>

#include "gpu/convolution_depthwise_diagonals.cuh"
#include "gpu/cuda_check.hpp"
#include "gpu/launch.hpp"

namespace gradnn::gpu {

namespace {

/// A pair of rows of read at a time, those of a strip: step m has rows `first` +
/// 2m and on, opens the pair of rows of written `open` + 2m and completes the one
/// that was opened diagonals_pairs - 1 steps ago. Rows of read are even numbers
/// from the first of the plane, so that pairs are inside or outside.
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

    strip_steps() = default;
    __device__ strip_steps(const depthwise_shape &shape,
            const depthwise_diagonals_data &cut, int strip) {
        const depthwise_axis &down = shape.axes[1];
        const int before = taps_before(down, shape.to_src);
        image = cut.strips == 1 ? strip : strip / cut.strips;
        written_begin = (strip - image * cut.strips) * cut.strip_rows;
        written_end = min(down.written, written_begin + cut.strip_rows);
        open = written_begin - ((written_begin + before) & 1);
        first = open - before;
        begin = max(0, -first / 2);
        end = (written_end - open + 1) / 2 + diagonals_pairs(size) - 1;
        multiply_end = min(end, (down.read - first + 1) / 2);
    }
};

/// sums + 0 * bits, of two elements each.
template <typename Type>
__device__ __forceinline__ uint32_t add_zero_times(
        uint32_t bits, uint32_t sums) {
    using pair = std::conditional_t<std::is_same_v<Type, __half>, __half2,
            __nv_bfloat162>;
    const uint32_t zeros = 0;
    const pair sum = __hfma2(reinterpret_cast<const pair &>(bits),
            reinterpret_cast<const pair &>(zeros),
            reinterpret_cast<const pair &>(sums));
    return reinterpret_cast<const uint32_t &>(sum);
}

/// Two elements to where they are aligned as two, or not (`whole`).
template <typename Type>
__device__ __forceinline__ void store_two(
        Type *to, uint32_t word, bool whole) {
    if (whole) {
        *reinterpret_cast<uint32_t *>(to) = word;
        return;
    }
    auto *const elements = reinterpret_cast<unsigned short *>(to);
    elements[0] = static_cast<unsigned short>(word);
    elements[1] = static_cast<unsigned short>(word >> 16);
}

template <typename Type, int size>
__global__ void __launch_bounds__(diagonals_data_warps(size) * 32, 1)
        depthwise_diagonals_data_kernel(const Type *read, const Type *weights,
                Type *written, const __grid_constant__ depthwise_shape shape,
                const __grid_constant__ depthwise_diagonals_data cut,
                bool whole) {
    constexpr int pairs = diagonals_pairs(size);
    constexpr int quads = diagonals_quads(size);
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
    const auto rest = static_cast<int>(blockIdx.x / cut.channel_tiles);
    const int band = rest % cut.column_bands;
    const int part = rest / cut.column_bands;
    const int64_t first_channel
            = channel_tile * cut.groups * diagonals_channels;
    const int groups = static_cast<int>(min(int64_t {cut.groups},
            (shape.channels - first_channel) / diagonals_channels));
    const int group = warp % cut.groups;
    const int tile = warp / cut.groups;

    // Of the band: columns of written, and of read those inside, which lie
    // `margin` pixels on in shared memory, between zeros.
    const int written_column = band * cut.tiles * diagonals_columns;
    const int written_columns = min(
            along.written - written_column, cut.tiles * diagonals_columns);
    const int met = written_column - taps_before(along, shape.to_src);
    const int read_column = max(0, met);
    const int read_columns = max(0,
            min(along.read, met + cut.tiles * diagonals_columns + size - 1)
                    - read_column);
    const int margin = read_column - met;
    const pixel_rows<Type> read_rows(read_columns, shape.read_strides[4],
            cut.groups, groups, cut.pitch * 16);
    const Type *const from_band
            = read + first_channel + read_column * shape.read_strides[4];
    Type *const to_band = written + first_channel
            + written_column * shape.written_strides[4];

    const auto base = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
    const uint32_t places = base + diagonals_barriers_bytes(diagonals_data_stages);
    for (int i = thread; i * 16 < static_cast<int>(cut.shared_bytes);
            i += static_cast<int>(blockDim.x))
        shared[i] = uint4 {};
    __syncthreads();
    using all_stages = diagonal_stages<diagonals_data_stages>;
    const all_stages stages(base, cut.copy_warps, warps);
    __syncthreads();
    wait_for_earlier_work();

    const int strips = static_cast<int>(shape.images) * cut.strips;
    int stage = 0;
    if (warp >= warps) {
        const int first_row = warp - warps;
#pragma unroll 1
        for (int strip = part; strip < strips; strip += cut.parts) {
            const strip_steps<size> steps(shape, cut, strip);
            const Type *const plane = from_band
                    + int64_t {steps.image} * shape.read_strides[0];
#pragma unroll 1
            for (int step = steps.begin; step < steps.end; step += diagonals_steps) {
                const int rows
                        = 2 * min(diagonals_steps, steps.multiply_end - step);
                const int first = steps.first + 2 * step;
                const uint32_t place = places
                        + all_stages::place(stage) * cut.stage_bytes()
                        + margin * 16;
                stages.wait_for_room(stage);
#pragma unroll 1
                for (int row = first_row; row < rows;
                        row += cut.copy_warps) {
                    const bool outside = first + row >= down.read;
                    const uint32_t to = place + row * cut.row_bytes();
                    const Type *const from = outside
                            ? read
                            : plane + (first + row) * shape.read_strides[3];
                    if (whole)
                        read_rows.submit(to, from, outside);
                    else
                        read_rows.copy(to, from, outside);
                }
                stages.submitted(stage, !whole);
                ++stage;
            }
        }
    }

    uint32_t products = 0;
    if (warp < warps) {
    // The weights of eight channels: of a pair of rows of read, tap after tap of
    // the upper one, then of the lower one, four at a time, for the pair of rows of
    // written that was opened so many steps ago.
    uint32_t left[pairs][quads][4];
    const int turned = shape.to_src ? -1 : 1;
    const int64_t down_taps = turned * shape.weights_strides[2];
    const int64_t along_taps = turned * shape.weights_strides[3];
    const auto *window = reinterpret_cast<const unsigned short *>(weights)
            + (first_channel + group * diagonals_channels + has.channel)
                    * shape.weights_strides[0];
    if (shape.to_src) window -= (size - 1) * (down_taps + along_taps);
#pragma unroll
    for (int q = 0; q < quads; ++q)
#pragma unroll
        for (int word = 0; word < 4; ++word) {
            const int tap = 4 * q + 2 * (word / 2) + has.pixel;
            const int row = tap / size;
            int r = row - word % 2;
            const auto *at = window + r * down_taps
                    + (tap - row * size) * along_taps;
            const bool any = has.any && row < 2 && group < groups;
#pragma unroll
            for (int i = 0; i < pairs; ++i) {
                uint32_t bits = 0;
                if (any && r >= 0 && r < size) bits = *at;
                left[i][q][word] = (bits | bits << 16) & has.mask;
                r += 2;
                at += 2 * down_taps;
            }
        }

    // Of the eight pixels of each of a quad's taps: the lane's, from the first.
    uint32_t offsets[quads];
#pragma unroll
    for (int q = 0; q < quads; ++q) {
        const int tap = min(4 * q + lane / 8, 2 * size - 1);
        offsets[q] = places + tap / size * cut.row_bytes() + tap % size * 16
                + (group * cut.pitch + tile * diagonals_columns + lane % 8)
                        * 16;
    }
    // The pixel whose results the lane has, two channels of them.
    const int column = tile * diagonals_columns + lane / 4;
    const bool stores = group < groups && column < written_columns;
    Type *const to_pixel = to_band + column * shape.written_strides[4]
            + group * diagonals_channels + lane % 4 * 2;

    float sums[pairs][4] = {};
#pragma unroll 1
    for (int strip = part; strip < strips; strip += cut.parts) {
        const strip_steps<size> steps(shape, cut, strip);
        int h = steps.open + 2 * (steps.begin - (pairs - 1));
        Type *to = to_pixel + int64_t {steps.image} * shape.written_strides[0]
                + h * shape.written_strides[3];
#pragma unroll 1
        for (int step = steps.begin; step < steps.end; step += diagonals_steps) {
            stages.wait_for(stage);
            uint32_t from
                    = all_stages::place(stage) * cut.stage_bytes();
            const int end = min(step + diagonals_steps, steps.end);
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
#pragma unroll
        for (int i = 0; i < pairs; ++i)
#pragma unroll
            for (int e = 0; e < 4; ++e)
                sums[i][e] = 0;
    }
    }
    if (__syncthreads_or(products != 0) == 0) return;
#pragma unroll 1
    for (int strip = part; strip < strips; strip += cut.parts) {
        const strip_steps<size> steps(shape, cut, strip);
        const int rows = steps.written_end - steps.written_begin;
#pragma unroll 1
        for (int i = thread; i < rows * written_columns * groups * diagonals_channels;
                i += static_cast<int>(blockDim.x)) {
            const int channel = i % (groups * diagonals_channels);
            const int pixel = i / (groups * diagonals_channels);
            const int w = pixel % written_columns;
            const int h = steps.written_begin + pixel / written_columns;
            Type &result = to_band[int64_t {steps.image}
                            * shape.written_strides[0]
                    + h * shape.written_strides[3]
                    + w * shape.written_strides[4] + channel];
            if (!is_finite(widen(result)))
                result = narrow<Type>(exact_element(read, weights, shape,
                        steps.image, first_channel + channel, 0, h,
                        written_column + w));
        }
    }
}

} // namespace

void prepare_depthwise_diagonals_data(detail::data_type type,
        const depthwise_shape &shape, size_t shared_bytes) {
    with_float_type(type, [&]<typename Type>() {
        if constexpr (sizeof(Type) == 2)
            with_diagonals(shape, [&]<int size>() {
                check(cudaFuncSetAttribute(
                              depthwise_diagonals_data_kernel<Type, size>,
                              cudaFuncAttributeMaxDynamicSharedMemorySize,
                              static_cast<int>(shared_bytes)),
                        "cudaFuncSetAttribute");
            });
    });
}

void launch_depthwise_diagonals_data(detail::data_type type,
        const depthwise_shape &shape, const depthwise_diagonals_data &cut,
        bool whole, const depthwise_pointers &pointers,
        const launch_stream &stream) {
    with_float_type(type, [&]<typename Type>() {
        if constexpr (sizeof(Type) == 2)
            with_diagonals(shape, [&]<int size>() {
                launch_early("convolution.gpu_depthwise (diagonals)",
                        depthwise_diagonals_data_kernel<Type, size>,
                        static_cast<unsigned>(cut.blocks()),
                        static_cast<unsigned>(
                                cut.all_warps() * 32),
                        cut.shared_bytes, stream,
                        static_cast<const Type *>(pointers.read),
                        static_cast<const Type *>(pointers.weights),
                        static_cast<Type *>(pointers.written), shape, cut,
                        whole);
            });
    });
}

} // namespace gradnn::gpu
