#include <gradnn/dlpack.hpp>

#include "base/text.hpp"
#include "kernel/backend.hpp"

namespace gradnn::detail {

logical_tensor::data_type dl_data_type(
        size_t tid, int code, int bits, int lanes) {
    using type = logical_tensor::data_type;
    const auto kind = static_cast<dl_type_code>(code);
    if (lanes == 1) {
        if (kind == dl_type_code::floating && bits == 16) return type::f16;
        if (kind == dl_type_code::floating && bits == 32) return type::f32;
        if (kind == dl_type_code::floating && bits == 64) return type::f64;
        if (kind == dl_type_code::bfloat && bits == 16) return type::bf16;
        if (kind == dl_type_code::integer && bits == 32) return type::s32;
    }
    throw error(status::invalid_data_type,
            text("tensor ", tid, ": DLPack type code ", code, " of ", bits,
                    " bits and ", lanes,
                    " lanes; f16, bf16, f32, f64 and s32 of one lane are "
                    "allowed"));
}

void dl_check_device(
        size_t tid, int device_type, int device_id, const engine &e) {
    const auto device = static_cast<dl_device>(device_type);
    const bool host
            = device == dl_device::cpu || device == dl_device::cuda_host;
    const bool fits = backend_of(e.get_kind()).on_host
            ? host || device == dl_device::cuda_managed
            : device == dl_device::cuda_managed
                    || (device == dl_device::cuda && device_id >= 0
                            && static_cast<size_t>(device_id) == e.get_index());
    // Shape inputs are host memory on every engine: execute checks the rest.
    if (!fits && !host)
        throw error(status::invalid_arguments,
                text("tensor ", tid, ": DLPack device type ", device_type,
                        ", id ", device_id, " is not the memory of engine ",
                        to_string(e.get_kind()), " ", e.get_index()));
}

} // namespace gradnn::detail
