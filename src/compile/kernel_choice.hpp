// Which kernel computes a problem.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compile/composed.hpp"
#include "compile/executable.hpp"
#include "compile/fused.hpp"
#include "compile/lowering.hpp"

namespace gradnn::detail {

/// Whether the engine's kernels rather write the step's output channels last than
/// in the layout that its problem has.
bool writes_channels_last(const lowered_step &step, engine::kind kind,
        const compile_options &options);

/// The first kernel of the engine's list that neither yields nor refuses the
/// step's problem, or where there is none the first that yields and does not
/// refuse; with options.kernels naming kernels of that list, of those. Throws
/// unimplemented with every refusal's reason where none accepts, and
/// invalid_arguments where options.kernels names an unknown kernel. What the
/// step reads and writes is left to the caller.
///
/// An interpolation or convolution on an engine that times plans takes the kernel
/// that the plan cache names, or else with options.autotune the one that is measured
/// to be the fastest of those that accept (doc/gpu.md).
executable_step choose_kernel(const lowered_step &step, engine::kind kind,
        const compile_options &options, const op &the_op);

/// The kernel of a problem and the ops of single elements around it, where the row that
/// would be chosen for the problem alone has one; else nothing, and the reason in
/// `refusal`.
std::optional<executable_step> choose_fused_kernel(const fused_step &step,
        engine::kind kind, const compile_options &options, const op &the_op,
        std::string &refusal);

/// What is kept of which form of a partition is the fastest: under the problems of its
/// ops, on an engine that times plans.
std::string key_of_forms(const std::vector<placed_step> &steps,
        engine::kind kind, const compile_options &options);

/// Whether a list of names that are separated by commas has one.
bool lists_name(const std::string &list, std::string_view name);

/// What a row of the list says of a problem.
struct kernel_opinion {
    const char *kernel = nullptr;
    /// Why it cannot; empty where it can.
    std::string refusal;
    /// Why others come first; empty where they need not.
    std::string yields;
    /// Where it can: its plan, what does the work, and its workspace.
    std::unique_ptr<detail::plan> plan;
    std::string backend;
    size_t workspace_bytes = 0;
};

/// Asks every row of the engine's list, in order.
std::vector<kernel_opinion> opinions_of(const lowered_step &step,
        engine::kind kind, const compile_options &options, const op &the_op);

/// A row as `gradnn kernels` prints it.
struct kernel_row {
    const char *name;
    const char *takes;
};

/// The rows of all lists of an engine, in order.
std::vector<kernel_row> kernel_rows(engine::kind kind);

} // namespace gradnn::detail
