#include "gpu/cudnn_library.hpp"

#include <array>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>

#include <dlfcn.h>

#include <gradnn/status.hpp>

#include "gpu/cudnn_frontend.hpp"
#include "gpu/device.hpp"
#include "gpu/engine.hpp"
#include "text.hpp"

// Where cudnn-frontend looks for cuDNN's functions.
void *cudnn_frontend::cudnn_dlhandle = nullptr;

namespace gradnn::gpu {

using detail::text;

namespace {

constexpr const char *soname = "libcudnn.so.9";

struct loaded_library {
    size_t version = 0;
    std::string missing;
};

template <typename Function>
Function *find_function(void *library, const char *name) {
    return reinterpret_cast<Function *>(dlsym(library, name));
}

loaded_library load() {
    loaded_library result;
    const char *wanted = std::getenv("GRADNN_CUDNN");
    std::string path = soname;
    if (wanted != nullptr && *wanted != '\0') {
        path = wanted;
        std::error_code ignored;
        if (std::filesystem::is_directory(path, ignored))
            path = (std::filesystem::path(path) / soname).string();
    }
    // RTLD_LOCAL: another version may serve other parts of the process.
    void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
        const char *reason = dlerror();
        result.missing = text("cuDNN 9 cannot be loaded (",
                reason != nullptr ? reason : path.c_str(),
                "); install it (Debian package libcudnn9-cuda-",
                CUDART_VERSION / 1000, " or pip package nvidia-cudnn-cu",
                CUDART_VERSION / 1000,
                ") or set GRADNN_CUDNN to the path of ", soname);
        return result;
    }
    const auto version = find_function<decltype(cudnnGetVersion)>(
            library, "cudnnGetVersion");
    const size_t found = version != nullptr ? version() : 0;
    if (found < 90000) {
        dlclose(library);
        result.missing = text(path, " is cuDNN ", found,
                "; cuDNN 9 (90000 and above) is wanted");
        return result;
    }
    cudnn_frontend::cudnn_dlhandle = library; // never closed
    result.version = found;
    return result;
}

const loaded_library &library() {
    static const loaded_library loaded = load();
    return loaded;
}

cudnn_handle make_handle() {
    if (library().version == 0)
        throw error(status::unimplemented, library().missing);
    const capture_mode_guard relaxed; // cuDNN allocates
    cudnnHandle_t handle = nullptr;
    check_cudnn(cudnn_frontend::detail::create_handle(&handle), "cudnnCreate");
    return handle;
}

/// A stream's handle.
struct stream_handle final : stream_resource {
    stream_handle(int adevice, cudaStream_t stream)
        : device(adevice), handle(make_handle()) {
        check_cudnn(cudnn_frontend::detail::set_stream(handle, stream),
                "cudnnSetStream");
    }
    ~stream_handle() override {
        try {
            const device_guard current(device);
            static_cast<void>(cudnn_frontend::detail::destroy_handle(handle));
        } catch (...) {
            // The driver is shutting down with the process.
        }
    }

    const int device;
    const cudnn_handle handle;
};

} // namespace

size_t cudnn_version() {
    return library().version;
}

std::string cudnn_version_text() {
    const size_t version = cudnn_version();
    return text(version / 10000, '.', version / 100 % 100, '.', version % 100);
}

std::string cudnn_missing_reason() {
    return library().missing;
}

cudnn_handle cudnn_handle_of(detail::stream_impl &stream) {
    static const char key = 0;
    gpu_stream &queue = as_gpu(stream);
    auto &found = queue.resource(&key, [&] {
        return std::make_unique<stream_handle>(queue.device, queue.handle);
    });
    return static_cast<stream_handle &>(found).handle;
}

cudnn_compile_handle::cudnn_compile_handle(int device) {
    struct entry {
        std::mutex mutex;
        cudnn_handle handle = nullptr;
    };
    // Never destroyed: cuDNN may be gone when static destructors run.
    static auto *map_mutex = new std::mutex;
    static auto *entries = new std::map<int, entry>;
    entry *found = nullptr;
    {
        const std::lock_guard lock(*map_mutex);
        found = &(*entries)[device];
    }
    lock_ = std::unique_lock(found->mutex);
    if (found->handle == nullptr) found->handle = make_handle();
    handle_ = found->handle;
}

void check_cudnn(int result, const char *call) {
    const auto code = static_cast<cudnnStatus_t>(result);
    if (code == CUDNN_STATUS_SUCCESS) [[likely]]
        return;
    std::array<char, 512> details {};
    cudnn_frontend::detail::get_last_error_string(
            details.data(), details.size());
    std::string message = text(call, " failed: ",
            cudnn_frontend::detail::get_error_string(code));
    if (details[0] != '\0') message += text(" (", details.data(), ")");
    const bool memory = code == CUDNN_STATUS_ALLOC_FAILED
            || code == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED
            || code == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
    static_cast<void>(cudaGetLastError());
    throw error(
            memory ? status::out_of_memory : status::runtime_error, message);
}

} // namespace gradnn::gpu
