// PyTorch's own kernels, called from below the dispatch key that is overridden.
#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "torch/execute.hpp"

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
    // PyTorch 2.11 refers to the sizes of the bias after it has freed its copy.
    if (*given.words(3) >= 0) return false;
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
    return function(given.tensor_at(0), given.tensor_at(1), given.tensor_at(2),
                   nullptr, 0, stride.data(),
                   static_cast<int64_t>(stride.size()), padding.data(),
                   static_cast<int64_t>(padding.size()), dilation.data(),
                   static_cast<int64_t>(dilation.size()), transposed,
                   output_padding.data(),
                   static_cast<int64_t>(output_padding.size()), groups,
                   wanted.data(), static_cast<int64_t>(wanted.size()),
                   made[0].put(), made[1].put(), made[2].put())
            == 0;
}

/// at::_ops::<op>_grad_input::call, which writes to a given tensor and is not
/// overridden. The C functions cannot call it (up to 2.15 they hand on lists of
/// symbolic integers as lists of another type than the kernels take). So it is
/// C++, found by its name, which has the types of the parameters in it; they
/// are passed as these are.
struct array_reference { // c10::ArrayRef<c10::SymInt>
    const int64_t *data;
    size_t size;
};
using number = std::optional<double>;

template <typename... Numbers>
using nearest_function = void *(*)(tensor_handle, array_reference,
        array_reference, Numbers..., tensor_handle);
template <typename... Numbers>
using linear_function = void *(*)(tensor_handle, array_reference,
        array_reference, bool, Numbers..., tensor_handle);

template <size_t>
using a_number = number;

number number_at(const int64_t *words) {
    if (!words[0]) return {};
    return std::bit_cast<double>(words[1]);
}

template <size_t... axis>
void call_upsample(void *function, const arguments &given, tensor_handle result,
        std::index_sequence<axis...>) {
    const auto list = [&](size_t argument) {
        const auto found = list_at(given.words(argument));
        return array_reference {found.data(), found.size()};
    };
    if (given.op().arguments[3] == a_boolean)
        std::bit_cast<linear_function<a_number<axis>...>>(function)(
                given.tensor_at(0), list(1), list(2), *given.words(3) != 0,
                number_at(given.words(4 + axis))..., result);
    else
        std::bit_cast<nearest_function<a_number<axis>...>>(function)(
                given.tensor_at(0), list(1), list(2),
                number_at(given.words(3 + axis))..., result);
}

bool native_upsample_call(const arguments &given, results &made) {
    void *function = torch.native_upsample[given.op_index()];
    if (!function) return false;
    const auto type = static_cast<int32_t>(*given.words(0));
    const bool cuda = given.device() == gradnn_torch_cuda;
    const int64_t none = 0;
    const int64_t one = 1;
    tensor result;
    if (torch.empty_strided(1, &none, &one, type, cuda ? torch.cuda : torch.cpu,
                given.device_index(), result.put())
            != 0)
        return false;
    try {
        switch (given.op().spatial_axes()) {
            case 1:
                call_upsample(function, given, result.get(),
                        std::make_index_sequence<1>());
                break;
            case 2:
                call_upsample(function, given, result.get(),
                        std::make_index_sequence<2>());
                break;
            default:
                call_upsample(function, given, result.get(),
                        std::make_index_sequence<3>());
        }
    } catch (...) {
        return false; // Python tells what it was
    }
    *made[0].put() = result.release();
    return true;
}

} // namespace

bool execute_native(const arguments &given, results &made) {
    return given.op().is_convolution() ? native_convolution_call(given, made)
                                       : native_upsample_call(given, made);
}

bool comes_back(const arguments &given) {
    if (!in_native || !std::ranges::equal(in_native->key(), given.key()))
        return false;
    convolution_comes_back.store(true, std::memory_order_relaxed);
    return true;
}

} // namespace gradnn::torch_kernels
