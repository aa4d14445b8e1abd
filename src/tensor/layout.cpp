#include "tensor/layout.hpp"

#include <algorithm>
#include <numeric>

#include "kernel/engine_impl.hpp"
#include "kernel/problem.hpp"

namespace gradnn::detail {

using dims = logical_tensor::dims;

namespace {

bool multiply(int64_t a, int64_t b, int64_t &product) {
    return !__builtin_mul_overflow(a, b, &product);
}

bool add(int64_t a, int64_t b, int64_t &sum) {
    return !__builtin_add_overflow(a, b, &sum);
}

} // namespace

dims dense_strides(const dims &shape) {
    dims strides(shape.size());
    int64_t stride = 1;
    for (size_t axis = shape.size(); axis-- > 0;) {
        strides[axis] = stride;
        // A 0 dim must not turn the strides of the others into 0.
        const bool known = stride != logical_tensor::unknown_dim
                && shape[axis] != logical_tensor::unknown_dim;
        if (!known
                || !multiply(stride, std::max<int64_t>(shape[axis], 1), stride))
            stride = logical_tensor::unknown_dim;
    }
    return strides;
}

bool rank_known(const logical_tensor &lt) {
    return access::ndims(lt) >= 0;
}

std::span<const int64_t> dims_of(const logical_tensor &lt) {
    return std::span(access::dims(lt))
            .first(static_cast<size_t>(access::ndims(lt)));
}

std::span<const int64_t> strides_of(const logical_tensor &lt) {
    return std::span(access::strides(lt))
            .first(static_cast<size_t>(access::ndims(lt)));
}

bool same_dims(const logical_tensor &a, const logical_tensor &b) {
    return std::ranges::equal(dims_of(a), dims_of(b));
}

bool dims_known(const logical_tensor &lt) {
    if (lt.is_absent() || !rank_known(lt)) return false;
    const auto shape = dims_of(lt);
    return std::find(shape.begin(), shape.end(), logical_tensor::unknown_dim)
            == shape.end();
}

std::optional<int64_t> element_count(const dims &shape) {
    if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
    int64_t count = 1;
    for (const int64_t dim : shape)
        if (!multiply(count, dim, count)) return std::nullopt;
    return count;
}

std::optional<int64_t> extent_bytes(logical_tensor::data_type type,
        const dims &shape, const dims &strides) {
    if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
    if (!element_count(shape)) return std::nullopt;
    int64_t last = 0;
    for (size_t axis = 0; axis < shape.size(); ++axis) {
        int64_t reach = 0;
        if (!multiply(shape[axis] - 1, strides[axis], reach)
                || !add(last, reach, last))
            return std::nullopt;
    }
    int64_t bytes = 0;
    if (!add(last, 1, last) || !multiply(last, size_of(type), bytes))
        return std::nullopt;
    const bool two_in_a_byte = type == logical_tensor::data_type::s4
            || type == logical_tensor::data_type::u4;
    return two_in_a_byte ? bytes / 2 + bytes % 2 : bytes;
}

bool elements_overlap(const dims &shape, const dims &strides) {
    std::vector<size_t> axes;
    for (size_t axis = 0; axis < shape.size(); ++axis) {
        if (shape[axis] == 0) return false;
        if (shape[axis] > 1) axes.push_back(axis);
    }
    std::sort(axes.begin(), axes.end(),
            [&](size_t a, size_t b) { return strides[a] < strides[b]; });
    // Each axis steps over all that the smaller ones reach: no overlap.
    int64_t reach = 0;
    bool nested = true;
    for (const size_t axis : axes) {
        if (strides[axis] == 0) return true;
        if (strides[axis] <= reach) nested = false;
        reach += (shape[axis] - 1) * strides[axis];
    }
    if (nested) return false;
    const auto count = element_count(shape);
    constexpr int64_t enumerable = int64_t {1} << 20;
    if (!count || *count > enumerable) return true;
    std::vector<int64_t> offsets {0};
    for (const size_t axis : axes) {
        const size_t known = offsets.size();
        for (int64_t step = 1; step < shape[axis]; ++step)
            for (size_t index = 0; index < known; ++index)
                offsets.push_back(offsets[index] + step * strides[axis]);
    }
    std::sort(offsets.begin(), offsets.end());
    return std::adjacent_find(offsets.begin(), offsets.end()) != offsets.end();
}

dims strides_like(const dims &shape, const dims &like) {
    std::vector<size_t> outer_first(shape.size());
    std::iota(outer_first.begin(), outer_first.end(), size_t {0});
    std::stable_sort(outer_first.begin(), outer_first.end(),
            [&](size_t a, size_t b) { return like[a] > like[b]; });
    dims ordered(shape.size());
    for (size_t place = 0; place < shape.size(); ++place)
        ordered[place] = shape[outer_first[place]];
    const dims dense = dense_strides(ordered);
    dims strides(shape.size());
    for (size_t place = 0; place < shape.size(); ++place)
        strides[outer_first[place]] = dense[place];
    return strides;
}

} // namespace gradnn::detail
