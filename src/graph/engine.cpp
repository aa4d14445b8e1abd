#include <gradnn/engine.hpp>

#include "kernel/backend.hpp"

namespace gradnn {

const char *to_string(engine::kind akind) {
    if (akind == engine::kind::any) return "any";
    const detail::backend *const row = detail::find_backend(akind);
    return row != nullptr ? row->name : "unknown";
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
    const detail::backend *const row = detail::find_backend(akind);
    return row != nullptr ? row->device_count() : 0;
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
    const detail::backend *const row = detail::find_backend(kind);
    if (row == nullptr)
        throw error(status::invalid_arguments,
                "engine: kind any names no device; " + detail::allowed_kinds());
    return detail::access::make<engine>(row->make_engine(index, alloc));
}

stream::stream(const engine &aengine, flags) {
    if (!aengine)
        throw error(status::invalid_arguments, "stream: its engine is empty");
    impl_ = detail::backend_of(aengine.get_kind())
                    .make_stream(detail::access::impl(aengine));
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
