#include "progress.hpp"

#include <iostream>

#include <unistd.h>

namespace gradnn::driver {

namespace {
constexpr const char *clear_line = "\r\x1b[K";
}

progress::progress()
    : terminal_(isatty(STDERR_FILENO) != 0),
      next_(clock::now() + std::chrono::seconds(1)) {}

progress::~progress() {
    if (terminal_ && shown_) std::cerr << clear_line << std::flush;
}

void progress::show(const std::string &text) {
    if (clock::now() < next_) return;
    next_ = clock::now() + std::chrono::milliseconds(terminal_ ? 200 : 3000);
    shown_ = true;
    if (terminal_)
        std::cerr << clear_line << text << std::flush;
    else
        std::cerr << text << std::endl;
}

void say_written(const std::string &file) {
    std::cerr << "wrote " << file << '\n';
}

} // namespace gradnn::driver
