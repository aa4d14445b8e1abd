// Convolutions as several smaller ones, which other kernels compute:
// - Ranges of the output (of the window, for gradients of weights) that meet
//   only a part of the window. Taps that are beside the tensor then cost nothing,
//   whatever the kernel: windows longer than the image, and images so small that
//   the window's outer taps meet nothing at all.
// - Ranges of the window where a sum is longer than oneDNN's are exact in f32;
//   their outputs are added up.
//
// Deterministic: parts follow from the problem; sums of ranges of the window are
// added in their order.
//
// Workspace: the largest of the parts', and an output for sums that are added.
#include <algorithm>
#include <optional>

#include "cpu/convolution/parts/cut.hpp"
#include "cpu/convolution/work.hpp"
#include "cpu/kernels.hpp"
#include "kernel/problem_text.hpp"

namespace gradnn::cpu {

using detail::convolution_direction;
using detail::elementwise_kind;
using detail::size_of;

namespace {

constexpr size_t most_parts = 27;
/// Of what the whole is estimated to cost, parts may cost so much.
constexpr double worthwhile = 0.75;

/// In products, of a part with its copies; starting it takes about as long as two
/// million products, and a line that is copied as long as some 700.
double estimate(const convolution_problem &problem) {
    constexpr double start = 2e6;
    constexpr double of_element = 24;
    constexpr double of_line = 700;
    const auto lines = [](const detail::tensor_view &view) {
        return static_cast<double>(view.dims[0] * view.dims[2] * view.dims[3]
                * (view.strides[1] == 1 ? 1 : view.dims[1]));
    };
    const auto count = [](const auto &view) {
        double elements = 1;
        for (const int64_t dim : view.dims)
            elements *= static_cast<double>(dim);
        return elements;
    };
    const double weights = count(problem.weights);
    const double src = count(problem.src);
    const double dst = count(problem.dst);
    const auto groups = static_cast<double>(problem.weights.dims[0]);
    double products = weights / groups;
    if (problem.direction == convolution_direction::backward_data) {
        products *= src / static_cast<double>(problem.weights.dims[2]);
        for (const int64_t stride : problem.strides)
            products /= static_cast<double>(stride);
    } else {
        products *= dst / static_cast<double>(problem.weights.dims[1]);
    }
    return start + products + of_element * (weights + src + dst)
            + of_line * (lines(problem.src) + lines(problem.dst));
}

int output_of(const convolution_problem &problem) {
    return problem.direction == convolution_direction::forward          ? 2
            : problem.direction == convolution_direction::backward_data ? 0
                                                                        : 1;
}

/// The output's dims and strides, outermost axis first, without axes of 1.
detail::elementwise_problem elementwise_of(
        const convolution_problem &problem, elementwise_kind kind) {
    std::vector<std::pair<int64_t, int64_t>> axes; // strides and dims
    const auto collect = [&](const auto &view) {
        for (size_t axis = 0; axis < view.dims.size(); ++axis)
            if (view.dims[axis] > 1)
                axes.emplace_back(view.strides[axis], view.dims[axis]);
        return view.type;
    };
    detail::elementwise_problem made;
    made.kind = kind;
    made.type = output_of(problem) == 1 ? collect(problem.weights)
            : output_of(problem) == 0   ? collect(problem.src)
                                        : collect(problem.dst);
    std::sort(axes.rbegin(), axes.rend());
    size_t rank = 0;
    for (const auto &[stride, dim] : axes) {
        if (rank > 0 && made.out_strides[rank - 1] == stride * dim) {
            made.dims[rank - 1] *= dim;
        } else {
            made.dims[rank++] = dim;
        }
        made.out_strides[rank - 1] = stride;
    }
    if (rank == 0) made.dims[rank++] = 1;
    made.rank = static_cast<int>(rank);
    made.a_strides = made.b_strides = made.out_strides;
    return made;
}

class parts_plan final : public detail::plan {
public:
    /// Where an argument of a step is: in an argument of the plan, or for
    /// `sums` at the begin of the workspace.
    struct place {
        size_t argument = 0;
        int64_t offset = 0; ///< bytes; may be negative in `sums`
    };
    static constexpr size_t sums = 3;

    void add(std::unique_ptr<detail::plan> made, std::vector<place> places) {
        inner_bytes_ = std::max(inner_bytes_, made->workspace_bytes());
        steps_.push_back({std::move(made), std::move(places)});
    }
    void keep_sums(int64_t bytes) { sums_bytes_ = round_up(bytes, 64); }

    void execute(std::span<void *const> args, std::byte *workspace,
            detail::stream_impl &stream) const override {
        for (const step &each : steps_) {
            std::array<void *, 3> pointers {};
            for (size_t i = 0; i < each.places.size(); ++i) {
                const place &at = each.places[i];
                auto *base = at.argument == sums
                        ? workspace
                        : static_cast<std::byte *>(args[at.argument]);
                pointers[i] = base + at.offset;
            }
            each.plan->execute(std::span(pointers.data(), each.places.size()),
                    workspace + sums_bytes_, stream);
        }
    }
    size_t workspace_bytes() const override {
        return inner_bytes_ + static_cast<size_t>(sums_bytes_);
    }
    std::string backend() const override {
        return steps_.front().plan->backend();
    }

private:
    struct step {
        std::unique_ptr<detail::plan> plan;
        std::vector<place> places;
    };
    std::vector<step> steps_;
    size_t inner_bytes_ = 0;
    int64_t sums_bytes_ = 0;
};

/// The plan of the first kernel that takes the part.
std::unique_ptr<detail::plan> plan_of(
        const convolution_problem &problem, const compile_options &options) {
    for (const auto make : {make_convolution_onednn, make_convolution_depthwise,
                 make_convolution_planes, make_convolution_gemm}) {
        auto made = make(problem, options);
        if (made.plan) return std::move(made.plan);
    }
    return nullptr;
}

/// Of oneDNN's.
bool is_product_of_matrices(const detail::plan &made) {
    return made.backend().find("gemm") != std::string::npos;
}

/// By oneDNN's kernels for windows, or where few channels are faster without them.
std::unique_ptr<detail::plan> windows_plan_of(
        const convolution_problem &problem, const compile_options &options) {
    auto made = make_convolution_onednn(problem, options);
    if (!made.plan) made = make_convolution_planes(problem, options);
    if (!made.plan || is_product_of_matrices(*made.plan)) return nullptr;
    return std::move(made.plan);
}

/// In products, what a product of matrices adds where there are several taps: it
/// writes and reads a column of all taps and channels of src for each point of dst.
double columns_of(const convolution_problem &problem) {
    constexpr double of_column = 72;
    const auto &window = problem.weights.dims;
    double columns
            = static_cast<double>(problem.dst.dims[0] * window[0] * window[2]);
    for (size_t a = 0; a < 3; ++a)
        columns *= static_cast<double>(problem.dst.dims[a + 2] * window[a + 3]);
    return of_column * columns;
}

class builder {
public:
    builder(const convolution_problem &problem, const compile_options &options)
        : problem_(problem),
          options_(options),
          plan_(std::make_unique<parts_plan>()) {}

    /// Ranges of the output, if they are estimated to be faster.
    bool cut_output();
    /// Ranges of the window, if sums are too long.
    bool cut_window();

    std::unique_ptr<parts_plan> take() { return std::move(plan_); }

private:
    void add_part(const convolution_part &part);
    bool is_worthwhile(double cost, size_t parts) const;
    std::vector<parts_plan::place> places_of(
            const convolution_part &part) const;

    const convolution_problem &problem_;
    const compile_options &options_;
    std::unique_ptr<parts_plan> plan_;
};

std::vector<parts_plan::place> builder::places_of(
        const convolution_part &part) const {
    return {{0, part.begins[0] * size_of(problem_.src.type)},
            {1, part.begins[1] * size_of(problem_.weights.type)},
            {2, part.begins[2] * size_of(problem_.dst.type)}};
}

void builder::add_part(const convolution_part &part) {
    plan_->add(plan_of(part.problem, options_), places_of(part));
}

// oneDNN's kernels for windows skip taps beside the tensor where they write data:
// what is left to gain, parts lose by their copies and short rows (0.9 to 4 times as
// long in 11 random problems, 1.2 and more in nine of them). Its products of
// matrices, and gradients of weights, compute all taps; convolution.planes has no
// columns.
bool builder::is_worthwhile(double cost, size_t parts) const {
    const double whole = estimate(problem_);
    if (parts == 1
            || problem_.direction == convolution_direction::backward_weights)
        return cost <= worthwhile * whole;
    if (cost > worthwhile * (whole + columns_of(problem_))) return false;
    const auto onednn = make_convolution_onednn(problem_, options_);
    if (onednn.plan) return is_product_of_matrices(*onednn.plan);
    return cost <= worthwhile * whole
            || !make_convolution_planes(problem_, options_).plan;
}

bool builder::cut_output() {
    std::array<std::vector<part_axis>, 3> axes;
    size_t count = 1;
    for (size_t a = 0; a < 3; ++a) {
        axes[a] = cut_axis(problem_, a);
        count *= axes[a].size();
    }
    if (count > most_parts) return false;
    std::vector<convolution_part> parts;
    std::vector<convolution_part> empty;
    double cost = 0;
    for (const part_axis &d : axes[0])
        for (const part_axis &h : axes[1])
            for (const part_axis &w : axes[2]) {
                auto part = part_of(problem_, {d, h, w});
                if (d.is_empty() || h.is_empty() || w.is_empty()) {
                    empty.push_back(std::move(part));
                    continue;
                }
                cost += estimate(part.problem);
                parts.push_back(std::move(part));
            }
    if (parts.empty() || !is_worthwhile(cost, parts.size())) return false;
    for (const auto &part : parts)
        add_part(part);
    const int output = output_of(problem_);
    for (const auto &part : empty) {
        const auto zeros
                = elementwise_of(part.problem, elementwise_kind::zero_fill);
        plan_->add(make_elementwise(zeros, options_).plan,
                {places_of(part)[static_cast<size_t>(output)]});
    }
    return true;
}

bool builder::cut_window() {
    if (problem_.direction == convolution_direction::backward_weights
            || problem_.src.type != detail::data_type::f32
            || problem_.weights.dims[0] > 1
            || (options_.fpmath != fpmath_mode::strict
                    && options_.fpmath != fpmath_mode::tf32))
        return false;
    const bool forward = problem_.direction == convolution_direction::forward;
    const auto &window = problem_.weights.dims;
    int64_t terms = window[forward ? 2 : 1];
    for (size_t a = 0; a < 3; ++a)
        terms *= forward ? window[a + 3]
                         : ceil_divide(window[a + 3], problem_.strides[a]);
    if (terms <= longest_f32_sum) return false;
    const int64_t pieces = ceil_divide(terms, longest_f32_sum);
    size_t axis = 0;
    while (axis < 3
            && (window[axis + 3] < pieces
                    || !(forward || problem_.strides[axis] == 1)))
        ++axis;
    if (axis == 3) return false;
    const int64_t rest = terms / window[axis + 3];
    if (rest > longest_f32_sum) return false;

    std::array<part_axis, 3> axes;
    for (size_t a = 0; a < 3; ++a)
        axes[a] = whole_axis(problem_, a);
    const auto sums = elementwise_of(problem_, elementwise_kind::add);
    int64_t extent = 1;
    for (int i = 0; i < sums.rank; ++i) {
        const auto at = static_cast<size_t>(i);
        extent += (sums.dims[at] - 1) * sums.out_strides[at];
    }
    const auto output = static_cast<size_t>(output_of(problem_));
    bool first = true;
    for (const part_axis &piece :
            cut_sums(problem_, axis, axes[axis], longest_f32_sum / rest)) {
        if (piece.is_empty()) continue;
        axes[axis] = piece;
        const auto part = part_of(problem_, axes);
        auto made = windows_plan_of(part.problem, options_);
        if (!made) return false;
        auto places = places_of(part);
        const auto written = places[output];
        if (!first) places[output] = {parts_plan::sums, 0};
        plan_->add(std::move(made), places);
        if (!first)
            plan_->add(make_elementwise(sums, options_).plan,
                    {written, {parts_plan::sums, 0}, written});
        first = false;
    }
    if (first) return false;
    plan_->keep_sums(extent * size_of(problem_.src.type));
    return true;
}

} // namespace

plan_or_refusal make_convolution_parts(
        const convolution_problem &problem, const compile_options &options) {
    builder of_output(problem, options);
    if (of_output.cut_output()) return of_output.take();
    builder of_window(problem, options);
    if (of_window.cut_window()) return of_window.take();
    return detail::refuse(
            "windows that leave the tensor so far that parts of the "
            "output are cheaper, and sums that oneDNN computes "
            "exactly in parts",
            problem);
}

} // namespace gradnn::cpu
