#include "jax/program.hpp"

#include <algorithm>
#include <charconv>
#include <functional>
#include <memory>
#include <shared_mutex>
#include <unordered_map>
#include <utility>

namespace gradnn::jax {

namespace {

[[noreturn]] void refuse(std::string message) {
    throw failure {gradnn_invalid_arguments, "gradnn.jax: " + message};
}

void check(gradnn_status status) {
    if (status != gradnn_success) throw failure {status, gradnn_last_error()};
}

/// Calls body(part) for each part of a list.
template <typename Body>
void for_each_part(std::string_view list, char separator, const Body &body) {
    while (true) {
        const size_t end = list.find(separator);
        body(list.substr(0, end));
        if (end == std::string_view::npos) return;
        list.remove_prefix(end + 1);
    }
}

template <typename Number>
Number number_of(std::string_view text) {
    Number result {};
    const auto [end, error]
            = std::from_chars(text.data(), text.data() + text.size(), result);
    if (error != std::errc() || end != text.data() + text.size())
        refuse("\"" + std::string(text) + "\" is no number");
    return result;
}

template <typename Number>
std::vector<Number> numbers_of(std::string_view list, char separator) {
    std::vector<Number> result;
    for_each_part(list, separator, [&](std::string_view part) {
        result.push_back(number_of<Number>(part));
    });
    return result;
}

} // namespace

std::vector<gradnn_step> compiled_op::steps() const {
    std::vector<gradnn_step> result(gradnn_compiled_step_count(handle_));
    for (size_t index = 0; index < result.size(); ++index)
        check(gradnn_compiled_step(handle_, index, &result[index]));
    return result;
}

program::program(std::string_view text) {
    for_each_part(text, ' ', [&](std::string_view field) {
        if (op_kind_.empty())
            op_kind_ = field;
        else if (field.starts_with("in="))
            inputs_ = read_ports(field.substr(3));
        else if (field.starts_with("out="))
            outputs_ = read_ports(field.substr(4));
        else if (field.starts_with("fpmath="))
            fpmath_ = number_of<int32_t>(field.substr(7));
        else
            read_attribute(field);
    });
    for (const auto *list : {&inputs_, &outputs_})
        for (const port &each : *list)
            if (each.from == port::kind::result)
                result_count_ = std::max(result_count_, each.index + 1);
}

void program::read_attribute(std::string_view field) {
    const size_t colon = field.find(':');
    if (colon == std::string_view::npos || field.size() < colon + 3
            || field[colon + 2] != '=')
        refuse("\"" + std::string(field) + "\" is no attribute");
    attribute made;
    made.name = field.substr(0, colon);
    const std::string_view value = field.substr(colon + 3);
    switch (field[colon + 1]) {
        case 's':
            made.type = gradnn_attr_string;
            made.text = value;
            break;
        case 'b':
            made.type = gradnn_attr_bool;
            made.word = number_of<int32_t>(value);
            break;
        case 'f':
            made.type = gradnn_attr_f32;
            made.word = number_of<int32_t>(value);
            break;
        case 'i':
            made.type = gradnn_attr_s64;
            made.numbers = {number_of<int64_t>(value)};
            break;
        case 'I':
            made.type = gradnn_attr_s64_list;
            made.numbers = numbers_of<int64_t>(value, ',');
            break;
        case 'D':
            made.type = gradnn_attr_f64_list;
            made.numbers = numbers_of<int64_t>(value, ',');
            break;
        default: refuse("\"" + std::string(field) + "\" has an unknown type");
    }
    attributes_.push_back(std::move(made));
}

std::vector<program::port> program::read_ports(std::string_view list) {
    std::vector<port> result;
    for_each_part(list, ';', [&](std::string_view text) {
        port made;
        if (text != "-") {
            const size_t colon = text.find(':');
            if (text.empty() || (text[0] != 'a' && text[0] != 'r'))
                refuse("\"" + std::string(text) + "\" is no port");
            made.from = text[0] == 'a' ? port::kind::argument
                                       : port::kind::result;
            made.index = number_of<size_t>(text.substr(0, colon).substr(1));
            if (colon != std::string_view::npos)
                made.order = numbers_of<size_t>(text.substr(colon + 1), '.');
        }
        result.push_back(std::move(made));
    });
    return result;
}

const buffer *program::find(const port &which, const call &given) {
    if (which.from == port::kind::absent) return nullptr;
    const auto list = which.from == port::kind::argument ? given.arguments
                                                         : given.results;
    if (which.index >= list.size())
        refuse("the call has " + std::to_string(list.size())
                + (which.from == port::kind::argument ? " arguments"
                                                      : " results")
                + "; its text names number " + std::to_string(which.index));
    return &list[which.index];
}

gradnn_tensor program::describe(const port &which, const call &given) {
    gradnn_tensor result {};
    const buffer *from = find(which, given);
    if (!from) return result;
    const size_t rank = from->dims.size();
    if (rank > GRADNN_MAX_NDIMS
            || (!which.order.empty() && which.order.size() != rank))
        refuse("a buffer of " + std::to_string(rank) + " axes; its text names "
                + std::to_string(which.order.size()));
    int64_t strides[GRADNN_MAX_NDIMS];
    int64_t stride = 1;
    for (size_t axis = rank; axis-- > 0;) {
        strides[axis] = stride;
        stride *= from->dims[axis];
    }
    result.data_type = from->type;
    result.layout = gradnn_layout_strided;
    result.ndims = static_cast<int32_t>(rank);
    for (size_t axis = 0; axis < rank; ++axis) {
        const size_t place = which.order.empty() ? axis : which.order[axis];
        if (place >= rank) refuse("an axis beyond the buffer's");
        result.dims[axis] = from->dims[place];
        result.strides[axis] = strides[place];
    }
    return result;
}

gradnn_op *program::op_for(int threads) {
    const std::lock_guard lock(mutex_);
    gradnn_op *&op = ops_[threads];
    if (op) return op;
    std::vector<gradnn_attr> attrs;
    for (const attribute &each : attributes_) {
        const void *value = each.numbers.data();
        size_t count = each.numbers.size();
        if (each.type == gradnn_attr_string) {
            value = each.text.c_str();
            count = 1;
        } else if (each.type == gradnn_attr_bool
                || each.type == gradnn_attr_f32) {
            value = &each.word;
            count = 1;
        }
        attrs.push_back({each.name.c_str(), each.type, 0, count, value});
    }
    gradnn_settings settings;
    gradnn_settings_init(&settings);
    settings.fpmath = fpmath_;
    settings.threads = threads;
    check(gradnn_op_create(
            op_kind_.c_str(), attrs.data(), attrs.size(), &settings, &op));
    return op;
}

compiled_op program::compile(
        const gradnn_engine *engine, int threads, const call &given) {
    std::vector<gradnn_tensor> inputs;
    std::vector<gradnn_tensor> outputs;
    for (const port &each : inputs_)
        inputs.push_back(describe(each, given));
    for (const port &each : outputs_)
        outputs.push_back(describe(each, given));
    gradnn_compiled *compiled = nullptr;
    check(gradnn_compile(op_for(threads), engine, inputs.data(), inputs.size(),
            outputs.data(), outputs.size(), &compiled));
    return compiled_op(compiled);
}

void program::execute(const compiled_op &compiled, void *stream,
        const call &given, void *workspace) const {
    std::vector<const void *> inputs;
    std::vector<void *> outputs;
    for (const port &each : inputs_)
        inputs.push_back(each.from == port::kind::argument
                        ? find(each, given)->data
                        : nullptr);
    for (const port &each : outputs_) {
        const buffer *to = find(each, given);
        outputs.push_back(to ? to->data : nullptr);
    }
    check(gradnn_execute(compiled.get(), stream, inputs.data(), inputs.size(),
            outputs.data(), outputs.size(), workspace));
}

program &program_of(std::string_view text) {
    struct hash {
        using is_transparent = void;
        size_t operator()(std::string_view key) const {
            return std::hash<std::string_view>()(key);
        }
    };
    // Never freed: calls may still run when the process ends.
    static auto &mutex = *new std::shared_mutex;
    static auto &programs = *new std::unordered_map<std::string,
            std::unique_ptr<program>, hash, std::equal_to<>>;
    {
        const std::shared_lock lock(mutex);
        const auto found = programs.find(text);
        if (found != programs.end()) return *found->second;
    }
    auto made = std::make_unique<program>(text);
    const std::unique_lock lock(mutex);
    return *programs.try_emplace(std::string(text), std::move(made))
                    .first->second;
}

const gradnn_engine *engine_of(gradnn_engine_kind kind, size_t index) {
    static auto &mutex = *new std::mutex;
    static auto &engines
            = *new std::map<std::pair<int, size_t>, gradnn_engine *>;
    const std::lock_guard lock(mutex);
    gradnn_engine *&engine = engines[{kind, index}];
    if (!engine) check(gradnn_engine_create(kind, index, &engine));
    return engine;
}

} // namespace gradnn::jax
