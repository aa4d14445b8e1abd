#include <algorithm>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>

#include "base/log.hpp"
#include "base/text.hpp"
#include "gpu/interpolation/generic.hpp"
#include "gpu/jit/load.hpp"
#include "gpu/kernels.hpp"
#include "gpu/runtime/copy.hpp"
#include "gpu/runtime/launch.hpp"
#include "gpu/runtime/plan_timer.hpp"
#include "kernel/argument_bytes.hpp"

namespace gradnn::gpu::resample {

namespace {

constexpr const char *name = "interpolation.gpu_resample";
constexpr int vectors = 16; ///< bytes that tensors are expected at multiples of
constexpr size_t most_tried = 3; ///< kernels, until one spills no registers

jit::kernel_launch launch_of(
        const specification_of_kernel &s, const gpu_facts &gpu) {
    geometry g = geometry_of(s);
    if (const int blocks = s.cut_by.blocks; s.cut_by.stages > 0) {
        g.grid = std::min(g.grid, gpu.multiprocessors * blocks);
        // So much that no more fit: an early start fills multiprocessors that are free first.
        g.shared_bytes = std::max(
                g.shared_bytes, gpu.shared_bytes / (blocks + 1) - 1023);
    }
    return {{"gpu/interpolation/kernel.cuh", text_of(s), "gradnn_resample"},
            g.grid, s.cut_by.threads, static_cast<size_t>(g.shared_bytes)};
}

/// A problem and its kernel; without one what takes everything serves.
struct variant {
    problem_specification p;
    std::shared_ptr<const device_tables> map;
    std::optional<jit::kernel_launch> kernel;
    std::string backend;

    void launch(
            const launch_stream &stream, std::span<void *const> args) const {
        fused_places others {};
        size_t next = 2;
        const auto bytes_from = [&](size_t tensor) {
            return static_cast<const char *>(args[next++])
                    - static_cast<const char *>(args[tensor]);
        };
        if (p.prologue != fused_op::none) others.prologue = bytes_from(0);
        for (int e = 0; e < epilogues_of(p); ++e)
            others.epilogue[e] = bytes_from(1);
        if (!kernel)
            launch_generic(name, p, *map, stream, args[0], args[1], others);
        else if (p.type == element::f64)
            (*kernel)(name, stream, args[0], args[1],
                    tables_at<double>(*map, others));
        else
            (*kernel)(name, stream, args[0], args[1],
                    tables_at<float>(*map, others));
    }
};

/// A problem with its maps on the device, and the choices for tensors at multiples of so many bytes.
struct variants {
    compile_options options;
    mapped_problem of;
    gpu_facts gpu = properties_of(options.device);
    std::shared_ptr<const device_tables> map
            = std::make_shared<const device_tables>(
                    upload_tables(options.device, of));
    std::vector<choice> choices = {};
    /// Of tensors at other multiples than those of 16 bytes, made when they are first met.
    std::once_flag met_others = {};
    variant others = {};

    void choose(int alignment) {
        of.specification.alignment = alignment;
        if (options.specialise) choices = choices_of(of, gpu);
    }
    /// Of the best `tried` ones from a number on the first that spills no registers.
    variant compiled(size_t number, size_t tried) const {
        const problem_specification &p = of.specification;
        std::vector<jit::kernel_launch> all;
        for (size_t i = number; i < choices.size() && all.size() < tried; ++i)
            all.push_back(launch_of({p, choices[i].cut_by}, gpu));
        std::string why = options.specialise ? "no way to cut the work fits"
                                             : "specialise is off";
        const auto taken = jit::load_without_spills(all, options, why);
        if (taken) return {p, map, all[*taken], all[*taken].kernel->backend};
        detail::log_event({.event = "kernel",
                .engine = detail::text("gpu:", options.device),
                .note = detail::text(name, " ahead of time: ", why)});
        why = why.substr(0, std::min(why.find(" ("), why.find(": ")));
        return {p, map, {}, detail::text("CUDA (ahead of time: ", why, ')')};
    }
};

} // namespace

plan_or_refusal make_fused(const detail::fused_interpolation &problem,
        const compile_options &options) {
    constexpr size_t most_measured = 6;
    std::string refusal;
    auto whole = specification_of(problem, vectors, refusal);
    if (!whole) return plan_or_refusal::refuse(refusal);
    const std::shared_ptr<variants> all(
            new variants {options, *std::move(whole)});
    all->choose(vectors);
    // By measuring one plan for each way to cut the work; else the best by estimate.
    const size_t tried = options.autotune ? 1 : most_tried;
    const size_t most = options.autotune ? most_measured : 1;
    return fastest_of(
            std::clamp<size_t>(all->choices.size(), 1, most),
            [&](size_t way) -> plan_or_refusal {
                const variant first = all->compiled(way, tried);
                return std::make_unique<launched_plan>(
                        [first, all](std::span<void *const> args, std::byte *,
                                const launch_stream &stream) {
                            if (std::ranges::all_of(args, [](void *each) {
                                    return is_aligned(each, vectors);
                                })) {
                                first.launch(stream, args);
                                return;
                            }
                            std::call_once(all->met_others, [&] {
                                all->choose(bytes_of(first.p.type));
                                all->others = all->compiled(0, most_tried);
                            });
                            all->others.launch(stream, args);
                        },
                        0, first.backend);
            },
            detail::argument_bytes(problem), options);
}

// Everything, long sums among it, which threads share.
plan_or_refusal make_strided(
        const interpolation_problem &problem, const compile_options &options) {
    std::string refusal;
    const auto whole = specification_of({problem}, vectors, refusal, true);
    if (!whole) return plan_or_refusal::refuse(refusal);
    const problem_specification &p = whole->specification;
    const sharing h = sharing_of(p, true, is_of_ones(whole->maps[2]), 1);
    const auto map = std::make_shared<const device_tables>(
            upload_tables(options.device, *whole));
    return std::make_unique<launched_plan>(
            [=, of = p](std::span<void *const> args, std::byte *sums,
                    const launch_stream &stream) {
                launch_generic("interpolation.gpu_strided", of, *map, stream,
                        args[0], args[1], {}, &h, sums);
            },
            h.parts == 1 ? 0
                         : static_cast<size_t>(h.parts * h.groups * h.side
                                 * h.vector * h.together * 8 * sum_words(p)));
}

// Of equal sizes.
plan_or_refusal make_copy(
        const interpolation_problem &problem, const compile_options &) {
    const auto is_kept = [&](const detail::interpolation_axis &axis) {
        return is_identity(problem.mode, problem.coordinates, axis);
    };
    if (!std::ranges::all_of(problem.axes, is_kept))
        return plan_or_refusal::refuse(
                "takes equal sizes, where every output is its own input");
    return std::make_unique<launched_plan>(
            [of = copy_of(problem.diff_dst, problem.diff_src)](
                    std::span<void *const> args, std::byte *,
                    const launch_stream &stream) {
                copy(of, args[0], args[1], stream);
            });
}

} // namespace gradnn::gpu::resample
