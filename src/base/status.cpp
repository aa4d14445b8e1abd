#include <gradnn/status.hpp>
#include <gradnn/version.hpp>

namespace gradnn {

const char *to_string(status value) {
    switch (value) {
        case status::success: return "success";
        case status::out_of_memory: return "out_of_memory";
        case status::invalid_arguments: return "invalid_arguments";
        case status::unimplemented: return "unimplemented";
        case status::last_impl_reached: return "last_impl_reached";
        case status::runtime_error: return "runtime_error";
        case status::not_required: return "not_required";
        case status::invalid_graph: return "invalid_graph";
        case status::invalid_graph_op: return "invalid_graph_op";
        case status::invalid_shape: return "invalid_shape";
        case status::invalid_data_type: return "invalid_data_type";
    }
    return "unknown";
}

error::error(gradnn::status code, const std::string &text)
    : std::runtime_error(text), status(code), message(what()) {}

// runtime_error's copies share their text, but nothing promises the same
// address: message is taken again.
error::error(const error &other) noexcept
    : std::runtime_error(other), status(other.status), message(what()) {}

error::~error() = default;

version_info version() noexcept {
    return {version_major, version_minor, version_patch};
}

} // namespace gradnn
