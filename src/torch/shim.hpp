// PyTorch's stable C functions, found at run time.
//
// They are declared in PyTorch's torch/csrc/inductor/aoti_torch/c/shim.h and
// torch/csrc/stable/c/shim.h. Those that return a status return 0 for success.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace gradnn::torch_kernels {

/// An argument or a result on a kernel's stack. Numbers and booleans are in the
/// low bytes; tensors and lists are handles that the receiver owns; an optional
/// is null, or points at a word of the heap that holds the value and that the
/// receiver owns.
using stable_value = uint64_t;
using status_code = int32_t;
using tensor_handle = void *;
using list_handle = void *;
using library_handle = void *;
/// How many ops are overridden; see arguments.hpp.
inline constexpr size_t op_count = 13;
using boxed_kernel
        = void (*)(stable_value *stack, uint64_t inputs, uint64_t outputs);

/// The version whose layouts this code follows. Later ones adapt to it.
inline constexpr uint64_t abi_version = (2ULL << 56) | (10ULL << 48);

/// NEEDED(member, result, symbol, parameters): without one of these there are
/// no kernels. OPTIONAL: the member may be null.
// clang-format off
#define GRADNN_TORCH_FUNCTIONS(NEEDED, OPTIONAL) \
    NEEDED(is_defined, status_code, aoti_torch_is_defined, \
            (tensor_handle, bool *)) \
    NEEDED(get_dim, status_code, aoti_torch_get_dim, \
            (tensor_handle, int64_t *)) \
    NEEDED(get_sizes, status_code, aoti_torch_get_sizes, \
            (tensor_handle, int64_t **)) \
    NEEDED(get_strides, status_code, aoti_torch_get_strides, \
            (tensor_handle, int64_t **)) \
    NEEDED(get_dtype, status_code, aoti_torch_get_dtype, \
            (tensor_handle, int32_t *)) \
    NEEDED(get_device_type, status_code, aoti_torch_get_device_type, \
            (tensor_handle, int32_t *)) \
    NEEDED(get_device_index, status_code, aoti_torch_get_device_index, \
            (tensor_handle, int32_t *)) \
    NEEDED(get_layout, status_code, aoti_torch_get_layout, \
            (tensor_handle, int32_t *)) \
    NEEDED(get_const_data, status_code, torch_get_const_data_ptr, \
            (tensor_handle, const void **)) \
    NEEDED(get_mutable_data, status_code, torch_get_mutable_data_ptr, \
            (tensor_handle, void **)) \
    NEEDED(empty_strided, status_code, aoti_torch_empty_strided, \
            (int64_t, const int64_t *, const int64_t *, int32_t, int32_t, \
                    int32_t, tensor_handle *)) \
    NEEDED(new_undefined_tensor, status_code, \
            aoti_torch_new_uninitialized_tensor, (tensor_handle *)) \
    NEEDED(delete_tensor, status_code, aoti_torch_delete_tensor_object, \
            (tensor_handle)) \
    NEEDED(list_size, status_code, torch_list_size, (list_handle, size_t *)) \
    NEEDED(list_item, status_code, torch_list_get_item, \
            (list_handle, size_t, stable_value *)) \
    NEEDED(delete_list, status_code, torch_delete_list, (list_handle)) \
    NEEDED(call, status_code, torch_call_dispatcher, \
            (const char *, const char *, stable_value *, uint64_t)) \
    NEEDED(new_library, status_code, aoti_torch_library_init_impl, \
            (const char *, const char *, const char *, uint32_t, \
                    library_handle *)) \
    NEEDED(implement, status_code, torch_library_impl, \
            (library_handle, const char *, boxed_kernel, uint64_t)) \
    NEEDED(thread_count, status_code, torch_get_num_threads, (uint32_t *)) \
    NEEDED(device_cpu, int32_t, aoti_torch_device_type_cpu, ()) \
    NEEDED(device_cuda, int32_t, aoti_torch_device_type_cuda, ()) \
    NEEDED(layout_strided, int32_t, aoti_torch_layout_strided, ()) \
    NEEDED(type_u8, int32_t, aoti_torch_dtype_uint8, ()) \
    NEEDED(type_f16, int32_t, aoti_torch_dtype_float16, ()) \
    NEEDED(type_bf16, int32_t, aoti_torch_dtype_bfloat16, ()) \
    NEEDED(type_f32, int32_t, aoti_torch_dtype_float32, ()) \
    NEEDED(type_f64, int32_t, aoti_torch_dtype_float64, ()) \
    OPTIONAL(delete_library, status_code, aoti_torch_delete_library_object, \
            (library_handle)) \
    OPTIONAL(delete_word, status_code, torch_delete_stable_ivalue, \
            (stable_value *)) \
    OPTIONAL(failure_text, const char *, \
            torch_exception_get_what_without_backtrace, ()) \
    /* C++, which is why there may be none by that name: the global context, \
       and its precision of float32 for a backend and an op (enumerations). */ \
    OPTIONAL(context, const void *, _ZN2at13globalContextEv, ()) \
    OPTIONAL(precision, int, \
        _ZNK2at7Context16float32PrecisionENS_14Float32BackendENS_9Float32OpE, \
        (const void *, int, int)) \
    OPTIONAL(cudnn_benchmark, bool, _ZNK2at7Context14benchmarkCuDNNEv, \
            (const void *)) \
    OPTIONAL(cudnn_enabled, bool, _ZNK2at7Context16userEnabledCuDNNEv, \
            (const void *)) \
    OPTIONAL(onednn_enabled, bool, _ZNK2at7Context17userEnabledMkldnnEv, \
            (const void *))
// clang-format on

struct shim {
#define GRADNN_TORCH_MEMBER(member, result, symbol, parameters) \
    result(*member) parameters = nullptr;
    GRADNN_TORCH_FUNCTIONS(GRADNN_TORCH_MEMBER, GRADNN_TORCH_MEMBER)
#undef GRADNN_TORCH_MEMBER
    status_code (*cuda_stream)(int32_t device, void **stream) = nullptr;
    // Memory of the current device for its current stream. Without one of them
    // cuda_allocate is null.
    status_code (*cuda_allocate)(uint64_t bytes, void **memory) = nullptr;
    status_code (*cuda_free)(void *memory) = nullptr;
    status_code (*current_device)(int32_t *device) = nullptr;

    // Constants of PyTorch.
    int32_t cpu = 0;
    int32_t cuda = 0;
    int32_t strided = 0;
    int32_t u8 = 0;

    /// Whether the switches of convolution can be read.
    bool has_switches() const {
        return context && precision && cudnn_benchmark && cudnn_enabled
                && onednn_enabled;
    }

    /// Fills all members but those of CUDA from a loaded library; the first
    /// name that it misses, "" where there is none.
    std::string bind(const char *library);
    /// The same of those of CUDA.
    std::string bind_cuda(const char *library);
};

/// Written by bind before the first kernel is registered, read by kernels.
extern shim torch;

} // namespace gradnn::torch_kernels
