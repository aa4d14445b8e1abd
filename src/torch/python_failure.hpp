// Failures that PyTorch turns into Python exceptions.
#pragma once

#include <string>

namespace gradnn::torch_kernels {

/// A RuntimeError.
[[noreturn]] void throw_failure(const std::string &message);

/// An exception of a Python class, a PyObject.
[[noreturn]] void throw_python_failure(void *type, const std::string &message);

} // namespace gradnn::torch_kernels
