// Depthwise convolution, gradient of the weights, planes in shared memory.
//
//     diff_weights[k,c] = sum over n, y of
//                         src[n,c,y*stride-pad+k] * dst[n,c,y]
//
// A block has the planes of src and dst of some neighbouring channels, or a band of
// the rows of one, in every `image_parts`-th image, which it copies to shared
// memory as they lie: 16 bytes at a time, whatever the length of a row is. A
// thread has all taps of a channel and of dst a strip of neighbouring columns and
// rows. It walks down the strip, a row of dst and `stride` rows of src at a time:
// it keeps the last rows of dst that a row of src meets, and multiplies them with
// it into the taps' sums. In the end a block adds up its threads of the same
// channel, in a fixed order, and writes one partial sum a weight, which a second
// launch adds up (convolution/depthwise/parts.cu). Columns and rows outside are
// zeros; what comes out infinite or NaN is taken again there.
#include "gpu/convolution/depthwise/launch.hpp"
#include "gpu/convolution/depthwise/planes/device.cuh"
#include <cstddef>

namespace gradnn::gpu::depthwise::planes {

namespace {

template <typename Type, int size, int stride, int wide, int run>
__global__ void __launch_bounds__(
        walking_threads, resident_blocks(size, sizeof(Type)))
        depthwise_planes_weights_kernel(const Type *src, const Type *dst,
                sum_of<Type> *partials,
                const __grid_constant__ problem_shape shape,
                const __grid_constant__ work_cut cut) {
    using sum = sum_of<Type>;
    constexpr int span = (run - 1) * stride + size;
    constexpr int ahead = (size - 1) / stride;
    constexpr int rows_kept = ahead + 1;
    extern __shared__ uint4 shared[];
    auto *const memory = reinterpret_cast<std::byte *>(shared);
    auto *const sums = reinterpret_cast<sum *>(shared); // in the end
    const auto &[deep, down, along] = shape.axes;
    const auto thread = static_cast<int>(threadIdx.x);
    const auto threads = static_cast<int>(blockDim.x);
    const auto block = static_cast<int>(blockIdx.x);
    const int band = block % cut.bands;
    const int image_part = block / cut.bands % cut.image_parts;
    const int64_t first_channel
            = int64_t {block / cut.bands / cut.image_parts} * cut.planes;
    const auto planes = static_cast<int>(
            min(int64_t {cut.planes}, shape.channels - first_channel));

    // Rows of both that the band meets, as they lie in memory.
    const int first_row = band * cut.band_steps;
    const int end_row = min(down.written, first_row + cut.band_steps);
    held_rows in {0, down.read};
    if (cut.bands > 1) {
        in.begin = max(0, min(first_row * stride - down.pad, down.read));
        in.end = max(in.begin,
                min((end_row - 1) * stride - down.pad + size, down.read));
    }
    const int in_rows = in.end - in.begin;
    const int dst_rows = end_row - first_row;

    const thread_place place(cut);
    const int strip_begin = first_row + place.strip * cut.strip_steps;
    const int strip_end = min(end_row, strip_begin + cut.strip_steps);
    const bool works = place.plane < planes && strip_begin < strip_end;
    const int w = place.group * run;
    const int src_column = w * stride - along.pad;
    const masked_columns<Type, span, wide, lead_of(size, stride, false)>
            src_columns(src_column, along.read);
    const masked_columns<Type, run, wide, 0> dst_columns(w, along.written);
    sum total[size][size] = {};
    wait_and_let_later_work_start();

#pragma unroll 1
    for (int64_t image = image_part; image < shape.images;
            image += cut.image_parts) {
        const int64_t first_plane = image * shape.channels + first_channel;
        const Type *const from_src
                = src + (first_plane * down.read + in.begin) * along.read;
        const Type *const from_dst = dst
                + (first_plane * down.written + first_row) * along.written;
        Type *const held_src = place_of(memory, from_src);
        Type *const held_dst = place_of(memory + cut.read_bytes, from_dst);
        if (image != image_part) __syncthreads();
        copy_in(held_src, from_src, planes * in_rows * along.read);
        copy_in(held_dst, from_dst, planes * dst_rows * along.written);
        wait_for_copies<0>();
        __syncthreads();
        if (!works) continue;

        const Type *const first_src = held_src
                + (place.plane * in_rows - in.begin) * along.read + src_column;
        const Type *const first_dst = held_dst
                + (place.plane * dst_rows - first_row) * along.written + w;
        // Row y of dst is in place (y - strip_begin) % rows_kept.
        sum kept[rows_kept][run] = {};
        int y = strip_begin;
        const int end = strip_end + ahead;
#pragma unroll 1
        while (y < end) {
#pragma unroll
            for (int at = 0; at < rows_kept; ++at) {
#pragma unroll
                for (int i = 0; i < run; ++i)
                    kept[at][i] = 0;
                if (y < strip_end)
                    dst_columns.load(first_dst + y * along.written, kept[at]);
#pragma unroll
                for (int q = 0; q < stride; ++q) {
                    const int h = y * stride + q - down.pad;
                    if (h < in.begin || h >= in.end) continue;
                    sum values[span];
                    src_columns.load(first_src + h * along.read, values);
#pragma unroll
                    for (int kh = q; kh < size; kh += stride)
#pragma unroll
                        for (int e = 0; e < size; ++e)
#pragma unroll
                            for (int i = 0; i < run; ++i)
                                total[kh][e]
                                        += kept[(at + rows_kept
                                                        - (kh - q) / stride)
                                                   % rows_kept][i]
                                        * values[i * stride + e];
                }
                if (++y == end) break;
            }
        }
    }

    __syncthreads();
#pragma unroll
    for (int k = 0; k < size * size; ++k)
        sums[k * threads + thread] = total[k / size][k % size];
    __syncthreads();
    const int64_t part = int64_t {image_part} * cut.bands + band;
    for (int i = thread; i < planes * size * size; i += threads) {
        const int of_plane = i / (size * size);
        const int k = i - of_plane * size * size;
        const sum *const of_threads
                = sums + k * threads + of_plane * cut.plane_distance;
        sum of_channel = 0;
        for (int strip = 0; strip < cut.strips; ++strip)
            for (int group = 0; group < cut.groups; ++group)
                of_channel += of_threads[strip * cut.strip_distance
                        + group * cut.group_distance];
        partials[((first_channel + of_plane) * size * size + k) * cut.parts()
                + part]
                = of_channel;
    }
}

} // namespace

launcher weights_launcher(const launch_facts &facts, const work_cut &cut) {
    const bool wide = facts.alignment.pairs
            && rows_are_wide(facts.shape, wide_pads(facts.shape, true));
    return with_float_type(facts.type, [&]<typename Type>() {
        return with_constants(
                facts.shape, wide, [&]<int size, int stride, int width>() {
                    return launch_of_weights(facts,
                            "convolution.gpu_depthwise_planes (weights)",
                            depthwise_planes_weights_kernel<Type, size, stride,
                                    width, weights_run(size, sizeof(Type))>,
                            cut.tiles * cut.parts(), cut.threads,
                            cut.shared_bytes, cut);
                });
    });
}

} // namespace gradnn::gpu::depthwise::planes
