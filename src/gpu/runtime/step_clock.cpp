// Times of steps on the device, by CUDA events around them.
#include <memory>
#include <vector>

#include "gpu/runtime/cuda_check.hpp"
#include "gpu/runtime/device.hpp"
#include "gpu/runtime/engine.hpp"

namespace gradnn::gpu {

namespace {

struct event_clock final : detail::step_clock {
    event_clock(int adevice, cudaStream_t astream, size_t count)
        : device(adevice), stream(astream) {
        const device_guard current(device);
        events.reserve(count);
        while (events.size() < count) {
            cudaEvent_t made = nullptr;
            check(cudaEventCreate(&made), "cudaEventCreate");
            events.emplace_back(made);
        }
    }

    void mark() override {
        const device_guard current(device);
        check(cudaEventRecord(events[marks++].get(), stream),
                "cudaEventRecord");
    }

    std::vector<double> milliseconds() override {
        std::vector<double> times;
        if (marks == 0) return times;
        const device_guard current(device);
        const capture_mode_guard relaxed;
        check(cudaEventSynchronize(events[marks - 1].get()),
                "cudaEventSynchronize");
        for (size_t index = 1; index < marks; ++index) {
            float passed = 0.0F;
            check(cudaEventElapsedTime(&passed, events[index - 1].get(),
                          events[index].get()),
                    "cudaEventElapsedTime");
            times.push_back(static_cast<double>(passed));
        }
        return times;
    }

    struct destroy {
        void operator()(cudaEvent_t event) const {
            ignore(cudaEventDestroy(event));
        }
    };
    using event = std::unique_ptr<CUevent_st, destroy>;

    const int device;
    const cudaStream_t stream;
    std::vector<event> events;
    size_t marks = 0;
};

} // namespace

std::unique_ptr<detail::step_clock> gpu_stream::make_step_clock(size_t steps) {
    if (is_capturing()) return nullptr;
    return std::make_unique<event_clock>(device, handle, steps + 1);
}

} // namespace gradnn::gpu
