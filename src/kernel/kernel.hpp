// What a kernel is to the compiler: a name and a function that makes a plan
// for a problem or says why it will not.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gradnn/engine.hpp>

#include "kernel/problem.hpp"

namespace gradnn::detail {

/// What the caller of compile asked for, beyond the problem: compile_settings
/// with the defaults and the environment filled in (compile_settings.hpp).
struct compile_options {
    bool deterministic = true;
    fpmath_mode fpmath = fpmath_mode::strict;
    /// Of an engine on the host.
    int threads = 1;
    /// Index of the device.
    int device = 0;
    /// Names of the kernels that may be tried, or empty.
    std::string kernels;
    /// Whether kernels are timed to take the fastest.
    bool autotune = false;
    /// The file that keeps what was timed, or empty.
    std::string plan_cache;
    /// In bytes; what is not set is for the backend to decide.
    std::optional<size_t> convolution_workspace_limit;
    /// Whether kernels may be compiled for the problem (gpu/jit).
    bool specialise = true;
    /// The folder that keeps them, or empty.
    std::string kernel_cache;
};

/// A kernel bound to a problem: everything that can be decided before the data
/// is there. Immutable once compiled; execute may be called from many threads at
/// once.
class plan {
public:
    plan() = default;
    plan(const plan &) = delete;
    plan &operator=(const plan &) = delete;
    virtual ~plan() = default;

    /// Computes the problem's output in all its elements, whatever was there.
    /// `args` are data pointers in the order that the problem's struct names;
    /// `workspace` holds workspace_bytes() bytes at a multiple of 64. Neither
    /// allocates nor synchronises after the first call on a stream.
    virtual void execute(std::span<void *const> args, std::byte *workspace,
            stream_impl &stream) const = 0;

    /// Told by the compiler of the step ahead of this one, which runs on the
    /// same workspace and has the same tensor as its argument of that index: a
    /// copy of it there may serve both. Keeps workspace_bytes() of both.
    virtual void share_copy(plan & /*earlier*/, size_t /*argument*/) {}

    virtual size_t workspace_bytes() const { return 0; }
    /// The library or instruction set that does the work, for get_info.
    virtual std::string backend() const = 0;
    virtual bool deterministic() const { return true; }
    /// Whether a plan of several ops gives the bits that they give one by one.
    virtual bool bits_of_ops() const { return true; }
};

/// A plan, or the reason for having none ("takes f32, given f64").
struct plan_or_refusal {
    std::unique_ptr<gradnn::detail::plan> plan;
    std::string refusal;

    template <typename Plan>
    plan_or_refusal(std::unique_ptr<Plan> made) : plan(std::move(made)) {}
    static plan_or_refusal refuse(std::string reason) {
        return plan_or_refusal(std::move(reason));
    }

private:
    explicit plan_or_refusal(std::string reason) : refusal(std::move(reason)) {}
};

/// A row of a backend's kernel list: a kernel that can run.
template <typename Problem>
struct kernel {
    /// "problem.kernel": what compile_settings::kernels, get_info, the log and
    /// the tests call it.
    const char *name;
    /// What it takes, in a line.
    const char *takes;
    /// A plan, or what the kernel cannot do: what is given and what it takes.
    /// Knows nothing of other kernels.
    plan_or_refusal (*make)(const Problem &, const compile_options &);
    /// Why other rows are to be tried first although this one may be able: that
    /// they were measured to be faster. Empty: nothing says so. Null: never.
    std::string (*yields)(const Problem &, const compile_options &) = nullptr;
    /// Takes everything and is slow: not timed where it yields and another row takes
    /// the problem.
    bool last_resort = false;
    /// Of interpolations: takes interpolation_mode::box, as a last resort does.
    bool takes_boxes = false;
};

/// How a backend times plans of one problem, for compile_options::autotune.
struct plan_timer {
    /// The name of the device, which measurements are kept with.
    std::string (*device)(const compile_options &);
    /// Microseconds that an execution of each plan takes while caches are cold,
    /// on memory of its own of so many bytes for each argument; infinity where
    /// the plan failed or the time was up before its turn. Bounds its own time,
    /// waits for the device. Throws out_of_memory where that memory cannot be
    /// had.
    std::vector<double> (*time)(std::span<const plan *const> plans,
            std::span<const size_t> argument_bytes, const compile_options &);
};

/// The kernel lists of a backend.
struct kernel_lists {
    std::span<const kernel<interpolation_problem>> interpolation;
    std::span<const kernel<convolution_problem>> convolution;
    std::span<const kernel<bias_problem>> bias;
    std::span<const kernel<elementwise_problem>> elementwise;
    /// Whether the output of a convolution (of data, not of weights) is better
    /// written channels last than in the layout that the problem has, where the
    /// caller leaves that to the library. Null where it is never.
    bool (*writes_channels_last)(
            const convolution_problem &, const compile_options &)
            = nullptr;
    /// For the rows of interpolation and convolution. Null where the backend times
    /// nothing.
    const plan_timer *timer = nullptr;
};

} // namespace gradnn::detail
