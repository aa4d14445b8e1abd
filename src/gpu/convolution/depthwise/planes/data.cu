// Depthwise convolution, forward and gradient of src, planes in shared memory.
//
//     written[n,c,x] = sum over k of weights[c,k] * read[n,c,position(x,k)]
//
// A block copies whole planes, or a band of the rows of one, to shared memory
// as they lie: 16 bytes at a time, whatever the length of a row is. A thread
// has 8 (f64: 4) neighbouring columns of written and walks along H, down in the
// forward direction and up in the gradient of src, so that the taps come in
// ascending order. It loads each row that its columns meet once, one or two
// elements at a time, and multiplies it into the sums of the rows of written
// that meet it, of which it keeps those that this does not complete (with a
// stride of 2 it completes two at a time). Results are collected in shared
// memory and leave as they came. Columns and rows outside are zeros, and sums
// that come out NaN are taken again from the definition.
#include "gpu/convolution/depthwise/launch.hpp"
#include "gpu/convolution/depthwise/planes/device.cuh"
#include <cstddef>

namespace gradnn::gpu::depthwise::planes {

namespace {

template <typename Type, int size, int stride, int wide>
__global__ void __launch_bounds__(
        walking_threads, resident_blocks(size, sizeof(Type)))
        depthwise_planes_data_kernel(const Type *read, const Type *weights,
                Type *written, const __grid_constant__ problem_shape shape,
                const __grid_constant__ work_cut cut) {
    using sum = sum_of<Type>;
    constexpr int run = data_run(sizeof(Type));
    constexpr int span = columns_met<size, stride, run>;
    constexpr int ahead = (size - 1) / stride; // steps before rows complete
    extern __shared__ uint4 shared[];
    auto *const memory = reinterpret_cast<std::byte *>(shared);
    auto *const kernels = reinterpret_cast<sum *>(
            memory + cut.read_bytes + cut.written_bytes);
    const auto &[deep, down, along] = shape.axes;
    const auto thread = static_cast<int>(threadIdx.x);
    const auto threads = static_cast<int>(blockDim.x);
    const auto block = static_cast<int>(blockIdx.x);
    const int band = block % cut.bands;
    const int64_t first_plane = int64_t {block / cut.bands} * cut.planes;
    const auto planes = static_cast<int>(min(
            int64_t {cut.planes}, shape.images * shape.channels - first_plane));
    const bool mirrored = !shape.to_src;
    const int pad = cut.steps.pad;

    // Rows as they lie in memory: all, or those that the band's steps meet.
    const int first_step = band * cut.band_steps;
    const int end_step = min(cut.steps.count, first_step + cut.band_steps);
    const auto rows_of = [&](int begin, int end, int rows) -> held_rows {
        if (cut.bands == 1) return {0, rows};
        begin = max(0, min(begin, rows));
        end = max(begin, min(end, rows));
        return mirrored ? held_rows {rows - end, rows - begin}
                        : held_rows {begin, end};
    };
    const int bottom = cut.steps.top - end_step + 1;
    const held_rows in = rows_of(
            bottom, cut.steps.top - first_step + ahead + 1, down.read);
    const held_rows out = rows_of(bottom * stride + size - stride - pad,
            (cut.steps.top - first_step) * stride + size - pad, down.written);

    const int64_t read_plane = int64_t {down.read} * along.read;
    const int64_t written_plane = int64_t {down.written} * along.written;
    const Type *const from
            = read + first_plane * read_plane + int64_t {in.begin} * along.read;
    Type *const to = written + first_plane * written_plane
            + int64_t {out.begin} * along.written;
    Type *const held = place_of(memory, from);
    Type *const results = place_of(memory + cut.read_bytes, to);
    const int in_rows = in.end - in.begin;
    const int out_rows = out.end - out.begin;
    wait_and_let_later_work_start();
    copy_in(held, from, planes * in_rows * along.read);
    const auto channels = static_cast<uint32_t>(shape.channels);
    const auto first_channel = static_cast<uint32_t>(first_plane % channels);
    for (int i = thread; i < planes * size * size; i += threads) {
        const int plane = i / (size * size);
        const int k = i - plane * size * size;
        const int64_t channel = (first_channel + plane) % channels;
        kernels[i] = widen(weights[channel * shape.weights_strides[0]
                + k / size * shape.weights_strides[2]
                + k % size * shape.weights_strides[3]]);
    }
    wait_for_copies<0>();
    __syncthreads();

    const thread_place place(cut);
    const int strip_begin = first_step + place.strip * cut.strip_steps;
    const int strip_end = min(end_step, strip_begin + cut.strip_steps);
    if (place.plane < planes && strip_begin < strip_end) {
        sum by[size][size]; // the taps along W as they are met
#pragma unroll
        for (int kh = 0; kh < size; ++kh)
#pragma unroll
            for (int e = 0; e < size; ++e)
                by[kh][e] = kernels[(place.plane * size + kh) * size
                        + (mirrored ? e : size - 1 - e)];
        const int w = place.group * run;
        const int first_column = first_column_met<size, stride>(shape, w);
        const masked_columns<Type, span, wide, lead_of(size, stride, true)>
                columns(first_column, along.read);
        const int left = along.written - w;
        const Type *const first_in = held
                + ((place.plane * in_rows - in.begin)
                          + (mirrored ? down.read - 1 : 0))
                        * along.read
                + first_column;
        Type *const first_out = results
                + ((place.plane * out_rows - out.begin)
                          + (mirrored ? down.written - 1 : 0))
                        * along.written
                + w;
        const int in_pitch = mirrored ? -along.read : along.read;
        const int out_pitch = mirrored ? -along.written : along.written;

        uint64_t again = 0; // steps with sums that are infinite or NaN
        sum open[size - stride][run][1] = {};
        const int first_y = cut.steps.top - strip_begin;
#pragma unroll 1
        for (int step = -ahead; step < strip_end - strip_begin; ++step) {
            const int y = first_y - step;
            sum values[span] = {};
            if (is_inside(y, down.read))
                columns.load(first_in + y * in_pitch, values);
            sum done[stride][run][1];
            multiply_row<size, stride, run, 1>(
                    [&](int kh, int e, int) { return by[kh][e]; },
                    [&](int column, int) { return values[column]; }, open,
                    done);
            if (step < 0) continue;
            sum of_all = 0; // infinite or NaN if one of them is
#pragma unroll
            for (int j = 0; j < stride; ++j) {
                const int h = y * stride + size - stride + j - pad;
                if (!is_inside(h, down.written)) continue;
#pragma unroll
                for (int i = 0; i < run; i += wide) {
                    sum some[wide];
#pragma unroll
                    for (int v = 0; v < wide; ++v) {
                        some[v] = done[j][i + v][0];
                        of_all += some[v];
                    }
                    if (i < left)
                        store_columns(first_out + h * out_pitch + i, some);
                }
            }
            if (!is_finite(of_all)) again |= uint64_t {1} << step;
        }
#pragma unroll 1
        for (int step = 0; again != 0; ++step, again >>= 1) {
            if ((again & 1U) == 0) continue;
            const int64_t at = first_plane + place.plane;
#pragma unroll 1
            for (int each = 0; each < stride * run; ++each) {
                const int i = each % run;
                const int h = (first_y - step) * stride + size - stride
                        + each / run - pad;
                if (!is_inside(h, down.written) || i >= left) continue;
                take_again(first_out[h * out_pitch + i], read, weights, shape,
                        at / shape.channels, at % shape.channels, 0,
                        mirrored ? down.written - 1 - h : h, w + i);
            }
        }
    }
    __syncthreads();
    copy_out(to, results, planes * out_rows * along.written);
}

} // namespace

launcher data_launcher(const launch_facts &facts, const work_cut &cut) {
    const bool wide = facts.alignment.pairs
            && rows_are_wide(facts.shape, wide_pads(facts.shape, false));
    return with_float_type(facts.type, [&]<typename Type>() {
        return with_constants(
                facts.shape, wide, [&]<int size, int stride, int width>() {
                    return launch_of_data(facts,
                            "convolution.gpu_depthwise_planes",
                            depthwise_planes_data_kernel<Type, size, stride,
                                    width>,
                            cut.tiles * cut.bands, cut.threads,
                            cut.shared_bytes, cut);
                });
    });
}

} // namespace gradnn::gpu::depthwise::planes
