// The gradnn program: runs, checks and times graphs in oneDNN Graph's JSON
// format. Exit status 0; 1 where a check failed; 2 for bad usage or bad input,
// with one line on stderr.
#include <exception>
#include <new>

#include "command_line.hpp"

int main(int argc, char **argv) {
    using gradnn::driver::fail;
    try {
        return gradnn::driver::run_command_line(argc, argv);
    } catch (const std::bad_alloc &) {
        return fail("there is not enough memory");
    } catch (const std::exception &error) {
        return fail(error.what());
    }
}
