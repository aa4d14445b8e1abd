#include "gpu/runtime/tools.hpp"

#include <memory>

#include <gradnn/cuda.hpp>

#include "gpu/runtime/launch.hpp"
#include "gpu/runtime/stopwatch.hpp"

namespace gradnn::gpu {

// compute_rate.cu
double compute_on(const stream &s, compute_loop loop, int64_t rounds);

namespace {

int device_index(const engine &e) {
    return static_cast<int>(e.get_index());
}

/// With all that was submitted to the device done before, and the work itself after.
template <typename Work>
void run_alone(const engine &e, const Work &work) {
    const device_guard current(device_index(e));
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    work();
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

__global__ void nothing_kernel() {}

__global__ void pause_kernel(long long cycles) {
    const long long start = clock64();
    while (clock64() - start < cycles) {}
}

/// About 50 us.
constexpr long long cycles_of_partition = 90'000;

size_t available_memory(const engine &e) {
    const device_guard current(device_index(e));
    size_t available = 0;
    size_t all = 0;
    check(cudaMemGetInfo(&available, &all), "cudaMemGetInfo");
    return available;
}

void fill_blocking(const engine &e, void *to, int byte, size_t bytes) {
    if (bytes == 0) return;
    run_alone(e, [&] { check(cudaMemset(to, byte, bytes), "cudaMemset"); });
}

void copy_blocking(const engine &e, void *to, const void *from, size_t bytes) {
    if (bytes == 0) return;
    run_alone(e, [&] {
        check(cudaMemcpy(to, from, bytes, cudaMemcpyDefault), "cudaMemcpy");
    });
}

void copy_on(const stream &s, void *to, const void *from, size_t bytes) {
    const device_guard current(device_index(s.get_engine()));
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice,
                  cuda_interop::get_native(s)),
            "cudaMemcpyAsync");
}

void launch_nothing_on(const stream &s) {
    const device_guard current(device_index(s.get_engine()));
    launch("nothing", nothing_kernel, 1, 1, 0, cuda_interop::get_native(s));
}

void pause_on(const stream &s, size_t partitions) {
    const device_guard current(device_index(s.get_engine()));
    pause(cuda_interop::get_native(s), partitions);
}

recorded_work record(const stream &s, const std::function<void()> &work) {
    const cudaStream_t native = cuda_interop::get_native(s);
    const device_guard current(device_index(s.get_engine()));
    cudaGraph_t recorded = nullptr;
    check(cudaStreamBeginCapture(native, cudaStreamCaptureModeThreadLocal),
            "cudaStreamBeginCapture");
    try {
        work();
    } catch (...) {
        ignore(cudaStreamEndCapture(native, &recorded));
        if (recorded != nullptr) ignore(cudaGraphDestroy(recorded));
        throw;
    }
    check(cudaStreamEndCapture(native, &recorded), "cudaStreamEndCapture");
    const std::shared_ptr<CUgraph_st> graph(
            recorded, [](cudaGraph_t of) { ignore(cudaGraphDestroy(of)); });
    size_t nodes = 0;
    check(cudaGraphGetNodes(recorded, nullptr, &nodes), "cudaGraphGetNodes");
    cudaGraphExec_t made = nullptr;
    check(cudaGraphInstantiate(&made, recorded, 0), "cudaGraphInstantiate");
    const std::shared_ptr<CUgraphExec_st> executable(
            made, [](cudaGraphExec_t of) { ignore(cudaGraphExecDestroy(of)); });
    return {nodes, [=] {
                const device_guard device(device_index(s.get_engine()));
                check(cudaGraphLaunch(executable.get(), native),
                        "cudaGraphLaunch");
            }};
}

} // namespace

void pause(cudaStream_t stream, size_t partitions) {
    launch("the pause before a measurement", pause_kernel, 1, 1, 0, stream,
            cycles_of_partition * static_cast<long long>(partitions + 1));
}

constinit const tool_functions tools {available_memory, fill_blocking,
        copy_blocking, copy_on, launch_nothing_on, pause_on, record,
        compute_on};

} // namespace gradnn::gpu
