// Ops of single elements around the problem of a kernel.
#pragma once

#include <vector>

#include "emulated/typed.hpp"
#include "kernel/problem.hpp"
#include "support/random.hpp"

namespace gradnn::test {

/// Behind it, now and then.
inline std::vector<detail::elementwise_kind> random_epilogue(
        random_source &random) {
    using enum detail::elementwise_kind;
    using ops = std::vector<detail::elementwise_kind>;
    return random.pick(std::vector<ops> {{}, {}, {add}, {relu_backward},
            {add, relu_backward}, {relu_backward, add}, {add, add}});
}

/// What an op alone makes of two elements.
inline double computed_alone(detail::elementwise_kind op, double value,
        double other, detail::data_type type) {
    if (op == detail::elementwise_kind::relu_backward)
        return other > 0 ? value : 0;
    if (type == detail::data_type::f64) return value + other;
    return typed::rounded(
            static_cast<float>(value) + static_cast<float>(other), type);
}

} // namespace gradnn::test
