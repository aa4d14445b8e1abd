#include "torch/execute.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <span>
#include <string>

namespace gradnn::torch_kernels {

namespace {

/// The call that this thread runs PyTorch's kernel for.
thread_local const arguments *in_native = nullptr;

/// Set where PyTorch's kernel of convolution turns out to come back to the
/// dispatcher, and so to gradnn's.
std::atomic<bool> convolution_comes_back {false};

class native_scope {
public:
    explicit native_scope(const arguments &given) : outer_(in_native) {
        in_native = &given;
    }
    ~native_scope() { in_native = outer_; }
    native_scope(const native_scope &) = delete;
    native_scope &operator=(const native_scope &) = delete;

private:
    const arguments *outer_;
};

/// The list that begins at its count.
std::span<const int64_t> list_at(const int64_t *words) {
    return {words + 1, static_cast<size_t>(*words)};
}

bool native_convolution_call(const arguments &given, results &made) {
    const auto function = given.device() == gradnn_torch_cuda
            ? torch.cuda_convolution
            : torch.cpu_convolution;
    if (!function || convolution_comes_back.load(std::memory_order_relaxed))
        return false;
    const int64_t *bias = given.words(3);
    const int64_t *bias_sizes = bias + 1;
    const auto stride = list_at(given.words(4));
    const auto padding = list_at(given.words(5));
    const auto dilation = list_at(given.words(6));
    const auto transposed = static_cast<int32_t>(*given.words(7));
    const auto output_padding = list_at(given.words(8));
    const int64_t groups = *given.words(9);
    const auto mask = list_at(given.words(10));
    std::array<int32_t, 3> wanted {};
    if (mask.size() != wanted.size()) return false;
    std::copy(mask.begin(), mask.end(), wanted.begin());
    const native_scope scope(given);
    return function(given.tensor_at(0), given.tensor_at(1),
            given.tensor_at(2), *bias < 0 ? nullptr : &bias_sizes,
            std::max<int64_t>(*bias, 0), stride.data(),
            static_cast<int64_t>(stride.size()), padding.data(),
            static_cast<int64_t>(padding.size()), dilation.data(),
            static_cast<int64_t>(dilation.size()), transposed,
            output_padding.data(), static_cast<int64_t>(output_padding.size()),
            groups, wanted.data(), static_cast<int64_t>(wanted.size()),
            made[0].put(), made[1].put(), made[2].put())
            == 0;
}

/// The overload that writes to a given tensor is not overridden.
bool native_upsample_call(const arguments &given, results &made) {
    std::array<stable_value, max_arguments> stack {};
    const size_t count = std::char_traits<char>::length(given.op().arguments);
    const auto type = static_cast<int32_t>(*given.words(0));
    const bool cuda = given.device() == gradnn_torch_cuda;
    const int64_t none = 0;
    const int64_t one = 1;
    tensor result;
    if (torch.empty_strided(1, &none, &one, type,
                cuda ? torch.cuda : torch.cpu, given.device_index(),
                result.put())
            != 0)
        return false;
    for (size_t index = 0; index < count; ++index)
        stack[index] = given.copy(index);
    stack[count] = std::bit_cast<stable_value>(result.release());
    if (torch.call(given.op().native, "grad_input", stack.data(), abi_version)
            != 0)
        return false;
    *made[0].put() = std::bit_cast<tensor_handle>(stack[0]);
    return true;
}

} // namespace

bool execute(const plan &how, const arguments &given, results &made) {
    std::array<const void *, max_tensors> inputs {};
    std::array<void *, max_tensors> outputs {};
    const bool convolution = given.op().is_convolution;
    const size_t tensors = convolution ? 3 : 1;
    // InterpolateBackward has another input before, which it does not read.
    const size_t before = convolution ? 0 : 1;
    for (size_t index = 0; index < tensors; ++index)
        if (torch.get_const_data(
                    given.tensor_at(index), &inputs[before + index])
                != 0)
            return false;
    const bool cuda = given.device() == gradnn_torch_cuda;
    const int32_t kind = cuda ? torch.cuda : torch.cpu;
    const int32_t device = given.device_index();
    for (size_t index = 0; index < how.outputs.size(); ++index) {
        const output &wanted = how.outputs[index];
        if (!wanted.present) {
            if (torch.new_undefined_tensor(made[index].put()) != 0)
                return false;
            continue;
        }
        if (torch.empty_strided(wanted.rank, wanted.sizes.data(),
                    wanted.strides.data(), wanted.type, kind, device,
                    made[index].put())
                        != 0
                || torch.get_mutable_data(made[index].get(), &outputs[index])
                        != 0)
            return false;
    }
    tensor workspace;
    void *scratch = nullptr;
    if (how.workspace != 0) {
        const int64_t step = 1;
        if (torch.empty_strided(1, &how.workspace, &step, torch.u8, kind,
                    device, workspace.put())
                        != 0
                || torch.get_mutable_data(workspace.get(), &scratch) != 0)
            return false;
    }
    void *stream = nullptr;
    if (cuda && torch.cuda_stream(device, &stream) != 0) return false;
    return gradnn_execute(how.compiled.get(), stream, inputs.data(),
                   before + tensors, outputs.data(), how.outputs.size(),
                   scratch)
            == gradnn_success;
}

bool execute_native(const arguments &given, results &made) {
    return given.op().is_convolution ? native_convolution_call(given, made)
                                     : native_upsample_call(given, made);
}

bool comes_back(const arguments &given) {
    if (!in_native || !std::ranges::equal(in_native->key(), given.key()))
        return false;
    convolution_comes_back.store(true, std::memory_order_relaxed);
    return true;
}

} // namespace gradnn::torch_kernels
