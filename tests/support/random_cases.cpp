#include "random_cases.hpp"

#include <algorithm>
#include <iostream>
#include <random>

namespace gradnn::test {

uint64_t printed_seed() {
    static const uint64_t value = [] {
        const uint64_t chosen = test_seed(std::random_device()());
        std::cout << "seed " << chosen << " (GRADNN_TEST_SEED=" << chosen
                  << " repeats it)\n";
        return chosen;
    }();
    return value;
}

namespace {

sizes random_sizes(
        random_source &numbers, size_t rank, int64_t low, int64_t high) {
    sizes result(rank);
    for (int64_t &size : result)
        size = numbers.integer(low, high);
    return result;
}

} // namespace

interpolation_case random_interpolation(random_source &numbers) {
    const auto rank = static_cast<size_t>(numbers.integer(1, 3));
    const int64_t most = rank == 1 ? 60 : rank == 2 ? 17 : 8;
    return {"random", numbers.integer(1, 3), numbers.integer(1, 9),
            random_sizes(numbers, rank, 1, most),
            random_sizes(numbers, rank, 1, 2 * most)};
}

convolution_case random_convolution(random_source &numbers) {
    const auto rank = static_cast<size_t>(numbers.integer(1, 3));
    const int64_t groups = numbers.integer(1, 3);
    convolution_case c {"random", numbers.integer(1, 2), groups,
            groups * numbers.integer(1, 5), groups * numbers.integer(1, 5), {},
            random_sizes(numbers, rank, 1, rank == 3 ? 3 : 5),
            random_sizes(numbers, rank, 1, 4),
            random_sizes(numbers, rank, 1, 3),
            random_sizes(numbers, rank, -2, 4),
            random_sizes(numbers, rank, -2, 4)};
    if (numbers.integer(0, 3) == 0)
        c.auto_pad = numbers.pick(
                std::vector<std::string> {"same_upper", "same_lower", "valid"});
    for (size_t axis = 0; axis < rank; ++axis) {
        const int64_t reach = (c.kernel[axis] - 1) * c.dilations[axis] + 1;
        const int64_t pads = c.auto_pad == "none"
                ? c.pads_begin[axis] + c.pads_end[axis]
                : 0;
        c.large.push_back(std::max<int64_t>(
                1, reach - pads + numbers.integer(0, rank == 3 ? 5 : 12)));
    }
    return c;
}

convolution_case transposable(const convolution_case &c) {
    convolution_case result = c;
    if (c.auto_pad.rfind("same", 0) == 0)
        for (size_t axis = 0; axis < c.large.size(); ++axis)
            result.large[axis] = c.small()[axis] * c.strides[axis];
    return result;
}

} // namespace gradnn::test
