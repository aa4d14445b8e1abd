// JSON values that know their path in the file, for messages.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace gradnn::detail {

/// Parses JSON. Refuses duplicate keys, nesting beyond 64 levels and numbers
/// beyond float64; throws input_error with the path that had been reached.
nlohmann::json parse_json(std::string_view text, const std::string &file);

/// A value and its path ("graph[2].inputs[0].shape"; empty for the whole
/// document). Refers to the document and the file name, which must outlive it.
class json_node {
public:
    json_node(const nlohmann::json &document, const std::string &file)
        : value_(&document), file_(&file) {}

    const std::string &path() const { return path_; }
    const nlohmann::json &value() const { return *value_; }

    /// Throws input_error at this path.
    [[noreturn]] void fail(const std::string &what) const;
    /// Throws "given VALUE, expected EXPECTED".
    [[noreturn]] void fail_type(const std::string &expected) const;

    /// A member of an object; the first form throws where it is missing.
    json_node at(const char *key) const;
    std::optional<json_node> find(const std::string &key) const;
    /// An element of an array.
    json_node element(size_t index) const;

    void want_object() const;
    /// Throws unless this is an array; returns its size.
    size_t array_size() const;
    const std::string &as_string() const;
    int64_t as_int64() const;
    size_t as_id() const;
    float as_float() const;
    double as_double() const;

private:
    json_node(const nlohmann::json &value, const std::string &file,
            std::string path)
        : value_(&value), file_(&file), path_(std::move(path)) {}

    const nlohmann::json *value_;
    const std::string *file_;
    std::string path_;
};

} // namespace gradnn::detail
