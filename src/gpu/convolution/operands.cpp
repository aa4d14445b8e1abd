#include "gpu/convolution/operands.hpp"

#include <algorithm>
#include <utility>

#include "base/text.hpp"
#include "gpu/convolution/facts.hpp"
#include "gpu/runtime/copy_shape.hpp"
#include "gpu/runtime/launch.hpp"

namespace gradnn::gpu {

namespace {

bool misplaced(const convolution_operand &operand, const void *data) {
    return !operand.staged && !operand.any_address
            && !is_aligned(data, data_alignment);
}

/// Whether the same elements come to the same places of the workspace, whatever axes
/// the copies have.
bool are_same_copy(const convolution_operand &a, const convolution_operand &b) {
    return a.staged && b.staged && a.bytes == b.bytes
            && a.zero_first == b.zero_first
            && a.callers_start == b.callers_start
            && a.staged_start == b.staged_start
            && copies::arrange(a.copy) == copies::arrange(b.copy);
}

class staged_convolution final : public detail::plan {
public:
    explicit staged_convolution(staged_work work) : work_(std::move(work)) {
        place_first(0);
    }

    /// Makes this plan use the copy of an input that `earlier` makes, which is executed
    /// just ahead of it on the same workspace. Nothing is shared where `earlier` does
    /// not copy the input to the same layout, or where one of the two shares another
    /// input already.
    void share_copy(detail::plan &earlier, size_t argument) override {
        auto *const other = dynamic_cast<staged_convolution *>(&earlier);
        if (other == nullptr || argument == work_.output
                || argument == other->work_.output
                || !are_same_copy(work_.operands[argument],
                        other->work_.operands[argument]))
            return;
        for (size_t i = 0; i < brought_.size(); ++i)
            if (i != argument && (brought_[i] || other->brought_[i])) return;
        other->place_first(argument);
        place_first(argument);
        brought_[argument] = true;
    }

    size_t workspace_bytes() const override {
        const size_t bytes = staged_bytes_of(work_.operands) + work_.own_bytes;
        return bytes != 0 ? bytes + staged_slack : 0;
    }

    void execute(std::span<void *const> args, std::byte *workspace,
            detail::stream_impl &stream) const override {
        const launch_scope scope(stream);
        const auto address = reinterpret_cast<uintptr_t>(workspace);
        std::byte *const start
                = workspace + (round_up(address, staged_alignment) - address);
        const operand_data data = bring(args, start, as_gpu(stream));
        std::byte *const own = start + staged_bytes_of(work_.operands);
        work_.launches(
                data, work_.own_bytes != 0 ? own : nullptr, scope.stream());
        const convolution_operand &output = work_.operands[work_.output];
        const auto *const from = static_cast<std::byte *>(data[work_.output]);
        auto *const to = static_cast<std::byte *>(args[work_.output]);
        if (from == to) return;
        if (output.zero_first) write_zeros(output.fill, to, scope.stream());
        copy(output.copy, from + output.staged_start, to + output.callers_start,
                scope.stream());
    }

    std::string backend() const override {
        std::string how = work_.kernel;
        const std::string copies = copies_of(work_.operands);
        if (!copies.empty())
            how += (how.empty() ? "" : "; ") + copies + work_.copied_as;
        for (size_t index = 0; index < brought_.size(); ++index)
            if (brought_[index])
                how += detail::text(
                        " (", operand_names[index], " by the step before)");
        return how.empty() ? work_.library : work_.library + " (" + how + ")";
    }

    bool deterministic() const override { return work_.deterministic; }
    bool bits_of_ops() const override { return work_.bits_of_ops; }

private:
    /// Places the tensor with this index at the start, the others behind it.
    void place_first(size_t index) {
        size_t end = 0;
        for (const size_t each : {index, (index + 1) % 3, (index + 2) % 3}) {
            if (!work_.operands[each].staged) continue;
            offsets_[each] = end;
            end += round_up(work_.operands[each].bytes, staged_alignment);
        }
    }

    /// The kernel's tensors, the inputs copied: in the workspace from `start`
    /// on, the caller's own, or memory of the stream for what lies at no
    /// multiple of 16 bytes (another kernel for these would give other bits).
    operand_data bring(std::span<void *const> args, std::byte *start,
            gpu_stream &stream) const {
        operand_data data {};
        std::ranges::copy(args, data.begin());
        const size_t count = work_.operands.size() + work_.others;
        const auto operand_of
                = [&](size_t index) -> const convolution_operand & {
            return work_.operands[index < work_.operands.size() ? index
                                                                : work_.output];
        };
        size_t spare_bytes = 0;
        for (size_t index = 0; index < count; ++index)
            if (misplaced(operand_of(index), args[index]))
                spare_bytes
                        += round_up(operand_of(index).bytes, staged_alignment);
        std::byte *spare
                = spare_bytes != 0 ? stream.spare(spare_bytes) : nullptr;
        for (size_t index = 0; index < count; ++index) {
            const convolution_operand &operand = operand_of(index);
            if (operand.staged) {
                data[index] = start + offsets_[index];
            } else if (misplaced(operand, args[index])) {
                data[index] = spare;
                spare += round_up(operand.bytes, staged_alignment);
            } else {
                continue;
            }
            if (index == work_.output
                    || (index < brought_.size() && brought_[index]))
                continue;
            const auto *const from = static_cast<const std::byte *>(args[index])
                    + operand.callers_start;
            const auto staged_start = static_cast<size_t>(operand.staged_start);
            if (operand.zero_first)
                copy_into_zeros(operand.copy, from, data[index], staged_start,
                        operand.bytes, stream);
            else
                copy(operand.copy, from,
                        static_cast<std::byte *>(data[index]) + staged_start,
                        stream);
        }
        return data;
    }

    const staged_work work_;
    std::array<size_t, 3> offsets_ {}; ///< bytes from the start, where staged
    /// The inputs whose copies the plan before has made (share_copy).
    std::array<bool, 3> brought_ {};
};

} // namespace

size_t staged_bytes_of(const convolution_operands &operands) {
    size_t bytes = 0;
    for (const convolution_operand &operand : operands)
        if (operand.staged) bytes += round_up(operand.bytes, staged_alignment);
    return bytes;
}

std::string copies_of(const convolution_operands &operands) {
    std::string text;
    for (size_t index = 0; index < 3; ++index)
        if (operands[index].staged)
            text += (text.empty() ? "" : ", ")
                    + std::string(operand_names[index]);
    return text.empty() ? text : text + " copied";
}

convolution_operand operand_of(const six_axes &callers, const six_axes &seen,
        bool is_output, int64_t elements) {
    convolution_operand made;
    made.copy = is_output ? copy_of(seen, callers) : copy_of(callers, seen);
    int64_t extent = 1;
    for (size_t axis = 0; axis < seen.dims.size(); ++axis) {
        extent += (seen.dims[axis] - 1) * seen.strides[axis];
        if (seen.dims[axis] != 1 && callers.strides[axis] != seen.strides[axis])
            made.staged = true;
        // Where all positions are one, that one is copied.
        if (seen.strides[axis] == 0) made.copy.dims[axis] = 1;
    }
    const bool filled = callers.dims != seen.dims || elements > extent;
    made.staged = made.staged || filled || callers.type != seen.type;
    made.zero_first = filled && !is_output;
    made.bytes = static_cast<size_t>(
            std::max(elements, extent) * detail::size_of(seen.type));
    return made;
}

bool axes_exceed(const detail::convolution_problem &problem, int64_t most) {
    for (size_t i = 0; i < 3; ++i) {
        const spatial_axis axis = spatial_axis_of(problem, i);
        if (std::max({axis.src, axis.dst, axis.window, axis.stride, axis.pad,
                    -axis.pad})
                        > most
                || axis.dilation > most / axis.window
                || axis.dst > most / axis.stride)
            return true;
    }
    return false;
}

std::optional<detail::convolution_problem> of_met_positions(
        const detail::convolution_problem &problem) {
    if (detail::size_of(problem.src.type) == 2) return std::nullopt;
    detail::convolution_problem met = problem;
    bool found = false;
    for (size_t i = 0; i < 3; ++i) {
        const spatial_axis axis = spatial_axis_of(problem, i);
        if (axis.stride == 1 || axis.dst == 1 || axis.window != 1
                || axis.pad != 0 || axis.span() > axis.src)
            continue;
        found = true;
        met.src.dims[i + 2] = axis.dst;
        met.src.strides[i + 2] *= axis.stride;
        met.strides[i] = met.dilations[i] = 1;
    }
    if (!found) return std::nullopt;
    return met;
}

void fill_with_zeros(
        convolution_operand &output, const detail::tensor_view &callers) {
    output.zero_first = true;
    output.fill = copy_of(callers, callers);
}

detail::tensor_view dense_channels_last(detail::tensor_view tensor) {
    tensor.strides = dense_strides(tensor.dims, {1, 4, 3, 2, 0});
    return tensor;
}

size_t convolution_workspace_limit(const detail::compile_options &options) {
    if (options.convolution_workspace_limit)
        return *options.convolution_workspace_limit;
    return properties_of(options.device).info.memory_bytes / 4;
}

std::unique_ptr<detail::plan> plan_of(
        launcher launches, size_t workspace_bytes) {
    return std::make_unique<launched_plan>(
            [all = std::move(launches)](std::span<void *const> args,
                    std::byte *workspace, const launch_stream &stream) {
                all({args[0], args[1], args[2], workspace}, stream);
            },
            workspace_bytes);
}

detail::plan_or_refusal within_workspace_limit(
        std::unique_ptr<detail::plan> plan,
        const detail::compile_options &options) {
    const size_t limit = convolution_workspace_limit(options);
    const size_t bytes = plan->workspace_bytes();
    if (bytes <= limit) return plan;
    return detail::plan_or_refusal::refuse(detail::text("takes at most ", limit,
            " bytes of workspace, given ", bytes, " for its sums"));
}

std::optional<size_t> convolution_workspace_left(
        const detail::compile_options &options, size_t staged_bytes,
        std::string &refusal) {
    const size_t limit = convolution_workspace_limit(options);
    const size_t wanted = staged_bytes + staged_slack;
    if (wanted <= limit)
        return (limit - wanted) / staged_alignment * staged_alignment;
    if (staged_bytes == 0) return 0;
    refusal = detail::text("takes at most ", limit,
            " bytes of workspace, given ", wanted,
            " for copies in another layout");
    return std::nullopt;
}

std::unique_ptr<detail::plan> plan_of(staged_work work) {
    return std::make_unique<staged_convolution>(std::move(work));
}

} // namespace gradnn::gpu
