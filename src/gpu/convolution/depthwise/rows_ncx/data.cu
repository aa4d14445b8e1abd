// Depthwise windows along W alone, forward and gradient of src, in NCX of f32
// and f64.
//
//     written[w] = sum over s of window[s] * read[w - before + s]
//
// in every row, where the window of the gradient of src is turned around. A
// block has some rows of a channel, or pieces of rows. Their columns of read
// come to shared memory 16 bytes at a time where all rows begin at multiples of
// that, one by one otherwise, zeros in place of those outside. A thread has 12
// (f64: 10) neighbouring columns of written in one row; it walks over the
// columns that they meet in ascending order, loads each once, 16 bytes at a
// time, and multiplies it in registers. Zeros before the window's first tap let
// these loads begin at multiples of 16 bytes, others fill it up to whole
// chunks. Results take the place of the columns and leave as those came.
// Products with zeros are NaN where the other factor is infinite or NaN: sums
// that come out NaN are taken again from the definition.
#include "gpu/convolution/depthwise/rows_ncx/device.cuh"
#include <cstddef>

namespace gradnn::gpu::depthwise::rows_ncx {

namespace {

template <typename Type, int chunks>
__global__ void __launch_bounds__(data_threads, data_resident(sizeof(Type)))
        depthwise_rows_ncx_data_kernel(const Type *read, const Type *weights,
                Type *written, const __grid_constant__ problem_shape shape,
                const __grid_constant__ work_cut cut,
                const __grid_constant__ row_copies in,
                const __grid_constant__ row_copies out) {
    constexpr int run = run_of(sizeof(Type));
    constexpr int each = elements_of_16_bytes<Type>;
    constexpr int taps = chunks * chunk_taps;
    extern __shared__ uint4 shared[];
    auto *const window = reinterpret_cast<Type *>(shared);
    Type *const held = window + taps;
    using noted_row = row_place<Type, Type>;
    auto *const rows
            = reinterpret_cast<noted_row *>(held + cut.rows * cut.pitch);
    const window_axis &along = shape.axes[2];
    const auto thread = static_cast<int>(threadIdx.x);
    const auto threads = static_cast<int>(blockDim.x);
    // Neighbouring blocks have pieces of the same rows, then other channels.
    const auto pieces = static_cast<unsigned>(cut.pieces);
    const unsigned row_piece = blockIdx.x / pieces;
    const unsigned row_tile = row_piece / static_cast<unsigned>(shape.channels);
    const int64_t channel = row_piece - row_tile * shape.channels;
    const held_tile tile(cut, cut.columns(run), static_cast<int>(row_tile),
            static_cast<int>(blockIdx.x - row_piece * pieces));

    if (thread < tile.rows)
        rows[thread] = {read, written, shape, channel, tile.first_row + thread};
    wait_and_let_later_work_start();
    __syncthreads();
    const int start = taps_before(along, shape.to_src) + cut.lead;
    fetch_rows(held, cut.pitch, tile.rows, tile.first_column - start,
            along.read, in, [&](int number) { return rows[number].read; });
    commit_copies();
    for (int i = thread; i < taps; i += threads) {
        const int tap = i - cut.lead;
        Type weight = 0;
        if (tap >= 0 && tap < along.kernel)
            weight = weights[channel * shape.weights_strides[0]
                    + (shape.to_src ? along.kernel - 1 - tap : tap)
                            * shape.weights_strides[3]];
        window[i] = weight;
    }
    const int row = divide(static_cast<uint32_t>(thread), cut.by_groups);
    const int first = (thread - row * cut.groups) * run;
    const int left = along.written - tile.first_column - first;
    const bool works = row < tile.rows && left > 0;
    Type *const place = held + row * cut.pitch + first;
    Type sums[run] = {};
    wait_for_copies<0>();
    __syncthreads();

    if (works) {
        Type columns[run + taps];
        load_values<run>(columns, place);
#pragma unroll
        for (int s = 0; s < taps; s += each) {
            Type by[each];
            load_values<each>(by, window + s);
            load_values<each>(columns + run + s, place + run + s);
#pragma unroll
            for (int e = 0; e < each; ++e)
#pragma unroll
                for (int i = 0; i < run; ++i)
                    sums[i] += by[e] * columns[s + e + i];
        }
    }
    __syncthreads();
    Type of_all = 0; // infinite or NaN if one of the sums is
    if (works) {
#pragma unroll
        for (int i = 0; i < run; i += each) {
            Type some[each];
#pragma unroll
            for (int e = 0; e < each; ++e) {
                some[e] = sums[i + e];
                of_all += some[e];
            }
            pack<Type, each>::of(some).store(place + i);
        }
    }
    const bool again = !is_finite(of_all);
    const bool any_again = __syncthreads_or(again);

    const int columns
            = min(cut.columns(run), along.written - tile.first_column);
    const auto leave = [&]<int count>() {
#pragma unroll 1
        for (int i = thread; i < tile.rows * out.count; i += threads) {
            const int number = divide(static_cast<uint32_t>(i), out.by);
            const int column = (i - number * out.count) * count;
            const Type *const from = held + number * cut.pitch + column;
            Type *const to = rows[number].written + tile.first_column + column;
            if (column < columns) pack<Type, count>::load(from).stream(to);
        }
    };
    if (out.each == 1)
        leave.template operator()<1>();
    else
        leave.template operator()<each>();
    if (!any_again) return;
    __syncthreads();
    if (!again) return;
    const int number = tile.first_row + row;
    const int depth = number / shape.axes[1].read;
#pragma unroll 1
    for (int i = 0; i < min(run, left); ++i)
        take_again(rows[row].written[tile.first_column + first + i], read,
                weights, shape, depth / shape.axes[0].read, channel,
                depth % shape.axes[0].read, number % shape.axes[1].read,
                tile.first_column + first + i);
}

} // namespace

launcher data_launcher(const launch_facts &facts, const work_cut &cut) {
    static_assert(most_chunks == 8);
    return with_type(facts.type, [&]<typename Type>() {
        return with_chosen(
                [&]<int chunks>() -> launcher {
                    return [cut, shape = facts.shape](const tensor_pointers &at,
                                   const launch_stream &stream) {
                        launch_early("convolution.gpu_depthwise_rows_ncx",
                                depthwise_rows_ncx_data_kernel<Type, chunks>,
                                cut.data_blocks(shape.channels), cut.threads,
                                cut.shared_bytes, stream, at.read<Type>(),
                                at.weights<Type>(), at.written<Type>(), shape,
                                cut, copies_of_read<Type>(at, cut),
                                copies_of_written<Type>(at, cut));
                    };
                },
                one_of<1, 2, 3, 4, 5, 6, 7, 8> {cut.chunks});
    });
}

} // namespace gradnn::gpu::depthwise::rows_ncx
