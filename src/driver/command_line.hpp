// Options that several commands have, and what the command line's parser leaves to
// do: how help shows arguments, and what is said of arguments that no command has.
#pragma once

#include <memory>
#include <string>

namespace CLI {
class App;
class FormatterBase;
} // namespace CLI

namespace gradnn::driver {

struct engine_options;
struct session_options;

/// Those of run, check, bench and kernels.
void add_engine_options(CLI::App &command, engine_options &options);
/// Those of run and check.
void add_session_options(CLI::App &command, session_options &options);

/// Shows positional arguments as required unless they have a default. That they
/// are there is checked after the options are parsed, so that an unknown option
/// is reported first; the parser takes them to be optional.
std::shared_ptr<CLI::FormatterBase> help_formatter();

/// One line that names the arguments that the parser left over, in the order
/// in which they were given, and the command or option that is nearest.
std::string describe_unexpected(const CLI::App &program);

} // namespace gradnn::driver
