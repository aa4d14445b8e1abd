#include <gradnn/engine.hpp>

#include <chrono>
#include <cstdlib>
#include <new>

#include "base/text.hpp"
#include "compile/executable.hpp"
#include "gpu/backend.hpp"
#include "kernel/engine_impl.hpp"

namespace gradnn {

namespace detail {

namespace {

struct cpu_step_clock final : step_clock {
    using clock = std::chrono::steady_clock;

    void mark() override { marks.push_back(clock::now()); }
    std::vector<double> milliseconds() override {
        std::vector<double> times;
        for (size_t index = 1; index < marks.size(); ++index)
            times.push_back(std::chrono::duration<double, std::milli>(
                    marks[index] - marks[index - 1])
                                    .count());
        return times;
    }

    std::vector<clock::time_point> marks;
};

struct cpu_engine final : engine_impl {
    using engine_impl::engine_impl;

    void *allocate(size_t bytes, stream_impl &) const override {
        return take(bytes, "workspace");
    }
    void deallocate(void *pointer, stream_impl &) const override {
        give_back(pointer);
    }

    void *allocate_tensor(size_t bytes) const override {
        return take(bytes, "a tensor");
    }
    void deallocate_tensor(void *pointer) const noexcept override {
        give_back(pointer);
    }

    std::string check_pointer(const void *) const override { return {}; }

private:
    void *take(size_t bytes, const char *what) const {
        void *pointer = memory.get_host_allocate()
                ? memory.get_host_allocate()(bytes, workspace_alignment)
                : ::operator new (bytes, std::align_val_t {workspace_alignment},
                        std::nothrow);
        if (!pointer)
            throw error(status::out_of_memory,
                    text("the CPU engine's allocator could not give ", bytes,
                            " bytes of ", what));
        return pointer;
    }
    void give_back(void *pointer) const {
        if (memory.get_host_deallocate())
            memory.get_host_deallocate()(pointer);
        else
            ::operator delete (pointer, std::align_val_t {workspace_alignment});
    }
};

} // namespace

std::unique_ptr<step_clock> cpu_stream::make_step_clock(size_t steps) {
    auto made = std::make_unique<cpu_step_clock>();
    made->marks.reserve(steps + 1);
    return made;
}

std::byte *stream_impl::workspace(size_t bytes) {
    if (bytes > workspace_bytes_) {
        engine->check_allocatable(*this); // or else the old one is lost
        release_workspace();
        workspace_ = engine->allocate(bytes, *this);
        workspace_bytes_ = bytes;
    }
    return static_cast<std::byte *>(workspace_);
}

void stream_impl::release_workspace() noexcept {
    if (workspace_) engine->deallocate(workspace_, *this);
    workspace_ = nullptr;
    workspace_bytes_ = 0;
}

native_stream::native_stream(
        std::shared_ptr<const engine_impl> engine, void *native) {
    if (engine->kind == engine::kind::gpu)
        gpu_ = gpu::make_native_stream(std::move(engine), native);
    else
        cpu_.emplace(std::move(engine));
}

bool native_stream::is_captured() const {
    return gpu_ && gpu::is_captured(*gpu_);
}

} // namespace detail

const char *to_string(engine::kind akind) {
    switch (akind) {
        case engine::kind::any: return "any";
        case engine::kind::cpu: return "cpu";
        case engine::kind::gpu: return "gpu";
    }
    return "unknown";
}

allocator::allocator(host_allocate_f allocate, host_deallocate_f deallocate)
    : allocate_(allocate), deallocate_(deallocate) {
    if (!allocate || !deallocate)
        throw error(status::invalid_arguments,
                "allocator: both functions must be non-null");
}

engine::engine(kind akind, size_t index)
    : engine(make_engine_with_allocator(akind, index, allocator())) {}

size_t engine::get_count(kind akind) {
    if (akind == kind::cpu) return 1;
    return akind == kind::gpu ? gpu::usable_devices() : 0;
}

engine::kind engine::get_kind() const {
    if (!impl_)
        throw error(status::invalid_arguments, "engine: the handle is empty");
    return impl_->kind;
}

size_t engine::get_index() const {
    if (!impl_)
        throw error(status::invalid_arguments, "engine: the handle is empty");
    return impl_->index;
}

engine make_engine_with_allocator(
        engine::kind kind, size_t index, const allocator &alloc) {
    using detail::access;
    switch (kind) {
        case engine::kind::cpu:
            if (index != 0)
                throw error(status::invalid_arguments,
                        detail::text(
                                "engine: cpu index ", index, "; 0 is allowed"));
            return access::make<engine>(
                    std::shared_ptr<const detail::engine_impl>(
                            std::make_shared<detail::cpu_engine>(
                                    kind, index, alloc)));
        case engine::kind::gpu:
            return access::make<engine>(gpu::make_engine(index, alloc));
        case engine::kind::any: break;
    }
    throw error(status::invalid_arguments,
            "engine: kind any names no device; cpu and gpu are allowed");
}

stream::stream(const engine &aengine, flags) {
    if (!aengine)
        throw error(status::invalid_arguments, "stream: its engine is empty");
    const auto &impl = detail::access::impl(aengine);
    if (aengine.get_kind() == engine::kind::gpu)
        impl_ = gpu::make_stream(impl);
    else
        impl_ = std::make_shared<detail::cpu_stream>(impl);
}

engine stream::get_engine() const {
    if (!impl_)
        throw error(status::invalid_arguments, "stream: the handle is empty");
    return detail::access::make<engine>(impl_->engine);
}

stream &stream::wait() {
    if (!impl_)
        throw error(status::invalid_arguments, "stream: the handle is empty");
    impl_->wait();
    return *this;
}

} // namespace gradnn
