// Public reports of faults of other systems (README.md), on every engine.
#include <algorithm>
#include <cctype>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "support/engines.hpp"
#include "support/op_builders.hpp"
#include "support/op_runner.hpp"

namespace gradnn::test {
namespace {

using words = std::vector<std::string>;

words split(const std::string &list, char at) {
    words parts;
    std::istringstream in(list);
    for (std::string part; std::getline(in, part, at);)
        parts.push_back(part);
    return parts;
}

sizes sizes_of(const std::string &list) {
    sizes made;
    for (const std::string &each : split(list, 'x'))
        made.push_back(std::stoll(each));
    return made;
}

data_type type_named(const std::string &name) {
    for (const data_type type : float_types())
        if (name == to_string(type)) return type;
    throw std::invalid_argument("type " + name);
}

layout layout_named(const std::string &name) {
    for (const layout &each : layouts())
        if (each.name == name) return each;
    throw std::invalid_argument("layout " + name);
}

/// Names and numbers of a problem as benchdnn writes it: "mb2ic16kh3".
std::map<std::string, int64_t> numbers_of(const std::string &problem) {
    std::map<std::string, int64_t> numbers;
    for (size_t at = 0; at < problem.size();) {
        std::string name;
        while (std::isalpha(static_cast<unsigned char>(problem.at(at))))
            name += problem[at++];
        size_t digits = 0;
        numbers[name] = std::stoll(problem.substr(at), &digits);
        at += digits;
    }
    return numbers;
}

/// Lower than 0 too, where the window leaves out what is at the ends.
int64_t half_of(int64_t pads) {
    return pads / 2;
}

/// An axis of a problem, by its letter.
struct axis_numbers {
    int64_t in, out, kernel, stride, dilation, begin, end;
};

axis_numbers axis_of(const std::map<std::string, int64_t> &numbers, char axis,
        bool transposed) {
    const auto number = [&](char what, int64_t absent) {
        const auto found = numbers.find({what, axis});
        return found == numbers.end() ? absent : found->second;
    };
    axis_numbers made {};
    made.in = number('i', 1);
    made.kernel = number('k', 1);
    made.stride = number('s', 1);
    made.dilation = number('d', 0) + 1;
    const int64_t window = (made.kernel - 1) * made.dilation + 1;
    const bool has_out = numbers.contains({'o', axis});
    if (!has_out) {
        made.begin = number('p', 0);
        made.out = (made.in - window + 2 * made.begin) / made.stride + 1;
        made.end = made.begin;
        return made;
    }
    made.out = number('o', 0);
    const int64_t large = transposed ? made.out : made.in;
    const int64_t small = transposed ? made.in : made.out;
    const int64_t needed = (small - 1) * made.stride + window - large;
    made.begin = number('p', half_of(needed));
    // As at the begin, where that gives the same.
    made.end = made.begin;
    if ((large - window + 2 * made.begin) / made.stride + 1 != small)
        made.end = needed - made.begin;
    return made;
}

convolution_case convolution_of(
        const std::string &name, const std::string &problem, bool transposed) {
    const auto numbers = numbers_of(problem);
    const auto number = [&](const char *what, int64_t absent) {
        const auto found = numbers.find(what);
        return found == numbers.end() ? absent : found->second;
    };
    convolution_case made {};
    made.name = name;
    made.n = number("mb", 2);
    made.groups = number("g", 1);
    made.large_channels = number(transposed ? "oc" : "ic", 0);
    made.small_channels = number(transposed ? "ic" : "oc", 0);
    char before = 0;
    for (const char axis : {'d', 'h', 'w'}) {
        const bool named = numbers.contains({'i', axis});
        if (!named && before == 0) continue;
        const axis_numbers of
                = axis_of(numbers, named ? axis : before, transposed);
        if (named) before = axis;
        made.large.push_back(transposed ? of.out : of.in);
        made.kernel.push_back(of.kernel);
        made.strides.push_back(of.stride);
        made.dilations.push_back(of.dilation);
        made.pads_begin.push_back(of.begin);
        made.pads_end.push_back(of.end);
    }
    return made;
}

/// What a line says, of each type and layout.
std::vector<op> ops_of(const std::string &line) {
    const words said = split(line, ' ');
    const bool up = said.at(0) == "up";
    std::vector<op> ops;
    for (const std::string &type : split(said.at(up ? 4 : 2), ','))
        for (const std::string &lies : split(said.at(up ? 5 : 3), ',')) {
            const layout l = layout_named(lies);
            if (!up) {
                const bool transposed = said[0] == "tconv";
                const words types = split(type, ':');
                wanted_outputs wanted;
                wanted.f32_gradients = types.size() > 1;
                ops.push_back(convolution_op(transposed
                                ? op::kind::ConvTransposeBackward
                                : op::kind::ConvBackward,
                        convolution_of(said[1], said.at(4), transposed), l,
                        type_named(types[0]), wanted));
                continue;
            }
            const sizes planes = sizes_of(said.at(6));
            interpolation_choice choice {said[2], said[3]};
            op the_op = interpolation_op(
                    {said[1], planes.at(0), planes.at(1), sizes_of(said.at(7)),
                            sizes_of(said.at(8))},
                    choice, l, type_named(type));
            if (said.size() > 9) {
                the_op.set_attr(op::attr::scale_rule, "ratios");
                the_op.set_attr(op::attr::ratios,
                        std::vector<double>(sizes_of(said[7]).size(),
                                std::stod(said.at(10))));
            }
            ops.push_back(std::move(the_op));
        }
    return ops;
}

struct report {
    engine::kind kind;
    std::string name;
    std::string line;
};

std::vector<report> reports() {
    std::ifstream in(PUBLIC_REPORTS);
    if (!in) throw std::runtime_error("no " PUBLIC_REPORTS);
    std::vector<report> all;
    for (std::string line; std::getline(in, line);) {
        if (line.empty() || line[0] == '#') continue;
        for (const engine::kind kind : engine_kinds())
            all.push_back({kind, split(line, ' ').at(1), line});
    }
    return all;
}

class public_reports : public testing::TestWithParam<report> {};

TEST_P(public_reports, are_right) {
    const engine e = shared_engine(GetParam().kind);
    for (const op &the_op : ops_of(GetParam().line)) {
        SCOPED_TRACE(
                std::string(to_string(the_op.get_inputs()[0].get_data_type()))
                + ' '
                + std::get<std::string>(
                        the_op.get_attrs().at(op::attr::data_format)));
        op_run run(the_op, e, random_inputs(the_op, 43));
        run.execute();
        run.expect_right();
        const auto bits = run.all_output_bytes();
        run.execute();
        EXPECT_EQ(run.all_output_bytes(), bits) << "of two runs";
    }
}

INSTANTIATE_TEST_SUITE_P(reports, public_reports, testing::ValuesIn(reports()),
        [](const auto &each) {
            return std::string(to_string(each.param.kind)) + "_"
                    + each.param.name;
        });

/// Reports with values of their own.
class public_values : public testing::TestWithParam<engine::kind> {
protected:
    static engine here() { return shared_engine(GetParam()); }

    static convolution_case plain(const std::string &problem, bool transposed) {
        return convolution_of("values", problem, transposed);
    }
    static std::vector<double> ones(size_t count) {
        return std::vector<double>(count, 1.0);
    }
};

// Sums of ones in f16 that stopped at 2048.
TEST_P(public_values, pytorch_104157_ones) {
    for (const int64_t size : {32, 64, 128}) {
        const op the_op = interpolation_op({"ones", 2, 2, {1, 1}, {size, size}},
                {"linear", "align_corners"}, layout_named("ncx"),
                data_type::f16);
        op_run run(the_op, here(),
                {ones(4), ones(static_cast<size_t>(4 * size * size))});
        run.execute();
        EXPECT_EQ(run.output(0),
                std::vector<double>(4, static_cast<double>(size * size)));
    }
}

// The gradient of a block's corner, which is not at its middle.
TEST_P(public_values, pytorch_38985_corner) {
    const op the_op = interpolation_op({"corner", 1, 1, {4, 4}, {1, 1}},
            {"nearest", "asymmetric"}, layout_named("ncx"), data_type::f32);
    op_run run(the_op, here(), {ones(16), {3.0}});
    run.execute();
    std::vector<double> expected(16, 0.0);
    expected[0] = 3;
    EXPECT_EQ(run.output(0), expected);
}

// A window of ones that gave one product in place of their sum.
TEST_P(public_values, pytorch_163347_ones) {
    const op the_op = convolution_op(op::kind::ConvBackward,
            plain("mb1ic1oc1ih2oh1kh2ph0", false), layout_named("ncx"),
            data_type::bf16);
    op_run run(the_op, here(), {{1.0}, {1, 2, 3, 4}, {5, 6, 7, 8}});
    run.execute();
    EXPECT_EQ(run.output(0), (std::vector<double> {5, 6, 7, 8}));
    EXPECT_EQ(run.output(1), (std::vector<double> {1, 2, 3, 4}));
    EXPECT_EQ(run.output(2), (std::vector<double> {1}));
}

// A transposed window of one point that took the neighbour's gradient.
TEST_P(public_values, pytorch_63314) {
    const op the_op = convolution_op(op::kind::ConvTransposeBackward,
            plain("mb1ic1oc1iw2ow3kw1sw2pw0", true), layout_named("ncx"),
            data_type::f64);
    op_run run(the_op, here(), {{1.5, 0, 0.7}, {1, 2}, {-0.7767}});
    run.execute();
    EXPECT_EQ(run.output(0),
            (std::vector<double> {1.5 * -0.7767, 0.7 * -0.7767}));
    EXPECT_EQ(run.output(1), (std::vector<double> {1.5 + 0.7 * 2}));
}

// A gradient of weights whose threads wrote behind their scratch: on one and several.
TEST_P(public_values, onednn_6035_threads) {
    if (GetParam() != engine::kind::cpu) GTEST_SKIP() << "of the CPU's threads";
    const op the_op = convolution_op(op::kind::ConvBackward,
            plain("mb32ic4ih32oc8oh16kh1sh2", false), layout_named("nxc"),
            data_type::f32);
    for (const int threads : {1, 2, 4}) {
        SCOPED_TRACE(threads);
        compile_settings settings;
        settings.threads = threads;
        const partition part(the_op, engine::kind::cpu, settings);
        op_run run(the_op,
                part.compile(the_op.get_inputs(), the_op.get_outputs(), here()),
                here(), random_inputs(the_op, 45), {});
        run.execute();
        run.expect_right();
    }
}

/// Tensors of an op in other arrangements: of src, diff_dst and weights.
op arranged(const op &given, const convolution_case &c, data_type type,
        const words &lies) {
    const sizes data {c.n, c.large_channels, c.large[0], c.large[1]};
    const sizes small = c.small();
    const sizes dst {c.n, c.small_channels, small[0], small[1]};
    const sizes weights {c.small_channels, c.large_channels / c.groups,
            c.kernel[0], c.kernel[1]};
    const auto l = [&](size_t index) { return layout_named(lies[index]); };
    op made(given.get_id(), given.get_kind(),
            {data_tensor(0, type, dst, l(1), false),
                    data_tensor(1, type, data, l(0), false),
                    weights_tensor(2, type, weights, l(2), false)},
            {data_tensor(3, type, data, l(0), true),
                    weights_tensor(4, type, weights, l(2), true),
                    logical_tensor(5, type, sizes {c.small_channels},
                            layout_type::strided)},
            given.get_name());
    for (const auto &[name, value] : given.get_attrs())
        std::visit([&, key = name](const auto &v) { made.set_attr(key, v); },
                value);
    return made;
}

// Layouts of weights, inputs and gradients that are guessed from one another:
// all of three, with axes of size 1 too (pytorch 82060, torch-xpu-ops 4693).
TEST_P(public_values, torch_xpu_ops_1877_layouts) {
    const words all {"ncx", "acdb", "bacd"};
    for (const char *problem : {"mb2ic6oc8ih7kh3ph1", "mb2ic6oc8ih1kh3ph1",
                 "mb3ic1oc4ih6kh3ph1", "mb2ic8oc4ih5kh1"})
        for (const std::string &src : all)
            for (const std::string &dst : all)
                for (const std::string &weights : all) {
                    SCOPED_TRACE(std::string(problem) + ' ' + src + ' ' + dst
                            + ' ' + weights);
                    const auto c = plain(problem, false);
                    const op the_op = arranged(
                            convolution_op(op::kind::ConvBackward, c,
                                    layout_named("ncx"), data_type::f32),
                            c, data_type::f32, {src, dst, weights});
                    op_run run(the_op, here(), random_inputs(the_op, 44));
                    run.execute();
                    run.expect_right();
                }
}

// Weights whose first two axes are exchanged in memory; the loss is half the sum
// of squares, x 1 to 18 and w 1 to 16.
TEST_P(public_values, candle_3735) {
    const auto c = plain("mb1ic2oc2ih3kh2", false);
    const op the_op = arranged(convolution_op(op::kind::ConvBackward, c,
                                       layout_named("ncx"), data_type::f32),
            c, data_type::f32, {"ncx", "ncx", "bacd"});
    std::vector<double> x;
    for (int i = 1; i <= 18; ++i)
        x.push_back(i);
    // w[o][i] is what was w[i][o].
    std::vector<double> w;
    for (const int first : {1, 9, 5, 13})
        for (int k = 0; k < 4; ++k)
            w.push_back(first + k);
    std::vector<double> dy;
    for (size_t o = 0; o < 2; ++o)
        for (size_t row = 0; row < 2; ++row)
            for (size_t column = 0; column < 2; ++column) {
                double sum = 0;
                for (size_t i = 0; i < 2; ++i)
                    for (size_t k = 0; k < 4; ++k)
                        sum += w[o * 8 + i * 4 + k]
                                * x[i * 9 + (row + k / 2) * 3 + column + k % 2];
                dy.push_back(sum);
            }
    op_run run(the_op, here(), {dy, x, w});
    run.execute();
    run.expect_sums_right();
    // By hand: the corner of dX meets one window.
    EXPECT_EQ(run.output(0)[0], dy[0] * w[0] + dy[4] * w[8]);
}

INSTANTIATE_TEST_SUITE_P(engines, public_values,
        testing::ValuesIn(engine_kinds()),
        [](const auto &each) { return std::string(to_string(each.param)); });

} // namespace
} // namespace gradnn::test
