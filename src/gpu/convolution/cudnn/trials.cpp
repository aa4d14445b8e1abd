// Which of cuDNN's kernels runs at all, and which is the fastest, by running them.
#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>
#include <vector>

#include <gradnn/status.hpp>

#include "base/text.hpp"
#include "gpu/convolution/cudnn/planner.hpp"
#include "gpu/runtime/cuda_check.hpp"
#include "gpu/runtime/device.hpp"
#include "gpu/runtime/stopwatch.hpp"

namespace gradnn::gpu::cudnn {

namespace fe = cudnn_frontend;

using detail::text;

namespace {

/// How many of the heuristics' kernels a measurement tries.
constexpr size_t most_measured = 24;
/// One that takes so many times as long as the fastest so far is not run
/// again, nor, if there is one to take, one whose first run takes so many
/// milliseconds, which may be its loading: some of the last ones take seconds.
constexpr float hopeless_factor = 4.0F;
constexpr float hopeless_ms = 500.0F;
/// After so long none is built or tried any more, if there is one to take: cuDNN
/// compiles some of them.
constexpr std::chrono::seconds most_building {2};
constexpr std::chrono::seconds most_measuring {4};

/// Where plans of an arrangement can be run: operands of zeros and a workspace.
class trial {
public:
    trial(int device, const problem_arrangement &arrangement,
            size_t workspace_bytes, library_handle handle)
        : workspace_(device, workspace_bytes), handle_(handle) {
        const auto &operands = arrangement.operands;
        const size_t count = operands.size() + arrangement.epilogue.size();
        for (size_t index = 0; index < count; ++index) {
            const described_tensor &t
                    = operands[index < 3 ? index : arrangement.output()].seen;
            tensors_[index] = device_buffer(device,
                    static_cast<size_t>(t.extent() * detail::size_of(t.type)));
            data_[index] = tensors_[index].data();
            check(cudaMemsetAsync(data_[index], 0, tensors_[index].size_bytes(),
                          watch.stream()),
                    "cudaMemsetAsync");
        }
        check_status(fe::detail::set_stream(handle_, watch.stream()),
                "cudnnSetStream");
    }
    ~trial() { static_cast<void>(fe::detail::set_stream(handle_, nullptr)); }

    void run(const built_plan &plan) const {
        plan.execute(handle_, data_, workspace_.data());
    }

    void wait() const {
        check(cudaStreamSynchronize(watch.stream()), "cudaStreamSynchronize");
    }

    stopwatch watch;

private:
    const device_buffer workspace_;
    std::array<device_buffer, 5> tensors_;
    operand_data data_ {};
    const library_handle handle_;
};

} // namespace

bool plan_finder::runs(
        const built_plan &plan, int device, std::string &reason) const {
    try {
        const trial scratch(
                device, arrangement_, plan.workspace_bytes(), handle_);
        scratch.run(plan);
        scratch.wait();
    } catch (const error &failure) {
        // No error of CUDA's may meet the caller's next call.
        static_cast<void>(cudaGetLastError());
        // No memory for a trial says nothing of the plan.
        if (failure.status == status::out_of_memory) return true;
        reason = text(plan.tag(), " does not run: ", failure.what());
        return false;
    }
    return true;
}

built_plan plan_finder::first(int device, std::string &reason) {
    const bool doubtful = arrangement_.exceeds_a_grid();
    for (size_t index = 0; index < count(); ++index)
        if (built_plan plan = build(index, reason))
            if (!doubtful || runs(plan, device, reason)) return plan;
    return {};
}

built_plan plan_finder::fastest(int device, std::string &found) {
    std::vector<std::pair<built_plan, std::string>> plans;
    size_t workspace_bytes = 0;
    const auto begin = std::chrono::steady_clock::now();
    const auto spent = [&] { return std::chrono::steady_clock::now() - begin; };
    for (size_t index = 0; index < std::min(count(), most_measured); ++index) {
        if (!plans.empty() && spent() > most_building) break;
        std::string ignored;
        if (built_plan plan = build(index, ignored)) {
            workspace_bytes = std::max(workspace_bytes, plan.workspace_bytes());
            plans.emplace_back(std::move(plan), name(index));
        }
    }
    built_plan best;
    try {
        trial scratch(device, arrangement_, workspace_bytes, handle_);
        stopwatch &watch = scratch.watch;
        float least = std::numeric_limits<float>::max();
        for (auto &[plan, plan_name] : plans) {
            if (best && spent() > most_measuring) break;
            const auto run = [&, &candidate = plan] { scratch.run(candidate); };
            float time = std::numeric_limits<float>::max();
            try {
                const float first = watch.milliseconds(1, run);
                if (best && first > hopeless_ms) continue;
                if (watch.milliseconds(1, run) > hopeless_factor * least)
                    continue;
                for (int repeat = 0; repeat < 3; ++repeat)
                    time = std::min(time, watch.milliseconds(4, run));
            } catch (const error &) {
                // A kernel that fails is not the fastest.
                static_cast<void>(cudaGetLastError());
                continue;
            }
            if (time < least) {
                least = time;
                best = std::move(plan);
                found = plan_name;
            }
        }
        scratch.wait();
    } catch (const error &failure) {
        if (failure.status != status::out_of_memory) throw;
        best = {};
    }
    return best;
}

} // namespace gradnn::gpu::cudnn
