// The kernels that stand in PyTorch's dispatcher, and the functions of
// gradnn_torch.h that concern them.
#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <utility>

#include "base/threads.hpp"
#include "torch/arguments.hpp"
#include "torch/execute.hpp"
#include "torch/gradnn_torch.h"
#include "torch/plans.hpp"
#include "torch/python_failure.hpp"
#include "torch/shim.hpp"

namespace gradnn::torch_kernels {

namespace {

std::atomic<bool> is_enabled {false};

/// A call that is with gradnn::slow_<name>.
struct slow_call {
    const arguments *given;
    void *failure_type = nullptr; ///< PyObject
    std::string failure_text;
};
thread_local slow_call *under_way = nullptr;

class slow_scope {
public:
    explicit slow_scope(slow_call &call) : outer_(under_way) {
        under_way = &call;
    }
    ~slow_scope() { under_way = outer_; }
    slow_scope(const slow_scope &) = delete;
    slow_scope &operator=(const slow_scope &) = delete;

private:
    slow_call *outer_;
};

/// The results by Python, which also learns what to keep for such calls.
void execute_slowly(arguments &given, results &made) {
    std::array<stable_value, max_arguments> stack {};
    const op_description &op = given.op();
    slow_call call {&given, nullptr, {}};
    const slow_scope scope(call);
    const stable_value *values = given.give_away();
    std::copy_n(values, op.arguments.size(), stack.begin());
    if (torch.call(op.slow, "", stack.data(), abi_version) != 0)
        throw_failure(std::string(op.slow) + ": "
                + (torch.failure_text ? torch.failure_text()
                                      : "failed in PyTorch's dispatcher"));
    for (size_t index = 0; index < op.outputs(); ++index)
        *made[index].put() = std::bit_cast<tensor_handle>(stack[index]);
    if (call.failure_type)
        throw_python_failure(call.failure_type, call.failure_text);
}

void run(size_t op, gradnn_torch_device device, stable_value *stack) {
    results made;
    {
        arguments given(
                op, device, is_enabled.load(std::memory_order_relaxed), stack);
        bool done = false;
        if (!given.key().empty()) {
            const auto how = plans().find(given.key());
            done = how && execute(*how, given, made);
            if (done) how->calls->count();
        }
        if (!done) {
            for (tensor &each : made)
                each.free();
            execute_slowly(given, made);
        }
    }
    for (size_t index = 0; index < ops[op].outputs(); ++index)
        stack[index] = std::bit_cast<stable_value>(made[index].release());
}

template <size_t op, gradnn_torch_device device>
void kernel(stable_value *stack, uint64_t, uint64_t) {
    run(op, device, stack);
}

template <gradnn_torch_device device, size_t... op>
bool implement(library_handle library, std::index_sequence<op...>) {
    return ((torch.implement(
                     library, ops[op].name, &kernel<op, device>, abi_version)
                    == 0)
            && ...);
}

std::mutex registration;
std::string missing;
std::array<bool, 2> bound {};
std::array<bool, 2> registered {};
std::array<library_handle, 2> libraries {}; ///< of PyTorch; null: none

void keep(std::shared_ptr<plan> made) {
    plans().keep(under_way->given->key(), std::move(made));
}

bool may_keep() {
    return under_way && !under_way->given->key().empty();
}

int32_t type_of(int32_t data_type) {
    switch (data_type) {
        case gradnn_f16: return torch.type_f16();
        case gradnn_bf16: return torch.type_bf16();
        case gradnn_f64: return torch.type_f64();
        default: return torch.type_f32();
    }
}

output output_of(const gradnn_tensor &given) {
    output made;
    made.present = given.data_type != gradnn_undef;
    if (!made.present) return made;
    made.type = type_of(given.data_type);
    made.rank = given.ndims;
    std::copy_n(given.dims, given.ndims, made.sizes.begin());
    std::copy_n(given.strides, given.ndims, made.strides.begin());
    return made;
}

} // namespace

} // namespace gradnn::torch_kernels

using namespace gradnn::torch_kernels;

int gradnn_torch_bind(gradnn_torch_device device, const char *library) {
    const std::lock_guard lock(registration);
    if (!bound[device]) {
        missing = device == gradnn_torch_cuda ? torch.bind_cuda(library)
                                              : torch.bind(library);
        bound[device] = missing.empty();
    }
    return bound[device];
}

const char *gradnn_torch_missing(void) {
    return missing.c_str();
}

int gradnn_torch_register(gradnn_torch_device device) {
    const std::lock_guard lock(registration);
    if (!bound[gradnn_torch_cpu] || !bound[device]) return 0;
    if (registered[device]) return 1;
    library_handle &library = libraries[device];
    // A library that some of the kernels could not be put into is not used again.
    if (library) return 0;
    const char *key = device == gradnn_torch_cuda ? "CUDA" : "CPU";
    if (torch.new_library("aten", key, __FILE__, __LINE__, &library) != 0)
        return 0;
    constexpr auto all = std::make_index_sequence<op_count>();
    registered[device] = device == gradnn_torch_cuda
            ? implement<gradnn_torch_cuda>(library, all)
            : implement<gradnn_torch_cpu>(library, all);
    return registered[device];
}

int gradnn_torch_unregister(gradnn_torch_device device) {
    const std::lock_guard lock(registration);
    library_handle &library = libraries[device];
    if (!library) return 1;
    if (!torch.delete_library || torch.delete_library(library) != 0) return 0;
    library = nullptr;
    registered[device] = false;
    return 1;
}

int gradnn_torch_thread_limit(void) {
    return gradnn::detail::thread_limit();
}

void gradnn_torch_set_enabled(int enabled) {
    is_enabled.store(enabled != 0, std::memory_order_relaxed);
}

int gradnn_torch_call_enabled(void) {
    return !under_way || under_way->given->enabled();
}

void gradnn_torch_keep_compiled(const gradnn_compiled *compiled,
        const gradnn_tensor *outputs, size_t output_count, const char *op,
        const char *device, const char *kernels) {
    if (!may_keep() || !compiled || output_count > max_tensors) return;
    try {
        auto made = std::make_shared<plan>();
        gradnn::c_api::retain(*compiled);
        made->compiled.reset(compiled);
        for (size_t index = 0; index < output_count; ++index)
            made->outputs.push_back(output_of(outputs[index]));
        made->workspace = static_cast<int64_t>(
                gradnn_compiled_workspace_size(compiled));
        made->calls = &counter_of(op, device, kernels);
        keep(std::move(made));
    } catch (const std::bad_alloc &) {
        // Not kept: Python computes the next such call too.
    }
}

void gradnn_torch_keep_failure(void *type, const char *message) {
    if (!under_way) return;
    under_way->failure_type = type;
    try {
        under_way->failure_text = message;
    } catch (const std::bad_alloc &) {
        // The exception goes without its text.
    }
}
