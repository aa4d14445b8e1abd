// How often what has to be done once was done.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "base/text.hpp"

namespace gradnn::test {

/// A count for each element of a tensor, or for each of other things in five axes.
class tally {
public:
    explicit tally(const std::array<int64_t, 5> &dims) : dims_(dims) {
        int64_t all = 1;
        for (const int64_t dim : dims)
            all *= dim;
        counts_.resize(static_cast<size_t>(all));
    }

    void add(const std::array<int64_t, 5> &at) {
        int64_t place = 0;
        for (size_t axis = 0; axis < 5; ++axis) {
            if (at[axis] < 0 || at[axis] >= dims_[axis]) {
                if (outside_.empty()) outside_ = detail::text_of(at);
                return;
            }
            place = place * dims_[axis] + at[axis];
        }
        ++counts_[static_cast<size_t>(place)];
    }

    testing::AssertionResult all_once() const {
        if (!outside_.empty())
            return testing::AssertionFailure()
                    << outside_ << " is outside " << detail::text_of(dims_);
        for (size_t place = 0; place < counts_.size(); ++place)
            if (counts_[place] != 1)
                return testing::AssertionFailure()
                        << "element " << place << " of "
                        << detail::text_of(dims_) << " is done "
                        << counts_[place] << " times";
        return testing::AssertionSuccess();
    }

private:
    std::array<int64_t, 5> dims_;
    std::vector<int> counts_;
    std::string outside_;
};

/// rest % by, and the rest goes on divided, as kernels take numbers apart.
inline int64_t take(int64_t &rest, int64_t by) {
    const int64_t taken = rest % by;
    rest /= by;
    return taken;
}

} // namespace gradnn::test
