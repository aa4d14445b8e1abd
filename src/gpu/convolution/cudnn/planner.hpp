// Turns what cuDNN's heuristics say of an arrangement into plans. It needs
// cudnn-frontend's headers; only plan.cpp, planner.cpp and tests/sweep include it.
#pragma once

#include <array>
#include <cstdint>

#include "gpu/convolution/cudnn/frontend.hpp"
#include "gpu/convolution/cudnn/plan.hpp"

namespace gradnn::gpu::cudnn {

/// By which cuDNN knows src, weights and dst, and the other tensors of ops behind.
constexpr std::array<int64_t, 5> operand_ids {1, 2, 3, 4, 5};

/// "eng17" of "eng17_k25=0".
std::string engine_of(const std::string &tag);

/// The kernels that cuDNN's heuristics name for an arrangement and that the
/// options allow, the best first. Functions throw cudnn_frontend's
/// cudnnException for what cuDNN refuses altogether.
class plan_finder {
public:
    /// References are kept. Plans need at most `workspace_limit` bytes.
    /// `refused_too`: also the kernels that gradnn does not use, for tests.
    plan_finder(const problem_arrangement &arrangement,
            const detail::compile_options &options, library_handle handle,
            size_t workspace_limit, bool refused_too = false);

    size_t count() const { return configs_.size(); }
    /// "eng17_k25=0".
    std::string name(size_t index) const;
    /// Whether gradnn does not use the kernel; never, unless refused_too.
    bool refused(size_t index) const;
    /// An empty plan and a reason where it cannot be built.
    built_plan build(size_t index, std::string &reason);

private:
    const problem_arrangement &arrangement_;
    const detail::compile_options &options_;
    const library_handle handle_;
    const size_t limit_;
    const std::vector<cudnn_frontend::Operation_v8> operations_;
    cudnn_frontend::OperationGraph_v8 graph_;
    cudnn_frontend::EngineConfigList configs_;
};

} // namespace gradnn::gpu::cudnn
