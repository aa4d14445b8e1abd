// What stands behind the engine and stream handles. The CPU's is in
// cpu/backend.cpp, the GPU's in gpu/runtime/engine.hpp.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <gradnn/tensor.hpp>

namespace gradnn::detail {

/// A device. Immutable, shared by every handle that names it.
struct engine_impl {
    engine_impl(engine::kind akind, size_t aindex, const allocator &alloc,
            size_t acache_owner = 0)
        : kind(akind),
          index(aindex),
          memory(alloc),
          cache_owner(acache_owner) {}
    engine_impl(const engine_impl &) = delete;
    engine_impl &operator=(const engine_impl &) = delete;
    virtual ~engine_impl() = default;

    /// Throws where the stream does not allow to allocate now.
    virtual void check_allocatable(stream_impl &) const {}
    /// Workspace of `bytes` > 0 at a multiple of 64, or error out_of_memory
    /// saying how many bytes were requested. Both in the order of the stream.
    virtual void *allocate(size_t bytes, stream_impl &stream) const = 0;
    virtual void deallocate(void *pointer, stream_impl &stream) const = 0;

    /// Memory of a tensor: `bytes` > 0 at a multiple of 64, usable on every
    /// stream, or error out_of_memory. What streams still do with it is done
    /// before it is freed.
    virtual void *allocate_tensor(size_t bytes) const = 0;
    virtual void deallocate_tensor(void *pointer) const noexcept = 0;

    /// Refuses a data pointer that this device cannot read (a host pointer on
    /// a GPU): returns what is wrong with it, or an empty string.
    virtual std::string check_pointer(const void *pointer) const = 0;

    /// Calls `build`, which makes plans; the tables that they fill on the device
    /// come from where this engine's memory does.
    virtual void while_compiling(const std::function<void()> &build) const {
        build();
    }

    const engine::kind kind;
    const size_t index;
    const allocator memory;
    /// Executables that hold memory of an allocator of this engine's own are for
    /// this engine alone: the cache knows them by this number. 0 where engines of
    /// the same device may share executables.
    const size_t cache_owner;
};

/// Times the steps of one execution on a stream.
struct step_clock {
    step_clock() = default;
    step_clock(const step_clock &) = delete;
    step_clock &operator=(const step_clock &) = delete;
    virtual ~step_clock() = default;

    /// Marks the beginning of the first step, and the end of each.
    virtual void mark() = 0;
    /// From each mark to the next. Waits until the last one is reached.
    virtual std::vector<double> milliseconds() = 0;
};

/// A queue on a device. Executions on one stream are submitted one after the
/// other under its mutex, so they may share its workspace.
struct stream_impl {
    explicit stream_impl(std::shared_ptr<const engine_impl> aengine)
        : engine(std::move(aengine)) {}
    stream_impl(const stream_impl &) = delete;
    stream_impl &operator=(const stream_impl &) = delete;
    /// Derived destructors call release_workspace() while the queue still
    /// exists.
    virtual ~stream_impl() = default;

    virtual void wait() = 0;

    /// A clock for an execution of `steps` steps; null where the stream cannot
    /// have one now. To be called with the mutex held.
    virtual std::unique_ptr<step_clock> make_step_clock(size_t steps) = 0;

    /// At least `bytes` of workspace, kept until the next call. To be called
    /// with the mutex held.
    std::byte *workspace(size_t bytes);
    void release_workspace() noexcept;

    const std::shared_ptr<const engine_impl> engine;
    std::mutex mutex;

private:
    void *workspace_ = nullptr;
    size_t workspace_bytes_ = 0;
};

/// Lets the library's own files reach behind the public handles.
struct access {
    template <typename Handle>
    static auto &impl(Handle &handle) {
        return handle.impl_;
    }
    static const auto &dims(const logical_tensor &lt) { return lt.dims_; }
    static const auto &strides(const logical_tensor &lt) { return lt.strides_; }
    static const engine_impl &device(const tensor &t) {
        return *t.engine_.impl_;
    }
    static int ndims(const logical_tensor &lt) { return lt.ndims_; }

    template <typename Handle, typename Impl>
    static Handle make(std::shared_ptr<Impl> impl) {
        Handle handle;
        handle.impl_ = std::move(impl);
        return handle;
    }
};

} // namespace gradnn::detail
