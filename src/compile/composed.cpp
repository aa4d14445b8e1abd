#include "compile/composed.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include "compile/lowering.hpp"
#include "compile/ports.hpp"
#include "kernel/axis_walk.hpp"
#include "kernel/convolution_window.hpp"
#include "tensor/layout.hpp"

namespace gradnn::detail {

namespace {

using triple = std::array<int64_t, 3>;

bool same_view(const tensor_view &a, const tensor_view &b) {
    return a.type == b.type && a.dims == b.dims && a.strides == b.strides;
}

/// How often each element of an axis is repeated; 0 where they are not repeated alike.
int64_t repeats_of(const interpolation_problem &problem, size_t axis) {
    constexpr int64_t longest = 1 << 20;
    constexpr int64_t most = 16;
    interpolation_axis plain = problem.axes[axis];
    if (plain.forward) std::swap(plain.src, plain.dst);
    plain.forward = false;
    const int64_t repeats = plain.dst / plain.src;
    if (plain.dst % plain.src != 0 || repeats > most || plain.dst > longest)
        return 0;
    axis_walk walk(problem.mode, problem.coordinates, plain);
    for (int64_t o = 0; o < plain.dst; ++o)
        if (walk.at(o).low != o / repeats) return 0;
    return repeats;
}

/// Of a convolution behind an upsampling, by axis; nothing where they cannot be
/// composed.
std::optional<triple> repeats_of(const convolution_problem &convolution,
        const interpolation_problem &upsampling) {
    const tensor_view &large = upsampling.axes[0].forward ? upsampling.diff_src
                                                          : upsampling.diff_dst;
    if (upsampling.mode != interpolation_mode::nearest
            || !same_view(convolution.src, large))
        return std::nullopt;
    triple repeats {};
    for (size_t axis = 0; axis < 3; ++axis) {
        repeats[axis] = repeats_of(upsampling, axis);
        if (repeats[axis] == 0 || convolution.strides[axis] != 1
                || convolution.dilations[axis] != 1)
            return std::nullopt;
    }
    // Sums of so many weights are still short, and the sizes of windows too.
    constexpr int64_t most_sums = 64;
    const int64_t sums = repeats[0] * repeats[1] * repeats[2];
    if (sums == 1 || sums > most_sums
            || !windows_fit(convolution, int64_t {1} << 30))
        return std::nullopt;
    return repeats;
}

/// Weights as a tensor of as many images as there are outputs in all groups.
tensor_view plane_view(const weights_view &weights) {
    tensor_view view;
    view.type = weights.type;
    view.dims[0] = weights.dims[0] * weights.dims[1];
    view.strides[0] = weights.strides[weights.dims[1] == 1 ? 0 : 1];
    for (size_t axis = 1; axis < 5; ++axis) {
        view.dims[axis] = weights.dims[axis + 1];
        view.strides[axis] = weights.strides[axis + 1];
    }
    return view;
}

/// The composed weights, dense, nested as the weights are.
tensor_view composed_view(const tensor_view &weights, const triple &repeats) {
    tensor_view view = weights;
    for (size_t axis = 0; axis < 3; ++axis)
        view.dims[2 + axis] += repeats[axis] - 1;
    const logical_tensor::dims dims(view.dims.begin(), view.dims.end());
    const auto strides = strides_like(
            dims, {weights.strides.begin(), weights.strides.end()});
    for (size_t axis = 0; axis < 5; ++axis)
        view.strides[axis] = stride_of(view.dims[axis], strides[axis]);
    return view;
}

/// The same as weights of the composed convolution, whose outputs are the inputs of
/// the one before.
weights_view weights_of(const tensor_view &view, int64_t groups) {
    const int64_t inputs = view.dims[0] / groups;
    weights_view weights;
    weights.type = view.type;
    weights.dims = {groups, view.dims[1], inputs, 0, 0, 0};
    weights.strides = {stride_of(groups, inputs * view.strides[0]),
            view.strides[1], stride_of(inputs, view.strides[0]), 0, 0, 0};
    for (size_t axis = 2; axis < 5; ++axis) {
        weights.dims[axis + 1] = view.dims[axis];
        weights.strides[axis + 1] = view.strides[axis];
    }
    return weights;
}

lowered_step sums_of(const tensor_view &read, const tensor_view &written) {
    interpolation_problem problem;
    problem.mode = interpolation_mode::box;
    problem.diff_dst = read;
    problem.diff_src = written;
    for (size_t axis = 0; axis < 3; ++axis) {
        problem.axes[axis].src = written.dims[2 + axis];
        problem.axes[axis].dst = read.dims[2 + axis];
    }
    return {problem, {}};
}

class composer {
public:
    composer(const std::vector<checked_op> &ops,
            const std::vector<placed_step> &steps, size_t first_made)
        : steps_(steps), first_made_(first_made) {
        for (const placed_step &step : steps) {
            const op::kind kind = ops[step.op].identity().get_kind();
            const auto *convolution
                    = std::get_if<convolution_problem>(&step.lowered.problem);
            if (std::holds_alternative<interpolation_problem>(
                        step.lowered.problem))
                (kind == op::kind::Interpolate ? upsampling_ : gradient_)
                        = &step;
            else if (convolution
                    && ops[step.op].schema().family == op_family::convolution)
                (convolution->direction == convolution_direction::backward_data
                                ? data_
                                : weights_)
                        = &step;
            else if (!std::holds_alternative<bias_problem>(
                             step.lowered.problem))
                other_ = true;
        }
    }

    std::optional<composition> compose() {
        if (other_ || !find_repeats()) return std::nullopt;
        for (const placed_step &step : steps_) {
            if (&step == data_)
                add_data();
            else if (&step == weights_ && upsampling_ != nullptr)
                add_weights();
            else if (&step != upsampling_ && &step != gradient_)
                result_.steps.push_back(step);
        }
        return fits_ ? std::optional(std::move(result_)) : std::nullopt;
    }

private:
    static const convolution_problem &convolution(const placed_step &step) {
        return std::get<convolution_problem>(step.lowered.problem);
    }
    static const interpolation_problem &interpolation(const placed_step &step) {
        return std::get<interpolation_problem>(step.lowered.problem);
    }

    /// Whether all that a large tensor is made for, or of, can do without it.
    bool find_repeats() {
        if ((data_ == nullptr) != (gradient_ == nullptr)) return false;
        if (data_ != nullptr) {
            if (data_->places[0] != gradient_->places[0]) return false;
            repeats_of_data_ = repeats_of(
                    convolution(*data_), interpolation(*gradient_));
            if (!repeats_of_data_) return false;
        }
        if (upsampling_ != nullptr && weights_ != nullptr) {
            if (weights_->places[0] != upsampling_->places[1]) return false;
            repeats_of_weights_ = repeats_of(
                    convolution(*weights_), interpolation(*upsampling_));
            if (!repeats_of_weights_) return false;
        }
        return repeats_of_data_ || repeats_of_weights_;
    }

    /// diff_dst to the small tensor.
    lowered_step small_convolution(const convolution_problem &before,
            const tensor_view &weights, const tensor_view &small,
            const triple &repeats, convolution_direction direction) {
        convolution_problem problem;
        problem.direction = direction;
        problem.src = before.dst;
        problem.dst = small;
        problem.weights = weights_of(weights, before.weights.dims[0]);
        for (size_t axis = 0; axis < 3; ++axis) {
            problem.strides[axis] = repeats[axis];
            problem.pads_begin[axis] = before.weights.dims[3 + axis] - 1
                    - before.pads_begin[axis];
        }
        // Where nothing meets, the ops one by one write zeros.
        fits_ = fits_ && simplify_windows(problem)
                && windows_fit(problem, int64_t {1} << 30);
        return {problem, {}};
    }

    void add_data() {
        const convolution_problem &before = convolution(*data_);
        const tensor_view weights = plane_view(before.weights);
        const tensor_view view = composed_view(weights, *repeats_of_data_);
        const size_t made = make(view);
        result_.steps.push_back({sums_of(weights, view), data_->op,
                {data_->places[1], made}, "composed_weights"});
        result_.steps.push_back({small_convolution(before, view,
                                         interpolation(*gradient_).diff_src,
                                         *repeats_of_data_,
                                         convolution_direction::forward),
                gradient_->op, {data_->places[2], made, gradient_->places[1]}});
        result_.steps.back().lowered.output = gradient_->lowered.output;
    }

    void add_weights() {
        const convolution_problem &before = convolution(*weights_);
        const tensor_view weights = plane_view(before.weights);
        const tensor_view view = composed_view(weights, *repeats_of_weights_);
        const size_t made = make(view);
        result_.steps.push_back(
                {small_convolution(before, view,
                         interpolation(*upsampling_).diff_dst,
                         *repeats_of_weights_,
                         convolution_direction::backward_weights),
                        weights_->op,
                        {weights_->places[2], made, upsampling_->places[0]},
                        "diff_composed_weights"});
        result_.steps.push_back({sums_of(view, weights), weights_->op,
                {made, weights_->places[1]}});
        result_.steps.back().lowered.output = weights_->lowered.output;
    }

    /// A tensor that is in no graph.
    size_t make(const tensor_view &view) {
        const size_t id
                = std::numeric_limits<size_t>::max() - 1 - result_.made.size();
        result_.made.emplace_back(id, view.type,
                logical_tensor::dims(view.dims.begin(), view.dims.end()),
                logical_tensor::dims(view.strides.begin(), view.strides.end()));
        return first_made_ + result_.made.size() - 1;
    }

    const std::vector<placed_step> &steps_;
    const size_t first_made_;
    const placed_step *upsampling_ = nullptr;
    const placed_step *gradient_ = nullptr; ///< of an upsampling
    const placed_step *data_ = nullptr;
    const placed_step *weights_ = nullptr;
    bool other_ = false;
    bool fits_ = true;
    std::optional<triple> repeats_of_data_;
    std::optional<triple> repeats_of_weights_;
    composition result_;
};

} // namespace

void place(std::vector<placed_step> &steps, std::vector<lowered_step> of_op,
        const checked_op &the_op, size_t index,
        const std::vector<logical_tensor> &tensors) {
    for (lowered_step &step : of_op) {
        placed_step &placed
                = steps.emplace_back(placed_step {std::move(step), index, {}});
        for (const port_reference port : placed.lowered.arguments)
            placed.places.push_back(index_of(the_op.port(port), tensors));
    }
}

void leave_out_unread(std::vector<placed_step> &steps, size_t ports) {
    std::vector<bool> unread;
    for (const placed_step &step : steps) {
        const bool is_inner = std::holds_alternative<interpolation_problem>(
                                      step.lowered.problem)
                && step.places[1] >= ports;
        unread.push_back(is_inner
                && std::ranges::count_if(steps, [&](const auto &other) {
                       return std::ranges::count(other.places, step.places[1])
                               > 0;
                   }) == 1);
    }
    for (size_t index = steps.size(); index-- > 0;)
        if (unread[index])
            steps.erase(steps.begin() + static_cast<std::ptrdiff_t>(index));
}

std::optional<composition> composed(const std::vector<checked_op> &ops,
        const std::vector<placed_step> &steps, size_t first_made) {
    if (ops.size() < 2) return std::nullopt;
    return composer(ops, steps, first_made).compose();
}

} // namespace gradnn::detail
