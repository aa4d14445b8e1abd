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

/// The C++ name of at::_ops::<op>_grad_input::call.
std::string native_upsample_name(const op_description &op) {
    const std::string name = std::string(op.name) + "_grad_input";
    std::string numbers = "St8optionalIdE";
    for (size_t axis = 1; axis < op.spatial_axes(); ++axis)
        numbers += "SA_";
    const bool linear = op.arguments[3] == a_boolean;
    if (linear) numbers.insert(0, "b");
    return "_ZN2at4_ops" + std::to_string(name.size()) + name
            + "4callERKNS_6TensorEN3c108ArrayRefINS5_6SymIntEEES8_" + numbers
            + "RS2_";
}

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
    library.find(cpu_convolution, "aoti_torch_cpu_convolution_backward");
    for (size_t op = 0; op < ops.size(); ++op)
        if (!ops[op].is_convolution())
            native_upsample[op] = library.find(native_upsample_name(ops[op]));
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
    library.find(cuda_convolution, "aoti_torch_cuda_convolution_backward");
    return {};
}

} // namespace gradnn::torch_kernels
