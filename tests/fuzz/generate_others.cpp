// Interpolations, sums over all but the channels, and ops element by element.
#include <algorithm>
#include <cmath>

#include "generate.hpp"

namespace gradnn::fuzz {

namespace {

/// Sizes of an axis of src and of diff_dst.
struct resized {
    int64_t src;
    int64_t dst;
    float scale;
};

float odd_scale(random_source &numbers) {
    static const std::vector<float> usual {
            0.25F, 0.5F, 2, 2, 3, 4, 1.5F, 1.0F / 3, 0.1F, 1};
    if (happens(numbers, 50)) return numbers.pick(usual);
    return static_cast<float>(
            std::exp(4 * numbers.value()) * (1 + 0.1 * numbers.value()));
}

/// dst as scale says it: rounded down or to the nearest.
resized scaled_axis(random_source &numbers, int64_t src) {
    const float scale = odd_scale(numbers);
    const double product
            = static_cast<double>(src) * static_cast<double>(scale);
    const double dst = happens(numbers, 70) ? std::floor(product)
                                            : std::floor(product + 0.5);
    return {src, static_cast<int64_t>(dst), scale};
}

resized axis_of(random_source &numbers, size_t rank, int64_t given_dst) {
    const int64_t most = rank == 1 ? 100 : rank == 2 ? 30 : 9;
    const int64_t src = numbers.integer(1, most);
    if (given_dst > 0) return {src, given_dst, 1};
    if (happens(numbers, 4)) // long sums along one axis
        return {numbers.integer(1, 4), numbers.integer(1000, 60'000), 1};
    if (happens(numbers, 30)) return {src, src * numbers.integer(1, 4), 1};
    return {src, numbers.integer(1, 2 * most), 1};
}

std::string word_of(
        random_source &numbers, const std::vector<std::string> &words) {
    return numbers.pick(words);
}

struct interpolation_shape {
    int64_t n;
    int64_t c;
    std::vector<resized> axes;

    double elements() const {
        auto src = static_cast<double>(n * c);
        double dst = src;
        for (const resized &a : axes) {
            src *= static_cast<double>(a.src);
            dst *= static_cast<double>(a.dst);
        }
        return src + dst;
    }
};

interpolation_shape draw(
        random_source &numbers, bool scales, int64_t most_elements) {
    for (int attempt = 0; attempt < 40; ++attempt) {
        interpolation_shape s;
        const auto rank = static_cast<size_t>(
                happens(numbers, 50) ? 2 : numbers.integer(1, 3));
        s.n = numbers.integer(1, 4);
        s.c = happens(numbers, 60) ? numbers.integer(1, 12)
                                   : numbers.integer(8, 260);
        for (size_t place = 0; place < rank; ++place) {
            const resized a = axis_of(numbers, rank, 0);
            s.axes.push_back(scales ? scaled_axis(numbers, a.src) : a);
        }
        if (happens(numbers, 2)) {
            (happens(numbers, 50) ? s.n : s.c) = 0;
            if (happens(numbers, 50))
                s.axes[0].dst = scales ? s.axes[0].dst : 0;
        }
        if (s.elements() <= static_cast<double>(most_elements)) return s;
    }
    return {1, 2, {{4, 8, 2}}};
}

double odd_ratio(random_source &numbers, const resized &axis) {
    if (happens(numbers, 30)) // that of the shapes, or nearly
        return static_cast<double>(std::max<int64_t>(1, axis.src))
                / static_cast<double>(std::max<int64_t>(1, axis.dst))
                * (happens(numbers, 50) ? 1 : 1 + 1e-15);
    if (happens(numbers, 3))
        return numbers.pick(std::vector<double> {0x1p-60, 0x1p60});
    return 1.0 / static_cast<double>(odd_scale(numbers));
}

/// Ratios instead of what shapes say, and coordinates rounded as a forward
/// rounds them.
void add_coordinate_rules(
        op &the_op, random_source &numbers, const std::vector<resized> &axes) {
    if (happens(numbers, 25)) {
        std::vector<double> ratios;
        for (const resized &axis : axes)
            ratios.push_back(odd_ratio(numbers, axis));
        the_op.set_attr<std::string>(op::attr::scale_rule, "ratios");
        the_op.set_attr(op::attr::ratios, ratios);
    }
    const auto word = [&](op::attr name) {
        const auto found = the_op.get_attrs().find(name);
        return found == the_op.get_attrs().end()
                ? std::string()
                : std::get<std::string>(found->second);
    };
    if (word(op::attr::mode) == "nearest"
            && word(op::attr::coordinate_transformation_mode) != "align_corners"
            && word(op::attr::scale_rule) != "given" && happens(numbers, 50))
        the_op.set_attr(op::attr::coordinate_arithmetic,
                word_of(numbers,
                        {"exact", "float32", "float32_fma", "float64"}));
}

/// Filters, but none that no memory is for.
void add_filter(op &the_op, random_source &numbers) {
    const auto &attrs = the_op.get_attrs();
    const auto ratios = attrs.find(op::attr::ratios);
    const bool narrow = ratios == attrs.end()
            || std::ranges::all_of(
                    std::get<std::vector<double>>(ratios->second),
                    [](double ratio) { return ratio < 1000; });
    if (std::get<std::string>(attrs.at(op::attr::mode)) != "nearest" && narrow
            && happens(numbers, 30))
        the_op.set_attr(op::attr::antialias, true);
    if (happens(numbers, 20)) the_op.set_attr(op::attr::exclude_outside, true);
    if (happens(numbers, 20))
        the_op.set_attr(op::attr::cubic_coeff_a,
                numbers.pick(
                        std::vector<float> {-0.5F, 0.0F, -1.0F, -2.0F, 2.0F}));
}

dims field(const interpolation_shape &s, int64_t resized::*of) {
    dims values;
    for (const resized &a : s.axes)
        values.push_back(a.*of);
    return values;
}

} // namespace

logical_tensor add_interpolation(graph_builder &graph,
        const logical_tensor *diff_dst, int64_t most_elements) {
    random_source &numbers = graph.numbers();
    const bool by_scales = !diff_dst && happens(numbers, 35);
    interpolation_shape s;
    if (diff_dst) {
        const dims given = diff_dst->get_dims();
        s = {given[0], graph.channels(given), {}};
        for (const int64_t size : graph.space(given))
            s.axes.push_back(axis_of(numbers, given.size() - 2, size));
    } else {
        s = draw(numbers, by_scales, most_elements);
    }
    const dims src = graph.data_dims(s.n, s.c, field(s, &resized::src));
    const dims dst = graph.data_dims(s.n, s.c, field(s, &resized::dst));
    const logical_tensor source = graph.input(src);
    const bool forward = !diff_dst && happens(numbers, 25);
    std::vector<logical_tensor> inputs {source};
    if (!forward) inputs.push_back(diff_dst ? *diff_dst : graph.input(dst));
    const bool by_input = !by_scales && happens(numbers, 30);
    if (by_input) inputs.push_back(graph.shape_input(s.axes.size()));
    const logical_tensor output = graph.output(forward ? dst : src);
    op &the_op = graph.add(
            forward ? op::kind::Interpolate : op::kind::InterpolateBackward,
            inputs, {output});
    std::string linear = s.axes.size() == 2 ? "bilinear" : "trilinear";
    if (s.axes.size() == 1 || happens(numbers, 70)) linear = "linear";
    const std::string mode = word_of(numbers, {"nearest", linear, "cubic"});
    the_op.set_attr(op::attr::mode, mode);
    if (happens(numbers, 80))
        the_op.set_attr(op::attr::coordinate_transformation_mode,
                word_of(numbers,
                        {"half_pixel", "align_corners", "asymmetric"}));
    the_op.set_attr(op::attr::data_format, graph.data_format());
    std::vector<float> scales;
    for (const resized &a : s.axes)
        scales.push_back(a.scale);
    if (by_scales) {
        the_op.set_attr(op::attr::scales, scales);
        if (happens(numbers, 60))
            the_op.set_attr(op::attr::scale_rule,
                    word_of(numbers, {"given", "shape_ratio"}));
    } else if (!by_input || happens(numbers, 20)) {
        the_op.set_attr(op::attr::sizes, field(s, &resized::dst));
        if (happens(numbers, 10)) { // void beside sizes
            for (float &scale : scales)
                scale = word_of(numbers, {"small", "large"}) == "small" ? 1e-30F
                                                                        : 3e38F;
            the_op.set_attr(op::attr::scales, scales);
        }
    }
    add_coordinate_rules(the_op, numbers, s.axes);
    add_filter(the_op, numbers);
    return output;
}

logical_tensor add_elementwise(
        graph_builder &graph, op::kind kind, const logical_tensor *diff_dst) {
    random_source &numbers = graph.numbers();
    dims shape;
    if (diff_dst) {
        shape = diff_dst->get_dims();
    } else {
        const int64_t rank = happens(numbers, 20)
                ? numbers.integer(0, logical_tensor::max_ndims)
                : numbers.integer(1, 5);
        const int64_t most = rank == 1 ? 3000 : rank <= 4 ? 14 : 3;
        for (int64_t axis = 0; axis < rank; ++axis)
            shape.push_back(numbers.integer(1, most));
        if (!shape.empty() && happens(numbers, 3)) shape.back() = 0;
    }
    const logical_tensor other = graph.input(shape);
    // The same tensor twice, too.
    const logical_tensor gradient = diff_dst ? *diff_dst
            : happens(numbers, 5)            ? other
                                             : graph.input(shape);
    const logical_tensor output = graph.output(shape);
    op &the_op = graph.add(kind, {other, gradient}, {output});
    if (kind == op::kind::ReLUBackward && happens(numbers, 60))
        the_op.set_attr<bool>(op::attr::use_dst, happens(numbers, 50));
    return output;
}

void add_bias(graph_builder &graph, const logical_tensor *diff_dst,
        int64_t most_elements) {
    random_source &numbers = graph.numbers();
    logical_tensor gradient;
    if (diff_dst) {
        gradient = *diff_dst;
    } else {
        dims space(static_cast<size_t>(numbers.integer(0, 3)));
        const int64_t c = happens(numbers, 60) ? numbers.integer(1, 20)
                                               : numbers.integer(1, 300);
        int64_t left = std::max<int64_t>(1, most_elements / c);
        const int64_t n = numbers.integer(
                happens(numbers, 3) ? 0 : 1, std::min<int64_t>(left, 20));
        left /= std::max<int64_t>(1, n);
        for (int64_t &size : space) {
            size = numbers.integer(1,
                    std::clamp<int64_t>(
                            left, 1, happens(numbers, 10) ? 200'000 : 60));
            left /= size;
        }
        gradient = graph.input(graph.data_dims(n, c, space));
    }
    const int64_t c = graph.channels(gradient.get_dims());
    const logical_tensor output = graph.output(dims {c}, graph.gradient_type());
    op &the_op = graph.add(op::kind::BiasAddBackward, {gradient}, {output});
    the_op.set_attr(op::attr::data_format, graph.data_format());
}

} // namespace gradnn::fuzz
