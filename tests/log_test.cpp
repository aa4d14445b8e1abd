// The log: lines of one partition join by ids, refusals, times of steps, the
// callback from several threads, silence when off.
#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <gradnn/log.hpp>

#include "support/op_builders.hpp"
#include "support/op_samples.hpp"

namespace gradnn::test {
namespace {

using fields = std::map<std::string, std::string>;

std::vector<std::string> split(const std::string &text, char separator) {
    std::vector<std::string> parts;
    std::istringstream in(text + separator);
    for (std::string part; std::getline(in, part, separator);)
        parts.push_back(part);
    return parts;
}

/// Collects what is logged while it lives.
class captured_log {
public:
    explicit captured_log(int level) {
        set_log_callback(&take, this);
        set_verbose(level);
    }
    captured_log(const captured_log &) = delete;
    captured_log &operator=(const captured_log &) = delete;
    ~captured_log() {
        set_verbose(0);
        set_log_callback(nullptr);
    }

    const std::vector<std::string> &raw() const { return lines_; }

    /// The lines after the header, by the header's names.
    std::vector<fields> lines() const {
        std::vector<fields> result;
        if (lines_.empty()) return result;
        const auto names = split(lines_.front(), ',');
        for (size_t index = 1; index < lines_.size(); ++index) {
            const auto values = split(lines_[index], ',');
            EXPECT_EQ(values.size(), names.size()) << lines_[index];
            fields line;
            for (size_t i = 0; i < std::min(values.size(), names.size()); ++i)
                line[names[i]] = values[i];
            result.push_back(line);
        }
        return result;
    }

    std::vector<fields> lines(const std::string &event) const {
        auto result = lines();
        std::erase_if(result, [&](const fields &line) {
            return line.at("event").rfind(event, 0) != 0;
        });
        return result;
    }

private:
    static void take(const char *line, void *context) {
        static_cast<captured_log *>(context)->lines_.emplace_back(line);
    }

    std::vector<std::string> lines_;
};

/// ConvBackward of a shape that no case of the suite has; 11 columns are of one
/// test alone, so that its first compilation is not found in the cache.
op named_convolution(const std::string &name, int64_t columns = 13) {
    const samples::sizes dst {1, 6, 7, columns - 2};
    const samples::sizes src {1, 4, 9, columns};
    const samples::sizes weights {6, 4, 3, 3};
    const op plain = samples::convolution(
            {samples::f32(10, dst), samples::f32(11, src),
                    samples::f32(12, weights)},
            {samples::f32(13, src), samples::f32(14, weights),
                    samples::f32(15, {6})});
    op result(plain.get_id(), plain.get_kind(), plain.get_inputs(),
            plain.get_outputs(), name);
    for (const auto &[key, value] : plain.get_attrs())
        std::visit([&, attr = key](const auto &v) { result.set_attr(attr, v); },
                value);
    return result;
}

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

TEST(log, header_comes_first_and_once) {
    const op the_op = samples::relu(0, 0, 1, 2);
    const captured_log log(1);
    (void)partition(the_op, engine::kind::cpu);
    (void)partition(the_op, engine::kind::cpu);
    ASSERT_EQ(log.raw().size(), 3U);
    // The documented order (doc/logging.md): programs depend on it.
    EXPECT_EQ(log.raw()[0],
            "gradnn,event,engine,partition,compiled,ops,steps,inputs,outputs,"
            "workspace_bytes,moved_bytes,milliseconds,note");
    EXPECT_EQ(log.raw()[1].rfind("gradnn,create,cpu,", 0), 0U);
    EXPECT_EQ(log.raw()[2].rfind("gradnn,create,cpu,", 0), 0U);
}

TEST(log, goes_to_stderr_without_a_callback) {
    set_log_callback(nullptr);
    set_verbose(1);
    testing::internal::CaptureStderr();
    (void)partition(samples::relu(7, 0, 1, 2), engine::kind::cpu);
    const std::string output = testing::internal::GetCapturedStderr();
    set_verbose(0);
    const auto lines = split(output, '\n');
    ASSERT_EQ(lines.size(), 3U) << output;
    EXPECT_EQ(lines[0].rfind("gradnn,event,", 0), 0U);
    EXPECT_NE(lines[1].find(",7:ReLUBackward:relu7,"), std::string::npos);
    EXPECT_EQ(lines[2], "");
}

TEST(log, levels) {
    EXPECT_EQ(get_verbose(), 0);
    set_verbose(2);
    EXPECT_EQ(get_verbose(), 2);
    for (const int wrong : {-1, 4})
        try {
            set_verbose(wrong);
            ADD_FAILURE() << wrong;
        } catch (const error &failure) {
            EXPECT_EQ(failure.status, status::invalid_arguments);
            EXPECT_STREQ(failure.what(),
                    ("set_verbose: given " + std::to_string(wrong)
                            + "; 0 to 3 are allowed")
                            .c_str());
        }
    EXPECT_EQ(get_verbose(), 2);
    set_verbose(0);
}

TEST(log, unsupported_partitions_say_why) {
    const captured_log log(1);
    const partition made(
            op(1, op::kind::ReLUBackward, "bad"), engine::kind::cpu);
    const auto lines = log.lines("create");
    ASSERT_EQ(lines.size(), 1U);
    EXPECT_FALSE(made.is_supported());
    EXPECT_EQ(lines[0].at("note").rfind("not supported: ", 0), 0U);
    EXPECT_EQ(lines[0].at("ops"), "1:ReLUBackward:bad");
}

// Calls do not overlap, no line is lost, and each stays whole.
TEST(log, callback_from_several_threads) {
    constexpr int threads = 8;
    constexpr int rounds = 50;
    const op the_op = named_convolution("threads");
    const engine e = shared_engine(engine::kind::cpu);
    const auto compiled = compile(the_op, e);
    struct record {
        std::atomic<int> inside {0};
        bool overlapped = false;
        std::vector<std::string> lines;
    } seen;
    set_log_callback(
            [](const char *line, void *context) {
                auto &to = *static_cast<record *>(context);
                to.overlapped = to.overlapped || to.inside++ != 0;
                to.lines.emplace_back(line);
                --to.inside;
            },
            &seen);
    set_verbose(1);
    std::vector<std::thread> workers;
    for (int worker = 0; worker < threads; ++worker)
        workers.emplace_back([&] {
            for (int round = 0; round < rounds; ++round) {
                const partition made(the_op, engine::kind::cpu);
                (void)made.compile(
                        the_op.get_inputs(), the_op.get_outputs(), e);
            }
        });
    // Levels may change meanwhile.
    for (int change = 0; change < 1000; ++change)
        set_verbose(1 + change % 3);
    for (std::thread &worker : workers)
        worker.join();
    set_verbose(0);
    set_log_callback(nullptr);
    EXPECT_FALSE(seen.overlapped);
    std::set<std::string> created;
    std::set<std::string> ids;
    for (const std::string &line : seen.lines) {
        const auto values = split(line, ',');
        ASSERT_EQ(values.size(), 13U) << line;
        if (values[1] == "create") created.insert(values[3]);
        if (values[1] == "compile:cache_hit") ids.insert(values[4]);
    }
    EXPECT_EQ(created.size(), size_t {threads * rounds});
    EXPECT_EQ(ids.size(), size_t {threads * rounds});
}

// A callback may use the library, replace itself, and even throw.
TEST(log, callback_may_use_the_library) {
    static int calls = 0;
    calls = 0;
    set_log_callback([](const char *, void *) {
        ++calls;
        (void)partition(samples::relu(0, 0, 1, 2), engine::kind::cpu);
        if (calls == 2)
            set_log_callback([](const char *, void *) { calls += 100; });
        throw std::string("dropped");
    });
    set_verbose(1);
    const op the_op = samples::relu(0, 0, 1, 2);
    (void)partition(the_op, engine::kind::cpu);
    EXPECT_EQ(calls, 2); // the header and a line
    (void)partition(the_op, engine::kind::cpu);
    EXPECT_EQ(calls, 202);
    set_verbose(0);
    set_log_callback(nullptr);
}

} // namespace
} // namespace gradnn::test
