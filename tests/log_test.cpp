// The log on every engine: lines of one partition join by ids, refusals, times of
// steps, silence when off.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <gradnn/log.hpp>

#include "support/captured_log.hpp"
#include "support/op_builders.hpp"
#include "support/op_samples.hpp"

namespace gradnn::test {
namespace {

class log_of : public testing::TestWithParam<engine::kind> {
protected:
    engine the_engine() const { return shared_engine(GetParam()); }
    std::string engine_name() const {
        return GetParam() == engine::kind::gpu ? "gpu:0" : "cpu";
    }
};

TEST_P(log_of, lines_of_a_partition_join) {
    const op the_op = named_convolution("a, b: 100%\n", 11);
    const captured_log log(1);
    const partition made = partition_of(the_op, GetParam());
    const auto compiled = made.compile(
            the_op.get_inputs(), the_op.get_outputs(), the_engine());
    op_run run(the_op, compiled, the_engine(), random_inputs(the_op, 70), {});
    run.execute();
    const auto again = made.compile(
            the_op.get_inputs(), the_op.get_outputs(), the_engine());

    const auto lines = log.lines();
    ASSERT_EQ(lines.size(), 4U);
    const auto info = compiled.get_info();
    EXPECT_EQ(info.partition_id, made.get_id());
    const std::string inputs
            = "diff_dst:10:f32:1x6x7x9:abcd src:11:f32:1x4x9x11:abcd "
              "weights:12:f32:6x4x3x3:abcd";
    const std::string outputs
            = "diff_src:13:f32:1x4x9x11:abcd diff_weights:14:f32:6x4x3x3:abcd "
              "diff_bias:15:f32:6:a";
    for (const fields &line : lines) {
        EXPECT_EQ(line.at("gradnn"), "gradnn");
        EXPECT_EQ(line.at("partition"), std::to_string(made.get_id()));
        EXPECT_EQ(line.at("ops"), "4:ConvBackward:a%2C%20b%3A%20100%25%0A");
        EXPECT_EQ(line.at("inputs"), inputs);
        EXPECT_EQ(line.at("outputs"), outputs);
        EXPECT_EQ(line.at("note"), "");
    }
    EXPECT_EQ(lines[0].at("event"), "create");
    EXPECT_EQ(lines[0].at("engine"), to_string(GetParam()));
    EXPECT_EQ(lines[0].at("compiled"), "");
    EXPECT_EQ(lines[0].at("milliseconds"), "");
    EXPECT_EQ(lines[1].at("event"), "compile:cache_miss");
    EXPECT_EQ(lines[2].at("event"), "execute");
    EXPECT_EQ(lines[3].at("event"), "compile:cache_hit");
    EXPECT_EQ(lines[1].at("compiled"), std::to_string(info.id));
    EXPECT_EQ(lines[2].at("compiled"), std::to_string(info.id));
    EXPECT_EQ(lines[3].at("compiled"), std::to_string(again.get_info().id));
    EXPECT_NE(info.id, again.get_info().id);
    const auto names = kernels_of(compiled);
    ASSERT_EQ(names.size(), 3U);
    const std::string steps = "4.diff_src:" + names[0]
            + " 4.diff_weights:" + names[1] + " 4.diff_bias:" + names[2];
    // Read: 378 + 396 + 216 elements; written: 396 + 216 + 6.
    for (size_t index = 1; index < lines.size(); ++index) {
        const fields &line = lines[index];
        EXPECT_EQ(line.at("engine"), engine_name());
        EXPECT_EQ(line.at("steps"), steps);
        EXPECT_EQ(line.at("moved_bytes"), std::to_string(4 * (990 + 618)));
        EXPECT_EQ(line.at("workspace_bytes"),
                std::to_string(info.workspace_bytes));
        EXPECT_GE(std::stod(line.at("milliseconds")), 0.0);
    }
    EXPECT_GT(std::stod(lines[1].at("milliseconds")), 0.0);
    EXPECT_GT(std::stod(lines[2].at("milliseconds")), 0.0);
}

TEST_P(log_of, info_names_ops_and_outputs) {
    const op the_op = named_convolution("conv");
    const auto info = compile(the_op, the_engine()).get_info();
    ASSERT_EQ(info.steps.size(), 3U);
    for (const step_info &step : info.steps)
        EXPECT_EQ(step.op_id, 4U);
    EXPECT_EQ(info.steps[0].output, "diff_src");
    EXPECT_EQ(info.steps[1].output, "diff_weights");
    EXPECT_EQ(info.steps[2].output, "diff_bias");
}

TEST_P(log_of, partition_ids_are_unique_in_the_process) {
    graph built(GetParam());
    built.add_op(samples::relu(0, 0, 1, 2));
    built.add_op(samples::relu(1, 3, 2, 4));
    built.finalize();
    std::vector<size_t> ids;
    for (const partition &each : built.get_partitions())
        ids.push_back(each.get_id());
    // The same graph's partitions keep theirs.
    std::vector<size_t> again;
    for (const partition &each : built.get_partitions())
        again.push_back(each.get_id());
    EXPECT_EQ(ids, again);
    ids.push_back(partition_of(samples::relu(0, 0, 1, 2), GetParam()).get_id());
    ids.push_back(partition(samples::relu(0, 0, 1, 2), GetParam()).get_id());
    EXPECT_EQ(std::set<size_t>(ids.begin(), ids.end()).size(), 4U);
}

// Strided, broadcast and unknown tensors, and an input that no step reads.
TEST_P(log_of, tensors_in_every_layout) {
    using lt = logical_tensor;
    const auto op_of = [](const lt &a, const lt &b, const lt &c) {
        return op(0, op::kind::Add, {a, b}, {c});
    };
    const auto created = [&](const lt &a, const lt &b, const lt &c) {
        const captured_log log(1);
        (void)partition(op_of(a, b, c), GetParam());
        return log.lines().at(0).at("inputs");
    };
    const lt plain(2, data_type::f32, {2, 3, 4}, layout_type::strided);
    EXPECT_EQ(created(lt(0, data_type::f32, {2, 3, 4}, {12, 1, 3}),
                      lt(1, data_type::f32, {2, 3, 4}, {24, 8, 2}), plain),
            "src_0:0:f32:2x3x4:acb src_1:1:f32:2x3x4:24x8x2");
    EXPECT_EQ(created(lt(0, data_type::f32, {2, 3, 4}, {0, 4, 1}),
                      lt(1, data_type::f32, 3, layout_type::any), plain),
            "src_0:0:f32:2x3x4:0x4x1 src_1:1:f32:?x?x?:any");
    EXPECT_EQ(created(lt(0, data_type::f32),
                      lt(1, data_type::f32, {2, lt::unknown_dim, 4},
                              layout_type::undef),
                      plain),
            "src_0:0:f32:?:undef src_1:1:f32:2x?x4:undef");
    EXPECT_EQ(created(lt(0, data_type::bf16, {1, 3, 1, 4}, {12, 1, 12, 3}),
                      lt(1, data_type::bf16, {1, 1, 1, 1}, {7, 7, 7, 7}),
                      lt(2, data_type::bf16)),
            "src_0:0:bf16:1x3x1x4:adbc src_1:1:bf16:1x1x1x1:abcd");
    EXPECT_EQ(created(lt(0, data_type::f64, lt::dims {}, layout_type::strided),
                      lt(1, data_type::f64), lt(2, data_type::f64)),
            "src_0:0:f64:scalar:dense src_1:1:f64:?:undef");
    // A broadcast input is read once; src of an interpolation not at all.
    const captured_log log(1);
    (void)compile(
            op_of(lt(0, data_type::f32, {2, 3, 4}, {0, 4, 1}),
                    lt(1, data_type::f32, {2, 3, 4}, layout_type::strided),
                    plain),
            the_engine());
    (void)compile(samples::interpolation(), the_engine());
    const auto lines = log.lines("compile");
    ASSERT_EQ(lines.size(), 2U);
    EXPECT_EQ(lines[0].at("moved_bytes"), std::to_string(4 * (12 + 24 + 24)));
    EXPECT_EQ(lines[1].at("moved_bytes"), std::to_string(4 * (128 + 32)));
}

TEST_P(log_of, refusals_at_level_2) {
    // Grouped f64: no library kernel of either engine takes it all.
    const op the_op = convolution_op(op::kind::ConvBackward,
            convolution_named("sixteen_channels"), layouts()[1],
            data_type::f64);
    const auto compiled = compile(the_op, the_engine());
    std::vector<std::string> expected;
    const auto taken = kernels_of(compiled);
    const auto known = kernel_names(GetParam(), "convolution");
    size_t convolutions = 0;
    for (const std::string &kernel : taken)
        for (const std::string &row : known) {
            if (row == kernel) {
                ++convolutions;
                break;
            }
            if (std::find(known.begin(), known.end(), kernel) != known.end())
                expected.push_back(row);
        }
    ASSERT_EQ(convolutions, 2U);
    ASSERT_FALSE(expected.empty()) << "nothing refuses: nothing is tested";
    for (const int level : {1, 2}) {
        // From the cache too.
        const captured_log log(level);
        const auto again = compile(the_op, the_engine());
        std::vector<std::string> refused;
        for (const fields &line : log.lines("dispatch")) {
            EXPECT_EQ(line.at("compiled"), std::to_string(again.get_info().id));
            EXPECT_NE(line.at("note"), "");
            EXPECT_EQ(line.at("milliseconds"), "");
            const auto step = split(line.at("steps"), ':');
            ASSERT_EQ(step.size(), 2U);
            EXPECT_EQ(step[0].rfind(
                              std::to_string(the_op.get_id()) + ".diff_", 0),
                    0U)
                    << step[0];
            refused.push_back(step[1]);
        }
        EXPECT_EQ(refused, level == 2 ? expected : std::vector<std::string> {});
    }
}

TEST_P(log_of, times_of_steps_at_level_3) {
    const op the_op = named_convolution("timed");
    op_run run(the_op, the_engine(), random_inputs(the_op, 71));
    run.execute();
    const captured_log log(3);
    run.execute();
    const auto whole = log.lines("execute");
    ASSERT_EQ(whole.size(), 4U);
    const auto steps = split(whole[0].at("steps"), ' ');
    ASSERT_EQ(steps.size(), 3U);
    double sum = 0.0;
    for (size_t index = 0; index < 3; ++index) {
        const fields &line = whole[index + 1];
        EXPECT_EQ(line.at("event"), "execute:step");
        EXPECT_EQ(line.at("compiled"), whole[0].at("compiled"));
        EXPECT_EQ(line.at("steps"), steps[index]);
        EXPECT_GT(std::stod(line.at("milliseconds")), 0.0);
        sum += std::stod(line.at("milliseconds"));
    }
    if (GetParam() == engine::kind::cpu) {
        EXPECT_LE(sum, std::stod(whole[0].at("milliseconds")));
    }
    run.expect_right();
}

TEST_P(log_of, is_silent_when_off) {
    const op the_op = named_convolution("silent");
    captured_log log(0);
    testing::internal::CaptureStderr();
    op_run run(the_op, the_engine(), random_inputs(the_op, 72));
    run.execute();
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
    EXPECT_TRUE(log.raw().empty());
}

INSTANTIATE_TEST_SUITE_P(engines, log_of, testing::ValuesIn(engine_kinds()),
        [](const auto &each) { return to_string(each.param); });

} // namespace
} // namespace gradnn::test
