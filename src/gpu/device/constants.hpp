// Numbers that a plan knows as template arguments of the kernels that it launches.
#pragma once

namespace gradnn::gpu {

/// A number that is one of `values`; any other stands for the last of them.
template <int... values>
struct one_of {
    int number;
};

/// Calls body.template operator()<...>() with those of the choices that the numbers
/// are, in order.
template <int... chosen, typename Body>
void with_chosen(const Body &body) {
    body.template operator()<chosen...>();
}
template <int... chosen, typename Body, int value, int... others,
        typename... Choices>
void with_chosen(
        const Body &body, one_of<value, others...> choice, Choices... choices) {
    if constexpr (sizeof...(others) > 0)
        if (choice.number != value)
            return with_chosen<chosen...>(
                    body, one_of<others...> {choice.number}, choices...);
    with_chosen<chosen..., value>(body, choices...);
}

} // namespace gradnn::gpu
