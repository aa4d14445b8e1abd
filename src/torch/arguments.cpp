#include "torch/arguments.hpp"

#include <bit>

namespace gradnn::torch_kernels {

#define GRADNN_TORCH_OP(name, arguments) \
    { name, "gradnn::slow_" name, arguments }
const std::array<op_description, op_count> ops {{
        GRADNN_TORCH_OP("convolution_backward", "TTTOLLLBLIM"),
        GRADNN_TORCH_OP("upsample_nearest1d_backward", "TLLD"),
        GRADNN_TORCH_OP("upsample_nearest2d_backward", "TLLDD"),
        GRADNN_TORCH_OP("upsample_nearest3d_backward", "TLLDDD"),
        GRADNN_TORCH_OP("_upsample_nearest_exact1d_backward", "TLLD"),
        GRADNN_TORCH_OP("_upsample_nearest_exact2d_backward", "TLLDD"),
        GRADNN_TORCH_OP("_upsample_nearest_exact3d_backward", "TLLDDD"),
        GRADNN_TORCH_OP("upsample_linear1d_backward", "TLLBD"),
        GRADNN_TORCH_OP("upsample_bilinear2d_backward", "TLLBDD"),
        GRADNN_TORCH_OP("upsample_trilinear3d_backward", "TLLBDDD"),
        GRADNN_TORCH_OP("upsample_bicubic2d_backward", "TLLBDD"),
        GRADNN_TORCH_OP("_upsample_bilinear2d_aa_backward", "TLLBDD"),
        GRADNN_TORCH_OP("_upsample_bicubic2d_aa_backward", "TLLBDD"),
}};
#undef GRADNN_TORCH_OP

namespace {

void *pointer(stable_value value) {
    return std::bit_cast<void *>(value);
}

stable_value *word_of(stable_value optional) {
    return static_cast<stable_value *>(pointer(optional));
}

/// PyTorch has a function for it from 2.13 on; before, delete does it.
void delete_word(stable_value *word) {
    if (torch.delete_word)
        torch.delete_word(word);
    else
        delete word;
}

bool as_boolean(stable_value value) {
    return (value & 0xff) != 0;
}

} // namespace

arguments::arguments(size_t op, gradnn_torch_device device, bool enabled,
        stable_value *stack)
    : op_(op), device_(device), enabled_(enabled), stack_(stack) {
    add(static_cast<int64_t>(op * 4 + device * 2 + (enabled ? 1 : 0)));
    add_switches();
    const std::string_view kinds = ops[op].arguments;
    for (size_t index = 0; index < kinds.size(); ++index) {
        begins_[index] = static_cast<uint16_t>(count_);
        add(kinds[index], stack[index]);
    }
}

/// PyTorch's settings that a plan depends on.
void arguments::add_switches() {
    if (device_ == gradnn_torch_cpu) {
        uint32_t threads = 0;
        torch.thread_count(&threads);
        add(threads);
    }
    if (!op().is_convolution()) return;
    if (!torch.has_switches()) {
        keyed_ = false; // Python alone can tell
        return;
    }
    // at::Float32Backend and at::Float32Op: CUDA or oneDNN, and convolution.
    const int backend = device_ == gradnn_torch_cuda ? 1 : 2;
    const void *context = torch.context();
    add(torch.precision(context, backend, 1));
    // Whether a library may be used decides the gradients' strides.
    if (device_ == gradnn_torch_cuda)
        add((torch.cudnn_benchmark(context) ? 2 : 0)
                + (torch.cudnn_enabled(context) ? 1 : 0));
    else
        add(torch.onednn_enabled(context));
}

void arguments::add(char kind, stable_value value) {
    switch (kind) {
        case a_tensor: return add_tensor(pointer(value));
        case an_integer: return add(static_cast<int64_t>(value));
        case a_boolean: return add(as_boolean(value));
        case a_list: return add_list(pointer(value), false);
        case a_mask: return add_list(pointer(value), true);
        case an_optional_list:
            if (!value) return add(-1);
            return add_list(pointer(*word_of(value)), false);
        default:
            add(value != 0);
            return add(value ? static_cast<int64_t>(*word_of(value)) : 0);
    }
}

void arguments::add_tensor(tensor_handle handle) {
    bool defined = false;
    int64_t rank = 0;
    int64_t *sizes = nullptr;
    int64_t *strides = nullptr;
    int32_t type = 0;
    int32_t kind = 0;
    int32_t index = 0;
    int32_t layout = 0;
    if (torch.is_defined(handle, &defined) != 0 || !defined
            || torch.get_layout(handle, &layout) != 0 || layout != torch.strided
            || torch.get_dim(handle, &rank) != 0
            || torch.get_sizes(handle, &sizes) != 0
            || torch.get_strides(handle, &strides) != 0
            || torch.get_dtype(handle, &type) != 0
            || torch.get_device_type(handle, &kind) != 0
            || torch.get_device_index(handle, &index) != 0) {
        keyed_ = false;
        return;
    }
    if (device_index_ < 0) device_index_ = index;
    add(type);
    add(static_cast<int64_t>(kind) * 256 + index);
    add(rank);
    for (int64_t axis = 0; axis < rank; ++axis)
        add(sizes[axis]);
    for (int64_t axis = 0; axis < rank; ++axis)
        add(strides[axis]);
}

void arguments::add_list(list_handle list, bool of_booleans) {
    size_t size = 0;
    if (torch.list_size(list, &size) != 0) keyed_ = false;
    add(static_cast<int64_t>(size));
    for (size_t index = 0; index < size && keyed_; ++index) {
        stable_value item = 0;
        if (torch.list_item(list, index, &item) != 0) keyed_ = false;
        add(of_booleans ? as_boolean(item) : static_cast<int64_t>(item));
    }
}

tensor_handle arguments::tensor_at(size_t argument) const {
    return pointer(stack_[argument]);
}

void arguments::free() {
    if (!owned_) return;
    owned_ = false;
    const std::string_view kinds = op().arguments;
    for (size_t index = 0; index < kinds.size(); ++index) {
        const stable_value value = stack_[index];
        switch (kinds[index]) {
            case a_tensor: torch.delete_tensor(pointer(value)); break;
            case a_list:
            case a_mask: torch.delete_list(pointer(value)); break;
            case an_optional_list:
                if (value) torch.delete_list(pointer(*word_of(value)));
                [[fallthrough]];
            case an_optional_number:
                if (value) delete_word(word_of(value));
                break;
            default: break;
        }
    }
}

} // namespace gradnn::torch_kernels
