// Whole numbers divided and rounded.
#pragma once

#include <cstdint>

namespace gradnn::detail {

/// a / b, rounded up; b is positive.
constexpr int64_t ceil_divide(int64_t a, int64_t b) {
    return a / b + (a % b > 0 ? 1 : 0);
}

/// The multiple of `multiple` that is not below `value`, which is not negative.
constexpr int64_t round_up(int64_t value, int64_t multiple) {
    return ceil_divide(value, multiple) * multiple;
}

} // namespace gradnn::detail
