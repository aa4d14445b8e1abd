// The log behind gradnn/log.hpp: its level and the writing of lines.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

namespace gradnn::detail {

/// Levels, by what they add.
constexpr int log_events = 1;
constexpr int log_choices = 2;
constexpr int log_step_times = 3;

/// Negative until the environment has been read.
extern std::atomic<int> stored_log_level;
int log_level_of_environment();

/// The level now. One relaxed load once the environment has been read.
inline int log_level() {
    const int level = stored_log_level.load(std::memory_order_relaxed);
    return level >= 0 ? level : log_level_of_environment();
}

/// The fields of a line, in their order, after the first one ("gradnn"). A
/// field that an event does not have is empty. doc/logging.md explains them.
struct log_line {
    std::string event = {};
    std::string engine = {};
    std::string partition = {};
    std::string compiled = {};
    std::string ops = {};
    std::string steps = {};
    std::string inputs = {};
    std::string outputs = {};
    std::string workspace_bytes = {};
    std::string moved_bytes = {};
    std::string milliseconds = {};
    std::string note = {}; ///< free text
    std::string inner = {};
};

/// Whether this thread is inside the callback: what it waits for must not log.
bool in_log_callback();
/// Writes a line in one piece, whatever the level: callers ask it first.
void write_log(const log_line &line);
/// The same where the level has events.
inline void log_event(const log_line &line) {
    if (log_level() >= log_events) write_log(line);
}

/// A name that fits into a list of names: '%', ',', ':', spaces and control
/// characters are written as %XX.
std::string escaped_name(std::string_view name);

/// Milliseconds as a line has them, and since a point in time.
std::string log_milliseconds(double milliseconds);
double milliseconds_since(std::chrono::steady_clock::time_point start);

} // namespace gradnn::detail
