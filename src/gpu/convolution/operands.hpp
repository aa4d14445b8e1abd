// A convolution's tensors between the caller and a kernel that needs them in
// another layout, type or place: the copies, and where the kernel's own lie. And the kernels
// with their launches, which plans choose once, on the caller's tensors.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "gpu/device/rounding.hpp"
#include "gpu/runtime/copy.hpp"
#include "kernel/kernel.hpp"

namespace gradnn::gpu {

/// One of a convolution's tensors.
struct convolution_operand {
    /// The kernel's lies in the workspace; else it is the caller's.
    bool staged = false;
    size_t bytes = 0; ///< of the kernel's tensor
    /// Brings an input to the kernel's tensor before, or the output back after.
    /// Where nothing is staged: from a layout to the same.
    strided_copy copy;
    /// Where the copy begins, in bytes: in the caller's tensor and in the
    /// staged one. Not 0 where src is extended or cropped.
    int64_t callers_start = 0;
    int64_t staged_start = 0;
    /// The copy leaves part of what it writes to untouched: all of that is
    /// filled with zeros first, of the caller's output what `fill` would write.
    bool zero_first = false;
    strided_copy fill;
    bool any_address = false; ///< the kernel needs no multiple of 16 bytes
};

/// Any six axes of a caller's tensor.
using six_axes = detail::weights_view;

/// Of the caller's tensor, which a kernel sees as `seen`: staged where these differ. `seen`
/// may have longer axes, and `elements` in all: what it has more is zeros.
convolution_operand operand_of(const six_axes &callers, const six_axes &seen,
        bool is_output, int64_t elements = 0);

/// Where a kernel finds src, weights and dst, and the other tensors of up to two ops that
/// it computes with the convolution, which have the output's layout.
using operand_data = std::array<void *, 5>;

/// What kernels, cuDNN's among them, are promised of every pointer, in bytes.
constexpr size_t data_alignment = 16;

/// Of what lies in the workspace.
constexpr size_t staged_alignment = 256;
/// Callers align a workspace to 64 alone.
constexpr size_t staged_slack = staged_alignment - 64;

/// Of copies in the workspace: a convolution that needs more is computed in slices where
/// it can be, so that with what kernels take beside it is within 1 GiB.
constexpr size_t most_staged_bytes = size_t {7} << 27;

/// src, weights, dst.
using convolution_operands = std::array<convolution_operand, 3>;

/// Bytes of what is staged.
size_t staged_bytes_of(const convolution_operands &operands);

constexpr std::array<const char *, 3> operand_names {"src", "weights", "dst"};

/// "src, weights copied"; empty where nothing is.
std::string copies_of(const convolution_operands &operands);

/// Which of src, weights and dst is computed: 0, 1 or 2.
constexpr size_t output_of(detail::convolution_direction direction) {
    using enum detail::convolution_direction;
    return direction == backward_data       ? 0
            : direction == backward_weights ? 1
                                            : 2;
}

/// Whether src, dst or the window, gaps included, have more than `most` points along
/// an axis, or strides, pads or the positions that strides reach are beyond that.
bool axes_exceed(const detail::convolution_problem &, int64_t most);

/// Where strides pass over positions of src that no tap meets, along axes with a window
/// of one tap and no pads: the same convolution of the positions that are met, without
/// these strides. Nothing where there is no such axis, and in 16 bits, of which copies
/// of every second element take longer than of all (H200).
std::optional<detail::convolution_problem> of_met_positions(
        const detail::convolution_problem &);

/// Makes an output that is staged fill all of the caller's tensor, of which the copy
/// writes a part, with zeros first.
void fill_with_zeros(
        convolution_operand &output, const detail::tensor_view &callers);

/// Strides without gaps, the axes in an order from the innermost to the outermost.
template <size_t rank>
std::array<int64_t, rank> dense_strides(const std::array<int64_t, rank> &dims,
        const std::array<size_t, rank> &order) {
    std::array<int64_t, rank> strides {};
    int64_t next = 1;
    for (const size_t axis : order) {
        strides[axis] = next;
        next *= dims[axis];
    }
    return strides;
}

/// A tensor of the same dims without gaps, channels last.
detail::tensor_view dense_channels_last(detail::tensor_view tensor);

/// The most bytes of workspace that a convolution may take on the device of
/// `options`, for its copies and for a kernel that can do with less: the setting,
/// or else a quarter of the device's memory.
size_t convolution_workspace_limit(const detail::compile_options &options);

/// An address, as a pointer to what the kernel takes.
struct tensor_pointer {
    void *data = nullptr;

    template <typename Type>
    operator Type *() const {
        return static_cast<Type *>(data);
    }
};

struct tensor_pointers {
    tensor_pointer src, weights, dst;
    tensor_pointer workspace; ///< of partial sums, or what else a kernel keeps

    /// What a kernel of data reads, and what it writes (README.md).
    tensor_pointer read(bool to_src) const { return to_src ? dst : src; }
    tensor_pointer written(bool to_src) const { return to_src ? src : dst; }
};

/// A kernel, or some one after the other, with all of their launches but the tensors.
using launcher
        = std::function<void(const tensor_pointers &, const launch_stream &)>;

/// What so many partial sums of each weight take, in the type of sums.
size_t partial_weights_bytes(
        const detail::convolution_problem &problem, int64_t parts);

/// Those of one part, as the weights of a problem like it.
detail::weights_view partial_weights_view(
        const detail::convolution_problem &problem);

/// Adds them up, from the begin of the workspace, in the order that partial_weights has
/// (weights_sum.cuh). `has_zeros`: they have products of zeros that stand for what lies
/// outside. src and dst of the problem are those that the kernels are given. Empty of no
/// parts, which data has.
launcher weights_sum_launcher(const char *name,
        const detail::convolution_problem &problem, int64_t parts,
        bool has_zeros);

/// A plan of these on the caller's tensors, with so many bytes of workspace.
std::unique_ptr<detail::plan> plan_of(
        launcher launches, size_t workspace_bytes);

/// The plan; or a refusal where its sums need more workspace than that limit.
detail::plan_or_refusal within_workspace_limit(
        std::unique_ptr<detail::plan> plan,
        const detail::compile_options &options);

/// The bytes, a multiple of staged_alignment, that the limit leaves for a kernel's
/// own scratch after `staged_bytes` of copies and their padding. None, and the
/// reason in `refusal`, where these alone exceed the limit.
std::optional<size_t> convolution_workspace_left(
        const detail::compile_options &options, size_t staged_bytes,
        std::string &refusal);

/// What kernels submit on such tensors. `own` has the bytes of the workspace that they take
/// beside the copies at a multiple of staged_alignment, null for none. The device is current.
using staged_launches = std::function<void(
        const operand_data &data, std::byte *own, const launch_stream &stream)>;

/// What a plan of such tensors is made of.
struct staged_work {
    convolution_operands operands;
    size_t output = 0; ///< which of them is computed
    size_t own_bytes = 0;
    staged_launches launches;
    std::string library; ///< words for get_info, the next two as well
    std::string kernel = {}; ///< may be empty
    std::string copied_as = {}; ///< " as f32"
    /// Tensors as the output, which is not staged if there are any.
    size_t others = 0;
    bool deterministic = true;
    bool bits_of_ops = true;
};

/// A plan of these. What is staged lies at the start of the workspace, and gradients of one
/// op share what both of them copy. Its backend() is
/// "LIBRARY (KERNEL; src copied COPIED_AS (src by the step before))".
std::unique_ptr<detail::plan> plan_of(staged_work work);

} // namespace gradnn::gpu
