#include "sweep_problem.hpp"

#include <algorithm>
#include <array>
#include <sstream>
#include <stdexcept>
#include <vector>

namespace gradnn::sweep {

namespace {

using detail::convolution_direction;
using detail::convolution_problem;
using detail::data_type;

constexpr std::array directions {"forward", "data", "weights"};
constexpr std::array<std::pair<const char *, data_type>, 4> types {
        {{"f32", data_type::f32}, {"bf16", data_type::bf16},
                {"f16", data_type::f16}, {"f64", data_type::f64}}};

/// Dense; `nxc`: channels contiguous.
void lay_out(detail::tensor_view &tensor, bool nxc) {
    const std::array<size_t, 5> order = nxc
            ? std::array<size_t, 5> {1, 4, 3, 2, 0}
            : std::array<size_t, 5> {4, 3, 2, 1, 0};
    int64_t stride = 1;
    for (const size_t axis : order) {
        tensor.strides[axis] = stride;
        stride *= tensor.dims[axis];
    }
}

void lay_out(detail::weights_view &weights) {
    int64_t stride = 1;
    for (size_t axis = weights.dims.size(); axis-- > 0;) {
        weights.strides[axis] = stride;
        stride *= weights.dims[axis];
    }
}

/// The output has the type `output`, the others `type`.
void finish(
        convolution_problem &p, data_type type, data_type output, bool nxc) {
    p.src.type = p.weights.type = p.dst.type = type;
    (p.direction == convolution_direction::forward ? p.dst.type
                    : p.direction == convolution_direction::backward_data
                    ? p.src.type
                    : p.weights.type)
            = output;
    lay_out(p.src, nxc);
    lay_out(p.dst, nxc);
    lay_out(p.weights);
}

template <typename Dims>
int64_t product(const Dims &dims) {
    int64_t result = 1;
    for (const int64_t dim : dims)
        result *= dim;
    return result;
}

bool is_within(const convolution_problem &p, const limits &most) {
    return product(p.src.dims) <= most.elements
            && product(p.dst.dims) <= most.elements
            && product(p.weights.dims) <= most.elements
            && product(p.dst.dims) * p.weights.dims[2] * p.weights.dims[3]
                    * p.weights.dims[4] * p.weights.dims[5]
            <= most.products;
}

int64_t channels(
        test::random_source &random, bool grouped, const limits &most) {
    static const std::vector<int64_t> few {1, 1, 2, 3, 4, 4, 5, 8, 16};
    return random.pick(
            grouped && random.integer(0, 3) > 0 ? few : most.channels);
}

void random_axis(convolution_problem &p, size_t axis, bool usual, int64_t most,
        test::random_source &random) {
    const int64_t src = random.integer(1, random.integer(1, most));
    int64_t &kernel = p.weights.dims[axis + 3];
    int64_t &stride = p.strides[axis];
    int64_t &dilation = p.dilations[axis];
    int64_t &pad = p.pads_begin[axis];
    kernel = random.integer(1, random.integer(1, 7));
    stride = random.integer(0, 1) != 0 ? 1 : random.integer(1, 7);
    dilation = random.integer(0, 2) != 0 ? 1 : random.integer(1, 4);
    int64_t reach = (kernel - 1) * dilation + 1;
    pad = random.integer(0, 2) == 0 ? random.integer(0, reach + 2)
                                    : random.integer(0, reach / 2);
    int64_t end
            = random.integer(0, 2) == 0 ? random.integer(-3, reach + 2) : pad;
    if (usual) {
        kernel |= 1;
        reach = (kernel - 1) * dilation + 1;
        pad = end = reach / 2;
    }
    p.src.dims[axis + 2] = src;
    p.dst.dims[axis + 2] = src + pad + end < reach
            ? 0
            : (src + pad + end - reach) / stride + 1;
}

} // namespace

const char *name_of(data_type type) {
    for (const auto &[name, value] : types)
        if (value == type) return name;
    throw std::invalid_argument("no name for this type");
}

data_type type_named(const std::string &text) {
    for (const auto &[name, value] : types)
        if (text == name) return value;
    throw std::invalid_argument("unknown type " + text);
}

int direction_named(const std::string &text) {
    const auto *found = std::find(directions.begin(), directions.end(), text);
    if (found == directions.end())
        throw std::invalid_argument("unknown direction " + text);
    return static_cast<int>(found - directions.begin());
}

convolution_problem random_problem(
        test::random_source &random, const choice &from) {
    for (;;) {
        convolution_problem p;
        p.direction = static_cast<convolution_direction>(
                from.direction < 0 ? random.integer(0, 2) : from.direction);
        const int64_t rank = random.integer(1, 3);
        const bool grouped = random.integer(0, 2) == 0 || from.grouped;
        const int64_t groups = grouped
                ? random.pick(std::vector<int64_t> {2, 3, 4, 8, 16, 17, 32, 40})
                : 1;
        const bool depthwise = grouped && random.integer(0, 2) == 0;
        const int64_t inputs
                = depthwise ? 1 : channels(random, grouped, from.most);
        const int64_t outputs = depthwise ? 1
                : random.integer(0, 2) == 0
                ? inputs
                : channels(random, grouped, from.most);
        p.weights.dims = {groups, outputs, inputs, 1, 1, 1};
        p.src.dims = {
                random.integer(1, from.most.images), groups * inputs, 1, 1, 1};
        p.dst.dims = {p.src.dims[0], groups * outputs, 1, 1, 1};
        const bool usual = random.integer(0, 3) == 0;
        for (auto axis = static_cast<size_t>(3 - rank); axis < 3; ++axis)
            random_axis(p, axis, usual,
                    from.most.axis[static_cast<size_t>(rank - 1)], random);
        const data_type type = from.type != data_type::undef
                ? from.type
                : random.pick(from.types);
        const bool wide = type != data_type::f64
                && p.direction == convolution_direction::backward_weights
                && random.integer(0, 2) == 0;
        finish(p, type, wide ? data_type::f32 : type,
                random.integer(0, 1) != 0);
        if (product(p.dst.dims) > 0 && is_within(p, from.most)) return p;
    }
}

std::string to_text(const convolution_problem &p) {
    std::ostringstream text;
    const auto axes = [&](const char *name, const auto &values, size_t first) {
        text << ' ' << name;
        for (size_t axis = 0; axis < 3; ++axis)
            text << (axis > 0 ? "x" : "") << values[first + axis];
    };
    const data_type input = p.direction == convolution_direction::forward
            ? p.src.type
            : p.dst.type;
    const data_type output = p.direction == convolution_direction::forward
            ? p.dst.type
            : p.direction == convolution_direction::backward_data
            ? p.src.type
            : p.weights.type;
    text << directions[static_cast<size_t>(p.direction)] << ' '
         << name_of(input) << ' ' << name_of(output)
         << (p.src.strides[1] == 1 && p.dst.strides[1] == 1 ? " nxc" : " ncx")
         << " g" << p.weights.dims[0] << " n" << p.src.dims[0] << " i"
         << p.src.dims[1] << " o" << p.dst.dims[1];
    axes("src", p.src.dims, 2);
    axes("k", p.weights.dims, 3);
    axes("s", p.strides, 0);
    axes("d", p.dilations, 0);
    axes("p", p.pads_begin, 0);
    axes("dst", p.dst.dims, 2);
    return text.str();
}

convolution_problem from_text(const std::string &text) {
    std::istringstream words(text);
    const auto fail
            = [&] { throw std::invalid_argument("no problem: " + text); };
    const auto next = [&](const std::string &prefix) {
        std::string word;
        if (!(words >> word) || word.rfind(prefix, 0) != 0) fail();
        return word.substr(prefix.size());
    };
    const auto axes
            = [&](const std::string &prefix, int64_t *to, int64_t idle) {
                  std::string word = next(prefix);
                  std::replace(word.begin(), word.end(), 'x', ' ');
                  std::istringstream numbers(word);
                  std::vector<int64_t> values;
                  for (int64_t value = 0; numbers >> value;)
                      values.push_back(value);
                  if (values.empty() || values.size() > 3) fail();
                  values.insert(values.begin(), 3 - values.size(), idle);
                  std::copy(values.begin(), values.end(), to);
              };
    convolution_problem p;
    p.direction = static_cast<convolution_direction>(direction_named(next("")));
    const data_type input = type_named(next(""));
    const data_type output = type_named(next(""));
    const bool nxc = next("") == "nxc";
    const int64_t groups = std::stoll(next("g"));
    const int64_t batch = std::stoll(next("n"));
    const int64_t inputs = std::stoll(next("i"));
    const int64_t outputs = std::stoll(next("o"));
    p.src.dims = {batch, inputs, 1, 1, 1};
    p.dst.dims = {batch, outputs, 1, 1, 1};
    p.weights.dims = {groups, outputs / groups, inputs / groups, 1, 1, 1};
    axes("src", &p.src.dims[2], 1);
    axes("k", &p.weights.dims[3], 1);
    axes("s", p.strides.data(), 1);
    axes("d", p.dilations.data(), 1);
    axes("p", p.pads_begin.data(), 0);
    axes("dst", &p.dst.dims[2], 1);
    finish(p, input, output, nxc);
    return p;
}

} // namespace gradnn::sweep
