#include "support/plain_convolution.hpp"

#include <cmath>

namespace gradnn::test {

namespace {

template <size_t Rank>
size_t extent(const std::array<int64_t, Rank> &dims,
        const std::array<int64_t, Rank> &strides) {
    int64_t last = 0;
    for (size_t axis = 0; axis < Rank; ++axis)
        last += (dims[axis] - 1) * strides[axis];
    return static_cast<size_t>(last + 1);
}

/// Of the three tensors, in the order of the problem's arguments.
void zero_elements(
        const convolution_problem &p, size_t tensor, memory &values) {
    if (tensor == 1) {
        for_each(p.weights.dims, [&](const auto &i) {
            values[static_cast<size_t>(dot(i, p.weights.strides))] = 0.0;
        });
        return;
    }
    const auto &view = tensor == 0 ? p.src : p.dst;
    for_each(view.dims, [&](const auto &i) {
        values[static_cast<size_t>(dot(i, view.strides))] = 0.0;
    });
}

template <size_t Rank>
std::array<int64_t, Rank> strides_in(const std::array<int64_t, Rank> &dims,
        std::vector<size_t> outer_to_inner, int64_t gap) {
    std::array<int64_t, Rank> strides {};
    int64_t next = 1;
    for (size_t i = outer_to_inner.size(); i-- > 0;) {
        strides[outer_to_inner[i]] = next;
        next *= dims[outer_to_inner[i]] + gap;
    }
    return strides;
}

} // namespace

void copy(const gpu::strided_copy &c, const double *src, double *dst) {
    for_each(c.dims, [&](const std::array<int64_t, 6> &i) {
        dst[dot(i, c.dst_strides)] = src[dot(i, c.src_strides)];
    });
}

void accumulate(
        convolution_direction direction, double &x, double &w, double &y) {
    switch (direction) {
        case convolution_direction::forward: y += x * w; break;
        case convolution_direction::backward_data: x += y * w; break;
        case convolution_direction::backward_weights: w += x * y; break;
    }
}

void by_formula(const convolution_problem &p, size_t output,
        std::array<memory, 3> &data) {
    zero_elements(p, output, data[output]);
    loops all {p.weights.dims[0], p.src.dims, {}, p.dst.dims, p.strides,
            p.dilations, p.pads_begin};
    all.weights = {p.weights.dims[0] * p.weights.dims[1], p.weights.dims[2],
            p.weights.dims[3], p.weights.dims[4], p.weights.dims[5]};
    all.run([&](const auto &x, const auto &w, const auto &y) {
        const std::array<int64_t, 6> grouped {w[0] / p.weights.dims[1],
                w[0] % p.weights.dims[1], w[1], w[2], w[3], w[4]};
        accumulate(p.direction,
                data[0][static_cast<size_t>(dot(x, p.src.strides))],
                data[1][static_cast<size_t>(dot(grouped, p.weights.strides))],
                data[2][static_cast<size_t>(dot(y, p.dst.strides))]);
    });
}

testing::AssertionResult same(const memory &found, const memory &expected) {
    if (found.size() != expected.size())
        return testing::AssertionFailure()
                << found.size() << " elements, not " << expected.size();
    for (size_t i = 0; i < found.size(); ++i)
        if (found[i] != expected[i]
                && !(std::isnan(found[i]) && std::isnan(expected[i]))
                && !(std::abs(found[i] - expected[i]) <= 1e-12))
            return testing::AssertionFailure()
                    << "element " << i << " is " << found[i] << ", not "
                    << expected[i];
    return testing::AssertionSuccess();
}

std::array<int64_t, 5> data_strides(
        const std::array<int64_t, 5> &dims, order o) {
    if (o == order::nxc) return strides_in(dims, {0, 2, 3, 4, 1}, 0);
    return strides_in(dims, {0, 1, 2, 3, 4}, o == order::sliced ? 1 : 0);
}

std::array<int64_t, 6> weights_strides(
        const std::array<int64_t, 6> &dims, int how) {
    if (how == 0) return strides_in(dims, {0, 1, 2, 3, 4, 5}, 0); // OIX
    if (how == 1) return strides_in(dims, {0, 1, 3, 4, 5, 2}, 0); // OXI
    return strides_in(dims, {3, 4, 5, 2, 0, 1}, 0); // XIO
}

void lay_out(convolution_problem &p, random_source &random) {
    const std::vector<order> orders {order::ncx, order::nxc, order::sliced};
    p.src.strides = data_strides(p.src.dims, random.pick(orders));
    p.dst.strides = data_strides(p.dst.dims, random.pick(orders));
    p.weights.strides = weights_strides(
            p.weights.dims, static_cast<int>(random.integer(0, 2)));
}

convolution_problem random_problem(random_source &random) {
    convolution_problem p;
    const int64_t n = random.integer(1, 2);
    const int64_t groups = random.integer(1, 3);
    const int64_t o = random.integer(1, 3);
    const int64_t i = random.integer(1, 3);
    p.src.dims = {n, groups * i, 1, 1, 1};
    p.dst.dims = {n, groups * o, 1, 1, 1};
    p.weights.dims = {groups, o, i, 1, 1, 1};
    const auto rank = static_cast<size_t>(random.integer(1, 3));
    for (size_t axis = 3 - rank; axis < 3; ++axis) {
        p.strides[axis] = random.integer(1, 3);
        p.dilations[axis] = random.integer(1, 2);
        p.pads_begin[axis] = random.integer(-1, 2);
        p.src.dims[2 + axis] = random.integer(1, 6);
        p.dst.dims[2 + axis] = random.integer(1, 5);
        p.weights.dims[3 + axis] = random.integer(1, 3);
    }
    const std::vector<data_type> types {
            data_type::f32, data_type::f64, data_type::bf16};
    const data_type type = random.pick(types);
    p.src.type = p.dst.type = p.weights.type = type;
    const std::vector<convolution_direction> directions {
            convolution_direction::forward,
            convolution_direction::backward_data,
            convolution_direction::backward_weights};
    p.direction = random.pick(directions);
    if (type == data_type::bf16
            && p.direction == convolution_direction::backward_weights
            && random.integer(0, 1) == 1)
        p.weights.type = data_type::f32;
    lay_out(p, random);
    return p;
}

std::array<memory, 3> random_data(
        const convolution_problem &p, size_t output, random_source &random) {
    std::array<memory, 3> data {memory(extent(p.src.dims, p.src.strides)),
            memory(extent(p.weights.dims, p.weights.strides)),
            memory(extent(p.dst.dims, p.dst.strides))};
    for (size_t i = 0; i < 3; ++i)
        for (double &value : data[i])
            value = i == output ? 7.0 : random.value();
    return data;
}

convolution_problem random_with_passed_over(random_source &random) {
    convolution_problem p = random_problem(random);
    for (size_t axis = 0; axis < 3; ++axis) {
        if (random.integer(0, 2) == 0) continue;
        const int64_t stride = random.integer(2, 4);
        const int64_t count = random.integer(2, 4);
        p.weights.dims[3 + axis] = 1;
        p.dst.dims[2 + axis] = count;
        p.src.dims[2 + axis] = (count - 1) * stride + random.integer(1, 3);
        p.strides[axis] = stride;
        p.pads_begin[axis] = 0;
    }
    lay_out(p, random);
    return p;
}

convolution_problem plain_problem(data_type type, order o, int weights) {
    convolution_problem p;
    p.direction = convolution_direction::backward_data;
    p.src = {type, {2, 8, 1, 12, 10}, {}};
    p.dst = {type, {2, 16, 1, 12, 10}, {}};
    p.weights = {type, {1, 16, 8, 1, 3, 3}, {}};
    p.pads_begin = {0, 1, 1};
    p.src.strides = data_strides(p.src.dims, o);
    p.dst.strides = data_strides(p.dst.dims, o);
    p.weights.strides = weights_strides(p.weights.dims, weights);
    return p;
}

} // namespace gradnn::test
