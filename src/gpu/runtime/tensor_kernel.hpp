// The kernel that a plan has chosen, with its launch: nothing is looked up again at
// execute.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/runtime/launch.hpp"

namespace gradnn::gpu {

/// A kernel from one tensor to another, of a type that its plan has chosen, with
/// its launch. Its further parameters are the same for every type.
template <typename... Parameters>
struct tensor_kernel {
    void (*kernel)(const void *, void *, Parameters...) = nullptr;
    int64_t blocks = 0;
    int64_t threads = 0;
    size_t shared_bytes = 0;

    template <typename Type>
    void set(void (*chosen)(const Type *, Type *, Parameters...)) {
        kernel = reinterpret_cast<decltype(kernel)>(chosen);
    }

    /// As gpu::launch_early.
    void launch_early(const char *name, const launch_stream &stream,
            const void *from, void *to, Parameters... parameters) const {
        gpu::launch_early(name, kernel, blocks, threads, shared_bytes, stream,
                from, to, parameters...);
    }
};

} // namespace gradnn::gpu
