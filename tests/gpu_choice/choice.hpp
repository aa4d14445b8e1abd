// Which kernels of the GPU engine take the steps of an op, and how their work is
// cut, on the stand-in for the CUDA runtime.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <gradnn/op.hpp>

#include "kernel/kernel.hpp"

namespace gradnn::test {

/// An op under a name, and how it is compiled.
struct choice_problem {
    std::string name;
    op the_op;
    detail::compile_options options;
};

/// Of one step of an op.
struct kernel_choice {
    std::string output; ///< "diff_src"
    std::string kernel;
    std::string backend;
    size_t workspace_bytes = 0;
    bool deterministic = true;
    /// Whether the output is better written channels last, where it is the
    /// library's to choose.
    bool channels_last = false;
    /// What was submitted to the device: to make the plan; by one execution on
    /// data at multiples of 256 bytes; by one on data at odd multiples of an
    /// element's size. Empty where they were not asked for, or the kernel is
    /// cuDNN's.
    std::string made;
    std::string executed;
    std::string executed_unaligned;
};

/// The stand-in for cuDNN makes no plans: where it would be asked, the kernel is
/// convolution.cudnn, and what is known of its plan is nothing.
std::vector<kernel_choice> choices_of(
        const choice_problem &problem, bool with_launches);

/// Has GRADNN_CUDNN name the stand-in for cuDNN. Before anything else of the GPU
/// engine is called.
void use_fake_libraries();

/// Why choices cannot be compared with those of another build that was made as
/// gradnn's are; empty where they can.
std::string why_not_comparable();

/// All of a choice, in fields with tabs between them, but for the time that its kernel took
/// to compile.
std::string line_of(const choice_problem &problem, const kernel_choice &choice);

/// The kernels and workspaces of problems that differ by their types alone, and
/// follow each other, in a line for each output:
/// "fpn_2x ncx diff_src: f32 gpu_resample 0, bf16 f16 f64 gpu_strided 64".
std::vector<std::string> summary_of(
        const std::vector<choice_problem> &problems);

} // namespace gradnn::test
