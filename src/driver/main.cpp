// The gradnn program: runs, checks and times graphs in oneDNN Graph's JSON
// format. Exit status 0; 1 where a check failed; 2 for bad usage or bad input,
// with one line on stderr.
#include <exception>
#include <iostream>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "command_line.hpp"
#include "commands.hpp"
#include "input_error.hpp"
#include "machine.hpp"

namespace {

constexpr int bad_input = 2;

int fail(const std::string &what) {
    std::cerr << "gradnn: " << gradnn::detail::one_line(what, 4000) << '\n';
    return bad_input;
}

int run(int argc, char **argv) {
    CLI::App program("Gradients of interpolation and convolution.", "gradnn");
    program.formatter(gradnn::driver::help_formatter()); // of commands too
    program.set_version_flag("--version", gradnn::driver::version_text());
    program.require_subcommand(0, 1); // none is reported below, in one line
    program.footer("Exit status: 0; 1 a check failed; 2 bad usage or input.\n");

    using namespace gradnn::driver;
    const std::vector<std::pair<const char *, action>> actions = {
            {"run", add_run(program)},
            {"check", add_check(program)},
            {"bench", add_bench(program)},
            {"info", add_info(program)},
            {"support", add_support(program)},
            {"kernels", add_kernels(program)},
    };
    try {
        program.parse(argc, argv);
    } catch (const CLI::ExtrasError &) {
        return fail(describe_unexpected(program) + " (see gradnn --help)");
    } catch (const CLI::ParseError &stop) {
        // Help and version are "errors" of status 0 that print themselves.
        if (stop.get_exit_code() == 0) return program.exit(stop);
        return fail(std::string(stop.what()) + " (see gradnn --help)");
    }
    if (program.get_subcommands().empty())
        return fail("a subcommand is missing: run, check, bench, info, "
                    "support or kernels (see gradnn --help)");
    int result = 0;
    for (const auto &[name, act] : actions)
        if (program.got_subcommand(name)) result = act();
    if (!std::cout.flush()) return fail("standard output cannot be written");
    return result;
}

} // namespace

int main(int argc, char **argv) {
    try {
        return run(argc, argv);
    } catch (const std::bad_alloc &) {
        return fail("there is not enough memory");
    } catch (const std::exception &error) {
        return fail(error.what());
    }
}
