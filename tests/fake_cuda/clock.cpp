// The device's clock, and the events that read it.
#include <map>
#include <mutex>
#include <utility>

#include <cuda_runtime_api.h>

#include "state.hpp"

namespace gradnn::fake_cuda {

namespace {

/// Work is done in the order in which it is submitted, to whatever stream.
struct device_clock {
    std::mutex mutex;
    std::function<double(const std::string &)> times;
    double milliseconds = 0.0;
    std::map<cudaEvent_t, double> recorded;
};

device_clock &the_clock() {
    static auto *const all = new device_clock; // destroyed never, as the heap
    return *all;
}

} // namespace

void set_kernel_times(std::function<double(const std::string &kernel)> times) {
    device_clock &clock = the_clock();
    const std::lock_guard lock(clock.mutex);
    clock.times = std::move(times);
}

void pass_time_of(const std::string &kernel) {
    device_clock &clock = the_clock();
    const std::lock_guard lock(clock.mutex);
    if (clock.times) clock.milliseconds += clock.times(kernel);
}

std::uintptr_t new_address() {
    static std::uintptr_t last = 0x1000;
    static std::mutex mutex;
    const std::lock_guard lock(mutex);
    return last += 16;
}

} // namespace gradnn::fake_cuda

using namespace gradnn::fake_cuda;

extern "C" {

cudaError_t cudaEventCreate(cudaEvent_t *made) {
    *made = new_handle<cudaEvent_t>();
    return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
    device_clock &clock = the_clock();
    const std::lock_guard lock(clock.mutex);
    clock.recorded.erase(event);
    return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t) {
    device_clock &clock = the_clock();
    const std::lock_guard lock(clock.mutex);
    clock.recorded[event] = clock.milliseconds;
    return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t) {
    return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(
        float *milliseconds, cudaEvent_t from, cudaEvent_t to) {
    device_clock &clock = the_clock();
    const std::lock_guard lock(clock.mutex);
    *milliseconds
            = static_cast<float>(clock.recorded[to] - clock.recorded[from]);
    return cudaSuccess;
}

} // extern "C"
