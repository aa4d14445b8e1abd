#include "kernel/engine_impl.hpp"

namespace gradnn::detail {

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

} // namespace gradnn::detail
