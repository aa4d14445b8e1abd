// Depthwise convolution, forward and gradient of src, NCX.
//
//     written[n,c,x] = sum over k of weights[c,k] * read[n,c,position(x,k)]
//
// A block stages a tile of planes, or of one, in shared memory, in the type of
// the sums; a thread computes 8 neighbouring columns: for each row of the
// window it loads the columns that they meet and the row's weights, 16 bytes at
// a time, and multiplies in registers. Rows and depths outside are skipped;
// columns outside are zeros, and sums that come out NaN are taken again from
// the definition. The gradient of src with a stride of 2 along W multiplies
// only where a tap meets a column of dst.
//
// Counted in the machine code, an element of 3x3 takes 12 instructions for its
// sums, 6 for staging and about 20 besides, of 7x7 59 and as many besides; at
// 60 % of an H200's copy rate bf16 has 45 and f32 has 90. Shared memory sees 0.2
// wavefronts an element of 3x3, of 0.36. Each element is one thread's sum in
// ascending taps: the same bits always.
#include "gpu/convolution/depthwise/any/ncx.cuh"
#include "gpu/convolution/depthwise/launch.hpp"

namespace gradnn::gpu::depthwise::any {

namespace {

template <typename Type, int vector>
__device__ __forceinline__ void store_run(Type *to, int left, int64_t stride,
        const sum_of<Type> (&sums)[run_columns]) {
#pragma unroll
    for (int i = 0; i < run_columns; i += vector) {
        if (i >= left) continue;
        sum_of<Type> values[vector];
#pragma unroll
        for (int j = 0; j < vector; ++j)
            values[j] = sums[i + j];
        pack<Type, vector>::of(values).store(to + i * stride);
    }
}

template <typename Type, int taps, int step, int up>
__global__ void __launch_bounds__(threads_of_block, sizeof(Type) == 8 ? 2 : 3)
        depthwise_data_ncx_kernel(const Type *read, const Type *weights,
                Type *written, const __grid_constant__ problem_shape shape,
                const __grid_constant__ tile_shape tile) {
    using sum = sum_of<Type>;
    constexpr int span = chunk_columns<taps, step, up>;
    constexpr int each = elements_of_16_bytes<sum>;
    constexpr int weight_pitch = round_up(taps, 4);
    extern __shared__ uint4 shared[];
    const int staged = tile.staged_rows();
    auto *const rows = reinterpret_cast<sum *>(shared) + row_slack;
    sum *const kernel = rows + staged * tile.pitch;
    const int window_rows = shape.axes[0].kernel * shape.axes[1].kernel;
    const int kernel_pitch = shape.chunks * weight_pitch;
    auto *const table = reinterpret_cast<const Type **>(
            kernel + tile.planes * window_rows * kernel_pitch);
    const auto thread = static_cast<int>(threadIdx.x);
    const auto threads = static_cast<int>(blockDim.x);

    auto rest = static_cast<int>(blockIdx.x);
    const int first_column
            = take(rest, tile.column_tiles) * tile.groups * run_columns;
    const int first_row = take(rest, tile.row_tiles) * tile.rows;
    const int first_depth = take(rest, tile.depth_tiles) * tile.depths;
    const int first_plane = rest * tile.planes;
    const auto channels = static_cast<int>(shape.channels);
    const int first_image = first_plane / channels;
    const int first_channel = first_plane - first_image * channels;
    const int planes = min(tile.planes,
            static_cast<int>(shape.images) * channels - first_plane);
    const auto image_of = [&](int plane, int &channel) {
        int image = first_image;
        channel = first_channel + plane;
        for (; channel >= channels; channel -= channels)
            ++image;
        return image;
    };

    // Where the staged part begins, on each axis of read.
    const auto begin = [&](int axis, int written_begin) {
        const window_axis &a = shape.axes[axis];
        if (!shape.to_src) return written_begin * a.stride - a.pad;
        const int from = written_begin + a.pad - (a.kernel - 1) * a.dilation;
        return from >= 0 ? from / a.stride
                         : -((a.stride - 1 - from) / a.stride);
    };
    const int read_depth = begin(0, first_depth);
    const int read_row = begin(1, first_row);
    const int read_column = first_column * step / up + shape.base;

    for (int row = thread; row < staged; row += threads) {
        const int slice = divide(static_cast<uint32_t>(row), tile.by_read_rows);
        const int plane
                = divide(static_cast<uint32_t>(slice), tile.by_read_depths);
        const int h = read_row + row - slice * tile.read_rows;
        const int d = read_depth + slice - plane * tile.read_depths;
        int channel = 0;
        const int image = image_of(plane, channel);
        const Type *at = read;
        if (plane < planes && h >= 0 && h < shape.axes[1].read && d >= 0
                && d < shape.axes[0].read)
            at += image * shape.read_strides[0]
                    + channel * shape.read_strides[1]
                    + d * shape.read_strides[2] + h * shape.read_strides[3];
        table[row] = at;
    }
    const int words = (row_slack + staged * tile.pitch) / each;
    for (int i = thread; i < words; i += threads)
        shared[i] = uint4 {};
    __syncthreads();
    for (int i = thread; i < tile.planes * window_rows * kernel_pitch;
            i += threads) {
        const int row = i / kernel_pitch;
        const int e = i - row * kernel_pitch;
        const int plane = row / window_rows;
        const int kd = (row - plane * window_rows) / shape.axes[1].kernel;
        const int kh = row - plane * window_rows - kd * shape.axes[1].kernel;
        const int kw = tap_at(shape, e);
        sum value = 0;
        int channel = 0;
        image_of(plane, channel);
        if (kw >= 0)
            value = widen(weights[channel * shape.weights_strides[0]
                    + kd * shape.weights_strides[1]
                    + kh * shape.weights_strides[2]
                    + kw * shape.weights_strides[3]]);
        kernel[i] = value;
    }
    stage_rows(table, rows, tile, read_column, shape.axes[2].read,
            shape.read_strides[4]);
    __syncthreads();

    for (int item = thread; item < tile.items(); item += threads) {
        const tile_position at = position_of(item, tile);
        const int d = first_depth + at.depth;
        const int w = first_column + at.group * run_columns;
        if (at.plane >= planes || d >= shape.axes[0].written
                || w >= shape.axes[2].written)
            continue;
        const axis_taps of_d = taps_of(shape.axes[0], shape.to_src, d);
        const int left = shape.axes[2].written - w;
        int channel = 0;
        const int image = image_of(at.plane, channel);
        Type *const to_depth = written + image * shape.written_strides[0]
                + channel * shape.written_strides[1]
                + d * shape.written_strides[2] + w * shape.written_strides[4];
        for (int repeat = 0; repeat < tile.repeats; ++repeat) {
            const int row = at.row + repeat * tile.paired();
            const int h = first_row + row;
            if (row >= tile.rows || h >= shape.axes[1].written) break;
            const axis_taps of_h = taps_of(shape.axes[1], shape.to_src, h);
            sum total[run_columns] = {};
            int at_d = of_d.from - read_depth;
            for (int kd = of_d.first; kd < of_d.end; kd += of_d.step) {
                const sum *from = rows
                        + ((at.plane * tile.read_depths + at_d) * tile.read_rows
                                  + of_h.from - read_row)
                                * tile.pitch
                        + at.group * (run_columns * step / up);
                const sum *with = kernel
                        + ((at.plane * shape.axes[0].kernel + kd)
                                          * shape.axes[1].kernel
                                  + of_h.first)
                                * kernel_pitch;
                for (int kh = of_h.first; kh < of_h.end; kh += of_h.step) {
                    // Narrow windows have one chunk.
                    const int chunks = taps == 8 ? shape.chunks : 1;
                    for (int chunk = 0; chunk < chunks; ++chunk) {
                        sum values[round_up(span, each)];
                        sum by[round_up(taps, each)];
                        load_values<span>(values, from + chunk * (taps / up));
                        load_values<taps>(by, with + chunk * weight_pitch);
#pragma unroll
                        for (int e = 0; e < taps; ++e)
#pragma unroll
                            for (int i = 0; i < run_columns; ++i)
                                if ((i * step + e) % up == 0)
                                    total[i] += by[e]
                                            * values[(i * step + e) / up];
                    }
                    from += of_h.move * tile.pitch;
                    with += of_h.step * kernel_pitch;
                }
                at_d += of_d.move;
            }
            sum of_all = 0; // infinite or NaN if one of them is
#pragma unroll
            for (int i = 0; i < run_columns; ++i)
                of_all += total[i];
            Type *const to = to_depth + h * shape.written_strides[3];
            constexpr int widest = 16 / sizeof(Type);
            if (tile.dense_store == widest)
                store_run<Type, widest>(to, left, 1, total);
            else if (widest > 2 && tile.dense_store == 2)
                store_run<Type, 2>(to, left, 1, total);
            else
                store_run<Type, 1>(to, left, shape.written_strides[4], total);
            if (is_finite(of_all)) continue;
#pragma unroll 1
            for (int i = 0; i < min(left, run_columns); ++i)
                take_again(to[i * shape.written_strides[4]], read, weights,
                        shape, image, channel, d, h, w + i);
        }
    }
}

} // namespace

launcher data_launcher(const launch_facts &facts, const tiles_cut &cut) {
    const problem_shape &shape = facts.shape;
    const tile_shape &tile = cut.tile;
    const int64_t blocks = ceil_div(shape.images * shape.channels, tile.planes)
            * tile.depth_tiles * tile.row_tiles * tile.column_tiles;
    return with_float_type(facts.type, [&]<typename Type>() {
        const size_t shared_bytes = shared_bytes_of(tile, sizeof(sum_of<Type>));
        return with_window<Type, true>(
                shape, [&]<int taps, int step, int up>() -> launcher {
                    return [=](const tensor_pointers &at,
                                   const launch_stream &stream) {
                        launch("convolution.gpu_depthwise_tiles",
                                depthwise_data_ncx_kernel<Type, taps, step, up>,
                                blocks, tile.threads, shared_bytes, stream,
                                at.read<Type>(), at.weights<Type>(),
                                at.written<Type>(), shape, tile);
                    };
                });
    });
}

} // namespace gradnn::gpu::depthwise::any
