// output[i] = sum over s of partials[s * elements + i], in f64, rounded once to the
// output's type, and then by each op behind.
//
// A thread has the elements of 16 bytes, which it reads of each slice. Many slices of
// few elements would leave the device idle while each thread waits for one slice after
// the other: from `fewest_shared` slices on, `sharers` threads have the same elements and
// each takes every `sharers`-th slice, and one of them adds up their sums, in shared
// memory. The order follows from the number of slices alone.
#include <array>

#include "gpu/convolution/implicit_gemm/implicit_gemm.hpp"
#include "gpu/device/dtype.cuh"
#include "gpu/device/early_start.cuh"
#include "gpu/device/elements.cuh"
#include "gpu/runtime/launch.hpp"
#include "gpu/runtime/with_type.hpp"

namespace gradnn::gpu::implicit_gemm {

namespace {

constexpr int block = 128;
constexpr int fewest_shared = 8;
constexpr int sharers = 8;

/// Sums that a thread has.
template <typename Output>
constexpr int size_for = elements_of_16_bytes<sum_of<Output>>;

struct ops_behind {
    jit::fused_op ops[2];
    jit::fused_places others;
};

template <typename Output, int Sharers>
__global__ void __launch_bounds__(block) add_up(const sum_of<Output> *partials,
        int slices, int64_t vectors, Output *output, const ops_behind behind) {
    wait_and_let_later_work_start();
    constexpr int columns = block / Sharers;
    constexpr int size = size_for<Output>;
    const int column = static_cast<int>(threadIdx.x) % columns;
    const int sharer = static_cast<int>(threadIdx.x) / columns;
    const int64_t i = int64_t {blockIdx.x} * columns + column;
    double sum[size] = {};
    if (i < vectors) {
#pragma unroll 4
        for (int s = sharer; s < slices; s += Sharers) {
            sum_of<Output> part[size];
            load_values<size>(part, partials + (s * vectors + i) * size);
            for (int e = 0; e < size; ++e)
                sum[e] += part[e];
        }
    }
    if constexpr (Sharers > 1) {
        __shared__ double sums[Sharers][size][columns];
        for (int e = 0; e < size; ++e)
            sums[sharer][e][column] = sum[e];
        __syncthreads();
        if (sharer != 0) return;
        for (int other = 1; other < Sharers; ++other)
            for (int e = 0; e < size; ++e)
                sum[e] += sums[other][e][column];
    }
    if (i >= vectors) return;
    sum_of<Output> all[size];
    for (int e = 0; e < size; ++e)
        all[e] = widen(narrow<Output>(sum[e]));
    Output *const to = output + i * size;
    for (int op = 0; op < 2; ++op) {
        if (behind.ops[op] == jit::fused_op::none) break;
        sum_of<Output> other[size];
        pack<Output, size>::load(jit::other_of(to, behind.others.epilogue[op]))
                .unpack(other);
        for (int e = 0; e < size; ++e)
            all[e] = widen(narrow<Output>(
                    jit::computed(behind.ops[op], all[e], other[e])));
    }
    pack<Output, size>::of(all).store(to);
}

} // namespace

tile_kernel launcher_of(const char *kernel, const tile_choice &choice,
        const dense_problem &problem) {
    const int slices = choice.slices;
    const tile_kernel tile = choice.tile->make(kernel, problem, slices);
    if (!tile || partial_bytes(problem, slices) == 0) return tile;
    return with_float_type(
            problem.types.output, [&]<typename Output>() -> tile_kernel {
                const int64_t vectors
                        = problem.output_elements() / size_for<Output>;
                const bool shared = slices >= fewest_shared;
                const int columns = shared ? block / sharers : block;
                return [=, ops = std::to_array(problem.epilogue)](
                               const void *first, const void *second,
                               void *output, const jit::fused_places &others,
                               std::byte *partials,
                               const launch_stream &stream) {
                    tile(first, second, partials, others, nullptr, stream);
                    const ops_behind behind {{ops[0], ops[1]}, others};
                    // Blocks are below 2^23: a tensor has less than 2^31 bytes.
                    launch_early(kernel,
                            shared ? add_up<Output, sharers>
                                   : add_up<Output, 1>,
                            ceil_div(vectors, columns), block, 0, stream,
                            reinterpret_cast<const sum_of<Output> *>(partials),
                            slices, vectors, static_cast<Output *>(output),
                            behind);
                };
            });
}

} // namespace gradnn::gpu::implicit_gemm
