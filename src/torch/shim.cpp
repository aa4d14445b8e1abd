#include "torch/shim.hpp"

#include <dlfcn.h>

#include "torch/arguments.hpp"

namespace gradnn::torch_kernels {

shim torch;

namespace {

/// A library that is in the process already. It is never closed: kernels call
/// it until the process ends.
class loaded_library {
public:
    explicit loaded_library(const char *file)
        : handle_(dlopen(file, RTLD_NOW | RTLD_NOLOAD)) {}

    explicit operator bool() const { return handle_ != nullptr; }

    void *find(const std::string &symbol) const {
        return dlsym(handle_, symbol.c_str());
    }
    template <typename Function>
    bool find(Function *&function, const char *symbol) const {
        function = reinterpret_cast<Function *>(find(std::string(symbol)));
        return function != nullptr;
    }

private:
    void *handle_;
};

} // namespace

std::string shim::bind(const char *file) {
    const loaded_library library(file);
    if (!library) return file;
#define GRADNN_TORCH_FIND(member, result, symbol, parameters) \
    if (!library.find(member, #symbol)) return #symbol;
#define GRADNN_TORCH_TRY(member, result, symbol, parameters) \
    library.find(member, #symbol);
    GRADNN_TORCH_FUNCTIONS(GRADNN_TORCH_FIND, GRADNN_TORCH_TRY)
#undef GRADNN_TORCH_FIND
#undef GRADNN_TORCH_TRY
    cpu = device_cpu();
    cuda = device_cuda();
    strided = layout_strided();
    u8 = type_u8();
    return {};
}

std::string shim::bind_cuda(const char *file) {
    const loaded_library library(file);
    if (!library) return file;
    const char *stream = "aoti_torch_get_current_cuda_stream";
    if (!library.find(cuda_stream, stream)) return stream;
    if (!library.find(cuda_free, "aoti_torch_cuda_caching_allocator_raw_delete")
            || !library.find(
                    current_device, "aoti_torch_get_current_device_index")
            || !library.find(cuda_allocate,
                    "aoti_torch_cuda_caching_allocator_raw_alloc"))
        cuda_allocate = nullptr;
    return {};
}

} // namespace gradnn::torch_kernels
