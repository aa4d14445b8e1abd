// Every plan runs once, which loads its kernels, and then once in each round, so
// that a clock that rises or other work on the device meets all plans alike. Of a
// plan's times the least counts.
#include "gpu/runtime/plan_timer.hpp"

#include <algorithm>
#include <chrono>
#include <future>
#include <limits>
#include <optional>

#include <gradnn/status.hpp>

#include "base/log.hpp"
#include "gpu/runtime/cuda_check.hpp"
#include "gpu/runtime/device.hpp"
#include "gpu/runtime/engine.hpp"
#include "gpu/runtime/stopwatch.hpp"

namespace gradnn::gpu {

namespace {

/// After the one that loads kernels.
constexpr int rounds = 5;
/// A plan that takes so many times as long as the fastest is not run again.
constexpr double hopeless_factor = 2;
/// Nor one whose first run, which loads its kernels too, takes so many microseconds and
/// so many times as long as the fastest: a few of these would leave no time for others.
constexpr double long_run = 10e3;
constexpr double hopeless_at_once = 20;
/// After so long nothing is run any more.
constexpr std::chrono::milliseconds most_measuring {100};

constexpr double never = std::numeric_limits<double>::infinity();

/// Where plans of a problem can be run: tensors of zeros and a workspace.
class scratch {
public:
    scratch(int device, std::span<const size_t> argument_bytes,
            size_t workspace_bytes)
        : other_data_(device, properties_of(device).info.l2_bytes),
          workspace_(device, workspace_bytes),
          queue_(std::make_shared<gpu_engine>(static_cast<size_t>(device)),
                  watch_.stream()) {
        for (const size_t bytes : argument_bytes) {
            const device_buffer &tensor = tensors_.emplace_back(device, bytes);
            data_.push_back(tensor.data());
            watch_.fill_with_zeros(tensor);
        }
    }
    ~scratch() { ignore(cudaStreamSynchronize(watch_.stream())); }

    /// Of one execution, none of whose data is in the cache before.
    double microseconds(const detail::plan &plan) {
        watch_.fill_with_zeros(other_data_);
        return 1e3 * double {watch_.milliseconds(1, [&] {
            plan.execute(
                    data_, static_cast<std::byte *>(workspace_.data()), queue_);
        })};
    }

private:
    const device_buffer other_data_; ///< as large as the cache
    const device_buffer workspace_;
    std::vector<device_buffer> tensors_;
    std::vector<void *> data_;
    stopwatch watch_;
    gpu_stream queue_;
};

std::vector<double> time(std::span<const detail::plan *const> plans,
        std::span<const size_t> argument_bytes,
        const detail::compile_options &options) {
    const allocation_guard current(options.device);
    std::vector<double> times(plans.size(), never);
    std::vector<bool> left_out(plans.size(), false);
    // Plans of the largest workspace are left out while there is no memory for it.
    std::optional<scratch> memory;
    while (!memory) {
        size_t most = 0;
        for (size_t index = 0; index < plans.size(); ++index)
            if (!left_out[index])
                most = std::max(most, plans[index]->workspace_bytes());
        try {
            memory.emplace(options.device, argument_bytes, most);
        } catch (const error &failure) {
            if (failure.status != status::out_of_memory || most == 0) throw;
            for (size_t index = 0; index < plans.size(); ++index)
                if (plans[index]->workspace_bytes() >= most)
                    left_out[index] = true;
        }
    }
    const auto begin = std::chrono::steady_clock::now();
    for (int round = 0; round <= rounds; ++round) {
        const double least = std::ranges::min(times);
        for (size_t index = 0; index < plans.size(); ++index) {
            left_out[index] = left_out[index]
                    || (round > 1 && times[index] > hopeless_factor * least)
                    || (round == 1 && times[index] > long_run
                            && times[index] > hopeless_at_once * least);
            if (left_out[index]) continue;
            if (std::chrono::steady_clock::now() - begin > most_measuring)
                break;
            try {
                times[index] = std::min(
                        times[index], memory->microseconds(*plans[index]));
            } catch (const error &failure) {
                if (failure.status == status::out_of_memory) throw;
                // A plan that fails is not the fastest.
                left_out[index] = true;
                times[index] = never;
            }
        }
    }
    return times;
}

} // namespace

constexpr detail::plan_timer plans_timer {
        [](const detail::compile_options &options) -> std::string {
            return properties_of(options.device).info.name;
        },
        time};

detail::plan_or_refusal fastest_of(size_t ways,
        const std::function<detail::plan_or_refusal(size_t)> &make,
        std::span<const size_t> argument_bytes,
        const detail::compile_options &options) {
    if (ways == 1) return make(0);
    // New threads have device 0: with another one at once nothing goes back to it.
    const allocation_guard current(options.device);
    const auto make_one = [&](size_t way) {
        check(cudaSetDevice(options.device), "cudaSetDevice");
        return make(way);
    };
    std::vector<std::future<detail::plan_or_refusal>> making;
    for (size_t way = 0; way < ways; ++way)
        making.push_back(std::async(detail::in_log_callback()
                        ? std::launch::deferred
                        : std::launch::async | std::launch::deferred,
                make_one, way));
    std::vector<std::unique_ptr<detail::plan>> plans;
    std::vector<const detail::plan *> timed;
    std::string refusal;
    for (auto &each : making) {
        auto made = each.get();
        if (refusal.empty()) refusal = made.refusal;
        if (!made.plan) continue;
        timed.push_back(made.plan.get());
        plans.push_back(std::move(made.plan));
    }
    if (plans.empty()) return detail::plan_or_refusal::refuse(refusal);
    if (plans.size() == 1) return std::move(plans.front());
    std::ptrdiff_t best = 0;
    try {
        const std::vector<double> times = time(timed, argument_bytes, options);
        best = std::ranges::min_element(times) - times.begin();
    } catch (const error &failure) {
        if (failure.status != status::out_of_memory) throw;
    }
    return std::move(plans[static_cast<size_t>(best)]);
}

} // namespace gradnn::gpu
