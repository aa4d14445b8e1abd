#include "tensors.hpp"

#include <algorithm>
#include <numeric>

namespace gradnn::fuzz {

namespace {

/// Strides that nest in a random order (or in that of the dims), with gaps.
dims nested(
        random_source &numbers, const dims &shape, bool in_order, bool gaps) {
    std::vector<size_t> axes(shape.size());
    std::iota(axes.begin(), axes.end(), size_t {0});
    if (!in_order)
        for (size_t at = axes.size(); at > 1; --at)
            std::swap(axes[at - 1],
                    axes[static_cast<size_t>(
                            numbers.integer(0, static_cast<int64_t>(at) - 1))]);
    dims strides(shape.size());
    int64_t reach = 1;
    for (size_t place = axes.size(); place-- > 0;) {
        const size_t axis = axes[place];
        if (gaps && happens(numbers, 40))
            reach += numbers.integer(1, happens(numbers, 20) ? 40 : 8);
        strides[axis] = reach;
        reach *= std::max<int64_t>(1, shape[axis]);
    }
    return strides;
}

/// Along an axis of size 1 no stride matters.
void disturb_unit_axes(
        random_source &numbers, const dims &shape, dims &strides) {
    for (size_t axis = 0; axis < shape.size(); ++axis)
        if (shape[axis] == 1 && happens(numbers, 30))
            strides[axis] = happens(numbers, 10)
                    ? int64_t {1} << numbers.integer(31, 60)
                    : numbers.integer(0, 100);
}

} // namespace

bool happens(random_source &numbers, int64_t percent) {
    return numbers.integer(0, 99) < percent;
}

int64_t count_of(const dims &shape) {
    int64_t count = 1;
    for (const int64_t dim : shape) {
        if (dim == 0) return 0;
        count = count > (int64_t {1} << 62) / dim ? int64_t {1} << 62
                                                  : count * dim;
    }
    return count;
}

logical_tensor tensor_of(random_source &numbers, size_t id, data_type type,
        const dims &shape, bool output) {
    const int64_t choice = numbers.integer(0, 99);
    if (output && choice < 15) return {id, type, shape, layout_type::any};
    const bool in_order = choice < 55;
    // Gaps multiply; large tensors stay as they are.
    const bool gaps = choice >= 70 && choice < 85
            && count_of(shape) < int64_t {1} << 16;
    dims strides = nested(numbers, shape, in_order || choice >= 80, gaps);
    if (!output && choice >= 85)
        for (size_t axis = 0; axis < shape.size(); ++axis)
            if (happens(numbers, 30)) strides[axis] = 0;
    if (!output && choice >= 97)
        for (int64_t &stride : strides)
            stride = numbers.integer(0, 3); // rows overlap
    if (happens(numbers, 30)) disturb_unit_axes(numbers, shape, strides);
    return {id, type, shape, strides};
}

logical_tensor shape_tensor(random_source &numbers, size_t id, size_t count) {
    return {id, data_type::s32, dims {static_cast<int64_t>(count)},
            dims {happens(numbers, 80) ? 1 : numbers.integer(2, 5)}};
}

} // namespace gradnn::fuzz
