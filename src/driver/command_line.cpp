#include "command_line.hpp"

#include <functional>
#include <iostream>
#include <memory>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "base/input_error.hpp"
#include "base/threads.hpp"
#include "commands.hpp"
#include "files/nearest.hpp"
#include "machine.hpp"

namespace gradnn::driver {

namespace {

constexpr int bad_input = 2;

/// What a subcommand does once its options are parsed; returns the exit status.
using action = std::function<int()>;

/// Shows positional arguments as required unless they have a default. That they
/// are there is checked after the options are parsed, so that an unknown option
/// is reported first; the parser takes them to be optional.
class formatter : public CLI::Formatter {
public:
    std::string make_option_usage(const CLI::Option *option) const override {
        std::string text = make_option_name(option, true);
        if (option->get_expected_max() > 1) text += "...";
        return option->get_default_str().empty() ? text : "[" + text + "]";
    }
};

std::vector<std::string> command_names(const CLI::App &program) {
    std::vector<std::string> names;
    for (const CLI::App *each : program.get_subcommands({}))
        names.push_back(each->get_name());
    return names;
}

std::vector<std::string> option_names(const CLI::App &command) {
    std::vector<std::string> names;
    for (const CLI::Option *each : command.get_options())
        for (const std::string &name : each->get_lnames())
            names.push_back("--" + name);
    return names;
}

/// "run, check and bench".
std::string listed(const std::vector<std::string> &names) {
    std::string text;
    for (size_t index = 0; index < names.size(); ++index) {
        if (index > 0) text += index + 1 < names.size() ? ", " : " and ";
        text += names[index];
    }
    return text;
}

/// One line that names the arguments that the parser left over, in the order
/// in which they were given, and the command or option that is nearest.
std::string describe_unexpected(const CLI::App &program) {
    const std::vector<std::string> left = program.remaining(true);
    const auto parsed = program.get_subcommands();
    if (parsed.empty() && !left.front().starts_with('-')) {
        const auto names = command_names(program);
        const std::string near = detail::suggestion(left.front(), names);
        return "unknown command \"" + left.front() + "\""
                + (near.empty() ? "; commands are " + listed(names) : near);
    }
    const CLI::App &command = parsed.empty() ? program : *parsed.front();
    std::string text = parsed.empty() ? "" : command.get_name() + ": ";
    text += left.size() > 1 ? "unexpected arguments" : "unexpected argument";
    for (const std::string &each : left)
        text += " " + each;
    // Of the first that looks like an option of this command.
    for (const std::string &each : left) {
        if (!each.starts_with("--")) continue;
        const std::string near = detail::suggestion(
                each.substr(0, each.find('=')), option_names(command));
        if (!near.empty()) return text + near;
    }
    return text;
}

/// Those of run, check, bench and kernels.
void add_engine_options(CLI::App &command, engine_options &options) {
    command.add_option("--engine", options.engine,
                   "cpu, gpu or gpu:N (default: what the file says)")
            ->type_name("ENGINE");
    command.add_option("--threads", options.threads,
                   "threads of the CPU engine; the bits of results depend on "
                   "their number (default: OMP_NUM_THREADS, or all processors)")
            ->type_name("N")
            ->check(CLI::Range(1, detail::most_threads));
    command.add_flag("--nondeterministic", options.nondeterministic,
            "allow kernels whose bits differ from run to run");
    command.add_flag("--ungrouped", options.ungrouped,
            "each op is a partition of its own");
}

/// Those of run and check.
void add_session_options(CLI::App &command, session_options &options) {
    // Not marked as required, so that an unknown option is reported first.
    command.add_option("GRAPH.json", options.graph,
                   "the graph, in oneDNN Graph's JSON format")
            ->option_text(" ");
    add_engine_options(command, options.engine);
    command.add_option("--input", options.inputs,
                   "values of an input tensor (f2, f4, f8, i4 or i8; converted "
                   "to its type); the others are random")
            ->type_name("ID=FILE.npy")
            ->allow_extra_args(false);
    command.add_option("--output", options.outputs,
                   "write a computed tensor (bf16 as f4, exact)")
            ->type_name("ID=FILE.npy")
            ->allow_extra_args(false);
    command.add_option("--image", options.images,
                   "write a tensor as a picture: the planes of its last two "
                   "axes, blue below zero and red above")
            ->type_name("ID=FILE.png")
            ->allow_extra_args(false);
    command.add_option("--seed", options.seed,
                   "seed of the random inputs (default: 0)")
            ->type_name("N");
}

action add_run(CLI::App &program) {
    auto options = std::make_shared<session_options>();
    CLI::App *command = program.add_subcommand("run",
            "Execute a graph; print kernels, times and checksums of the "
            "outputs");
    add_session_options(*command, *options);
    return [options] { return run(*options); };
}

action add_check(CLI::App &program) {
    auto options = std::make_shared<check_options>();
    CLI::App *command = program.add_subcommand("check",
            "Execute a graph and compare every output with the float64 "
            "reference");
    add_session_options(*command, options->session);
    command->add_option("--expect", options->expected,
                   "compare a computed tensor with somebody else's answer too")
            ->type_name("ID=FILE.npy")
            ->allow_extra_args(false);
    command->add_flag("--details", options->details,
            "each output by its two promises (doc/numerics.md), with what they "
            "allow, and the backends");
    command->footer("Exit status 1 where an error is past what is allowed.\n");
    return [options] { return check(*options); };
}

/// What is wrong with a value of --seconds; CLI::Range would let NaN pass.
std::string fault_of_seconds(const std::string &value) {
    double seconds = 0;
    if (CLI::detail::lexical_cast(value, seconds) && seconds >= 0
            && seconds <= 3600)
        return {};
    return "Value " + value + " not in range 0 to 3600";
}

action add_bench(CLI::App &program) {
    auto options = std::make_shared<bench_options>();
    CLI::App *command = program.add_subcommand("bench",
            "Time graphs, caches cold, beside the limits of memory and "
            "arithmetic");
    command->add_option("GRAPH.json", options->graphs,
                   "graphs in oneDNN Graph's JSON format")
            ->option_text("...");
    add_engine_options(*command, options->engine);
    command->add_option("--json", options->json_file,
                   "write the figures; - is standard output, the tables are "
                   "on standard error then")
            ->type_name("FILE");
    command->add_option("--compare", options->compared,
                   "show the times beside those of an older report, and mark "
                   "what is slower by more than its spread")
            ->type_name("OLD.json");
    command->add_option("--seconds", options->seconds,
                   "about how long each partition, and again its steps, are "
                   "timed (default: 1)")
            ->type_name("S")
            ->check(fault_of_seconds);
    command->add_flag("--latency", options->latency,
            "time one call at a time too, until its work is done; on a GPU "
            "also by replay of a CUDA graph");
    command->add_flag("--every-kernel", options->every_kernel,
            "time each step by every row of the kernel list that can compute "
            "it; with --ungrouped");
    return [options] { return bench(*options); };
}

action add_info(CLI::App &program) {
    auto as_json = std::make_shared<bool>(false);
    CLI::App *command = program.add_subcommand(
            "info", "Engines, instruction sets and library versions");
    command->add_flag("--json", *as_json, "as JSON");
    return [as_json] { return info(*as_json); };
}

action add_support(CLI::App &program) {
    auto options = std::make_shared<support_options>();
    CLI::App *command = program.add_subcommand("support",
            "Which op runs with which data type on which engine, asked of the "
            "library");
    command->add_option("OP", options->op,
                   "the variants of one op (default: an overview of all ops)")
            ->default_str("all")
            ->option_text(" ");
    command->add_flag("--json", options->as_json, "as JSON, every variant");
    return [options] { return support(*options); };
}

action add_kernels(CLI::App &program) {
    CLI::App *command = program.add_subcommand("kernels",
            "The kernels of each engine, or with a graph what each says of its "
            "problems");
    auto options = std::make_shared<kernels_options>();
    command->add_option("GRAPH", options->graph,
                   "a JSON graph file: for each output of its ops, which "
                   "kernel "
                   "is taken, which others can compute it, and why the rest "
                   "cannot")
            ->type_name("[FILE]");
    add_engine_options(*command, options->engine);
    return [options] { return show_kernels(*options); };
}

} // namespace

int fail(const std::string &what) {
    std::cerr << "gradnn: " << detail::one_line(what, 4000) << '\n';
    return bad_input;
}

int run_command_line(int argc, char **argv) {
    CLI::App program("Gradients of interpolation and convolution.", "gradnn");
    program.formatter(std::make_shared<formatter>()); // of commands too
    program.set_version_flag("--version", version_text());
    program.require_subcommand(0, 1); // none is reported below, in one line
    program.footer("Exit status: 0; 1 a check failed; 2 bad usage or input.\n");

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

} // namespace gradnn::driver
