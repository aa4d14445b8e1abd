#include "device_limit.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <vector>

#include <gradnn/cuda.hpp>

#include "gpu/tools.hpp"
#include "machine.hpp"
#include "memory_limit.hpp"
#include "tensor_memory.hpp"

namespace gradnn::driver {

namespace {

bool on_gpu(const engine &e) {
    return e.get_kind() == engine::kind::gpu;
}

/// Bytes that a copy reads, and writes as well, for one problem on a GPU.
size_t half_of(size_t read_bytes, size_t write_bytes) {
    return ((read_bytes + write_bytes) / 2 / 256 + 1) * 256;
}

} // namespace

struct device_clock::state {
    explicit state(const stream &s) : queue(s) {
        if (on_gpu(s.get_engine())) timer.emplace(s);
    }
    stream queue;
    std::optional<gpu::stream_timer> timer;
};

device_clock::device_clock(const stream &s)
    : state_(std::make_shared<state>(s)) {}

double device_clock::milliseconds_of(const std::function<void()> &work) {
    if (state_->timer) {
        state_->timer->begin();
        work();
        return state_->timer->end();
    }
    using clock = std::chrono::steady_clock;
    const auto begin = clock::now();
    work();
    state_->queue.wait();
    return std::chrono::duration<double, std::milli>(clock::now() - begin)
            .count();
}

struct device_limit::state {
    state(const engine &e, size_t read_bytes, size_t write_bytes,
            size_t number)
        : copies(number) {
        if (!on_gpu(e)) {
            host.emplace(read_bytes, write_bytes, number);
            return;
        }
        bytes = half_of(read_bytes, write_bytes);
        source.emplace(e, bytes * number);
        target.emplace(e, bytes * number);
        source->fill(1);
        target->fill(1);
        queue = stream(e);
        clock.emplace(queue);
    }

    size_t copies;
    std::optional<memory_stream> host;
    size_t bytes = 0;
    std::optional<gpu::memory_block> source;
    std::optional<gpu::memory_block> target;
    stream queue;
    std::optional<device_clock> clock;
};

device_limit::device_limit(const engine &e, size_t read_bytes,
        size_t write_bytes, size_t copies)
    : state_(std::make_shared<state>(e, read_bytes, write_bytes, copies)) {}

double device_limit::run(size_t copy) {
    state &on = *state_;
    if (on.host) return 1e3 * on.host->run(copy);
    const size_t at = copy % on.copies * on.bytes;
    return on.clock->milliseconds_of([&] {
        gpu::copy_on(on.queue, on.target->data() + at, on.source->data() + at,
                on.bytes);
    });
}

size_t device_limit::memory_need(const engine &e, size_t read_bytes,
        size_t write_bytes, size_t copies) {
    return on_gpu(e)
            ? 2 * copies * half_of(read_bytes, write_bytes)
            : memory_stream::memory_need(read_bytes, write_bytes, copies);
}

double copy_gb_per_s(const engine &e) {
    const int64_t bytes = std::min(
            (on_gpu(e) ? 32 : 8) * cache_bytes(e), available_memory(e) / 4);
    if (!on_gpu(e)) return copy_gb_per_s(static_cast<size_t>(bytes));
    const auto half = static_cast<size_t>(bytes / 2);
    device_limit limit(e, half, half, 1);
    std::vector<double> times;
    for (int repeat = 0; repeat < 9; ++repeat)
        times.push_back(limit.run(0));
    std::nth_element(times.begin(), times.begin() + 4, times.end());
    return 2 * static_cast<double>(half_of(half, half)) / times[4] / 1e6;
}

int64_t cache_bytes(const engine &e) {
    if (!on_gpu(e)) return last_level_cache_bytes();
    return static_cast<int64_t>(
            cuda_interop::get_device_info(e.get_index()).l2_bytes);
}

} // namespace gradnn::driver
