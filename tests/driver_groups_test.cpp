// The gradnn program and partitions of several ops.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>

#include "files/npy.hpp"
#include "support/driver_program.hpp"
#include "support/op_runner.hpp"

namespace {

using namespace gradnn;
using namespace gradnn::test;
using dims = std::vector<int64_t>;

class driver_groups : public driver {};

// The tensor between the two ops is asked for by an option or by the file, or each
// op is to be alone; else it is inside their partition.
TEST_F(driver_groups, groups_ops_around_the_tensors_that_are_asked_for) {
    const std::string two_ops = graphs + "two_ops.json";
    const auto partitions = [&](const std::string &arguments) {
        const outcome result = gradnn("run " + arguments);
        EXPECT_EQ(result.status, 0) << result.err;
        const bool together
                = result.out.find("ConvolutionBackwardData+InterpolateBackward")
                != std::string::npos;
        const auto lines
                = std::count(result.out.begin(), result.out.end(), '\n');
        EXPECT_EQ(lines, together ? 4 : 5) << result.out;
        return together ? 1 : 2;
    };
    EXPECT_EQ(partitions(two_ops), 1);
    EXPECT_EQ(partitions(two_ops + " --output 4=" + path("last.npy")), 1);
    EXPECT_EQ(partitions(two_ops + " --ungrouped"), 2);
    EXPECT_EQ(partitions(two_ops + " --image 2=" + path("inner.png")), 2);
    EXPECT_EQ(partitions(two_ops + " --output 2=" + path("inner.npy")), 2);
    EXPECT_EQ(detail::read_npy_header(path("inner.npy")).dims,
            (dims {1, 8, 32, 32}));
    const outcome checked = gradnn("check " + two_ops + " --expect 2="
            + path("inner.npy") + " --expect 4=" + path("last.npy"));
    EXPECT_EQ(checked.status, 0) << checked.out;
    EXPECT_NE(checked.out.find("2 of 2 outputs are ok"), std::string::npos);
    std::string named = contents(two_ops);
    const std::string ports = "\"output_ports\": [4]";
    ASSERT_NE(named.find(ports), std::string::npos);
    named.replace(named.find(ports), ports.size(), "\"output_ports\": [2, 4]");
    const outcome result = gradnn("run " + write("named.json", named));
    EXPECT_NE(result.out.find("output 2: f32"), std::string::npos)
            << result.out << result.err;
}

TEST_F(driver_groups, check_holds_a_group_to_the_promises_of_its_ops) {
    const std::string check = "check " + graphs + "two_ops.json --details";
    const outcome together = gradnn(check);
    EXPECT_EQ(together.status, 0) << together.out;
    EXPECT_NE(together.out.find("1 of 1 outputs are ok"), std::string::npos);
    EXPECT_NE(together.out.find(" 4e-06 "), std::string::npos) << together.out;
    const outcome alone = gradnn(check + " --ungrouped");
    EXPECT_NE(alone.out.find("2 of 2 outputs are ok"), std::string::npos);
    EXPECT_EQ(alone.out.find(" 4e-06 "), std::string::npos) << alone.out;
}

// bf16 composed weights are rounded, which check allows for; the kernels are those of
// the steps that run.
TEST_F(driver_groups, composed_ones_are_checked_and_listed) {
    const forced_kernel composed("partition.composed");
    std::string text = contents(graphs + "two_ops.json");
    const auto replace_all = [&](const std::string &from, const char *to) {
        for (size_t at = text.find(from); at != std::string::npos;
                at = text.find(from))
            text.replace(at, from.size(), to);
    };
    replace_all("\"bilinear\"", "\"nearest\"");
    for (const bool small : {false, true}) {
        if (small) replace_all("\"f32\"", "\"bf16\"");
        const std::string file = write("composed.json", text);
        const outcome checked = gradnn("check " + file);
        EXPECT_NE(checked.out.find("1 of 1 outputs are ok"), std::string::npos)
                << checked.out << checked.err;
        const outcome listed = gradnn("kernels " + file);
        size_t from = 0;
        for (const char *words : {"composed_weights", "interpolation.strided",
                     "taken", "InterpolateBackward", "diff_src",
                     "convolution.planes", "taken"}) {
            from = listed.out.find(words, from);
            EXPECT_NE(from, std::string::npos) << words << '\n' << listed.out;
        }
        EXPECT_EQ(listed.out.find("interpolation.separable"), std::string::npos)
                << listed.out;
        const outcome timed = gradnn("bench " + file);
        EXPECT_NE(timed.out.find("composed_weights"), std::string::npos)
                << timed.out << timed.err;
    }
}

// What compile refuses is found at the op of the group that it is about.
TEST_F(driver_groups, a_group_with_a_mistake_is_named_by_the_op) {
    std::string text = contents(graphs + "two_ops.json");
    const std::string before
            = "\"shape\": [1, 8, 32, 32], \"layout_type\": \"any\"";
    const std::string unknown
            = std::to_string(std::numeric_limits<int64_t>::min());
    for (size_t at = text.find(before); at != std::string::npos;
            at = text.find(before))
        text.replace(at, before.size(),
                "\"shape\": [" + unknown + ", 8, 32, " + unknown
                        + "], \"layout_type\": \"any\"");
    const std::string sizes = "\"value\": [32, 32]";
    text.replace(text.find(sizes), sizes.size(), "\"value\": [31, 32]");
    const outcome result = gradnn("check " + write("wrong.json", text));
    EXPECT_EQ(result.status, 2) << result.out;
    EXPECT_NE(result.err.find("graph[1].attrs.sizes"), std::string::npos)
            << result.err;
}

} // namespace
