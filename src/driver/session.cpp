#include "session.hpp"

#include <charconv>
#include <cmath>
#include <limits>
#include <set>

#include "base/atomic_file.hpp"
#include "base/input_error.hpp"
#include "base/text.hpp"
#include "commands.hpp"
#include "device_clock.hpp"
#include "files/npy.hpp"
#include "files/tensor_data.hpp"
#include "picture.hpp"
#include "progress.hpp"

namespace gradnn::driver {

using detail::input_error;
using detail::text;
using detail::text_of;

namespace {

using data_type = logical_tensor::data_type;

const std::string &required(const std::string &value, const char *name) {
    if (value.empty()) throw usage_error(std::string(name) + " is missing");
    return value;
}

/// s32 tensors take integers alone; float ones round.
void check_integers(
        const std::vector<double> &values, const std::string &file) {
    for (const double value : values)
        if (value != std::trunc(value)
                || std::abs(value) > std::numeric_limits<int32_t>::max())
            throw input_error(file,
                    text("holds ", value,
                            "; the tensor is s32: integers of 32 "
                            "bits are allowed"));
}

std::set<size_t> ids_of(
        std::initializer_list<const std::vector<file_option> *> lists) {
    std::set<size_t> ids;
    for (const auto *list : lists)
        for (const file_option &each : *list)
            ids.insert(each.id);
    return ids;
}

} // namespace

std::vector<file_option> parse_file_options(
        const std::string &option, const std::vector<std::string> &values) {
    std::vector<file_option> result;
    std::set<size_t> ids;
    std::set<std::string> files;
    const char *const ending = option == "--image" ? ".png" : ".npy";
    for (const std::string &value : values) {
        const size_t equals = std::min(value.find('='), value.size());
        file_option parsed;
        const auto [stop, failure] = std::from_chars(
                value.data(), value.data() + equals, parsed.id);
        if (failure != std::errc() || stop != value.data() + equals
                || equals + 1 >= value.size())
            throw usage_error(option + ": given \"" + value
                    + "\", expected ID=FILE" + ending
                    + " with the id of a tensor");
        parsed.file = value.substr(equals + 1);
        if (!ids.insert(parsed.id).second)
            throw usage_error(
                    text(option, ": tensor ", parsed.id, " is given twice"));
        if ((option == "--output" || option == "--image")
                && !files.insert(parsed.file).second)
            throw usage_error(
                    option + ": file " + parsed.file + " is given twice");
        result.push_back(std::move(parsed));
    }
    return result;
}

session::session(const session_options &options,
        const std::vector<file_option> &expected,
        const memory_estimate &extra_bytes)
    : inputs_(parse_file_options("--input", options.inputs)),
      outputs_(parse_file_options("--output", options.outputs)),
      images_(parse_file_options("--image", options.images)),
      graph_(load_graph(required(options.graph, "GRAPH.json"), options.engine,
              ids_of({&outputs_, &images_, &expected}))),
      seed_(options.seed),
      stream_(graph_.device) {
    check_options();
    // Files are read and written as float64 values beside the tensors.
    int64_t extra = extra_bytes ? extra_bytes(graph_) : 0;
    for (const auto *list : {&inputs_, &outputs_, &images_})
        for (const file_option &each : *list)
            extra = std::max(extra,
                    3 * int64_t {sizeof(double)}
                            * detail::element_count(
                                    graph_.tensors.at(each.id).lt));
    want_memory(graph_, graph_.memory_need() + extra);
    allocate();
}

const graph_tensor &session::tensor_of(
        const std::string &option, const file_option &given) const {
    const auto found = graph_.tensors.find(given.id);
    const std::string named
            = text(option, " ", given.id, "=", given.file, ": ");
    if (found == graph_.tensors.end())
        throw input_error(graph_.file.file, "graph",
                text(named, "there is no tensor ", given.id));
    if (option == "--image") return found->second;
    const bool wants_computed = option != "--input";
    if (found->second.computed != wants_computed)
        throw input_error(graph_.file.file, found->second.path,
                text(named, "tensor ", given.id, " is ",
                        wants_computed ? "an input of the graph; what ops "
                                         "compute is allowed"
                                       : "computed; inputs of the graph are "
                                         "allowed"));
    return found->second;
}

void session::check_shape(
        const std::string &option, const file_option &given) const {
    const graph_tensor &tensor = tensor_of(option, given);
    const auto dims = detail::read_npy_header(given.file).dims;
    if (dims != tensor.lt.get_dims())
        throw input_error(given.file,
                text("has shape ", text_of(dims), ", ", graph_.file.file, ": ",
                        tensor.path, ".shape is ",
                        text_of(tensor.lt.get_dims())));
}

/// Before anything is computed, so that failures are quick.
void session::check_options() const {
    for (const file_option &given : inputs_)
        check_shape("--input", given);
    for (const file_option &given : outputs_) {
        (void)tensor_of("--output", given);
        detail::atomic_file probe(given.file); // can it be written?
    }
    for (const file_option &given : images_) {
        const graph_tensor &tensor = tensor_of("--image", given);
        if (!tensor.computed && !tensor.read)
            throw input_error(graph_.file.file, tensor.path,
                    text("--image ", given.id, "=", given.file, ": of tensor ",
                            given.id,
                            " only the shape counts; tensors with "
                            "values are allowed"));
        detail::atomic_file probe(given.file);
    }
}

void session::allocate() {
    for (const auto &[id, tensor] : graph_.tensors) {
        const auto given = std::find_if(inputs_.begin(), inputs_.end(),
                [&, key = id](const auto &each) { return each.id == key; });
        const bool wanted = tensor.computed || tensor.read
                || !tensor.shape_values.empty() || given != inputs_.end();
        if (!wanted || tensor.inner) continue;
        tensor_memory &memory
                = memory_.emplace(id,
                                 tensor_memory(graph_.memory_engine(tensor),
                                         tensor.lt.get_mem_size()))
                          .first->second;
        memory.poison();
        if (given != inputs_.end())
            fill_from_file(tensor, *given);
        else if (!tensor.computed)
            fill(id, tensor);
    }
}

void session::fill(size_t id, const graph_tensor &tensor) {
    tensor_memory &memory = memory_.at(id);
    memory.edit(0, memory.size(), [&](std::byte *data) {
        if (tensor.shape_values.empty()) {
            fill_randomly(tensor.lt, data, seed_);
            return;
        }
        const std::vector<double> values(
                tensor.shape_values.begin(), tensor.shape_values.end());
        detail::store(tensor.lt, values, data);
    });
}

void session::fill_from_file(
        const graph_tensor &tensor, const file_option &given) {
    std::vector<double> values = detail::read_npy(given.file);
    const data_type type = tensor.lt.get_data_type();
    if (type == data_type::s32) check_integers(values, given.file);
    tensor_memory &memory = memory_.at(given.id);
    std::vector<double> kept;
    memory.edit(0, memory.size(), [&](std::byte *data) {
        detail::store(tensor.lt, values, data);
        kept = detail::load(tensor.lt, data);
    });
    // Strides of 0 make elements share memory: their values must agree.
    for (size_t index = 0; index < values.size(); ++index) {
        const double wanted = detail::rounded_to(type, values[index]);
        if (kept[index] != wanted && !std::isnan(wanted))
            throw input_error(given.file,
                    text("element ", index, " is ", values[index],
                            ", but shares its memory with one of value ",
                            kept[index], " (", graph_.file.file, ": ",
                            tensor.path, ".stride)"));
    }
}

step_result session::execute(const graph_step &step) {
    const auto tensors = [&](const std::vector<size_t> &ids) {
        std::vector<tensor> result;
        for (const size_t id : ids) {
            const auto found = memory_.find(id);
            result.emplace_back(graph_.tensors.at(id).lt, graph_.device,
                    found == memory_.end() ? nullptr : found->second.data());
        }
        return result;
    };
    const auto inputs = tensors(step.inputs);
    const auto outputs = tensors(step.outputs);
    try {
        step_result result;
        result.milliseconds
                = device_clock(stream_).milliseconds_of(1, [&](size_t) {
                      step.compiled.execute(stream_, inputs, outputs);
                  });
        stream_.wait();
        for (const size_t id : step.outputs)
            result.checksum = result.checksum * 31
                    + memory_.at(id).view([&](const std::byte *data) {
                          return detail::checksum(
                                  graph_.tensors.at(id).lt, data);
                      });
        return result;
    } catch (const error &failure) {
        throw input_error(graph_.file.file,
                text("graph[", step.ops.front(), "]"), failure.what());
    }
}

std::vector<double> session::values_of(size_t id) const {
    return memory_.at(id).view([&](const std::byte *data) {
        return detail::load(graph_.tensors.at(id).lt, data);
    });
}

void session::write_outputs() const {
    std::vector<detail::atomic_file> files;
    for (const file_option &wanted : outputs_) {
        const logical_tensor &lt = graph_.tensors.at(wanted.id).lt;
        files.emplace_back(wanted.file);
        files.back().write(detail::npy_contents(
                lt.get_data_type(), lt.get_dims(), values_of(wanted.id)));
        files.back().finish();
    }
    for (const file_option &wanted : images_) {
        files.emplace_back(wanted.file);
        files.back().write(detail::png_contents(
                picture_of(graph_.tensors.at(wanted.id).lt.get_dims(),
                        values_of(wanted.id))));
        files.back().finish();
    }
    for (detail::atomic_file &file : files)
        file.commit();
    for (const auto *list : {&outputs_, &images_})
        for (const file_option &wanted : *list)
            say_written(wanted.file);
}

} // namespace gradnn::driver
