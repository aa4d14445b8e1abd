#include "broken_files.hpp"

#include <stdexcept>

#include <sys/mman.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "base/input_error.hpp"
#include "files/json_graph.hpp"
#include "files/npy.hpp"
#include "mutate.hpp"

namespace gradnn::fuzz {

namespace {

using nlohmann::json;

/// A value of another kind, or an awkward one of the same.
json awkward_value(random_source &numbers) {
    switch (numbers.integer(0, 9)) {
        case 0: return nullptr;
        case 1: return -1;
        case 2: return (int64_t {1} << numbers.integer(20, 62)) + 1;
        case 3: return UINT64_MAX;
        case 4: return 0;
        case 5: return 0.5;
        case 6: return "";
        case 7: return json::array();
        case 8: return json::array({1, 2, 3});
        default: return json::object();
    }
}

/// Changes one value somewhere below `node`.
void change_value(random_source &numbers, json &node) {
    json *at = &node;
    while (at->is_structured() && !at->empty() && !happens(numbers, 8)) {
        auto child = at->begin();
        std::advance(child,
                numbers.integer(0, static_cast<int64_t>(at->size()) - 1));
        if (happens(numbers, 3)) {
            at->erase(child);
            return;
        }
        at = &*child;
    }
    *at = awkward_value(numbers);
}

/// A file in memory, for readers that take a path.
class memory_file {
public:
    explicit memory_file(const std::string &contents)
        : descriptor_(memfd_create("fuzz", 0)) {
        if (descriptor_ < 0
                || write(descriptor_, contents.data(), contents.size())
                        != static_cast<ssize_t>(contents.size()))
            throw std::runtime_error("no memory for a file");
    }
    memory_file(const memory_file &) = delete;
    memory_file &operator=(const memory_file &) = delete;
    ~memory_file() { close(descriptor_); }

    std::string path() const {
        return "/proc/self/fd/" + std::to_string(descriptor_);
    }

private:
    int descriptor_;
};

/// Small enough to be compiled for no other purpose.
bool is_small(const std::vector<op> &ops) {
    for (const op &each : ops)
        for (const auto *ports : {&each.get_inputs(), &each.get_outputs()})
            for (const logical_tensor &lt : *ports) {
                if (lt.is_absent()) continue;
                try {
                    if (count_of(lt.get_dims()) > int64_t {1} << 20)
                        return false;
                } catch (const error &) { // the rank is unknown
                }
            }
    return true;
}

void compile_all(const detail::json_graph &file, const engine &e) {
    graph built(e.get_kind(), file.fpmath);
    for (const op &each : file.ops)
        built.add_op(each);
    built.finalize();
    if (!is_small(file.ops)) return;
    for (const partition &each : built.get_partitions())
        each.compile(each.get_input_ports(), each.get_output_ports(), e);
}

} // namespace

std::string broken_json(
        random_source &numbers, const generator_options &options) {
    generator_options small = options;
    small.scale = 0.01;
    const std::string text
            = to_json(generate(numbers, small), to_string(options.device));
    if (happens(numbers, 50)) return broken_text(numbers, text);
    json document = json::parse(text);
    for (int64_t more = numbers.integer(1, 3); more > 0; --more)
        change_value(numbers, document);
    return document.dump();
}

std::string check_json(const std::string &text, const engine &e) {
    detail::json_graph file;
    try {
        file = detail::parse_json_graph(text, "broken.json");
    } catch (const detail::input_error &) {
        return {};
    } catch (const std::exception &failure) {
        return std::string("reading broken JSON threw: ") + failure.what();
    }
    try {
        compile_all(file, e);
    } catch (const error &) {
    } catch (const std::exception &failure) {
        return std::string("a graph from broken JSON threw: ") + failure.what();
    }
    return {};
}

std::string check_broken_json(random_source &numbers,
        const generator_options &options, const engine &e) {
    return check_json(broken_json(numbers, options), e);
}

std::string check_npy(const std::string &contents) {
    const memory_file file(contents);
    try {
        std::vector<int64_t> shape;
        const auto values = detail::read_npy(file.path(), &shape);
        if (static_cast<int64_t>(values.size()) != count_of(shape))
            return "a .npy file gave another number of values than its dims";
    } catch (const detail::input_error &) {
    } catch (const std::exception &failure) {
        return std::string("reading a broken .npy file threw: ")
                + failure.what();
    }
    return {};
}

std::string check_broken_npy(random_source &numbers) {
    dims shape(static_cast<size_t>(numbers.integer(0, 4)));
    for (int64_t &size : shape)
        size = numbers.integer(0, 5);
    static const std::vector<data_type> types {data_type::f16, data_type::bf16,
            data_type::f32, data_type::f64, data_type::s32};
    const std::vector<double> values(static_cast<size_t>(count_of(shape)), 1.0);
    const std::string contents
            = detail::npy_contents(numbers.pick(types), shape, values);
    return check_npy(broken_text(numbers, contents));
}

} // namespace gradnn::fuzz
