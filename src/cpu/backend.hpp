// The CPU's row of src/backends.cpp.
#pragma once

#include "kernel/backend.hpp"

namespace gradnn::cpu {

extern const detail::backend backend;

} // namespace gradnn::cpu
