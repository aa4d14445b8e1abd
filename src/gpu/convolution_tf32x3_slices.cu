// output[i] = sum over s of partials[s * elements + i], s ascending, in f64.
//
// A thread has four neighbouring elements: it reads 16 bytes of each slice and
// writes 16 bytes. Each output is the sum of one thread in one order.
#include <algorithm>

#include "gpu/convolution_tf32x3.hpp"
#include "gpu/launch.hpp"

namespace gradnn::gpu::tf32x3 {

namespace {

constexpr int block = 128;

__global__ void add_up(
        const float4 *partials, int slices, int64_t vectors, float4 *output) {
    const int64_t step = int64_t {gridDim.x} * block;
    for (int64_t i = int64_t {blockIdx.x} * block + threadIdx.x; i < vectors;
            i += step) {
        double x = 0.0, y = 0.0, z = 0.0, w = 0.0;
#pragma unroll 4
        for (int s = 0; s < slices; ++s) {
            const float4 part = partials[s * vectors + i];
            x += part.x;
            y += part.y;
            z += part.z;
            w += part.w;
        }
        output[i] = {static_cast<float>(x), static_cast<float>(y),
                static_cast<float>(z), static_cast<float>(w)};
    }
}

} // namespace

void add_slices(const float *partials, int slices, int64_t elements,
        float *output, cudaStream_t stream) {
    const int64_t vectors = elements / 4;
    const auto blocks = static_cast<unsigned>(
            std::min<int64_t>((vectors + block - 1) / block, 1 << 20));
    launch("convolution.gpu_tf32x3 slices", add_up, dim3(blocks), dim3(block),
            0, stream, reinterpret_cast<const float4 *>(partials), slices,
            vectors, reinterpret_cast<float4 *>(output));
}

} // namespace gradnn::gpu::tf32x3
