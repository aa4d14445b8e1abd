#include "files/json_text.hpp"

#include <cmath>
#include <limits>
#include <set>
#include <vector>

#include "base/input_error.hpp"

namespace gradnn::detail {

using nlohmann::json;

namespace {

constexpr int most_levels = 64;

/// Follows a parse: knows the path of the value that comes next.
class path_tracker {
public:
    explicit path_tracker(const std::string &file) : file_(file) {}

    bool operator()(int depth, json::parse_event_t event, json &parsed) {
        using event_t = json::parse_event_t;
        switch (event) {
            case event_t::object_start:
            case event_t::array_start:
                if (depth >= most_levels)
                    throw input_error(file_, one_line(path(), 200),
                            "nests deeper than " + std::to_string(most_levels)
                                    + " levels");
                levels_.push_back({event == event_t::array_start, 0, {}, {}});
                break;
            case event_t::key: {
                level &current = levels_.back();
                current.key = parsed.get<std::string>();
                if (!current.keys.insert(current.key).second)
                    throw input_error(file_, path(), "this key occurs twice");
                break;
            }
            case event_t::object_end:
            case event_t::array_end:
                levels_.pop_back();
                step();
                break;
            case event_t::value: step(); break;
        }
        return true;
    }

    std::string path() const {
        std::string text;
        for (const level &current : levels_) {
            if (current.is_array)
                text += "[" + std::to_string(current.index) + "]";
            else if (!current.key.empty())
                text += (text.empty() ? "" : ".") + one_line(current.key, 40);
        }
        return text;
    }

private:
    struct level {
        bool is_array;
        size_t index;
        std::string key;
        std::set<std::string> keys;
    };

    void step() {
        if (levels_.empty()) return;
        ++levels_.back().index;
        if (!levels_.back().is_array) levels_.back().key.clear();
    }

    const std::string &file_;
    std::vector<level> levels_;
};

/// nlohmann's message without its "[json.exception...] " prefix.
std::string plain(const json::exception &failure) {
    const std::string_view text = failure.what();
    const size_t end = text.find("] ");
    return one_line(
            end == std::string_view::npos ? text : text.substr(end + 2), 300);
}

} // namespace

json parse_json(std::string_view text, const std::string &file) {
    path_tracker tracker(file);
    try {
        return json::parse(text.begin(), text.end(), std::ref(tracker));
    } catch (const json::exception &failure) {
        throw input_error(file, tracker.path(), "bad JSON: " + plain(failure));
    }
}

void json_node::fail(const std::string &what) const {
    throw input_error(*file_, path_, what);
}

void json_node::fail_type(const std::string &expected) const {
    // Long values are cut before they are written, not after.
    std::string given;
    if (value_->is_object())
        given = "an object";
    else if (value_->is_array())
        given = "an array of " + std::to_string(value_->size());
    else
        given = one_line(
                value_->dump(-1, ' ', false, json::error_handler_t::replace),
                60);
    fail("given " + given + ", expected " + expected);
}

void json_node::want_object() const {
    if (!value_->is_object()) fail_type("an object");
}

json_node json_node::at(const char *key) const {
    want_object();
    const std::optional<json_node> found = find(key);
    if (!found) fail(std::string("\"") + key + "\" is missing");
    return *found;
}

std::optional<json_node> json_node::find(const std::string &key) const {
    want_object();
    const auto found = value_->find(key);
    if (found == value_->end()) return std::nullopt;
    return json_node(*found, *file_,
            path_ + (path_.empty() ? "" : ".") + one_line(key, 40));
}

json_node json_node::element(size_t index) const {
    return json_node((*value_)[index], *file_,
            path_ + "[" + std::to_string(index) + "]");
}

size_t json_node::array_size() const {
    if (!value_->is_array()) fail_type("an array");
    return value_->size();
}

const std::string &json_node::as_string() const {
    if (!value_->is_string()) fail_type("a string");
    return value_->get_ref<const std::string &>();
}

int64_t json_node::as_int64() const {
    const bool fits = value_->is_number_unsigned()
            ? value_->get<uint64_t>() <= static_cast<uint64_t>(
                      std::numeric_limits<int64_t>::max())
            : value_->is_number_integer();
    if (!fits) fail_type("an integer of 64 bits");
    return value_->get<int64_t>();
}

size_t json_node::as_id() const {
    if (!value_->is_number_unsigned()
            || value_->get<uint64_t>() == std::numeric_limits<size_t>::max())
        fail_type("an id: an integer from 0 to 2^64 - 2");
    return value_->get<size_t>();
}

float json_node::as_float() const {
    if (!value_->is_number()) fail_type("a number");
    const auto value = value_->get<double>();
    if (!std::isfinite(static_cast<float>(value)))
        fail_type("a finite number that f32 holds");
    return static_cast<float>(value);
}

double json_node::as_double() const {
    if (!value_->is_number()) fail_type("a number");
    const auto value = value_->get<double>();
    if (!std::isfinite(value)) fail_type("a finite number");
    return value;
}

} // namespace gradnn::detail
