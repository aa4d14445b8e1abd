// What is logged, for tests.
#pragma once

#include <algorithm>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <gradnn/log.hpp>

#include "support/op_samples.hpp"

namespace gradnn::test {

using fields = std::map<std::string, std::string>;

inline std::vector<std::string> split(const std::string &text, char separator) {
    std::vector<std::string> parts;
    std::istringstream in(text + separator);
    for (std::string part; std::getline(in, part, separator);)
        parts.push_back(part);
    return parts;
}

/// Collects what is logged while it lives.
class captured_log {
public:
    explicit captured_log(int level) {
        set_log_callback(&take, this);
        set_verbose(level);
    }
    captured_log(const captured_log &) = delete;
    captured_log &operator=(const captured_log &) = delete;
    ~captured_log() {
        set_verbose(0);
        set_log_callback(nullptr);
    }

    const std::vector<std::string> &raw() const { return lines_; }

    /// The lines after the header, by the header's names.
    std::vector<fields> lines() const {
        std::vector<fields> result;
        if (lines_.empty()) return result;
        const auto names = split(lines_.front(), ',');
        for (size_t index = 1; index < lines_.size(); ++index) {
            const auto values = split(lines_[index], ',');
            EXPECT_EQ(values.size(), names.size()) << lines_[index];
            fields line;
            for (size_t i = 0; i < std::min(values.size(), names.size()); ++i)
                line[names[i]] = values[i];
            result.push_back(line);
        }
        return result;
    }

    std::vector<fields> lines(const std::string &event) const {
        auto result = lines();
        std::erase_if(result, [&](const fields &line) {
            return line.at("event").rfind(event, 0) != 0;
        });
        return result;
    }

private:
    static void take(const char *line, void *context) {
        static_cast<captured_log *>(context)->lines_.emplace_back(line);
    }

    std::vector<std::string> lines_;
};

/// ConvBackward of a shape that no case of the suite has; 11 columns are of one
/// test alone, so that its first compilation is not found in the cache.
inline op named_convolution(const std::string &name, int64_t columns = 13) {
    const samples::sizes dst {1, 6, 7, columns - 2};
    const samples::sizes src {1, 4, 9, columns};
    const samples::sizes weights {6, 4, 3, 3};
    const op plain = samples::convolution(
            {samples::f32(10, dst), samples::f32(11, src),
                    samples::f32(12, weights)},
            {samples::f32(13, src), samples::f32(14, weights),
                    samples::f32(15, {6})});
    op result(plain.get_id(), plain.get_kind(), plain.get_inputs(),
            plain.get_outputs(), name);
    for (const auto &[key, value] : plain.get_attrs())
        std::visit([&, attr = key](const auto &v) { result.set_attr(attr, v); },
                value);
    return result;
}

} // namespace gradnn::test
