#include "expect_error.hpp"

#include <gtest/gtest.h>

namespace gradnn::test {

void expect_error(const error_row &row) {
    try {
        row.action();
        ADD_FAILURE() << row.name << ": nothing was thrown";
    } catch (const error &failure) {
        const std::string message = failure.what();
        EXPECT_EQ(failure.status, row.expected)
                << to_string(failure.status) << ": " << message;
        for (const std::string &word : row.words)
            EXPECT_NE(message.find(word), std::string::npos)
                    << "\"" << word << "\" is not in: " << message;
        EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    } catch (const std::exception &other) {
        ADD_FAILURE() << row.name << ": threw something else: " << other.what();
    }
}

} // namespace gradnn::test
