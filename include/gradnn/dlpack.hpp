// Tensors from DLPack.
//
// Works with the DLTensor of any DLPack version: include the dlpack.h of your
// framework before or after this header, gradnn needs none of its own.
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>

#include <gradnn/tensor.hpp>

namespace gradnn {

namespace detail {

template <typename Type, typename = void>
struct is_dl_tensor : std::false_type {};
/// Anything with the members of DLPack's DLTensor.
template <typename Type>
struct is_dl_tensor<Type,
        std::void_t<decltype(std::declval<const Type &>().data),
                decltype(std::declval<const Type &>().byte_offset),
                decltype(static_cast<int>(std::declval<const Type &>().ndim)),
                decltype(std::declval<const Type &>().shape[0]),
                decltype(std::declval<const Type &>().strides),
                decltype(static_cast<int>(
                        std::declval<const Type &>().dtype.code)),
                decltype(static_cast<int>(
                        std::declval<const Type &>().dtype.bits)),
                decltype(static_cast<int>(
                        std::declval<const Type &>().dtype.lanes)),
                decltype(static_cast<int>(
                        std::declval<const Type &>().device.device_type)),
                decltype(static_cast<int>(
                        std::declval<const Type &>().device.device_id))>>
    : std::true_type {};

/// Codes of DLPack's DLDataTypeCode and DLDeviceType.
enum class dl_type_code { integer = 0, floating = 2, bfloat = 4 };
enum class dl_device { cpu = 1, cuda = 2, cuda_host = 3, cuda_managed = 13 };

/// The gradnn type of a DLPack one. Throws invalid_data_type.
GRADNN_API logical_tensor::data_type dl_data_type(
        size_t tid, int code, int bits, int lanes);

/// Throws invalid_arguments unless memory on the DLPack device can be used by
/// the engine.
GRADNN_API void dl_check_device(
        size_t tid, int device_type, int device_id, const engine &e);

} // namespace detail

/// The description of a DLTensor, with the id that the graph gives it. Null
/// strides mean dense row-major, as DLPack defines.
template <typename DLTensor,
        typename = std::enable_if_t<detail::is_dl_tensor<DLTensor>::value>>
logical_tensor logical_tensor_from_dlpack(size_t tid, const DLTensor &t) {
    const auto type = detail::dl_data_type(tid, static_cast<int>(t.dtype.code),
            static_cast<int>(t.dtype.bits), static_cast<int>(t.dtype.lanes));
    const auto rank = static_cast<int>(t.ndim);
    const logical_tensor::dims dims(t.shape, t.shape + rank);
    if (!t.strides)
        return {tid, type, dims, logical_tensor::layout_type::strided};
    return {tid, type, dims, logical_tensor::dims(t.strides, t.strides + rank)};
}

/// A tensor over a DLTensor's memory, which stays the caller's: keep the
/// DLManagedTensor until the executions that use it are done. Types are f16,
/// bf16, f32, f64 and s32. Throws invalid_data_type for others and
/// invalid_arguments where the memory is not on the engine's device.
template <typename DLTensor,
        typename = std::enable_if_t<detail::is_dl_tensor<DLTensor>::value>>
tensor from_dlpack(size_t tid, const DLTensor &t, const engine &e) {
    detail::dl_check_device(tid, static_cast<int>(t.device.device_type),
            static_cast<int>(t.device.device_id), e);
    return {logical_tensor_from_dlpack(tid, t), e,
            static_cast<char *>(t.data) + t.byte_offset};
}

} // namespace gradnn
