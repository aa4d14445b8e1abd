#include "device_clock.hpp"

#include <algorithm>
#include <chrono>
#include <vector>

#include <gradnn/cuda.hpp>

#include "gpu/runtime/tools.hpp"
#include "kernel/engine_impl.hpp"
#include "machine.hpp"
#include "memory_limit.hpp"
#include "tensor_memory.hpp"

namespace gradnn::driver {

namespace {

using clock = std::chrono::steady_clock;

/// The median of 25.
double repeated(const std::function<double()> &measure) {
    std::vector<double> values;
    for (int repeat = 0; repeat < 25; ++repeat)
        values.push_back(measure());
    return median(values);
}

} // namespace

bool on_gpu(const engine &e) {
    return e.get_kind() == engine::kind::gpu;
}

double milliseconds_since(clock::time_point begin) {
    return std::chrono::duration<double, std::milli>(clock::now() - begin)
            .count();
}

double median(std::vector<double> values) {
    const auto middle
            = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

double device_clock::milliseconds_of(
        size_t turns, const std::function<void(size_t)> &work) {
    const auto marks = detail::access::impl(queue_)->make_step_clock(1);
    const bool waits = !on_gpu(queue_.get_engine());
    if (!waits) gpu::tools.pause_on(queue_, turns);
    marks->mark();
    for (size_t turn = 0; turn < turns; ++turn)
        work(turn);
    if (waits) queue_.wait();
    marks->mark();
    return marks->milliseconds().front() / static_cast<double>(turns);
}

double copy_gb_per_s(const engine &e) {
    const int64_t bytes = std::min(
            (on_gpu(e) ? 32 : 8) * cache_bytes(e), available_memory(e) / 4);
    if (!on_gpu(e)) return copy_gb_per_s(static_cast<size_t>(bytes));
    const auto half = static_cast<size_t>(bytes / 2);
    const tensor source = memory_block(e, half);
    const tensor target = memory_block(e, half);
    gpu::tools.fill_blocking(e, source.get_data_handle(), 1, half);
    stream queue(e);
    device_clock stopwatch(queue);
    const double milliseconds = repeated([&] {
        return stopwatch.milliseconds_of(2, [&](size_t) {
            gpu::tools.copy_on(queue, target.get_data_handle(),
                    source.get_data_handle(), half);
        });
    });
    return 2 * static_cast<double>(half) / milliseconds / 1e6;
}

empty_launch measure_empty_launch(const engine &gpu) {
    stream queue(gpu);
    device_clock stopwatch(queue);
    const auto launch = [&](size_t) { gpu::tools.launch_nothing_on(queue); };
    empty_launch measured;
    measured.device_ms
            = repeated([&] { return stopwatch.milliseconds_of(16, launch); });
    measured.host_ms = repeated([&] {
        const auto begin = clock::now();
        launch(0);
        const double milliseconds = milliseconds_since(begin);
        queue.wait();
        return milliseconds;
    });
    return measured;
}

int64_t cache_bytes(const engine &e) {
    if (!on_gpu(e)) return last_level_cache_bytes();
    return static_cast<int64_t>(
            cuda_interop::get_device_info(e.get_index()).l2_bytes);
}

} // namespace gradnn::driver
