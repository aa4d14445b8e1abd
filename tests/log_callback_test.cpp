// Where the log goes: its header and levels, stderr, the callback from several
// threads.
#include <algorithm>
#include <atomic>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <gradnn/log.hpp>

#include "support/captured_log.hpp"
#include "support/op_builders.hpp"
#include "support/op_samples.hpp"

namespace gradnn::test {
namespace {

TEST(log, header_comes_first_and_once) {
    const op the_op = samples::relu(0, 0, 1, 2);
    const captured_log log(1);
    (void)partition(the_op, engine::kind::cpu);
    (void)partition(the_op, engine::kind::cpu);
    ASSERT_EQ(log.raw().size(), 3U);
    // The documented order (doc/logging.md): programs depend on it.
    EXPECT_EQ(log.raw()[0],
            "gradnn,event,engine,partition,compiled,ops,steps,inputs,outputs,"
            "workspace_bytes,moved_bytes,milliseconds,note,inner");
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
        ASSERT_EQ(values.size(), 14U) << line;
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
