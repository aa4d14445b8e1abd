// Times of steps on the device, by CUDA events around them.
#include <memory>
#include <vector>

#include "gpu/runtime/device.hpp"
#include "gpu/runtime/engine.hpp"
#include "gpu/runtime/stopwatch.hpp"

namespace gradnn::gpu {

namespace {

struct event_clock final : detail::step_clock {
    event_clock(int adevice, cudaStream_t astream, size_t count)
        : device(adevice), stream(astream), events(count) {}

    void mark() override {
        const device_guard current(device);
        events[marks++].record(stream);
    }

    std::vector<double> milliseconds() override {
        const allocation_guard current(device);
        std::vector<double> times;
        for (size_t index = 1; index < marks; ++index)
            times.push_back(static_cast<double>(
                    events[index].milliseconds_since(events[index - 1])));
        return times;
    }

    const int device;
    const cudaStream_t stream;
    std::vector<timed_event> events;
    size_t marks = 0;
};

} // namespace

std::unique_ptr<detail::step_clock> gpu_stream::make_step_clock(size_t steps) {
    if (is_capturing()) return nullptr;
    const device_guard current(device);
    return std::make_unique<event_clock>(device, handle, steps + 1);
}

} // namespace gradnn::gpu
