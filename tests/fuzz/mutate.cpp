#include "mutate.hpp"

#include <algorithm>
#include <cctype>

#include "tensors.hpp"

namespace gradnn::fuzz {

namespace {

size_t place_in(random_source &numbers, const std::string &text) {
    return static_cast<size_t>(
            numbers.integer(0, static_cast<int64_t>(text.size())));
}

const std::vector<std::string> &awkward_words() {
    static const std::vector<std::string> words {"-1", "0", "1e400", "1e-400",
            "2147483648", "4294967296", "9223372036854775807",
            "9223372036854775808", "-9223372036854775808",
            "18446744073709551615", "1.5", "null", "true", "\"\"", "[]", "{}",
            "NaN", "[[[[[[[[", "\"\\ud800\"", "\xff\xfe", "1099511627777"};
    return words;
}

/// Some number of the text, or nothing.
void replace_number(random_source &numbers, std::string &text) {
    const auto is_digit = [&](size_t at) {
        return at < text.size()
                && std::isdigit(static_cast<unsigned char>(text[at]));
    };
    size_t at = place_in(numbers, text);
    while (at < text.size() && !is_digit(at))
        ++at;
    size_t end = at;
    while (is_digit(end))
        ++end;
    if (at < end) text.replace(at, end - at, numbers.pick(awkward_words()));
}

} // namespace

std::string broken_text(random_source &numbers, std::string text) {
    for (int64_t more = numbers.integer(1, 4); more > 0; --more) {
        const size_t at = place_in(numbers, text);
        const auto length = static_cast<size_t>(
                numbers.integer(1, happens(numbers, 20) ? 200 : 4));
        switch (numbers.integer(0, 6)) {
            case 0:
                if (at < text.size())
                    text[at] = static_cast<char>(numbers.integer(0, 255));
                break;
            case 1: text.erase(std::min(at, text.size()), length); break;
            case 2: text.insert(at, text.substr(at, length)); break;
            case 3:
                if (happens(numbers, 30)) text.resize(at);
                break;
            case 4: text.insert(at, numbers.pick(awkward_words())); break;
            default: replace_number(numbers, text);
        }
    }
    return text;
}

} // namespace gradnn::fuzz
