// output[i] = sum over s of partials[s * elements + i], in f64.
//
// A thread has the elements of 16 bytes, which it reads of each slice and
// writes at once. Many slices of few elements would leave the device idle
// while each thread waits for one slice after the other: from `fewest_shared`
// slices on, `sharers` threads have the same elements and each takes every
// `sharers`-th slice, and one of them adds up their sums, in shared memory. The order
// follows from the number of slices alone.
#include "gpu/convolution/implicit_gemm/implicit_gemm.hpp"
#include "gpu/device/dtype.cuh"
#include "gpu/device/early_start.cuh"
#include "gpu/runtime/launch.hpp"

namespace gradnn::gpu::implicit_gemm {

namespace {

constexpr int block = 128;
constexpr int fewest_shared = 8;
constexpr int sharers = 8;

template <typename Element>
using vector = pack<Element, elements_of_16_bytes<Element>>;

template <typename Element, int Sharers>
__global__ void __launch_bounds__(block) add_up(const vector<Element> *partials,
        int slices, int64_t vectors, vector<Element> *output) {
    wait_and_let_later_work_start();
    constexpr int columns = block / Sharers;
    constexpr int size = elements_of_16_bytes<Element>;
    const int column = static_cast<int>(threadIdx.x) % columns;
    const int sharer = static_cast<int>(threadIdx.x) / columns;
    const int64_t i = int64_t {blockIdx.x} * columns + column;
    double sum[size] = {};
    if (i < vectors) {
#pragma unroll 4
        for (int s = sharer; s < slices; s += Sharers) {
            const vector<Element> loaded = partials[s * vectors + i];
            Element part[size];
            loaded.unpack(part);
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
    Element all[size];
    for (int e = 0; e < size; ++e)
        all[e] = static_cast<Element>(sum[e]);
    output[i] = vector<Element>::of(all);
}

template <typename Element>
void add_up_on(const launch_stream &stream, const char *kernel,
        const void *partials, int slices, int64_t elements, void *output) {
    const int64_t vectors = elements / elements_of_16_bytes<Element>;
    const bool shared = slices >= fewest_shared;
    const int columns = shared ? block / sharers : block;
    // Blocks are below 2^23: a tensor has less than 2^31 bytes.
    launch_early(kernel, shared ? add_up<Element, sharers> : add_up<Element, 1>,
            ceil_div(vectors, columns), block, 0, stream,
            static_cast<const vector<Element> *>(partials), slices, vectors,
            static_cast<vector<Element> *>(output));
}

} // namespace

void add_slices(const char *kernel, const dense_problem &problem,
        const void *partials, int slices, void *output,
        const launch_stream &stream) {
    if (problem.types.output == detail::data_type::f64)
        add_up_on<double>(stream, kernel, partials, slices,
                problem.output_elements(), output);
    else
        add_up_on<float>(stream, kernel, partials, slices,
                problem.output_elements(), output);
}

} // namespace gradnn::gpu::implicit_gemm
