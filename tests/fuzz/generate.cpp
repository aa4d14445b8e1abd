#include "generate.hpp"

#include <algorithm>
#include <cctype>

#include "support/engines.hpp"

namespace gradnn::fuzz {

namespace {

const std::vector<op::kind> &all_kinds() {
    static const std::vector<op::kind> kinds {op::kind::Add,
            op::kind::BiasAddBackward, op::kind::ConvBackward,
            op::kind::ConvTransposeBackward,
            op::kind::ConvTransposeBackwardData,
            op::kind::ConvTransposeBackwardWeights,
            op::kind::ConvolutionBackwardData,
            op::kind::ConvolutionBackwardWeights, op::kind::InterpolateBackward,
            op::kind::ReLUBackward};
    return kinds;
}

/// The kinds whose names contain `part`, convolutions more often than others.
std::vector<op::kind> kinds_named(const std::string &part) {
    std::vector<op::kind> kinds;
    for (const op::kind kind : all_kinds()) {
        std::string name = to_string(kind);
        for (char &letter : name)
            letter = static_cast<char>(
                    std::tolower(static_cast<unsigned char>(letter)));
        const bool named = part == "convolution"
                ? is_convolution(kind)
                : name.find(part) != std::string::npos;
        if (!named) continue;
        const bool simple = kind == op::kind::Add
                || kind == op::kind::ReLUBackward
                || kind == op::kind::BiasAddBackward;
        kinds.insert(kinds.end(),
                kind == op::kind::InterpolateBackward ? 8
                        : simple                      ? 2
                                                      : 3,
                kind);
    }
    return kinds;
}

/// Many small problems, few large ones.
int64_t work_of(random_source &numbers, double scale) {
    const int64_t choice = numbers.integer(0, 999);
    const int64_t most = choice < 850 ? 300'000
            : choice < 980            ? 3'000'000
            : choice < 998            ? 20'000'000
                                      : 200'000'000;
    return static_cast<int64_t>(static_cast<double>(most) * scale);
}

logical_tensor add_op(graph_builder &graph, op::kind kind,
        const logical_tensor *diff_dst, int64_t work) {
    if (is_convolution(kind))
        return add_convolution(graph, kind, diff_dst, work);
    switch (kind) {
        case op::kind::InterpolateBackward:
            return add_interpolation(graph, diff_dst, work / 8);
        case op::kind::BiasAddBackward:
            add_bias(graph, diff_dst, work / 4);
            return {};
        default: return add_elementwise(graph, kind, diff_dst);
    }
}

/// Ops that take the gradient of the one before.
bool goes_on(op::kind kind) {
    return kind != op::kind::ConvTransposeBackwardWeights
            && kind != op::kind::ConvolutionBackwardWeights;
}

std::string forced_kernel(
        random_source &numbers, op::kind kind, engine::kind engine) {
    const char *problem = is_convolution(kind)      ? "convolution"
            : kind == op::kind::InterpolateBackward ? "interpolation"
            : kind == op::kind::BiasAddBackward     ? "bias"
                                                    : "elementwise";
    const auto names = test::kernel_names(engine, problem);
    return numbers.pick(names);
}

} // namespace

bool is_convolution(op::kind kind) {
    return kind == op::kind::ConvBackward
            || kind == op::kind::ConvolutionBackwardData
            || kind == op::kind::ConvolutionBackwardWeights
            || is_transposed(kind);
}

bool is_transposed(op::kind kind) {
    return kind == op::kind::ConvTransposeBackward
            || kind == op::kind::ConvTransposeBackwardData
            || kind == op::kind::ConvTransposeBackwardWeights;
}

random_source numbers_of(uint64_t seed, uint64_t index) {
    random_source of_seed(seed);
    random_source of_index(index ^ of_seed.bits());
    return random_source(of_index.bits());
}

problem generate(random_source &numbers, const generator_options &options) {
    const int64_t type_choice = numbers.integer(0, 99);
    const data_type type = type_choice < 40 ? data_type::f32
            : type_choice < 62              ? data_type::bf16
            : type_choice < 84              ? data_type::f16
                                            : data_type::f64;
    graph_builder graph(numbers, type);
    if (happens(numbers, 50)) graph.set_data_format("NCX");
    const std::vector<op::kind> kinds = kinds_named(options.ops);
    const op::kind first = numbers.pick(kinds);
    const int64_t work = work_of(numbers, options.scale);
    logical_tensor gradient;
    const bool upsampled = options.ops.empty() && happens(numbers, 4);
    if (upsampled)
        add_upsampled_convolution(graph);
    else
        gradient = add_op(graph, first, nullptr, work);
    if (!upsampled && happens(numbers, 12)) {
        for (int64_t more = numbers.integer(1, 5);
                more > 0 && !gradient.is_absent(); --more) {
            const op::kind next = numbers.pick(kinds);
            const dims shape = gradient.get_dims();
            const bool plain
                    = next == op::kind::Add || next == op::kind::ReLUBackward;
            const bool fits = plain
                    || (shape.size() >= 3 && shape.size() <= 5
                            && count_of(shape) > 0);
            if (!goes_on(next) || !fits) continue;
            const logical_tensor after = add_op(graph, next, &gradient, work);
            if (!after.is_absent()) gradient = after;
        }
    }

    problem &made = graph.result;
    made.deterministic = !happens(numbers, 10);
    if (happens(numbers, 8))
        made.fpmath = static_cast<fpmath_mode>(numbers.integer(1, 4));
    if (upsampled)
        made.kernel = happens(numbers, 80) ? "partition.composed" : "";
    else if (happens(numbers, 35))
        made.kernel = forced_kernel(numbers, first, options.device);
    const int64_t values = numbers.integer(0, 99);
    made.values = values < 55 ? values_kind::mostly_positive
            : values < 75     ? values_kind::of_either_sign
            : values < 87     ? values_kind::equal
            : values < 95     ? values_kind::sparse
                              : values_kind::wide;
    // Not where padding may be multiplied, which doc/numerics.md allows.
    if (made.ops.size() == 1 && !is_convolution(first) && happens(numbers, 5))
        made.values = values_kind::special;
    made.values_seed = numbers.bits();
    if (happens(numbers, 25)) made.misalignment = numbers.integer(1, 17);
    return made;
}

// graph_builder

data_type graph_builder::gradient_type() {
    const bool small = type_ == data_type::bf16 || type_ == data_type::f16;
    return small && happens(numbers_, 40) ? data_type::f32 : type_;
}

logical_tensor graph_builder::input(const dims &shape) {
    return tensor_of(numbers_, next_tensor_++, type_, shape, false);
}

logical_tensor graph_builder::output(const dims &shape) {
    return output(shape, type_);
}

logical_tensor graph_builder::output(const dims &shape, data_type type) {
    return tensor_of(numbers_, next_tensor_++, type, shape, true);
}

logical_tensor graph_builder::shape_input(size_t count) {
    return shape_tensor(numbers_, next_tensor_++, count);
}

op &graph_builder::add(op::kind kind, const std::vector<logical_tensor> &inputs,
        const std::vector<logical_tensor> &outputs) {
    const size_t id = result.ops.size();
    result.ops.emplace_back(
            id, kind, inputs, outputs, "op" + std::to_string(id));
    return result.ops.back();
}

dims graph_builder::data_dims(int64_t n, int64_t c, const dims &space) const {
    dims shape = space;
    shape.insert(data_format_ == "NCX" ? shape.begin() : shape.end(), c);
    shape.insert(shape.begin(), n);
    return shape;
}

int64_t graph_builder::channels(const dims &shape) const {
    return data_format_ == "NCX" ? shape[1] : shape.back();
}

dims graph_builder::space(const dims &shape) const {
    const bool channels_second = data_format_ == "NCX";
    return {shape.begin() + (channels_second ? 2 : 1),
            shape.end() - (channels_second ? 0 : 1)};
}

} // namespace gradnn::fuzz
