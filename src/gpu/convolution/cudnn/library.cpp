#include "gpu/convolution/cudnn/library.hpp"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "gpu/convolution/cudnn/frontend.hpp"
#include "gpu/runtime/engine.hpp"
#include "gpu/runtime/shared_library.hpp"

// Where cudnn-frontend looks for cuDNN's functions.
void *cudnn_frontend::cudnn_dlhandle = nullptr;

namespace gradnn::gpu::cudnn {

using detail::text;

namespace {

constexpr const char *soname = "libcudnn.so.9";

loaded_library load() {
    std::string path = library_of_environment("GRADNN_CUDNN", soname);
    if (path.empty()) path = soname;
    void *library = open_library(path);
    if (library == nullptr)
        return {.missing = text("cuDNN 9 cannot be loaded (", dlerror(),
                        "); install it (Debian package libcudnn9-cuda-",
                        CUDART_VERSION / 1000,
                        " or pip package nvidia-cudnn-cu",
                        CUDART_VERSION / 1000,
                        ") or set GRADNN_CUDNN to the path of ", soname)};
    const auto version = find_function<decltype(cudnnGetVersion)>(
            library, "cudnnGetVersion");
    const size_t found = version != nullptr ? version() : 0;
    if (found < 90000) {
        dlclose(library);
        return {.missing = text(path, " is cuDNN ", found,
                        "; gradnn needs cuDNN 9 (90000 and above)")};
    }
    cudnn_frontend::cudnn_dlhandle = library; // never closed
    return {found, {}};
}

/// A handle that is not in use. It is bound to a stream, and may be bound to another one
/// when it is used again.
struct idle_handle {
    library_handle handle = nullptr;
    cudaStream_t stream = nullptr;
};

/// Of a device.
struct handle_pool {
    std::mutex mutex;
    std::vector<idle_handle> idle;
    std::mutex compiling; ///< held by compile_handles
};

handle_pool &pool_of(int device) {
    // Never destroyed: cuDNN may be gone when static destructors run.
    static auto *const all = new std::vector<handle_pool>(device_count());
    return all->at(static_cast<size_t>(device));
}

/// An idle handle, best one that is bound to the stream; null where there is none.
idle_handle take_idle(int device, cudaStream_t stream) {
    auto &[mutex, idle, compiling] = pool_of(device);
    const std::lock_guard lock(mutex);
    if (idle.empty()) return {};
    auto found = std::ranges::find(idle, stream, &idle_handle::stream);
    if (found == idle.end()) --found;
    std::swap(*found, idle.back());
    const idle_handle taken = idle.back();
    idle.pop_back();
    return taken;
}

} // namespace

const loaded_library &library() {
    static const loaded_library loaded = load();
    return loaded;
}

std::string version_text() {
    const size_t version = library().version;
    return text(version / 10000, '.', version / 100 % 100, '.', version % 100);
}

borrowed_handle::borrowed_handle(int device, cudaStream_t stream)
    : device_(device), stream_(stream) {
    const idle_handle idle = take_idle(device, stream);
    handle_ = idle.handle;
    if (handle_ == nullptr) {
        if (library().version == 0)
            throw error(status::unimplemented, library().missing);
        const allocation_guard current(device); // cuDNN allocates
        check_status(
                cudnn_frontend::detail::create_handle(&handle_), "cudnnCreate");
    }
    // A new handle is bound to the legacy default stream.
    if (idle.stream == stream) return;
    const int result = cudnn_frontend::detail::set_stream(handle_, stream);
    if (result == CUDNN_STATUS_SUCCESS) return;
    static_cast<void>(cudnn_frontend::detail::destroy_handle(handle_));
    check_status(result, "cudnnSetStream");
}

borrowed_handle::~borrowed_handle() {
    try {
        handle_pool &pool = pool_of(device_);
        const std::lock_guard lock(pool.mutex);
        pool.idle.push_back({handle_, stream_});
    } catch (...) {
        // No memory for the entry: the handle is lost, nothing else.
    }
}

compile_handle::compile_handle(int device)
    : current_(device),
      lock_(pool_of(device).compiling),
      handle_(device, nullptr) {}

void check_status(int result, const char *call) {
    const auto code = static_cast<cudnnStatus_t>(result);
    if (code == CUDNN_STATUS_SUCCESS) [[likely]]
        return;
    std::array<char, 512> details {};
    cudnn_frontend::detail::get_last_error_string(
            details.data(), details.size());
    std::string message = text(
            call, " failed: ", cudnn_frontend::detail::get_error_string(code));
    if (details[0] != '\0') message += text(" (", details.data(), ")");
    const bool memory = code == CUDNN_STATUS_ALLOC_FAILED
            || code == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED
            || code == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
    static_cast<void>(cudaGetLastError());
    throw error(
            memory ? status::out_of_memory : status::runtime_error, message);
}

} // namespace gradnn::gpu::cudnn
