#include "command_line.hpp"

#include <vector>

#include <CLI/CLI.hpp>

#include "loaded_graph.hpp"
#include "nearest.hpp"
#include "session.hpp"
#include "threads.hpp"

namespace gradnn::driver {

namespace {

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

} // namespace

std::shared_ptr<CLI::FormatterBase> help_formatter() {
    return std::make_shared<formatter>();
}

std::string describe_unexpected(const CLI::App &program) {
    const std::vector<std::string> left = program.remaining(true);
    const auto parsed = program.get_subcommands();
    if (parsed.empty() && !left.front().starts_with('-')) {
        const auto names = command_names(program);
        const std::string near = suggestion(left.front(), names);
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
        const std::string near = suggestion(
                each.substr(0, each.find('=')), option_names(command));
        if (!near.empty()) return text + near;
    }
    return text;
}

void add_engine_options(CLI::App &command, engine_options &options) {
    command.add_option("--engine", options.engine,
                   "cpu, gpu or gpu:N (default: what the file says)")
            ->type_name("ENGINE");
    command.add_option("--threads", options.threads,
                   "threads of the CPU engine; the bits of results depend on "
                   "their number (default: OMP_NUM_THREADS, or all processors)")
            ->type_name("N")
            ->check(CLI::Range(1, cpu::most_threads));
    command.add_flag("--nondeterministic", options.nondeterministic,
            "allow kernels whose bits differ from run to run");
}

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
    command.add_option("--seed", options.seed,
                   "seed of the random inputs (default: 0)")
            ->type_name("N");
}

} // namespace gradnn::driver
