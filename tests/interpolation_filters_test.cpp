// Cubic and antialiased filters, backward and forward, and the forward of the other
// modes: every shape x filter x data type x dense layout x kernel, against the float64
// reference; and that forward and backward are each other's transpose.
//
// ctest: thousands of short tests, to be one test of ctest (WHOLE).
#include <cmath>
#include <numeric>

#include <gtest/gtest.h>

#include "support/op_builders.hpp"
#include "support/param_names.hpp"
#include "support/random.hpp"

namespace gradnn::test {
namespace {

struct named_filter {
    const char *name;
    interpolation_choice choice;
};

/// As PyTorch has them (cubic; antialias with cubic_coeff_a -0.5 and without what is
/// outside), as ONNX has (exclude_outside alone), and others.
const std::vector<named_filter> &filters() {
    static const std::vector<named_filter> all {
            {"cubic_half_pixel", {"cubic", "half_pixel"}},
            {"cubic_align_corners", {"cubic", "align_corners"}},
            {"cubic_asymmetric_without_outside",
                    {"cubic", "asymmetric", {}, -0.5F, false, true}},
            {"cubic_antialias", {"cubic", "half_pixel", {}, -0.5F, true, true}},
            {"cubic_antialias_align_corners",
                    {"cubic", "align_corners", {}, -0.75F, true}},
            {"linear_antialias",
                    {"linear", "half_pixel", {}, -0.75F, true, true}},
            {"linear_antialias_asymmetric",
                    {"linear", "asymmetric", {}, -0.75F, true}},
    };
    return all;
}

/// Those, and the forward of each and of the plain modes.
std::vector<named_filter> both_ways() {
    std::vector<named_filter> all = filters();
    for (named_filter each : filters()) {
        each.choice.forward = true;
        all.push_back(each);
    }
    for (const char *mode : {"nearest", "linear"})
        for (const char *coordinates :
                {"half_pixel", "align_corners", "asymmetric"}) {
            interpolation_choice plain {mode, coordinates};
            plain.forward = true;
            all.push_back({mode, plain});
        }
    return all;
}

std::string name_of(const interpolation_case &c, const named_filter &filter) {
    return c.name + "_" + filter.name + "_" + filter.choice.coordinates
            + (filter.choice.forward ? "_forward" : "");
}

/// Two types of each shape and filter, in turn; under a sanitizer of every fifth.
bool has_turn(size_t shape, size_t filter, data_type type) {
    if (thinned() && (shape + filter) % 5 != 0) return false;
    const bool first = type == data_type::f32 || type == data_type::f16;
    return first == ((shape + filter) % 2 == 0);
}

std::vector<conformance_param> conformance() {
    std::vector<conformance_param> params;
    const auto &shapes = interpolation_cases();
    const auto all = both_ways();
    const auto add = [&](engine::kind kind, const std::string &kernel,
                             size_t shape, size_t filter) {
        for (const data_type type : float_types())
            for (const layout &l : layouts()) {
                const interpolation_choice &choice = all[filter].choice;
                const bool dense = l.name == "ncx" || l.name == "nxc";
                // Others than these have no part in what a filter is.
                if (!dense && (!shapes[shape].every_layout || choice.forward))
                    continue;
                if (l.name == "ncx_xio" || l.name == "nxc_oix") continue;
                if (!has_turn(shape, filter, type)) continue;
                params.push_back({kind, kernel,
                        name_of(shapes[shape], all[filter]) + "_"
                                + to_string(type) + "_" + l.name,
                        interpolation_op(shapes[shape], choice, l, type)});
            }
    };
    for (const engine::kind kind : engine_kinds())
        for (const std::string &kernel : kernel_names(kind, "interpolation"))
            for (size_t shape = 0; shape < shapes.size(); ++shape)
                for (size_t filter = 0; filter < all.size(); ++filter)
                    add(kind, kernel, shape, filter);
    return params;
}

class interpolation_filters : public testing::TestWithParam<conformance_param> {
};

TEST_P(interpolation_filters, agrees_with_reference) {
    const conformance_param &p = GetParam();
    RecordProperty("ran",
            run_forced(
                    p.the_op, shared_engine(p.on), p.kernel, seed_of(p.op_name))
                    ? "yes"
                    : "refused");
}

INSTANTIATE_TEST_SUITE_P(conformance, interpolation_filters,
        testing::ValuesIn(conformance()),
        [](const auto &each) { return conformance_name(each.param); });

class interpolation_filters_on : public testing::TestWithParam<engine::kind> {};

values_list run(const op &the_op, const engine &e, const values_list &inputs) {
    op_run r(the_op, e, inputs);
    r.execute();
    return {r.output(0)};
}

TEST_P(interpolation_filters_on, forward_is_the_transpose_of_backward) {
    const engine e = shared_engine(GetParam());
    size_t number = 0;
    for (const interpolation_case &c : interpolation_cases())
        for (const named_filter &filter : filters()) {
            if (++number % (thinned() ? 5 : 2) != 0) continue;
            SCOPED_TRACE(name_of(c, filter));
            interpolation_choice choice = filter.choice;
            choice.forward = true;
            const op forward
                    = interpolation_op(c, choice, layouts()[0], data_type::f64);
            choice.forward = false;
            const op backward
                    = interpolation_op(c, choice, layouts()[0], data_type::f64);
            const values_list inputs = random_inputs(backward, 3);
            const auto dst = run(forward, e, {inputs[0]})[0];
            const auto diff_src = run(backward, e, inputs)[0];
            double left = 0;
            double right = 0;
            double all = 0;
            for (size_t i = 0; i < dst.size(); ++i) {
                left += dst[i] * inputs[1][i];
                all += std::fabs(dst[i] * inputs[1][i]);
            }
            for (size_t i = 0; i < diff_src.size(); ++i)
                right += diff_src[i] * inputs[0][i];
            ASSERT_NEAR(left, right, 1e-12 * all);
        }
}

// Keys' filter at the four distances of a whole ratio of 2, in closed form; the ends
// have what would be outside.
TEST_P(interpolation_filters_on, cubic_weights_of_twice_the_size) {
    const engine e = shared_engine(GetParam());
    const interpolation_case c {"line", 1, 1, {8}, {16}};
    const double a = -0.75;
    const auto near
            = [&](double x) { return ((a + 2) * x - (a + 3)) * x * x + 1; };
    const auto far = [&](double x) { return a * (((x - 5) * x + 8) * x - 4); };
    const op forward = interpolation_op(c,
            {"cubic", "half_pixel", {}, -0.75F, false, false, true},
            layouts()[0], data_type::f64);
    const auto dst = run(forward, e, {{1, 0, 0, 1, 0, 0, 0, 0}})[0];
    // Output 7 lies at 3.25, output 8 at 3.75, output 0 at -0.25.
    EXPECT_NEAR(dst[7], near(0.25), 1e-15);
    EXPECT_NEAR(dst[8], near(0.75), 1e-15);
    EXPECT_NEAR(dst[9], far(1.25), 1e-15);
    EXPECT_NEAR(dst[0], near(0.25) + near(0.75) + far(1.75), 1e-15);
}

/// Interpolate of 2x3x5x6, NCX, to what `attributes` say, with or without the dims of dst.
op sized(const std::vector<int64_t> &dst, const std::vector<int64_t> &sizes,
        const std::vector<float> &scales, bool sizes_input = false) {
    std::vector<logical_tensor> inputs {
            {0, data_type::f32, {2, 3, 5, 6}, layout_type::strided}};
    if (sizes_input)
        inputs.emplace_back(1, data_type::s32, std::vector<int64_t> {2},
                layout_type::strided);
    op made(5, op::kind::Interpolate, inputs,
            {dst.empty() ? logical_tensor(
                     2, data_type::f32, 4, layout_type::any)
                         : logical_tensor(
                                 2, data_type::f32, dst, layout_type::strided)},
            "up");
    made.set_attr(op::attr::mode, "cubic");
    made.set_attr(op::attr::data_format, "NCX");
    if (!sizes.empty()) made.set_attr(op::attr::sizes, sizes);
    if (!scales.empty()) made.set_attr(op::attr::scales, scales);
    return made;
}

TEST_P(interpolation_filters_on, dst_follows_from_sizes_and_scales) {
    const engine e = shared_engine(GetParam());
    const auto dims_of = [&](const op &the_op) {
        return compile(the_op, e).query_logical_tensor(2).get_dims();
    };
    using dims = std::vector<int64_t>;
    EXPECT_EQ(dims_of(sized({}, {7, 11}, {})), (dims {2, 3, 7, 11}));
    EXPECT_EQ(dims_of(sized({}, {}, {2.0F, 0.7F})), (dims {2, 3, 10, 4}));
    // The nearest integer, which is given, in place of the floor.
    EXPECT_EQ(dims_of(sized({2, 3, 8, 9}, {}, {1.5F, 1.5F})),
            (dims {2, 3, 8, 9}));
    EXPECT_EQ(dims_of(sized({2, 3, 4, 4}, {}, {}, true)), (dims {2, 3, 4, 4}));
}

void expect_refusal(
        const op &the_op, const engine &e, const std::string &piece) {
    try {
        compile(the_op, e);
        ADD_FAILURE() << "compiled: " << piece;
    } catch (const error &failure) {
        EXPECT_NE(std::string(failure.what()).find(piece), std::string::npos)
                << failure.what();
    }
}

TEST_P(interpolation_filters_on, dst_that_does_not_fit_is_refused) {
    const engine e = shared_engine(GetParam());
    expect_refusal(sized({}, {}, {}, true), e, "dims of output 0 (dst)");
    expect_refusal(sized({}, {}, {}), e, "input 1 (sizes)");
    expect_refusal(sized({2, 3, 7, 7}, {7, 11}, {}), e, "[7, 11]");
    expect_refusal(sized({2, 3, 9, 12}, {}, {2.0F, 2.0F}), e,
            "output 0 (dst) has 9 elements");
    expect_refusal(
            sized({2, 4, 10, 12}, {10, 12}, {}), e, "dims 0 (N) and 1 (C");
}

TEST_P(interpolation_filters_on, sizes_as_an_input) {
    const engine e = shared_engine(GetParam());
    for (const bool forward : {false, true}) {
        interpolation_choice choice {"cubic"};
        choice.source = size_source::sizes_input;
        choice.forward = forward;
        const op the_op = interpolation_op(interpolation_cases().back(), choice,
                layouts()[0], data_type::f32);
        op_run r(the_op, e, random_inputs(the_op, 9));
        r.execute();
        r.expect_right();
    }
}

// Axes so long that no table is kept of what does not repeat: taps nearer together and
// farther apart than inputs, of both filters, whose weights are computed on the way.
TEST_P(interpolation_filters_on, long_axes_that_repeat_nothing) {
    const interpolation_case all[] = {
            {"alike", 1, 2, {131101}, {131203}},
            {"smaller", 1, 1, {250007}, {70001}},
            {"alike_smaller", 1, 3, {131203}, {131101}},
            {"summed", 1, 8, {3, 131203}, {5, 131101}},
            {"larger", 1, 5, {90001}, {300017}},
            {"many_channels", 1, 20, {131203}, {131101}},
    };
    size_t first = 0; // Some of each case, of both layouts in turn.
    for (const interpolation_case &c : all) {
        size_t turn = first;
        first += 29;
        for (const layout &l : {layouts()[0], layouts()[1]})
            for (const named_filter &filter : filters())
                for (const data_type type : float_types()) {
                    if (turn++ % (thinned() ? 53 : 9) != 0) continue;
                    SCOPED_TRACE(name_of(c, filter) + " " + l.name + " "
                            + to_string(type));
                    run_forced(interpolation_op(c, filter.choice, l, type),
                            shared_engine(GetParam()), "", turn);
                }
    }
}

// A constant image stays one at any size, by filters whose weights add up to 1.
TEST_P(interpolation_filters_on, constant_images_stay_constant) {
    const engine e = shared_engine(GetParam());
    for (const named_filter &filter : filters())
        for (const int64_t dst : {1, 3, 7, 20, 33, 100}) {
            const interpolation_case c {"line", 1, 2, {20}, {dst}};
            interpolation_choice choice = filter.choice;
            choice.forward = true;
            const auto out = run(
                    interpolation_op(c, choice, layouts()[0], data_type::f64),
                    e, {std::vector<double>(40, 3.0)})[0];
            for (const double value : out)
                ASSERT_NEAR(value, 3.0, 1e-13) << filter.name << ' ' << dst;
        }
}

INSTANTIATE_TEST_SUITE_P(engines, interpolation_filters_on,
        testing::ValuesIn(engine_kinds()),
        [](const auto &each) { return std::string(to_string(each.param)); });

} // namespace
} // namespace gradnn::test
