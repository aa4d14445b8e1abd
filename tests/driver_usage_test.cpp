// The command line of the gradnn program: help, misspelled words, and what is
// said of files that were written.
#include <gtest/gtest.h>

#include <string>

#include "support/driver_program.hpp"

namespace {

using namespace gradnn::test;

const std::string relu = graph_of("ReLUBackward", "",
        tensor_of(0, "[2, 4]") + ", " + tensor_of(1, "[2, 4]"),
        tensor_of(2, "[2, 4]"));

TEST_F(driver, misspelled_words_get_their_nearest) {
    const std::string graph = graphs + "interpolate_backward.json";
    expect_refusal("chek " + graph, {"\"chek\"", "did you mean check?"});
    expect_refusal("bnech", {"\"bnech\"", "did you mean bench?"});
    expect_refusal("Info", {"\"Info\"", "did you mean info?"});
    expect_refusal("fly",
            {"\"fly\"; commands are run, check, bench, info, support and "
             "kernels"});
    expect_refusal("run " + graph + " --sede 3",
            {"run: unexpected arguments --sede 3, did you mean --seed?"});
    expect_refusal("bench " + graph + " --secnds=1",
            {"bench: unexpected argument --secnds=1, did you mean --seconds?"});
    expect_refusal("check " + graph + " --exp 1=a.npy",
            {"--exp", "did you mean --expect?"});
    expect_refusal("--verson", {"--verson", "did you mean --version?"});
}

TEST_F(driver, unexpected_arguments_are_named_in_order) {
    const std::string graph = graphs + "interpolate_backward.json";
    expect_refusal("run " + graph + " second third --yaml fourth",
            {"run: unexpected arguments second third --yaml fourth (see"});
    expect_refusal(
            "info here now", {"info: unexpected arguments here now (see"});
    const outcome result = gradnn("info --yaml");
    EXPECT_EQ(result.err.find("did you mean"), std::string::npos) << result.err;
}

TEST_F(driver, help_shows_the_graph_as_required) {
    for (const char *command : {"run", "check"}) {
        const outcome result = gradnn(std::string(command) + " --help");
        EXPECT_NE(result.out.find(" [OPTIONS] GRAPH.json\n"), std::string::npos)
                << result.out;
    }
    EXPECT_NE(gradnn("bench --help").out.find(" [OPTIONS] GRAPH.json...\n"),
            std::string::npos);
}

TEST_F(driver, files_that_were_written_are_named) {
    const std::string graph = write("relu.json", relu);
    for (const char *command : {"run", "check"}) {
        const outcome result = gradnn(std::string(command) + " " + graph
                + " --output 2=" + path("out.npy"));
        EXPECT_EQ(result.status, 0);
        EXPECT_EQ(result.err, "wrote " + path("out.npy") + "\n");
        EXPECT_EQ(result.out.find("wrote"), std::string::npos);
        EXPECT_EQ(gradnn(std::string(command) + " " + graph).err, "");
    }
    const outcome bench = gradnn(
            "bench " + graph + " --seconds 0.01 --json " + path("out.json"));
    EXPECT_NE(bench.err.find("wrote " + path("out.json") + "\n"),
            std::string::npos);
    EXPECT_EQ(bench.out.find("wrote"), std::string::npos);
}

TEST_F(driver, short_times_are_in_microseconds) {
    const std::string graph = write("relu.json", relu);
    for (const char *command : {"run ", "check ", "bench --seconds 0.01 "}) {
        const outcome result = gradnn(command + graph);
        EXPECT_EQ(result.status, 0);
        EXPECT_NE(result.out.find(" us "), std::string::npos) << result.out;
        EXPECT_EQ(result.out.find("time ms"), std::string::npos) << result.out;
    }
}

} // namespace
