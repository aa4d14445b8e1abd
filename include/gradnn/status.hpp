// Status codes and the one exception type that gradnn throws.
#pragma once

#include <stdexcept>
#include <string>

// Marks what the shared library exports; everything else is hidden.
#define GRADNN_API __attribute__((visibility("default")))

namespace gradnn {

/// What went wrong. Names and values are those of oneDNN Graph's `status`.
enum class status {
    success = 0,
    out_of_memory = 1,
    invalid_arguments = 2,
    unimplemented = 3,
    last_impl_reached = 4,
    runtime_error = 5,
    not_required = 6,
    invalid_graph = 7,
    invalid_graph_op = 8,
    invalid_shape = 9,
    invalid_data_type = 10,
};

/// The name of a status as it is written above, for messages and logs.
GRADNN_API const char *to_string(status value);

/// Every failure of the library. `what()` names the op, port or attribute at
/// fault, what was given and what is allowed. The library never aborts.
class GRADNN_API error : public std::runtime_error {
public:
    error(gradnn::status code, const std::string &text);
    error(const error &other) noexcept;
    error &operator=(const error &) = delete;
    ~error() override;

    /// The kind of failure.
    const gradnn::status status;
    /// The same text as `what()`; the member that dnnl::error has.
    const char *const message;
};

} // namespace gradnn
