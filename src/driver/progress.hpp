// What the program says on stderr of what it does: that long work goes on, and
// which files it wrote. Standard output holds results alone.
#pragma once

#include <chrono>
#include <string>

namespace gradnn::driver {

/// Silent for the first second. Then shows the latest text: on a terminal in
/// place, several times a second; otherwise a line every few seconds.
class progress {
public:
    progress();
    progress(const progress &) = delete;
    progress &operator=(const progress &) = delete;
    /// Clears the line.
    ~progress();

    void show(const std::string &text);

private:
    using clock = std::chrono::steady_clock;

    bool terminal_;
    bool shown_ = false;
    clock::time_point next_;
};

/// "wrote FILE".
void say_written(const std::string &file);

} // namespace gradnn::driver
