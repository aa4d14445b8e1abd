// A plan of cuDNN's for an arrangement of a convolution.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "gpu/convolution/cudnn/arrangement.hpp"
#include "gpu/convolution/cudnn/library.hpp"
#include "kernel/kernel.hpp"

namespace cudnn_frontend {
class ExecutionPlan_v8;
}

namespace gradnn::gpu::cudnn {

/// Execute may be called from many threads, each with its own handle.
struct built_plan {
    /// Data at multiples of 16 bytes, and workspace_bytes. Asynchronous on the handle's
    /// stream.
    void execute(library_handle handle, const operand_data &data,
            void *workspace) const;
    explicit operator bool() const { return descriptor != nullptr; }

    std::shared_ptr<const cudnn_frontend::ExecutionPlan_v8> descriptor;
    int operands = 0; ///< src, weights, dst, the other tensors of ops behind
    size_t workspace_bytes = 0;
    bool deterministic = true;
    std::string tag; ///< cuDNN's name of it: "ConvBwdData_eng5_k24=0"
};

/// Why cuDNN is not asked for a problem with these arrangements: a refusal, which
/// is empty where it is asked. Throws unimplemented where there is no cuDNN.
detail::plan_or_refusal refusal_of(const detail::convolution_problem &problem,
        const detail::compile_options &options,
        std::span<const problem_arrangement> arrangements);

/// Those of the problem, or of the first of the slices that cuDNN is given (cudnn.cpp);
/// none where it is not asked, or is not there.
std::vector<problem_arrangement> arrangements_taken(
        const detail::convolution_problem &, const detail::compile_options &);

/// Asks cuDNN's heuristics for kernels that compute the arrangement as the
/// options allow (deterministic, no less exact than f32 products and sums
/// unless fpmath says otherwise) within the workspace limit, and takes the
/// first that can be built; or the one that the plan cache names or a
/// measurement found, see doc/gpu.md. An empty plan where there is none:
/// `reason` then says why.
built_plan find_plan(const problem_arrangement &arrangement,
        const detail::compile_options &options, std::string &reason);

/// The engine of the kernel that cuDNN's heuristics put first, of those that the options
/// allow, for the best arrangement of a problem. Nothing where cuDNN cannot be asked.
struct named_engine {
    /// "eng17"; empty where the problem is refused, or its src and dst have copies of more
    /// than 1 GiB.
    std::string name;
    bool channels_last = false; ///< how it reads src, in place or copied
};
std::optional<named_engine> first_engine(
        const detail::convolution_problem &problem,
        const detail::compile_options &options);

} // namespace gradnn::gpu::cudnn
