// The one exception for files that cannot be used.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>

namespace gradnn::detail {

/// Something is wrong with a file that the user named. what() is one line:
/// "FILE: PLACE: what was given and what is allowed"; the place (a JSON path)
/// may be missing.
class input_error : public std::runtime_error {
public:
    input_error(const std::string &file, const std::string &place,
            const std::string &text)
        : std::runtime_error(
                file + ": " + (place.empty() ? "" : place + ": ") + text) {}
    input_error(const std::string &file, const std::string &text)
        : input_error(file, "", text) {}
};

/// Text from a file, fit for one line of a message: control characters are
/// replaced, and what is long is cut.
inline std::string one_line(std::string_view text, size_t limit = 80) {
    std::string line;
    for (const char letter : text.substr(0, limit))
        line += static_cast<unsigned char>(letter) < 0x20 || letter == 0x7f
                ? '?'
                : letter;
    return text.size() > limit ? line + "..." : line;
}

} // namespace gradnn::detail
