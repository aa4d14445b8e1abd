#include "base/log.hpp"

#include <array>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <mutex>

#include <gradnn/log.hpp>

#include "base/text.hpp"

namespace gradnn {

namespace detail {

std::atomic<int> stored_log_level {-1};

namespace {

constexpr const char *header
        = "gradnn,event,engine,partition,compiled,ops,steps,inputs,outputs,"
          "workspace_bytes,moved_bytes,milliseconds,note,inner";

/// Where lines go. A null callback stands for stderr.
struct log_sink {
    std::mutex mutex;
    log_callback callback = nullptr;
    void *context = nullptr;
    bool has_header = false;
};

/// Never destroyed: other static objects may log while the process ends.
log_sink &sink() {
    static log_sink &the_sink = *new log_sink;
    return the_sink;
}

/// Whether this thread is inside the callback, and so holds the mutex.
thread_local bool in_callback = false;

/// To be called with the mutex held.
void send(const log_sink &to, const std::string &line) {
    if (!to.callback) {
        // One call: lines of several processes do not mix.
        std::fputs((line + "\n").c_str(), stderr);
        return;
    }
    in_callback = true;
    try {
        to.callback(line.c_str(), to.context);
    } catch (...) {
        // What was logged has been done all the same.
    }
    in_callback = false;
}

/// The note is for people: its commas become semicolons.
std::string note_text(const std::string &note) {
    std::string result;
    for (const char letter : note) {
        const bool control
                = static_cast<unsigned char>(letter) < 0x20 || letter == 0x7f;
        result += letter == ',' ? ';' : control ? ' ' : letter;
    }
    return result;
}

} // namespace

int log_level_of_environment() {
    const char *value = std::getenv("GRADNN_VERBOSE");
    int level = 0;
    if (value && *value) {
        char *end = nullptr;
        const long number = std::strtol(value, &end, 10);
        // What is no number asks for a log and not for how much of one.
        level = *end != '\0'               ? log_events
                : number < 0               ? 0
                : number <= log_step_times ? static_cast<int>(number)
                                           : log_step_times;
    }
    int unread = -1;
    // set_verbose may have come first.
    return stored_log_level.compare_exchange_strong(unread, level) ? level
                                                                   : unread;
}

bool in_log_callback() {
    return in_callback;
}

void write_log(const log_line &line) {
    if (in_callback) return;
    const std::string fields = text("gradnn,", line.event, ',', line.engine,
            ',', line.partition, ',', line.compiled, ',', line.ops, ',',
            line.steps, ',', line.inputs, ',', line.outputs, ',',
            line.workspace_bytes, ',', line.moved_bytes, ',', line.milliseconds,
            ',', note_text(line.note), ',', line.inner);
    log_sink &to = sink();
    const std::lock_guard one_at_a_time(to.mutex);
    if (!to.has_header) {
        to.has_header = true;
        send(to, header);
    }
    send(to, fields);
}

std::string escaped_name(std::string_view name) {
    constexpr const char *digits = "0123456789ABCDEF";
    std::string result;
    for (const char letter : name) {
        const auto code = static_cast<unsigned char>(letter);
        if (code <= ' ' || code == 0x7f || letter == '%' || letter == ','
                || letter == ':') {
            result += '%';
            result += digits[code / 16];
            result += digits[code % 16];
        } else {
            result += letter;
        }
    }
    return result;
}

std::string log_milliseconds(double milliseconds) {
    std::array<char, 400> digits; // a double has at most 309 before its point
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(),
            milliseconds, std::chars_format::fixed, 6);
    return {digits.data(), end.ptr};
}

double milliseconds_since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double, std::milli>(
            std::chrono::steady_clock::now() - start)
            .count();
}

} // namespace detail

void set_verbose(int level) {
    if (level < 0 || level > detail::log_step_times)
        throw error(status::invalid_arguments,
                detail::text("set_verbose: given ", level, "; 0 to ",
                        detail::log_step_times, " are allowed"));
    detail::stored_log_level.store(level, std::memory_order_relaxed);
}

int get_verbose() {
    return detail::log_level();
}

void set_log_callback(log_callback callback, void *context) {
    detail::log_sink &to = detail::sink();
    std::unique_lock lock(to.mutex, std::defer_lock);
    if (!detail::in_callback) lock.lock();
    to.callback = callback;
    to.context = context;
    to.has_header = false;
}

} // namespace gradnn
