#include "cudnn_worker.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <iomanip>
#include <set>
#include <sstream>

#include <gradnn/status.hpp>

#include "gpu/convolution/cudnn/planner.hpp"
#include "gpu/runtime/cuda_check.hpp"
#include "gpu/runtime/device.hpp"

namespace gradnn::sweep {

namespace {

namespace cudnn = gpu::cudnn;
using detail::convolution_direction;
using detail::convolution_problem;
using detail::data_type;

/// How many of the heuristics' kernels are tried.
constexpr size_t most_kernels = 24;
/// How many are timed by --times.
constexpr size_t most_timed = 8;
constexpr unsigned trial_seconds = 30;
constexpr size_t workspace_limit = size_t {1} << 30;

data_type input_of(const convolution_problem &p) {
    return p.direction == convolution_direction::forward ? p.src.type
                                                         : p.dst.type;
}

data_type output_of(const convolution_problem &p) {
    switch (p.direction) {
        case convolution_direction::forward: return p.dst.type;
        case convolution_direction::backward_data: return p.src.type;
        default: return p.weights.type;
    }
}

/// "weights bf16->f32", " as f32" where cuDNN is given f32 copies.
std::string kind_of(
        const convolution_problem &p, const cudnn::problem_arrangement &a) {
    const std::string text = to_text(p);
    const data_type input = input_of(p);
    const data_type output = output_of(p);
    std::string kind = text.substr(0, text.find(' ')) + " " + name_of(input);
    if (output != input) kind += std::string("->") + name_of(output);
    return a.widened ? kind + " as f32" : kind;
}

/// Of the tensors that cuDNN is given.
const char *order_of(const cudnn::problem_arrangement &arrangement) {
    return arrangement.seen[0].strides[1] == 1 ? " nxc" : " ncx";
}

class problem_sweep {
public:
    problem_sweep(const cudnn_settings &settings, cudnn_progress &progress,
            const convolution_problem &problem, uint64_t seed)
        : settings_(settings),
          progress_(progress),
          problem_(problem),
          seed_(seed) {
        options_.fpmath = settings.fpmath;
    }

    void run() {
        const auto arrangements = cudnn::arrangements_of(problem_);
        refused_ = !cudnn::refusal_of(problem_, options_, arrangements)
                            .refusal.empty();
        if (refused_ && !settings_.refused_problems) return;
        const bool resumed = progress_.begun;
        const size_t first = resumed ? progress_.arrangement : 0;
        for (size_t index = first;
                index < arrangements.size() && !settings_.is_over(); ++index) {
            size_t kernel = 0;
            if (resumed && index == first) {
                // Where cuDNN died as it looked for kernels, there are none.
                if (progress_.kernel == 0) continue;
                kernel = progress_.kernel;
            }
            progress_.arrangement = index;
            progress_.kernel = 0;
            progress_.begun = true;
            try_arrangement(arrangements[index], kernel);
        }
    }

private:
    void begin(const std::string &key, const std::string &name, bool refused) {
        engine_row &row = progress_.table.row(key);
        progress_.row = static_cast<size_t>(&row - progress_.table.rows.data());
        ++row.trials;
        progress_.refused = refused;
        progress_.text.set(name + " : " + to_text(problem_));
        alarm(trial_seconds);
    }

    /// The kernels from an index on.
    void try_arrangement(
            const cudnn::problem_arrangement &arrangement, size_t first) {
        const std::string kind = kind_of(problem_, arrangement);
        begin(kind + " heuristics" + (refused_ ? " refused" : ""), "heuristics",
                refused_);
        try {
            const cudnn::compile_handle handle(
                    static_cast<int>(options_.device));
            cudnn::plan_finder finder(arrangement, options_, handle.get(),
                    workspace_limit, settings_.refused_too);
            if (settings_.times) {
                alarm(0);
                time_kernels(arrangement, finder, handle.get());
                return;
            }
            const detail::promise held_to = detail::promise_of_products(
                    output_of(problem_), settings_.fpmath);
            arrangement_trial trial(arrangement, input_of(problem_), held_to,
                    seed_, settings_.signs);
            const char *const order = order_of(arrangement);
            std::set<std::string> seen;
            const size_t count = std::min(finder.count(), most_kernels);
            for (size_t index = 0; index < count && !settings_.is_over();
                    ++index) {
                const std::string name = finder.name(index);
                if (name.find(settings_.only) == std::string::npos
                        || !seen.insert(name).second || index < first)
                    continue;
                const bool unused = finder.refused(index);
                progress_.kernel = index + 1;
                begin(kind + " " + cudnn::engine_of(name)
                                + (refused_              ? " refused"
                                                : unused ? " unused"
                                                         : ""),
                        name + order, refused_ || unused);
                std::string reason;
                const cudnn::built_plan plan = finder.build(index, reason);
                if (plan)
                    judge(arrangement, held_to, trial.run(plan, handle.get()));
                else if (settings_.list)
                    print("unbuilt " + progress_.text.get() + " : " + reason);
            }
        } catch (const cudnn_frontend::cudnnException &failure) {
            if (settings_.list)
                print("no kernels " + to_text(problem_) + " : "
                        + failure.what());
        }
        alarm(0);
    }

    /// A line for each, on operands of zeros.
    void time_kernels(const cudnn::problem_arrangement &arrangement,
            cudnn::plan_finder &finder, cudnn::library_handle handle) {
        std::array<gpu::device_buffer, 3> tensors;
        gpu::operand_data data {};
        for (size_t index = 0; index < 3; ++index) {
            const auto &seen = arrangement.seen[index];
            tensors[index] = gpu::device_buffer(0,
                    static_cast<size_t>(
                            seen.extent() * detail::size_of(seen.type)));
            data[index] = tensors[index].data();
            gpu::check(cudaMemset(data[index], 0, tensors[index].size_bytes()),
                    "cudaMemset");
        }
        print(to_text(problem_) + " as" + order_of(arrangement) + ", "
                + std::to_string(arrangement.staged_bytes >> 20)
                + " MiB of copies:");
        const size_t count = std::min(finder.count(), most_timed);
        for (size_t index = 0; index < count && !settings_.is_over(); ++index) {
            std::string reason;
            const std::string name = finder.name(index)
                    + (finder.refused(index) ? " (not used)" : "");
            const cudnn::built_plan plan = finder.build(index, reason);
            try {
                if (plan) reason = time_of(plan, handle, data);
            } catch (const error &failure) {
                reason = failure.what();
            }
            print("  " + name + ": " + reason);
        }
    }

    /// "0.52 ms, workspace 4 MiB", the least of three runs.
    static std::string time_of(const cudnn::built_plan &plan,
            cudnn::library_handle handle, const gpu::operand_data &data) {
        const gpu::device_buffer workspace(0, plan.workspace_bytes);
        std::chrono::duration<double, std::milli> least = std::chrono::hours(1);
        for (int run = 0; run < 4; ++run) {
            gpu::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
            const auto begin = std::chrono::steady_clock::now();
            plan.execute(handle, data, workspace.data());
            gpu::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
            const auto end = std::chrono::steady_clock::now();
            if (run > 0) least = std::min<decltype(least)>(least, end - begin);
        }
        std::ostringstream text;
        text << std::fixed << std::setprecision(3) << least.count()
             << " ms, workspace " << (plan.workspace_bytes >> 20) << " MiB";
        return text.str();
    }

    void judge(const cudnn::problem_arrangement &arrangement,
            const detail::promise &held_to, const trial_result &result) {
        alarm(0);
        progress_.table.rows[progress_.row].count(result, held_to,
                settings_.signs, terms_of(arrangement), progress_.text.get());
        std::ostringstream text;
        if (!result.failure.empty())
            text << result.failure;
        else
            text << "error " << result.error << " u*S of "
                 << terms_of(arrangement) << " terms, norm " << result.norm
                 << ", not finite " << result.not_finite << ", changed "
                 << result.changed << ", strays " << result.strays;
        // gradnn tries such plans before it takes one.
        const bool tried
                = !result.failure.empty() && arrangement.exceeds_a_grid();
        if (!result.is_right(held_to, settings_.signs) && !tried)
            report_fault(progress_, text.str());
        else if (settings_.list)
            print("right " + progress_.text.get() + " : " + text.str());
    }

    const cudnn_settings &settings_;
    cudnn_progress &progress_;
    const convolution_problem &problem_;
    const uint64_t seed_;
    detail::compile_options options_;
    bool refused_ = false;
};

} // namespace

void print(const std::string &line) {
    const std::string whole = line + '\n';
    if (write(STDOUT_FILENO, whole.data(), whole.size()) < 0) _exit(2);
}

void report_fault(cudnn_progress &progress, const std::string &fault) {
    if (!progress.refused) ++progress.faults;
    print((progress.refused ? "unused " : "FAULT ") + progress.text.get()
            + " : " + fault + " [" + std::to_string(progress.problem) + "]");
}

void try_problems(const cudnn_settings &settings, cudnn_progress &progress) {
    const int64_t end = settings.first + settings.count;
    for (; progress.problem < end && !settings.is_over();
            progress.problem += settings.jobs) {
        const uint64_t seed = settings.seed * 0x9e3779b97f4a7c15U
                + static_cast<uint64_t>(progress.problem);
        test::random_source random(seed);
        const convolution_problem problem = settings.listed.empty()
                ? random_problem(random, settings.from)
                : settings.listed[static_cast<size_t>(progress.problem)];
        try {
            problem_sweep(settings, progress, problem, seed).run();
        } catch (const error &failure) {
            report_fault(progress, failure.what());
            ++progress.table.rows[progress.row].failures;
            _exit(unusable);
        }
        progress.begun = false;
        ++progress.problems;
    }
}

} // namespace gradnn::sweep
