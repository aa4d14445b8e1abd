#include "compile/fused.hpp"

#include <algorithm>

#include "tensor/layout.hpp"

namespace gradnn::detail {

namespace {

bool is_of_data(const placed_step &step) {
    const auto *convolution
            = std::get_if<convolution_problem>(&step.lowered.problem);
    return std::holds_alternative<interpolation_problem>(step.lowered.problem)
            || (convolution
                    && convolution->direction
                            != convolution_direction::backward_weights);
}

class fuser {
public:
    fuser(const std::vector<placed_step> &steps,
            const std::vector<logical_tensor> &tensors, size_t ports)
        : steps_(steps), tensors_(tensors), ports_(ports) {}

    std::optional<fused_step> fuse() {
        if (auto bias = fuse_bias()) return bias;
        const auto found = std::ranges::find_if(steps_, is_of_data);
        if (found == steps_.end()) return std::nullopt;
        fused_step result;
        result.placed = *found;
        std::vector<size_t> &places = result.placed.places;
        const auto *interpolation
                = std::get_if<interpolation_problem>(&found->lowered.problem);
        const auto *convolution
                = std::get_if<convolution_problem>(&found->lowered.problem);
        size_t &read = places[0]; // of an interpolation
        size_t &written = places[interpolation ? 1
                        : convolution->direction
                                == convolution_direction::backward_data
                        ? 0
                        : 2];
        std::vector<elementwise_kind> ahead, behind;
        std::vector<size_t> others;
        for (auto step = steps_.begin(); step != steps_.end(); ++step) {
            if (step == found) continue;
            const auto kind = elementwise_of(*step);
            if (!kind) {
                if (is_inside(*step)) return std::nullopt;
                result.beside.push_back(*step);
                continue;
            }
            const size_t a = step->places[0], b = step->places[1];
            if (step < found) {
                if (!interpolation || !ahead.empty() || step->places[2] != read)
                    return std::nullopt;
                others.push_back(a);
                read = b;
                ahead.push_back(*kind);
                continue;
            }
            // A gradient of ReLU may go on with its second input alone.
            if (b != written
                    && (a != written || *kind != elementwise_kind::add))
                return std::nullopt;
            others.push_back(b == written ? a : b);
            written = step->places[2];
            behind.push_back(*kind);
            // What the partition gives is the output of its last op.
            result.placed.op = step->op;
            result.placed.lowered.output = step->lowered.output;
        }
        constexpr size_t most_behind = 2;
        if (others.empty() || behind.size() > most_behind) return std::nullopt;
        places.insert(places.end(), others.begin(), others.end());
        if (interpolation)
            result.problem = fused_interpolation {
                    *interpolation, std::move(ahead), std::move(behind)};
        else
            result.problem
                    = fused_convolution {*convolution, {}, std::move(behind)};
        return result;
    }

private:
    std::optional<fused_step> fuse_bias() {
        const auto bias = std::ranges::find_if(steps_, [](const auto &step) {
            return std::holds_alternative<bias_problem>(step.lowered.problem);
        });
        if (bias == steps_.end()) return std::nullopt;
        const auto relu = std::ranges::find_if(steps_, [&](const auto &step) {
            return elementwise_of(step) == elementwise_kind::relu_backward
                    && step.places[2] == bias->places[0];
        });
        if (relu == steps_.end()) return std::nullopt;
        fused_step result {
                fused_bias {std::get<bias_problem>(bias->lowered.problem),
                        {elementwise_kind::relu_backward}},
                *bias, {}};
        result.placed.places = {relu->places[1], bias->places[1],
                relu->places[0], relu->places[2]};
        for (auto step = steps_.begin(); step != steps_.end(); ++step)
            if (step != bias && step != relu) result.beside.push_back(*step);
        return result;
    }

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

    /// Whether a step reads or writes a tensor that is no port.
    bool is_inside(const placed_step &step) const {
        return std::ranges::any_of(
                step.places, [&](size_t place) { return place >= ports_; });
    }

    const std::vector<placed_step> &steps_;
    const std::vector<logical_tensor> &tensors_;
    const size_t ports_;
};

} // namespace

std::optional<fused_step> fused(const std::vector<placed_step> &steps,
        const std::vector<logical_tensor> &tensors, size_t ports) {
    return fuser(steps, tensors, ports).fuse();
}

} // namespace gradnn::detail
