#include "compile/fused.hpp"

#include <algorithm>

#include "tensor/layout.hpp"

namespace gradnn::detail {

namespace {

class fuser {
public:
    fuser(const std::vector<placed_step> &steps,
            const std::vector<logical_tensor> &tensors)
        : steps_(steps), tensors_(tensors) {}

    std::optional<fused_step> fuse() {
        const auto found = std::ranges::find_if(steps_, [](const auto &step) {
            return std::holds_alternative<interpolation_problem>(
                    step.lowered.problem);
        });
        if (found == steps_.end() || steps_.size() < 2) return std::nullopt;
        const auto ahead = static_cast<size_t>(found - steps_.begin());
        fused_interpolation problem {
                std::get<interpolation_problem>(found->lowered.problem)};
        size_t read = found->places[0];
        size_t written = found->places[1];
        std::vector<size_t> others;
        constexpr size_t most_behind = 2;
        if (ahead > 1 || steps_.size() - ahead - 1 > most_behind)
            return std::nullopt;
        if (ahead == 1) {
            const auto op = element_op_of(steps_[0], steps_[0].places[1]);
            if (!op || steps_[0].places[2] != read) return std::nullopt;
            read = steps_[0].places[1];
            others.push_back(op->other);
            problem.prologue.push_back(op->kind);
        }
        for (size_t index = ahead + 1; index < steps_.size(); ++index) {
            const auto op = element_op_of(steps_[index], written);
            if (!op) return std::nullopt;
            written = steps_[index].places[2];
            others.push_back(op->other);
            problem.epilogue.push_back(op->kind);
        }
        // What the partition gives is the output of its last op.
        placed_step step {
                {problem.interpolation, {}, steps_.back().lowered.output},
                steps_.back().op, {read, written}};
        step.places.insert(step.places.end(), others.begin(), others.end());
        return fused_step {std::move(problem), std::move(step)};
    }

private:
    struct element_op {
        elementwise_kind kind;
        size_t other; ///< the tensor beside the one that is given
    };

    /// Of a step that computes each element from those at its place.
    std::optional<element_op> element_op_of(
            const placed_step &step, size_t given) const {
        const auto *problem
                = std::get_if<elementwise_problem>(&step.lowered.problem);
        if (problem == nullptr || problem->kind == elementwise_kind::zero_fill)
            return std::nullopt;
        const size_t a = step.places[0], b = step.places[1];
        const size_t out = step.places[2];
        for (const size_t read : {a, b})
            if (!same_dims(tensors_[read], tensors_[out])
                    || !std::ranges::equal(strides_of(tensors_[read]),
                            strides_of(tensors_[out])))
                return std::nullopt;
        if (b == given) return element_op {problem->kind, a};
        if (a == given && problem->kind == elementwise_kind::add)
            return element_op {problem->kind, b};
        return std::nullopt;
    }

    const std::vector<placed_step> &steps_;
    const std::vector<logical_tensor> &tensors_;
};

} // namespace

std::optional<fused_step> fused(const std::vector<placed_step> &steps,
        const std::vector<logical_tensor> &tensors) {
    return fuser(steps, tensors).fuse();
}

} // namespace gradnn::detail
