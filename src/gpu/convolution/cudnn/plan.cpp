// Which of cuDNN's kernels is taken: the one that the plan cache names, the fastest of those
// that are measured, or the first that runs.
#include "gpu/convolution/cudnn/plan.hpp"

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "gpu/convolution/cudnn/planner.hpp"
#include "gpu/runtime/cuda_check.hpp"
#include "gpu/runtime/device.hpp"
#include "gpu/runtime/stopwatch.hpp"
#include "kernel/plan_cache.hpp"

namespace gradnn::gpu::cudnn {

namespace fe = cudnn_frontend;

using detail::compile_options;
using detail::text;

namespace {

/// All that decides which kernel is best, for the plan cache.
std::string key_of(
        const problem_arrangement &a, const compile_options &options) {
    std::string key = text(properties_of(options.device).info.name, "; cuDNN ",
            library().version, "; direction ", static_cast<int>(a.direction));
    for (const auto &[type, rank, dims, strides] : a.seen)
        key += text("; ", to_string(type), " ",
                detail::text_of(std::span(dims).first(rank)), " ",
                detail::text_of(std::span(strides).first(rank)));
    for (const detail::elementwise_kind each : a.epilogue)
        key += text("; op ", static_cast<int>(each));
    // The pads of both ends.
    for (const auto *list : {&a.strides, &a.dilations, &a.pads, &a.pads})
        key += text("; ", detail::text_of(std::span(*list).first(a.space)));
    return key
            + text("; deterministic ", options.deterministic, "; fpmath ",
                    static_cast<int>(options.fpmath), a.widened ? " exact" : "",
                    "; workspace ", convolution_workspace_limit(options));
}

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
        const auto &seen = arrangement.seen;
        const size_t count = seen.size() + arrangement.epilogue.size();
        for (size_t index = 0; index < count; ++index) {
            const described_tensor &t
                    = seen[index < 3 ? index : arrangement.output()];
            tensors_[index] = device_buffer(device,
                    static_cast<size_t>(t.extent() * detail::size_of(t.type)));
            data_[index] = tensors_[index].data();
            watch.fill_with_zeros(tensors_[index]);
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

/// Runs a plan once on memory of its own: whether it can be, or there is no such memory;
/// the reason if not.
bool runs(const built_plan &plan, int device,
        const problem_arrangement &arrangement, library_handle handle,
        std::string &reason) {
    try {
        const trial scratch(device, arrangement, plan.workspace_bytes, handle);
        scratch.run(plan);
        scratch.wait();
    } catch (const error &failure) {
        // No error of CUDA's may meet the caller's next call.
        static_cast<void>(cudaGetLastError());
        reason = text(plan.tag, " does not run: ", failure.what());
        // No memory for a trial says nothing of the plan.
        return failure.status == status::out_of_memory;
    }
    return true;
}

/// Runs the candidates on memory of its own: the fastest and its name, or an empty plan
/// where that memory cannot be had.
built_plan fastest(plan_finder &planner, int device,
        const problem_arrangement &arrangement, library_handle handle,
        std::string &found) {
    std::vector<std::pair<built_plan, std::string>> plans;
    size_t workspace_bytes = 0;
    const auto begin = std::chrono::steady_clock::now();
    const auto spent = [&] { return std::chrono::steady_clock::now() - begin; };
    for (size_t index = 0; index < std::min(planner.count(), most_measured);
            ++index) {
        if (!plans.empty() && spent() > most_building) break;
        std::string ignored;
        if (built_plan plan = planner.build(index, ignored)) {
            workspace_bytes = std::max(workspace_bytes, plan.workspace_bytes);
            plans.emplace_back(std::move(plan), planner.name(index));
        }
    }
    built_plan best;
    try {
        trial scratch(device, arrangement, workspace_bytes, handle);
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

} // namespace

built_plan find_plan(const problem_arrangement &arrangement,
        const compile_options &options, std::string &reason) {
    const auto left = convolution_workspace_left(
            options, arrangement.staged_bytes, reason);
    if (!left) return {};
    const compile_handle handle(options.device);
    try {
        plan_finder planner(arrangement, options, handle.get(), *left);
        if (planner.count() == 0) {
            reason = "cuDNN has no kernel for these types, layouts and pads";
            return {};
        }
        const std::string key = key_of(arrangement, options);
        const std::string &file = options.plan_cache;
        if (const auto known = detail::find_in_plan_cache(key, file))
            for (size_t index = 0; index < planner.count(); ++index)
                if (planner.name(index) == *known)
                    if (built_plan plan = planner.build(index, reason))
                        return plan;
        if (options.autotune) {
            std::string found;
            if (built_plan plan = fastest(planner, options.device, arrangement,
                        handle.get(), found)) {
                detail::keep_in_plan_cache(key, found, file);
                return plan;
            }
        }
        const bool doubtful = arrangement.exceeds_a_grid();
        for (size_t index = 0; index < planner.count(); ++index)
            if (built_plan plan = planner.build(index, reason))
                if (!doubtful
                        || runs(plan, options.device, arrangement, handle.get(),
                                reason))
                    return plan;
    } catch (const fe::cudnnException &failure) {
        reason = failure.what();
    }
    return {};
}

std::optional<named_engine> first_engine(
        const detail::convolution_problem &problem,
        const compile_options &options) {
    try {
        const auto arrangements = arrangements_taken(problem, options);
        if (arrangements.empty()) return named_engine {};
        const problem_arrangement &arrangement = arrangements.front();
        constexpr size_t most_copied = size_t {1} << 30;
        if (arrangement.staged_bytes > most_copied
                        + round_up(arrangement.operands[1].bytes,
                                staged_alignment))
            return named_engine {};
        const compile_handle handle(options.device);
        const plan_finder planner(arrangement, options, handle.get(),
                convolution_workspace_limit(options));
        if (planner.count() == 0) return named_engine {};
        return named_engine {engine_of(planner.name(0)),
                arrangement.seen[0].strides[1] == 1};
    } catch (const fe::cudnnException &) {
        return named_engine {};
    } catch (const error &) {
        // No handle or no memory: who needs these will say so.
        return std::nullopt;
    }
}

} // namespace gradnn::gpu::cudnn
