// One op on an NVIDIA GPU, on the caller's CUDA stream and workspace: the gradient of
// a 2x bilinear upsample, between the caller's own copies on the same stream.
#include <gradnn/cuda.hpp>
#include <gradnn/gradnn.hpp>

#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

using namespace gradnn;
using lt = logical_tensor;

static void check(cudaError_t error) {
    if (error == cudaSuccess) return;
    std::fprintf(stderr, "CUDA: %s\n", cudaGetErrorString(error));
    std::exit(1);
}

int main() {
    if (engine::get_count(engine::kind::gpu) == 0) {
        std::puts("no GPU here");
        return 77; // what CTest takes for a test that was skipped
    }
    const lt src(0, lt::data_type::f32, {1, 3, 4, 5}, lt::layout_type::strided);
    const lt diff_dst(
            1, lt::data_type::f32, {1, 3, 8, 10}, lt::layout_type::strided);
    const lt diff_src(
            2, lt::data_type::f32, {1, 3, 4, 5}, lt::layout_type::strided);
    op up(0, op::kind::InterpolateBackward, {src, diff_dst}, {diff_src}, "up");
    up.set_attr<std::string>(op::attr::mode, "bilinear");
    up.set_attr<std::vector<int64_t>>(op::attr::sizes, {8, 10});
    up.set_attr<std::string>(op::attr::data_format, "NCX");

    const engine gpu(engine::kind::gpu, 0);
    const compiled_partition compiled
            = partition(up, engine::kind::gpu)
                      .compile({src, diff_dst}, {diff_src}, gpu);

    cudaStream_t native = nullptr;
    check(cudaStreamCreate(&native));
    std::vector<float> gradient(3 * 8 * 10, 1.0F), result(3 * 4 * 5);
    void *dy = nullptr, *dx = nullptr, *workspace = nullptr;
    check(cudaMalloc(&dy, diff_dst.get_mem_size()));
    check(cudaMalloc(&dx, diff_src.get_mem_size()));
    if (compiled.get_workspace_size() > 0)
        check(cudaMalloc(&workspace, compiled.get_workspace_size()));
    {
        stream queue = cuda_interop::make_stream(gpu, native);
        check(cudaMemcpyAsync(dy, gradient.data(), diff_dst.get_mem_size(),
                cudaMemcpyHostToDevice, native));
        // Returns when the work is queued. No formula reads the values of src.
        compiled.execute(queue,
                {tensor(src, gpu, nullptr), tensor(diff_dst, gpu, dy)},
                {tensor(diff_src, gpu, dx)}, workspace);
        check(cudaMemcpyAsync(result.data(), dx, diff_src.get_mem_size(),
                cudaMemcpyDeviceToHost, native));
        check(cudaStreamSynchronize(native));
    } // the stream of CUDA outlives that of gradnn
    for (void *memory : {dy, dx, workspace})
        check(cudaFree(memory));
    check(cudaStreamDestroy(native));

    double sum
            = 0; // each element of diff_dst goes into diff_src with weights of 1 in all
    for (const float value : result)
        sum += value;
    std::printf("%s: sum %g of 240\n",
            compiled.get_info().steps.front().kernel.c_str(), sum);
    return sum > 239.99 && sum < 240.01 ? 0 : 1;
}
