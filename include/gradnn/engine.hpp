// Engines, streams and allocators.
#pragma once

#include <cstddef>
#include <memory>

#include <gradnn/status.hpp>

namespace gradnn {

namespace detail {
struct engine_impl;
struct stream_impl;
struct access;
} // namespace detail

/// How much the arithmetic of f32 operations may be relaxed.
///
/// `strict` (the default) gives results as exact as f32 products and sums,
/// measured against float64. The others permit, never require, a lower
/// precision of the products.
enum class fpmath_mode { strict = 0, bf16 = 1, f16 = 2, any = 3, tf32 = 4 };

/// Allocates `size` bytes at a multiple of `alignment` (a power of two), or
/// returns null.
using host_allocate_f = void *(*)(size_t size, size_t alignment);
/// Frees what a host_allocate_f returned.
using host_deallocate_f = void (*)(void *pointer);

/// Where workspace comes from when `execute` is not given one.
class GRADNN_API allocator {
public:
    /// The library's own: aligned operator new on the CPU.
    allocator() = default;
    /// The caller's functions. They may be called from any thread that calls
    /// `execute`, and must both be non-null.
    allocator(host_allocate_f allocate, host_deallocate_f deallocate);

    /// The caller's functions; null when the library's own serve.
    host_allocate_f get_host_allocate() const { return allocate_; }
    host_deallocate_f get_host_deallocate() const { return deallocate_; }

private:
    host_allocate_f allocate_ = nullptr;
    host_deallocate_f deallocate_ = nullptr;
};

/// A device on which partitions are compiled and executed. A cheap handle;
/// copies name the same engine.
class GRADNN_API engine {
public:
    enum class kind { any = 0, cpu = 1, gpu = 2 };

    engine() = default;
    /// The device with this index: index 0 on the CPU, 0 to get_count() - 1 on
    /// GPUs. Throws invalid_arguments for an index out of range, unimplemented
    /// where this build or machine has no such device.
    engine(kind akind, size_t index);

    /// How many devices of a kind this build can use here: 0, and no error,
    /// without a driver.
    static size_t get_count(kind akind);

    kind get_kind() const;
    size_t get_index() const;

    explicit operator bool() const { return impl_ != nullptr; }
    bool operator==(const engine &other) const { return impl_ == other.impl_; }
    bool operator!=(const engine &other) const { return impl_ != other.impl_; }

private:
    friend struct detail::access;
    std::shared_ptr<const detail::engine_impl> impl_;
};

/// The name of an engine kind as JSON files write it: "cpu", "gpu", "any".
GRADNN_API const char *to_string(engine::kind akind);

/// An engine whose workspaces come from `alloc`.
GRADNN_API engine make_engine_with_allocator(
        engine::kind kind, size_t index, const allocator &alloc);

/// An in-order queue of executions on an engine.
///
/// A stream owns the workspace of executions that are not given one: it grows
/// to the largest that was needed and is freed with the stream. On the CPU
/// `execute` blocks until the results are written.
class GRADNN_API stream {
public:
    enum class flags : unsigned {
        in_order = 0x1U,
        out_of_order = 0x2U,
        default_flags = in_order,
    };

    stream() = default;
    /// Out-of-order streams are accepted and run in order.
    explicit stream(const engine &aengine, flags aflags = flags::default_flags);

    engine get_engine() const;

    /// Blocks until everything executed on this stream is done.
    stream &wait();

    explicit operator bool() const { return impl_ != nullptr; }
    bool operator==(const stream &other) const { return impl_ == other.impl_; }
    bool operator!=(const stream &other) const { return impl_ != other.impl_; }

private:
    friend struct detail::access;
    std::shared_ptr<detail::stream_impl> impl_;
};

constexpr stream::flags operator|(stream::flags a, stream::flags b) {
    return static_cast<stream::flags>(
            static_cast<unsigned>(a) | static_cast<unsigned>(b));
}
constexpr stream::flags operator&(stream::flags a, stream::flags b) {
    return static_cast<stream::flags>(
            static_cast<unsigned>(a) & static_cast<unsigned>(b));
}

} // namespace gradnn
