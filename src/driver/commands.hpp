// The subcommands of the gradnn program.
#pragma once

#include <functional>
#include <stdexcept>
#include <string>

namespace CLI {
class App;
}

namespace gradnn::driver {

/// What a subcommand does once its options are parsed; returns the exit
/// status: 0, or 1 where a check failed. Failures of the input are thrown.
using action = std::function<int()>;

// Each adds a subcommand with its options to the program.
action add_run(CLI::App &program);
action add_check(CLI::App &program);
action add_bench(CLI::App &program);
action add_info(CLI::App &program);
action add_support(CLI::App &program);
action add_kernels(CLI::App &program);

/// The command line asks for something that cannot be done.
struct usage_error : std::runtime_error {
    using std::runtime_error::runtime_error;
};

} // namespace gradnn::driver
