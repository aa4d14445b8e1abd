#include "gpu/runtime/tools.hpp"

#include <gradnn/cuda.hpp>

#include "gpu/runtime/cuda_check.hpp"
#include "gpu/runtime/device.hpp"
#include "gpu/runtime/launch.hpp"
#include "gpu/runtime/stopwatch.hpp"

namespace gradnn::gpu {

namespace {

int device_index(const engine &e) {
    return static_cast<int>(e.get_index());
}
int device_index(const stream &s) {
    return device_index(s.get_engine());
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

} // namespace

void pause(cudaStream_t stream, size_t partitions) {
    launch("the pause before a measurement", pause_kernel, 1, 1, 0, stream,
            cycles_of_partition * static_cast<long long>(partitions + 1));
}

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
    const device_guard current(device_index(s));
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice,
                  cuda_interop::get_native(s)),
            "cudaMemcpyAsync");
}

void launch_nothing_on(const stream &s) {
    const device_guard current(device_index(s));
    launch("nothing", nothing_kernel, 1, 1, 0, cuda_interop::get_native(s));
}

void pause_on(const stream &s, size_t partitions) {
    const device_guard current(device_index(s));
    pause(cuda_interop::get_native(s), partitions);
}

struct recorded_work::state {
    explicit state(const stream &s) : queue(s) {}
    state(const state &) = delete;
    state &operator=(const state &) = delete;
    ~state() {
        if (executable != nullptr) ignore(cudaGraphExecDestroy(executable));
        if (graph != nullptr) ignore(cudaGraphDestroy(graph));
    }

    const stream queue;
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    size_t nodes = 0;
};

recorded_work::recorded_work(const stream &s, const std::function<void()> &work)
    : state_(std::make_shared<state>(s)) {
    auto &[queue, graph, executable, nodes] = *state_;
    const cudaStream_t native = cuda_interop::get_native(queue);
    const device_guard current(device_index(queue));
    check(cudaStreamBeginCapture(native, cudaStreamCaptureModeThreadLocal),
            "cudaStreamBeginCapture");
    try {
        work();
    } catch (...) {
        ignore(cudaStreamEndCapture(native, &graph));
        throw;
    }
    check(cudaStreamEndCapture(native, &graph), "cudaStreamEndCapture");
    check(cudaGraphGetNodes(graph, nullptr, &nodes), "cudaGraphGetNodes");
    check(cudaGraphInstantiate(&executable, graph, 0), "cudaGraphInstantiate");
}

size_t recorded_work::launches() const {
    return state_->nodes;
}

void recorded_work::submit() const {
    const device_guard current(device_index(state_->queue));
    check(cudaGraphLaunch(
                  state_->executable, cuda_interop::get_native(state_->queue)),
            "cudaGraphLaunch");
}

} // namespace gradnn::gpu
