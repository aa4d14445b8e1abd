// The program's command line. Its parser's headers take seconds to compile, so
// command_line.cpp alone has them.
#pragma once

#include <string>

namespace gradnn::driver {

/// Says on standard error what is wrong with the command line or the input; the
/// exit status.
int fail(const std::string &what);

/// Parses the command line and does what it says; the exit status. Throws what
/// the commands throw.
int run_command_line(int argc, char **argv);

} // namespace gradnn::driver
