// Memory of the device that a graph runs on.
#pragma once

#include <cstddef>
#include <variant>

#include <gradnn/engine.hpp>
#include <gradnn/tensor.hpp>

#include "gpu/runtime/tools.hpp"
#include "host_memory.hpp"

namespace gradnn::driver {

/// Host memory for the CPU, device memory for a GPU. What it holds is seen and
/// changed on the host: in place, or in a copy that is brought and taken back.
class tensor_memory {
public:
    /// Throws std::bad_alloc or error out_of_memory.
    tensor_memory(const engine &e, size_t bytes);

    std::byte *data() const;
    size_t size() const { return size_; }
    /// Every byte 0xff, as host_memory does it.
    void poison();

    /// Calls body(std::byte *) with `bytes` from `offset` on, and keeps what it
    /// makes of them.
    template <typename Body>
    void edit(size_t offset, size_t bytes, const Body &body) {
        if (auto *host = std::get_if<host_memory>(&memory_)) {
            body(host->data() + offset);
            return;
        }
        const engine device = std::get<tensor>(memory_).get_engine();
        const host_memory copy(bytes);
        gpu::tools.copy_blocking(device, copy.data(), data() + offset, bytes);
        body(copy.data());
        gpu::tools.copy_blocking(device, data() + offset, copy.data(), bytes);
    }

    /// Calls body(const std::byte *) with all of it; returns what it returns.
    template <typename Body>
    auto view(const Body &body) const {
        if (const auto *host = std::get_if<host_memory>(&memory_))
            return body(static_cast<const std::byte *>(host->data()));
        const host_memory copy(size_);
        gpu::tools.copy_blocking(std::get<tensor>(memory_).get_engine(),
                copy.data(), data(), size_);
        return body(static_cast<const std::byte *>(copy.data()));
    }

private:
    size_t size_;
    std::variant<host_memory, tensor> memory_;
};

/// A block of the engine's memory. Throws error out_of_memory.
tensor memory_block(const engine &e, size_t bytes);

/// Bytes that tensors of a graph on this device can still take.
int64_t available_memory(const engine &e);

} // namespace gradnn::driver
