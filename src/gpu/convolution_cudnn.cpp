// Convolution, forward and backward, by cuDNN.
//
// cuDNN wants its tensors dense in one of two axis orders and pads equal on
// both sides: where the caller's differ, they are copied through the workspace
// (cudnn_arrangement.hpp), which get_info tells. Everything is chosen at
// compile; execute submits the copies and one call of cuDNN.
#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <utility>

#include <gradnn/status.hpp>

#include "gpu/copy.hpp"
#include "gpu/cuda_check.hpp"
#include "gpu/cudnn_arrangement.hpp"
#include "gpu/cudnn_library.hpp"
#include "gpu/cudnn_plan.hpp"
#include "gpu/kernels.hpp"
#include "gpu/launch.hpp"
#include "text.hpp"

namespace gradnn::gpu {

namespace {

using detail::data_type;
using detail::plan;
using detail::stream_impl;
using detail::text;

/// What kernels of cuDNN's are promised of every pointer, in bytes.
constexpr uintptr_t data_alignment = 16;
/// Of the workspace; callers align it to 64 alone.
constexpr uintptr_t workspace_alignment = 256;
constexpr size_t workspace_slack = workspace_alignment - 64;

constexpr size_t rounded(size_t bytes) {
    return (bytes + workspace_alignment - 1) / workspace_alignment
            * workspace_alignment;
}

/// The copy of a tensor from an address that cuDNN cannot take, or to it.
strided_copy copy_of(const cudnn_tensor &t) {
    strided_copy same;
    same.src_type = same.dst_type = t.type;
    same.rank = t.rank;
    std::copy(t.dims.begin(), t.dims.end(), same.dims.begin());
    std::copy(t.strides.begin(), t.strides.end(), same.src_strides.begin());
    same.dst_strides = same.src_strides;
    return same;
}

size_t bytes_of(const cudnn_tensor &t) {
    return rounded(static_cast<size_t>(t.extent() * detail::size_of(t.type)));
}

/// cuDNN 9.14 sums the weights gradient of a depthwise convolution in f32 in
/// one long chain: 5e-5 off over 10^4 terms, where 2e-6 is promised.
bool sums_too_long(
        const convolution_problem &problem, const compile_options &options) {
    return problem.direction == detail::convolution_direction::backward_weights
            && problem.src.type == data_type::f32
            && options.fpmath == fpmath_mode::strict
            && problem.weights.dims[0] > 1
            && (problem.weights.dims[1] == 1 || problem.weights.dims[2] == 1);
}

class cudnn_convolution final : public plan {
public:
    cudnn_convolution(cudnn_arrangement arrangement, cudnn_plan chosen)
        : arrangement_(std::move(arrangement)),
          chosen_(std::move(chosen)),
          output_(arrangement_.output()) {}

    void execute(std::span<void *const> args, std::byte *workspace,
            stream_impl &stream) const override {
        const launch_scope scope(stream);
        const auto address = reinterpret_cast<uintptr_t>(workspace);
        std::byte *const base = workspace
                + (workspace_alignment - address % workspace_alignment)
                        % workspace_alignment;
        std::array<void *, 3> data = realigned(args, stream);
        for (size_t index = 0; index < 3; ++index) {
            const cudnn_operand &operand = arrangement_.operands[index];
            if (operand.staged) data[index] = base + operand.offset;
            if (index != output_)
                bring(operand, args[index], data[index], scope.stream());
        }
        // Its own part, or null where cuDNN wants none.
        void *const own = chosen_.workspace_bytes() != 0
                ? base + arrangement_.staged_bytes
                : nullptr;
        chosen_.execute(cudnn_handle_of(stream), data, own);
        take_back(arrangement_.operands[output_], data[output_], args[output_],
                base + zeros_offset(), scope.stream());
    }

    size_t workspace_bytes() const override {
        const bool zeros = arrangement_.operands[output_].zero_first;
        const size_t own = zeros_offset() + (zeros ? workspace_alignment : 0);
        return own != 0 ? own + workspace_slack : 0;
    }

    std::string backend() const override {
        const std::string copies = arrangement_.copies();
        return text("cuDNN ", cudnn_version_text(), " (", chosen_.tag(),
                copies.empty() ? "" : "; ", copies, ")");
    }

    bool deterministic() const override { return chosen_.deterministic(); }

private:
    size_t zeros_offset() const {
        return arrangement_.staged_bytes + rounded(chosen_.workspace_bytes());
    }

    /// The tensors as they are given, or memory of the stream for those at odd
    /// addresses: another kernel for these would give other bits.
    std::array<void *, 3> realigned(
            std::span<void *const> args, stream_impl &stream) const {
        std::array<void *, 3> data {args[0], args[1], args[2]};
        std::array<size_t, 3> bytes {};
        for (size_t index = 0; index < 3; ++index) {
            const cudnn_operand &operand = arrangement_.operands[index];
            const auto address = reinterpret_cast<uintptr_t>(args[index]);
            if (!operand.staged && address % data_alignment != 0)
                bytes[index] = bytes_of(operand.seen);
        }
        const size_t all = bytes[0] + bytes[1] + bytes[2];
        if (all == 0) [[likely]]
            return data;
        std::byte *next = as_gpu(stream).spare(all);
        for (size_t index = 0; index < 3; ++index) {
            if (bytes[index] == 0) continue;
            data[index] = next;
            next += bytes[index];
        }
        return data;
    }

    static void bring(const cudnn_operand &operand, const void *callers,
            void *seen, cudaStream_t stream) {
        if (callers == seen) return;
        if (!operand.staged)
            return copy(copy_of(operand.seen), callers, seen, stream);
        if (operand.zero_first)
            check(cudaMemsetAsync(seen, 0, operand.bytes, stream),
                    "cudaMemsetAsync");
        copy(operand.copy,
                static_cast<const std::byte *>(callers) + operand.callers_start,
                static_cast<std::byte *>(seen) + operand.staged_start, stream);
    }

    static void take_back(const cudnn_operand &operand, const void *seen,
            void *callers, void *zeros, cudaStream_t stream) {
        if (callers == seen) return;
        if (!operand.staged)
            return copy(copy_of(operand.seen), seen, callers, stream);
        if (operand.zero_first) {
            // Not by a memset: what lies in gaps of the caller's tensor is
            // not its own.
            check(cudaMemsetAsync(zeros, 0, workspace_alignment, stream),
                    "cudaMemsetAsync");
            copy(operand.fill, zeros, callers, stream);
        }
        copy(operand.copy,
                static_cast<const std::byte *>(seen) + operand.staged_start,
                static_cast<std::byte *>(callers) + operand.callers_start,
                stream);
    }

    const cudnn_arrangement arrangement_;
    const cudnn_plan chosen_;
    const size_t output_;
};

} // namespace

plan_or_refusal make_convolution_cudnn(
        const convolution_problem &problem, const compile_options &options) {
    if (sums_too_long(problem, options))
        return plan_or_refusal::refuse(
                "cuDNN's sums of a depthwise f32 weights gradient are not as "
                "exact as fpmath_mode strict promises");
    const auto arrangements = cudnn_arrangements(problem);
    if (arrangements.empty())
        return plan_or_refusal::refuse(
                "cuDNN is not given tensors of 2^31 elements and more");
    // No refusal: what runs without cuDNN may be a hundred times slower, which
    // the caller must want.
    if (cudnn_version() == 0)
        throw error(status::unimplemented,
                text(cudnn_missing_reason(),
                        "; GRADNN_KERNEL=convolution.gpu_direct does without "
                        "it, slowly"));
    const device_guard current(static_cast<int>(options.device));
    const capture_mode_guard relaxed;
    std::string reasons;
    for (const cudnn_arrangement &arrangement : arrangements) {
        std::string reason;
        cudnn_plan found = find_cudnn_plan(arrangement, options, reason);
        if (found)
            return std::make_unique<cudnn_convolution>(
                    arrangement, std::move(found));
        if (reasons.find(reason) == std::string::npos)
            reasons += (reasons.empty() ? "" : "; ") + reason;
    }
    return plan_or_refusal::refuse(reasons);
}

} // namespace gradnn::gpu
