#include "gpu/convolution/parts.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/text.hpp"
#include "gpu/convolution/facts.hpp"
#include "gpu/convolution/operands.hpp"
#include "gpu/runtime/launch.hpp"
#include "kernel/problem_text.hpp"

namespace gradnn::gpu {

namespace {

using detail::convolution_part;
using detail::text;

/// Plans of the parts of a convolution, on one workspace.
class plan_of_parts final : public detail::plan {
public:
    struct part {
        std::unique_ptr<detail::plan> plan;
        std::array<int64_t, 3> offsets;
    };

    plan_of_parts(const convolution_problem &whole, bool zeros, bool sums,
            std::vector<part> parts)
        : parts_(std::move(parts)), output_(output_of(whole.direction)) {
        for (size_t i = 1; i < parts_.size(); ++i)
            for (size_t argument = 0; argument < 3; ++argument)
                if (parts_[i].offsets[argument]
                        == parts_[i - 1].offsets[argument])
                    parts_[i].plan->share_copy(*parts_[i - 1].plan, argument);
        for (const part &each : parts_)
            parts_bytes_ = std::max(parts_bytes_, each.plan->workspace_bytes());
        if (zeros) zeros_ = copy_of(whole.src, whole.src);
        if (!sums) return;
        partial_bytes_ = partial_weights_bytes(whole, 1);
        sum_ = weights_sum_launcher("convolution_weights_sum", whole,
                static_cast<int64_t>(parts_.size()), false);
    }

    void execute(std::span<void *const> args, std::byte *workspace,
            detail::stream_impl &stream) const override {
        if (zeros_) {
            const launch_scope scope(stream);
            write_zeros(*zeros_, args[output_], scope.stream());
        }
        std::byte *const partials
                = workspace + round_up(parts_bytes_, staged_alignment);
        std::byte *partial = partials;
        for (const part &each : parts_) {
            std::array<void *, 3> own {};
            for (size_t i = 0; i < own.size(); ++i)
                own[i] = static_cast<std::byte *>(args[i]) + each.offsets[i];
            if (sum_) own[output_] = partial;
            each.plan->execute(own, workspace, stream);
            partial += partial_bytes_;
        }
        if (!sum_) return;
        const launch_scope scope(stream);
        sum_({args[0], args[1], args[2], partials}, scope.stream());
    }

    size_t workspace_bytes() const override {
        if (!sum_) return parts_bytes_;
        return round_up(parts_bytes_, staged_alignment)
                + parts_.size() * partial_bytes_;
    }

    std::string backend() const override {
        if (parts_.empty()) return "zeros";
        return text(parts_.front().plan->backend(),
                parts_.size() > 1 ? text(" and ", parts_.size() - 1, " like it")
                                  : std::string(),
                sum_             ? ", summed"
                        : zeros_ ? ", zeros between"
                                 : "");
    }

    bool deterministic() const override {
        return std::all_of(parts_.begin(), parts_.end(),
                [](const part &each) { return each.plan->deterministic(); });
    }

private:
    const std::vector<part> parts_;
    const size_t output_;
    size_t parts_bytes_ = 0;
    std::optional<strided_copy> zeros_; ///< that all is filled with first
    size_t partial_bytes_ = 0; ///< of a part, of weights that are sums
    launcher sum_; ///< of them; empty where each part has its own elements
};

} // namespace

convolution_parts parts_of(const convolution_problem &problem, bool groups,
        const std::array<bool, 3> &axes, size_t most) {
    convolution_parts made;
    made.parts.push_back({problem, {}});
    std::vector<convolution_part> &parts = made.parts;
    const auto are_too_many = [&](int64_t times) {
        const auto count = static_cast<int64_t>(parts.size());
        if (times <= static_cast<int64_t>(most) / std::max<int64_t>(count, 1))
            return false;
        made.refusal = text("takes up to ", most,
                " parts (of groups and strides), given ", count * times);
        return true;
    };
    if (groups && problem.weights.dims[0] > 1) {
        if (are_too_many(problem.weights.dims[0])) return made;
        parts = groups_of(parts.front());
    }
    if (!is_to_src(problem)) return made;
    for (size_t axis = 0; axis < 3; ++axis) {
        const int64_t stride = problem.strides[axis];
        if (!axes[axis] || stride == 1) continue;
        constexpr int64_t most_points = int64_t {1} << 30;
        if (axes_exceed(problem, most_points)) {
            made.refusal = "takes less than 2^30 points along an axis; "
                    + detail::given(problem);
            return made;
        }
        if (are_too_many(phases_along(problem, axis))) return made;
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
    if (parts.is_whole()) return make(parts.parts.front().problem);
    std::vector<plan_of_parts::part> plans;
    for (const convolution_part &part : parts.parts) {
        convolution_problem problem = part.problem;
        if (parts.sums) problem.weights = partial_weights_view(whole);
        plan_or_refusal made = make(problem);
        if (!made.plan) return made;
        plans.push_back({std::move(made.plan), part.offsets});
    }
    return std::make_unique<plan_of_parts>(
            whole, parts.zeros, parts.sums, std::move(plans));
}

} // namespace gradnn::gpu
