// Depthwise windows along W alone, gradient of the weights, in NCX of f32 and
// f64.
//
//     diff_weights[s] = sum over n, rows, x of src[x - pad + s] * dst[x]
//
// A block has a channel and every `parts`-th tile of its rows, or of pieces of
// them. The tile's columns of dst, and those of src that they meet, come to
// shared memory while threads work on the tile before: 16 bytes at a time where
// all rows begin at multiples of that, one by one otherwise, zeros in place of
// those outside. A thread has 12 (f64: 10) neighbouring columns of dst in one
// row; it walks over those of src, loads each once, and adds the products to the
// sums of up to 32 taps in its registers. Of longer windows two threads with the
// same columns have one half of the taps each. Zeros before the window's first
// tap let loads begin at multiples of 16 bytes.
//
// In the end a block adds up its threads' sums, in a fixed order, and writes one
// partial sum a weight, which a second launch adds up
// (convolution/depthwise/parts.cu). Products with zeros are NaN where the other
// factor is infinite or NaN; what comes out so is taken again there.
#include "gpu/convolution/depthwise/rows_ncx/device.cuh"
#include <cstddef>

namespace gradnn::gpu::depthwise::rows_ncx {

namespace {

template <typename Type, int chunks>
__global__ void __launch_bounds__(
        weights_block_threads, weights_resident(sizeof(Type)))
        depthwise_rows_ncx_weights_kernel(const Type *src, const Type *dst,
                Type *partials, const __grid_constant__ problem_shape shape,
                const __grid_constant__ work_cut cut,
                const __grid_constant__ row_copies of_src,
                const __grid_constant__ row_copies of_dst) {
    constexpr int run = run_of(sizeof(Type));
    constexpr int each = elements_of_16_bytes<Type>;
    constexpr int taps = chunks * chunk_taps;
    extern __shared__ uint4 shared[];
    auto *const held = reinterpret_cast<Type *>(shared);
    const int dst_pitch = cut.columns(run);
    const int held_dst = cut.rows * cut.pitch;
    const int buffer_elements = held_dst + cut.rows * dst_pitch;
    using noted_row = row_place<Type, const Type>;
    auto *const rows = reinterpret_cast<noted_row *>(
            held + tile_buffers * buffer_elements);
    auto *const tiles
            = reinterpret_cast<held_tile *>(rows + tile_buffers * cut.rows);
    const window_axis &along = shape.axes[2];
    const auto thread = static_cast<int>(threadIdx.x);
    const auto threads = static_cast<int>(blockDim.x);
    const auto channels = static_cast<unsigned>(shape.channels);
    const auto part = static_cast<int>(blockIdx.x / channels);
    const int64_t channel = blockIdx.x % channels;
    const int units = cut.row_tiles * cut.pieces;

    // Of the next unit but one, to be seen by the block after a barrier.
    const auto note = [&](int unit, int buffer) {
        if (unit >= units || thread >= cut.rows) return;
        const int row_tile = unit / cut.pieces;
        const held_tile tile(
                cut, dst_pitch, row_tile, unit - row_tile * cut.pieces);
        if (thread == 0) tiles[buffer] = tile;
        if (thread < tile.rows)
            rows[buffer * cut.rows + thread]
                    = {src, dst, shape, channel, tile.first_row + thread};
    };
    // Returns how many rows are on their way.
    const auto fetch = [&](int buffer) {
        const held_tile tile = tiles[buffer];
        const noted_row *const noted = rows + buffer * cut.rows;
        Type *const to = held + buffer * buffer_elements;
        fetch_rows(to, cut.pitch, tile.rows,
                tile.first_column - along.pad - cut.lead, along.read, of_src,
                [&](int number) { return noted[number].read; });
        fetch_rows(to + held_dst, dst_pitch, tile.rows, tile.first_column,
                along.written, of_dst,
                [&](int number) { return noted[number].written; });
        commit_copies();
        return tile.rows;
    };

    note(part, 0);
    note(part + cut.parts, 1);
    wait_and_let_later_work_start();
    __syncthreads();
    int next_rows = fetch(0);
    const int job = cut.jobs == 1 ? 0 : thread / cut.threads;
    const int item = thread - job * cut.threads;
    const int row = divide(static_cast<uint32_t>(item), cut.by_groups);
    const int first = (item - row * cut.groups) * run;
    const int src_place = row * cut.pitch + first + job * taps;
    const int dst_place = held_dst + row * dst_pitch + first;
    Type total[taps] = {};
    int buffer = 0;
#pragma unroll 1
    for (int unit = part; unit < units; unit += cut.parts) {
        wait_for_copies<0>();
        __syncthreads();
        const int rows_here = next_rows;
        if (unit + cut.parts < units) next_rows = fetch(buffer ^ 1);
        note(unit + 2 * cut.parts, buffer);
        const Type *const from = held + buffer * buffer_elements;
        buffer ^= 1;
        if (row >= rows_here) continue;
        Type by[run];
        load_values<run>(by, from + dst_place);
#pragma unroll
        for (int c = 0; c < run + taps; c += each) {
            Type columns[each];
            load_values<each>(columns, from + src_place + c);
#pragma unroll
            for (int e = 0; e < each; ++e)
#pragma unroll
                for (int i = run - 1; i >= 0; --i)
                    if (const int s = c + e - i; s >= 0 && s < taps)
                        total[s] += by[i] * columns[e];
        }
    }

    const int lane = thread % 32;
#pragma unroll
    for (int chunk = 0; chunk < chunks; ++chunk) {
        __syncthreads();
#pragma unroll
        for (int e = 0; e < chunk_taps; ++e)
            held[e * threads + thread] = total[chunk * chunk_taps + e];
        __syncthreads();
        // A warp has a tap.
        for (int i = thread / 32; i < cut.jobs * chunk_taps;
                i += threads / 32) {
            const int of_job = i / chunk_taps;
            const int e = i % chunk_taps;
            const Type *const of_threads
                    = held + e * threads + of_job * cut.threads;
            Type sum = 0;
            for (int other = lane; other < cut.threads; other += 32)
                sum += of_threads[other];
            sum = sum_of_warp(sum);
            const int tap = of_job * taps + chunk * chunk_taps + e - cut.lead;
            if (lane == 0 && tap >= 0 && tap < along.kernel)
                partials[(channel * along.kernel + tap) * cut.parts + part]
                        = sum;
        }
    }
}

} // namespace

launcher weights_launcher(const launch_facts &facts, const work_cut &cut) {
    static_assert(weights_chunks == 4);
    return with_type(facts.type, [&]<typename Type>() {
        return with_chosen(
                [&]<int chunks>() -> launcher {
                    return [cut, shape = facts.shape](const tensor_pointers &at,
                                   const launch_stream &stream) {
                        launch_early(
                                "convolution.gpu_depthwise_rows_ncx (weights)",
                                depthwise_rows_ncx_weights_kernel<Type, chunks>,
                                shape.channels * cut.parts,
                                cut.jobs * cut.threads, cut.shared_bytes,
                                stream, at.read<Type>(), at.written<Type>(),
                                at.sums<Type>(), shape, cut,
                                copies_of_read<Type>(at, cut),
                                copies_of_written<Type>(at, cut));
                    };
                },
                one_of<1, 2, 3, 4> {cut.chunks});
    });
}

} // namespace gradnn::gpu::depthwise::rows_ncx
