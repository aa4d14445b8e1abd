// A line on stderr that shows that long work goes on.
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

} // namespace gradnn::driver
