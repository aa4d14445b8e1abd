// Numbers that a plan knows as template arguments of the kernels that it launches.
#pragma once

namespace gradnn::gpu {

/// A number that is one of `values`; any other stands for the last of them.
template <int... values>
struct one_of {
    int number;
};

/// What body.template operator()<...>() returns, called with those of the choices that
/// the numbers are, in order.
template <int... chosen, typename Body>
auto with_chosen(const Body &body) {
    return body.template operator()<chosen...>();
}
template <int... chosen, typename Body, int value, int... others,
        typename... Choices>
auto with_chosen(
        const Body &body, one_of<value, others...> choice, Choices... choices) {
    if constexpr (sizeof...(others) > 0)
        if (choice.number != value)
            return with_chosen<chosen...>(
                    body, one_of<others...> {choice.number}, choices...);
    return with_chosen<chosen..., value>(body, choices...);
}

} // namespace gradnn::gpu
