// What stands behind the engine and stream handles. The CPU's is in
// engine.cpp, the GPU's in gpu/engine.cpp.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>

#include <gradnn/tensor.hpp>

namespace gradnn::detail {

/// A device. Immutable, shared by every handle that names it.
struct engine_impl {
    engine_impl(engine::kind akind, size_t aindex, const allocator &alloc)
        : kind(akind), index(aindex), memory(alloc) {}
    engine_impl(const engine_impl &) = delete;
    engine_impl &operator=(const engine_impl &) = delete;
    virtual ~engine_impl() = default;

    /// Throws where the stream does not allow to allocate now.
    virtual void check_allocatable(stream_impl &) const {}
    /// Workspace of `bytes` > 0 at a multiple of 64, or error out_of_memory
    /// saying how many bytes were wanted. Both in the order of the stream.
    virtual void *allocate(size_t bytes, stream_impl &stream) const = 0;
    virtual void deallocate(void *pointer, stream_impl &stream) const = 0;

    /// Refuses a data pointer that this device cannot read (a host pointer on
    /// a GPU): returns what is wrong with it, or an empty string.
    virtual std::string check_pointer(const void *pointer) const = 0;

    const engine::kind kind;
    const size_t index;
    const allocator memory;
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
    static const auto &strides(const logical_tensor &lt) {
        return lt.strides_;
    }
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
