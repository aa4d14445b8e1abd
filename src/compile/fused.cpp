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
            const auto kind = elementwise_of(steps_[0]);
            if (!kind || steps_[0].places[2] != read) return std::nullopt;
            others.push_back(steps_[0].places[0]);
            read = steps_[0].places[1];
            problem.prologue.push_back(*kind);
        }
        for (size_t index = ahead + 1; index < steps_.size(); ++index) {
            const auto kind = elementwise_of(steps_[index]);
            if (!kind) return std::nullopt;
            const size_t a = steps_[index].places[0];
            const size_t b = steps_[index].places[1];
            // A gradient of ReLU may go on with its second input alone.
            if (b != written
                    && (a != written || *kind != elementwise_kind::add))
                return std::nullopt;
            others.push_back(b == written ? a : b);
            written = steps_[index].places[2];
            problem.epilogue.push_back(*kind);
        }
        // What the partition gives is the output of its last op.
        placed_step step = *found;
        step.op = steps_.back().op;
        step.lowered.output = steps_.back().lowered.output;
        step.places = {read, written};
        step.places.insert(step.places.end(), others.begin(), others.end());
        return fused_step {std::move(problem), std::move(step)};
    }

private:
    /// Of a step that computes each element from two at its place.
    std::optional<elementwise_kind> elementwise_of(
            const placed_step &step) const {
        const auto *problem
                = std::get_if<elementwise_problem>(&step.lowered.problem);
        if (problem == nullptr || problem->kind == elementwise_kind::zero_fill)
            return std::nullopt;
        const logical_tensor &out = tensors_[step.places[2]];
        for (const size_t read : {step.places[0], step.places[1]})
            if (!same_dims(tensors_[read], out)
                    || !std::ranges::equal(
                            strides_of(tensors_[read]), strides_of(out)))
                return std::nullopt;
        return problem->kind;
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
