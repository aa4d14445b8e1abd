// Convolution in strict f32 on tensor cores, forward and backward: each
// product as three TF32 products, each sum in f32 (CUTLASS's implicit GEMM).
//
// As exact as f32 products and sums: convolution_tf32x3_split.hpp says how a
// number is split and what becomes of infinities, convolution_tf32x3_mma.cuh
// where the sums are kept. Zeros are multiplied for what a window meets
// outside src, as by cuDNN. Deterministic: every sum has one order, which
// follows from the problem and the device (convolution_tf32x3_choice.cpp);
// sums that are cut into slices are added up by a second launch.
//
// The tensors must be dense, channels last, channels in fours: others are
// copied through the workspace (convolution_tf32x3_mapping.cpp).
#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <utility>

#include "gpu/convolution_tf32x3.hpp"
#include "gpu/copy.hpp"
#include "gpu/cuda_check.hpp"
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
using tf32x3::dense_mapping;
using tf32x3::dense_operand;
using tf32x3::tile_choice;
using tf32x3::tile_kernel;

constexpr uintptr_t data_alignment = 16;
/// Of the parts of the workspace; callers align its start to 64 alone.
constexpr size_t part_alignment = 64;

constexpr size_t rounded(size_t bytes) {
    return (bytes + part_alignment - 1) / part_alignment * part_alignment;
}

size_t bytes_of(const dense_operand &operand) {
    return rounded(static_cast<size_t>(operand.elements) * sizeof(float));
}

size_t staged_bytes(const dense_mapping &mapping) {
    size_t bytes = 0;
    for (const dense_operand &operand : mapping.operands)
        if (operand.staged) bytes += bytes_of(operand);
    return bytes;
}

/// Of a dense tensor, from or to an odd address.
strided_copy flat_copy(int64_t elements) {
    strided_copy flat;
    flat.src_type = flat.dst_type = data_type::f32;
    flat.rank = 1;
    flat.dims[0] = elements;
    flat.src_strides[0] = flat.dst_strides[0] = 1;
    return flat;
}

class tf32x3_convolution final : public plan {
public:
    tf32x3_convolution(dense_mapping mapping, const tile_choice &choice,
            std::unique_ptr<tile_kernel> kernel)
        : mapping_(std::move(mapping)),
          choice_(choice),
          kernel_(std::move(kernel)),
          staged_bytes_(staged_bytes(mapping_)) {}

    void execute(std::span<void *const> args, std::byte *workspace,
            stream_impl &stream) const override {
        const launch_scope scope(stream);
        std::array<void *, 3> data = realigned(args, stream);
        size_t offset = 0;
        for (size_t index = 0; index < 3; ++index) {
            const dense_operand &operand = mapping_.operands[index];
            if (!operand.staged) continue;
            data[index] = workspace + offset;
            offset += bytes_of(operand);
        }
        const auto [first, second, output] = mapping_.order;
        for (const size_t index : {first, second})
            bring(mapping_.operands[index], args[index], data[index],
                    scope.stream());
        auto *const sums = static_cast<float *>(data[output]);
        float *const partials = choice_.slices > 1
                ? reinterpret_cast<float *>(workspace + staged_bytes_)
                : sums;
        kernel_->run(static_cast<const float *>(data[first]),
                static_cast<const float *>(data[second]), partials,
                scope.stream());
        if (choice_.slices > 1)
            tf32x3::add_slices(partials, choice_.slices,
                    mapping_.operands[output].elements, sums, scope.stream());
        take_back(
                mapping_.operands[output], sums, args[output], scope.stream());
    }

    size_t workspace_bytes() const override {
        if (choice_.slices == 1) return staged_bytes_;
        const dense_operand &output = mapping_.operands[mapping_.order[2]];
        return staged_bytes_
                + rounded(static_cast<size_t>(output.elements) * sizeof(float)
                        * static_cast<size_t>(choice_.slices));
    }

    std::string backend() const override {
        constexpr std::array<const char *, 3> names {"src", "weights", "dst"};
        std::string copies;
        for (size_t index = 0; index < 3; ++index)
            if (mapping_.operands[index].staged)
                copies += (copies.empty() ? "" : ", ")
                        + std::string(names[index]);
        return text("CUTLASS (", choice_.tile->name,
                choice_.slices > 1 ? text(", ", choice_.slices, " slices")
                                   : std::string(),
                copies.empty() ? "" : "; ", copies,
                copies.empty() ? "" : " copied", ")");
    }

private:
    /// The tensors as they are given, or memory of the stream for those at
    /// addresses that 16-byte accesses cannot have.
    std::array<void *, 3> realigned(
            std::span<void *const> args, stream_impl &stream) const {
        std::array<void *, 3> data {args[0], args[1], args[2]};
        std::array<size_t, 3> bytes {};
        for (size_t index = 0; index < 3; ++index) {
            const dense_operand &operand = mapping_.operands[index];
            const auto address = reinterpret_cast<uintptr_t>(args[index]);
            if (!operand.staged && address % data_alignment != 0)
                bytes[index] = bytes_of(operand);
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

    static void bring(const dense_operand &operand, const void *callers,
            void *seen, cudaStream_t stream) {
        if (callers == seen) return;
        if (!operand.staged)
            return copy(flat_copy(operand.elements), callers, seen, stream);
        if (operand.padded)
            check(cudaMemsetAsync(seen, 0,
                          static_cast<size_t>(operand.elements) * sizeof(float),
                          stream),
                    "cudaMemsetAsync");
        copy(operand.copy, callers, seen, stream);
    }

    static void take_back(const dense_operand &operand, const void *seen,
            void *callers, cudaStream_t stream) {
        if (callers == seen) return;
        copy(operand.staged ? operand.copy : flat_copy(operand.elements), seen,
                callers, stream);
    }

    const dense_mapping mapping_;
    const tile_choice choice_;
    const std::unique_ptr<tile_kernel> kernel_;
    const size_t staged_bytes_;
};

/// Channels far fewer than a tile's columns leave most of it idle: cuDNN has
/// kernels for those. Small problems are no matter.
bool wasteful(const tile_choice &choice) {
    constexpr double least_useful = 0.2;
    constexpr double small_problem = 5e8;
    return choice.useful < least_useful && choice.products > small_problem;
}

} // namespace

plan_or_refusal make_convolution_tf32x3(
        const convolution_problem &problem, const compile_options &options) {
    if (options.fpmath != fpmath_mode::strict)
        return plan_or_refusal::refuse(
                "serves fpmath_mode strict; others allow faster kernels");
    std::string refusal;
    const auto mapping = tf32x3::dense_mapping_of(problem, refusal);
    if (!mapping) return plan_or_refusal::refuse(refusal);
    const auto device = static_cast<int>(options.device);
    const device_properties &properties = properties_of(device);
    if (properties.major < 8)
        return plan_or_refusal::refuse(
                text("wants compute capability 8.0 or later, given ",
                        properties.major, ".", properties.minor));
    const size_t limit = cudnn_workspace_limit(device);
    const size_t staged = staged_bytes(*mapping);
    if (staged > limit)
        return plan_or_refusal::refuse(text("copies in another layout want ",
                staged, " bytes of workspace; ", limit, " are allowed"));
    const tile_choice choice = tf32x3::choose_tile(
            mapping->problem, properties.multiprocessors, limit - staged);
    if (choice.tile == nullptr)
        return plan_or_refusal::refuse(
                "sums so long must be cut, for which there is no workspace");
    if (wasteful(choice))
        return plan_or_refusal::refuse(text("of ", choice.tile->name,
                ", the best tile for these channels, ",
                static_cast<int>(100.0 * choice.useful), " % would be used"));
    const device_guard current(device);
    const capture_mode_guard relaxed;
    auto kernel = choice.tile->make(mapping->problem, choice.slices);
    if (!kernel)
        return plan_or_refusal::refuse(
                text("CUTLASS's ", choice.tile->name, " refuses this shape"));
    return std::make_unique<tf32x3_convolution>(
            *mapping, choice, std::move(kernel));
}

} // namespace gradnn::gpu
