#include "gpu/runtime/tools.hpp"

#include <array>

#include <gradnn/cuda.hpp>

#include "gpu/runtime/cuda_check.hpp"
#include "gpu/runtime/device.hpp"
#include "gpu/runtime/launch.hpp"
#include "gpu/runtime/pause.hpp"

namespace gradnn::gpu {

size_t available_memory(const engine &e) {
    const device_guard current(static_cast<int>(e.get_index()));
    size_t available = 0;
    size_t all = 0;
    check(cudaMemGetInfo(&available, &all), "cudaMemGetInfo");
    return available;
}

memory_block::memory_block(const engine &e, size_t bytes)
    : device_(e.get_index()), size_(bytes) {
    auto owner
            = std::make_shared<device_buffer>(static_cast<int>(device_), bytes);
    data_ = std::shared_ptr<void>(owner, owner->data());
}

namespace {

void copy_blocking(size_t device, void *to, const void *from, size_t bytes) {
    if (bytes == 0) return;
    const device_guard current(static_cast<int>(device));
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    check(cudaMemcpy(to, from, bytes, cudaMemcpyDefault), "cudaMemcpy");
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

} // namespace

void memory_block::fill(int byte) {
    if (size_ == 0) return;
    const device_guard current(static_cast<int>(device_));
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    check(cudaMemset(data(), byte, size_), "cudaMemset");
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

void memory_block::write(size_t offset, const void *from, size_t bytes) {
    copy_blocking(device_, data() + offset, from, bytes);
}

void memory_block::read(size_t offset, void *to, size_t bytes) const {
    copy_blocking(device_, to, data() + offset, bytes);
}

void copy_on(const stream &s, void *to, const void *from, size_t bytes) {
    const device_guard current(static_cast<int>(s.get_engine().get_index()));
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice,
                  cuda_interop::get_native(s)),
            "cudaMemcpyAsync");
}

namespace {

__global__ void nothing_kernel() {}

} // namespace

void launch_nothing_on(const stream &s) {
    const device_guard current(static_cast<int>(s.get_engine().get_index()));
    launch("nothing", nothing_kernel, 1, 1, 0, cuda_interop::get_native(s));
}

struct stream_timer::events {
    explicit events(const stream &timed)
        : queue(timed),
          device(static_cast<int>(timed.get_engine().get_index())) {
        const device_guard current(device);
        for (cudaEvent_t &each : marks)
            check(cudaEventCreate(&each), "cudaEventCreate");
    }
    events(const events &) = delete;
    events &operator=(const events &) = delete;
    ~events() {
        for (cudaEvent_t each : marks)
            if (each != nullptr) ignore(cudaEventDestroy(each));
    }

    void record(size_t index) {
        const device_guard current(device);
        check(cudaEventRecord(marks[index], cuda_interop::get_native(queue)),
                "cudaEventRecord");
    }

    const stream queue;
    const int device;
    std::array<cudaEvent_t, 2> marks {};
};

stream_timer::stream_timer(const stream &s)
    : events_(std::make_shared<events>(s)) {}

void stream_timer::begin(size_t partitions) {
    {
        const device_guard current(events_->device);
        pause(cuda_interop::get_native(events_->queue), partitions);
    }
    events_->record(0);
}

double stream_timer::end() {
    events_->record(1);
    const device_guard current(events_->device);
    check(cudaEventSynchronize(events_->marks[1]), "cudaEventSynchronize");
    float milliseconds = 0.0F;
    check(cudaEventElapsedTime(
                  &milliseconds, events_->marks[0], events_->marks[1]),
            "cudaEventElapsedTime");
    return static_cast<double>(milliseconds);
}

struct recorded_work::state {
    explicit state(const stream &s)
        : queue(s),
          native(cuda_interop::get_native(s)),
          device(static_cast<int>(s.get_engine().get_index())) {}
    state(const state &) = delete;
    state &operator=(const state &) = delete;
    ~state() {
        if (executable != nullptr) ignore(cudaGraphExecDestroy(executable));
        if (graph != nullptr) ignore(cudaGraphDestroy(graph));
    }

    void record(const std::function<void()> &work) {
        const device_guard current(device);
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
        check(cudaGraphInstantiate(&executable, graph, 0),
                "cudaGraphInstantiate");
    }

    const stream queue;
    const cudaStream_t native;
    const int device;
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    size_t nodes = 0;
};

recorded_work::recorded_work(const stream &s, const std::function<void()> &work)
    : state_(std::make_shared<state>(s)) {
    state_->record(work);
}

size_t recorded_work::launches() const {
    return state_->nodes;
}

void recorded_work::submit() const {
    const device_guard current(state_->device);
    check(cudaGraphLaunch(state_->executable, state_->native),
            "cudaGraphLaunch");
}

} // namespace gradnn::gpu
