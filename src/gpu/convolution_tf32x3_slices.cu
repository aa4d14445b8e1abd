// output[i] = sum over s of partials[s * elements + i], in f64.
//
// A thread has four neighbouring elements: it reads 16 bytes of a slice and
// writes 16 bytes. Many slices of few elements would leave the device idle while
// each thread waits for one slice after the other: from `fewest_shared` slices on,
// `sharers` threads take every so manyeth slice of the same elements, and one
// of them adds up their sums, in shared memory. The order follows from the
// number of slices alone.
#include "gpu/convolution_tf32x3.hpp"
#include "gpu/early_start.cuh"
#include "gpu/launch.hpp"

namespace gradnn::gpu::tf32x3 {

namespace {

constexpr int block = 128;
constexpr int fewest_shared = 8;
constexpr int sharers = 8;

template <int Sharers>
__global__ void __launch_bounds__(block) add_up(
        const float4 *partials, int slices, int64_t vectors, float4 *output) {
    wait_for_earlier_work();
    let_later_work_start();
    constexpr int columns = block / Sharers;
    const int column = static_cast<int>(threadIdx.x) % columns;
    const int sharer = static_cast<int>(threadIdx.x) / columns;
    const int64_t i = int64_t {blockIdx.x} * columns + column;
    double sum[4] = {};
    if (i < vectors) {
#pragma unroll 4
        for (int s = sharer; s < slices; s += Sharers) {
            const float4 part = partials[s * vectors + i];
            sum[0] += part.x;
            sum[1] += part.y;
            sum[2] += part.z;
            sum[3] += part.w;
        }
    }
    if constexpr (Sharers > 1) {
        __shared__ double sums[Sharers][4][columns];
        for (int e = 0; e < 4; ++e)
            sums[sharer][e][column] = sum[e];
        __syncthreads();
        if (sharer != 0) return;
        for (int other = 1; other < Sharers; ++other)
            for (int e = 0; e < 4; ++e)
                sum[e] += sums[other][e][column];
    }
    if (i < vectors)
        output[i] = {static_cast<float>(sum[0]), static_cast<float>(sum[1]),
                static_cast<float>(sum[2]), static_cast<float>(sum[3])};
}

} // namespace

void add_slices(const float *partials, int slices, int64_t elements,
        float *output, const launch_stream &stream) {
    const int64_t vectors = elements / 4;
    const bool shared = slices >= fewest_shared;
    const int columns = shared ? block / sharers : block;
    // Below 2^23: a tensor has less than 2^29 elements.
    const auto blocks
            = static_cast<unsigned>((vectors + columns - 1) / columns);
    launch_early("convolution.gpu_tf32x3 slices",
            shared ? add_up<sharers> : add_up<1>, dim3(blocks), dim3(block), 0,
            stream, reinterpret_cast<const float4 *>(partials), slices, vectors,
            reinterpret_cast<float4 *>(output));
}

} // namespace gradnn::gpu::tf32x3
