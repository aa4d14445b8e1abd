#include "gpu/convolution/parts.hpp"

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>

#include "base/text.hpp"
#include "gpu/convolution/operands.hpp"
#include "gpu/device/rounding.hpp"
#include "gpu/runtime/cuda_check.hpp"
#include "gpu/runtime/launch.hpp"
#include "kernel/problem_text.hpp"

namespace gradnn::gpu {

namespace {

using detail::convolution_direction;
using detail::convolution_problem;
using detail::plan_or_refusal;
using detail::size_of;
using detail::text;

std::vector<convolution_part> groups_of(const convolution_part &whole) {
    const convolution_problem &p = whole.problem;
    const int64_t groups = p.weights.dims[0];
    const int64_t outputs = p.weights.dims[1];
    const int64_t inputs = p.weights.dims[2];
    std::vector<convolution_part> parts;
    for (int64_t group = 0; group < groups; ++group) {
        convolution_part part = whole;
        part.problem.weights.dims[0] = 1;
        part.problem.weights.strides[0] = 0;
        part.problem.src.dims[1] = inputs;
        part.problem.dst.dims[1] = outputs;
        part.offsets[0]
                += group * inputs * p.src.strides[1] * size_of(p.src.type);
        part.offsets[1]
                += group * p.weights.strides[0] * size_of(p.weights.type);
        part.offsets[2]
                += group * outputs * p.dst.strides[1] * size_of(p.dst.type);
        parts.push_back(part);
    }
    return parts;
}

/// An axis with a stride, taken apart.
struct axis_phases {
    int64_t apart; ///< taps of a part
    int64_t dilation; ///< of a part
    int64_t count; ///< parts with taps, at most

    axis_phases(const convolution_problem &p, size_t axis) {
        const int64_t window = p.weights.dims[3 + axis];
        dilation = window == 1 ? 1 : p.dilations[axis];
        const int64_t common = std::gcd(p.strides[axis], dilation);
        apart = p.strides[axis] / common;
        dilation /= common;
        count = std::min(apart, window);
    }
};

/// Parts with taps and positions of src and of dst.
std::vector<convolution_part> phases_of(
        const convolution_part &whole, size_t axis) {
    const convolution_problem &p = whole.problem;
    const axis_phases phases(p, axis);
    const int64_t stride = p.strides[axis];
    const int64_t pad = p.pads_begin[axis];
    const int64_t size = p.src.dims[2 + axis];
    std::vector<convolution_part> parts;
    for (int64_t tap = 0; tap < phases.count; ++tap) {
        const int64_t reach = tap * p.dilations[axis];
        // The first position of src, and the one of dst that it meets by the tap.
        const int64_t first = ((reach - pad) % stride + stride) % stride;
        int64_t met = (first + pad - reach) / stride;
        if (first >= size) continue;
        convolution_part part = whole;
        convolution_problem &made = part.problem;
        const int64_t count = ceil_div(size - first, stride);
        const int64_t taps
                = ceil_div(p.weights.dims[3 + axis] - tap, phases.apart);
        const int64_t nearest = met - (taps - 1) * phases.dilation;
        if (nearest >= p.dst.dims[2 + axis] || met + count <= 0) continue;
        // Of dst, at most one position at either end meets nothing: kernels expect
        // no more, and parts with the same dst share a copy of it.
        const int64_t skipped = std::max<int64_t>(nearest - 1, 0);
        met -= skipped;
        const int64_t positions
                = std::min(p.dst.dims[2 + axis] - skipped, met + count + 1);
        made.strides[axis] = 1;
        made.dilations[axis] = phases.dilation;
        made.pads_begin[axis] = met;
        made.src.dims[2 + axis] = count;
        made.src.strides[2 + axis] *= stride;
        made.dst.dims[2 + axis] = positions;
        made.weights.dims[3 + axis] = taps;
        made.weights.strides[3 + axis] *= phases.apart;
        part.offsets[0]
                += first * p.src.strides[2 + axis] * size_of(p.src.type);
        part.offsets[1]
                += tap * p.weights.strides[3 + axis] * size_of(p.weights.type);
        part.offsets[2]
                += skipped * p.dst.strides[2 + axis] * size_of(p.dst.type);
        parts.push_back(part);
    }
    return parts;
}

/// Plans of the parts of a convolution, on one workspace.
class plan_of_parts final : public detail::plan {
public:
    struct part {
        std::unique_ptr<detail::plan> plan;
        std::array<int64_t, 3> offsets;
    };

    plan_of_parts(const convolution_problem &whole, bool zeros,
            std::vector<part> parts)
        : parts_(std::move(parts)),
          zeros_(zeros),
          output_(output_of(whole.direction)) {
        for (size_t i = 1; i < parts_.size(); ++i)
            for (size_t argument = 0; argument < 3; ++argument)
                if (parts_[i].offsets[argument]
                        == parts_[i - 1].offsets[argument])
                    parts_[i].plan->share_copy(*parts_[i - 1].plan, argument);
        for (const part &each : parts_)
            parts_bytes_ = std::max(parts_bytes_, each.plan->workspace_bytes());
        if (zeros) fill_ = spread_over(whole.src);
    }

    void execute(std::span<void *const> args, std::byte *workspace,
            detail::stream_impl &stream) const override {
        if (zeros_) {
            const launch_scope scope(stream);
            std::byte *const zeros
                    = workspace + round_up(parts_bytes_, zeros_bytes);
            check(cudaMemsetAsync(zeros, 0, zeros_bytes, scope.stream()),
                    "cudaMemsetAsync");
            copy(fill_, zeros, args[output_], scope.stream());
        }
        for (const part &each : parts_) {
            std::array<void *, 3> own {};
            for (size_t i = 0; i < own.size(); ++i)
                own[i] = static_cast<std::byte *>(args[i]) + each.offsets[i];
            each.plan->execute(own, workspace, stream);
        }
    }

    size_t workspace_bytes() const override {
        return zeros_ ? round_up(parts_bytes_, zeros_bytes) + zeros_bytes
                      : parts_bytes_;
    }

    std::string backend() const override {
        if (parts_.empty()) return "zeros";
        return text(parts_.front().plan->backend(),
                parts_.size() > 1 ? text(" and ", parts_.size() - 1, " like it")
                                  : std::string(),
                zeros_ ? ", zeros between" : "");
    }

    bool deterministic() const override {
        return std::all_of(parts_.begin(), parts_.end(),
                [](const part &each) { return each.plan->deterministic(); });
    }

private:
    static constexpr size_t zeros_bytes = convolution_operands::zeros_bytes;

    const std::vector<part> parts_;
    const bool zeros_; ///< all is filled with zeros first
    const size_t output_;
    size_t parts_bytes_ = 0;
    strided_copy fill_;
};

} // namespace

convolution_parts parts_of(const convolution_problem &problem,
        const taken_apart &what, size_t most) {
    convolution_parts made;
    made.parts.push_back({problem, {}});
    std::vector<convolution_part> &parts = made.parts;
    const auto refuse = [](std::string reason) {
        return convolution_parts {{}, false, std::move(reason)};
    };
    const auto too_many = [&](int64_t count) {
        return count > static_cast<int64_t>(
                       most / std::max<size_t>(parts.size(), 1));
    };
    const auto of_too_many = [&](int64_t count) {
        return refuse(text("takes what up to ", most, " parts make, given ",
                static_cast<int64_t>(parts.size()) * count));
    };
    const int64_t groups = problem.weights.dims[0];
    if (what.groups && groups > 1) {
        if (too_many(groups)) return of_too_many(groups);
        parts = groups_of(parts.front());
    }
    if (problem.direction != convolution_direction::backward_data) return made;
    for (size_t axis = 0; axis < 3; ++axis) {
        const int64_t stride = problem.strides[axis];
        if (!what.axes[axis] || stride == 1) continue;
        if (problem.dst.dims[2 + axis] == 1) {
            // What no second position follows may have any stride.
            for (convolution_part &part : parts)
                part.problem.strides[axis] = 1;
            continue;
        }
        constexpr int64_t most_points = int64_t {1} << 30;
        if (axes_exceed(problem, most_points))
            return refuse("takes less than 2^30 points along an axis; "
                    + detail::given(problem));
        const int64_t count = axis_phases(problem, axis).count;
        if (too_many(count)) return of_too_many(count);
        std::vector<convolution_part> finer;
        for (const convolution_part &part : parts) {
            const auto found = phases_of(part, axis);
            finer.insert(finer.end(), found.begin(), found.end());
            if (static_cast<int64_t>(found.size())
                    < std::min(stride, problem.src.dims[2 + axis]))
                made.zeros = true;
        }
        parts = std::move(finer);
    }
    return made;
}

plan_or_refusal make_of_parts(const convolution_problem &whole,
        const convolution_parts &parts,
        const std::function<plan_or_refusal(const convolution_problem &part)>
                &make) {
    if (!parts.refusal.empty()) return plan_or_refusal::refuse(parts.refusal);
    if (parts.parts.size() == 1 && !parts.zeros
            && parts.parts.front().offsets == std::array<int64_t, 3> {})
        return make(parts.parts.front().problem);
    std::vector<plan_of_parts::part> plans;
    for (const convolution_part &part : parts.parts) {
        plan_or_refusal made = make(part.problem);
        if (!made.plan) return made;
        plans.push_back({std::move(made.plan), part.offsets});
    }
    return std::make_unique<plan_of_parts>(
            whole, parts.zeros, std::move(plans));
}

} // namespace gradnn::gpu
