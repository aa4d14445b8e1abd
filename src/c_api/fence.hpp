// No exception leaves the C API: failures become a status and a message.
#pragma once

#include <new>
#include <string>

#include <gradnn/c_api.h>
#include <gradnn/status.hpp>

#include "base/text.hpp"

namespace gradnn::c_api {

/// What gradnn_last_error() returns in this thread.
inline thread_local std::string last_error;

/// Runs `body` and turns what it throws into a status and a message.
template <typename Body>
gradnn_status fenced(const Body &body) noexcept {
    gradnn_status result = gradnn_runtime_error;
    try {
        try {
            body();
            return gradnn_success;
        } catch (const error &failure) {
            result = static_cast<gradnn_status>(failure.status);
            last_error = failure.what();
        } catch (const std::bad_alloc &) {
            result = gradnn_out_of_memory;
            last_error = "gradnn: out of host memory";
        } catch (const std::exception &failure) {
            last_error = failure.what();
        }
    } catch (...) {
        last_error.clear(); // no memory for the text
    }
    return result;
}

[[noreturn]] inline void refuse(const std::string &what) {
    throw error(status::invalid_arguments, what);
}

/// What an argument points at; refuses null.
template <typename Type>
Type &given(Type *pointer, const char *function, const char *argument) {
    if (!pointer) refuse(detail::text(function, ": ", argument, " is null"));
    return *pointer;
}

} // namespace gradnn::c_api
