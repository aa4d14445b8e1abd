#include "verbose.hpp"

#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace gradnn::detail {

bool verbose() {
    static const bool on = [] {
        const char *value = std::getenv("GRADNN_VERBOSE");
        const bool wanted
                = value && *value && std::string_view(value) != "0";
        if (wanted)
            std::fputs("gradnn,event,engine,ops,kernels or partition,"
                       "workspace bytes,milliseconds\n",
                    stderr);
        return wanted;
    }();
    return on;
}

void log_line(const std::string &fields) {
    // One call: lines of several threads do not mix.
    std::fputs(("gradnn," + fields + "\n").c_str(), stderr);
}

double milliseconds_since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double, std::milli>(
            std::chrono::steady_clock::now() - start)
            .count();
}

} // namespace gradnn::detail
