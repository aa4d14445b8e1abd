// The subcommands of the gradnn program, and the options of each
// (command_line.hpp says how they are given).
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include "session.hpp"

namespace gradnn::driver {

struct check_options {
    session_options session;
    std::vector<std::string> expected;
    bool details = false;
};

struct bench_options {
    std::vector<std::string> graphs;
    engine_options engine;
    std::string json_file;
    std::string compared;
    double seconds = 1;
    bool latency = false;
    bool every_kernel = false;
};

struct support_options {
    std::string op;
    bool as_json = false;
};

struct kernels_options {
    std::string graph;
    engine_options engine;
};

// Each returns the exit status: 0, or 1 where a check failed. Failures of the
// input are thrown.
int run(const session_options &options);
int check(const check_options &options);
int bench(const bench_options &options);
int info(bool as_json);
int support(const support_options &options);
int show_kernels(const kernels_options &options);

/// The command line asks for something that cannot be done.
struct usage_error : std::runtime_error {
    using std::runtime_error::runtime_error;
};

} // namespace gradnn::driver
