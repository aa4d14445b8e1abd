// Handlers for XLA's foreign function interface (FFI), which JAX calls, and
// what Python asks before it emits such a call. Each handler runs any op:
// program.hpp says how a call describes it.
#include <array>
#include <atomic>
#include <cstring>
#include <exception>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include <xla/ffi/api/ffi.h>

#include <gradnn/c_api.h>

#include "jax/cpu_memory.hpp"
#include "jax/program.hpp"

namespace ffi = xla::ffi;

namespace gradnn::jax {

namespace {

/// 0: gradnn's default.
std::atomic<int> cpu_threads {0};

/// XLA runs independent calls of a program on several threads at once. Plans of
/// many threads take turns: each has all of its threads then.
std::mutex &cpu_turn = *new std::mutex;

gradnn_data_type data_type_of(ffi::DataType type) {
    switch (type) {
        case ffi::DataType::F16: return gradnn_f16;
        case ffi::DataType::BF16: return gradnn_bf16;
        case ffi::DataType::F32: return gradnn_f32;
        case ffi::DataType::F64: return gradnn_f64;
        default: return gradnn_undef;
    }
}

buffer buffer_of(const ffi::AnyBuffer &from) {
    const auto dims = from.dimensions();
    return {data_type_of(from.element_type()), {dims.begin(), dims.size()},
            from.untyped_data()};
}

struct buffers {
    buffers(ffi::RemainingArgs args, ffi::RemainingRets rets) {
        for (size_t index = 0; index < args.size(); ++index)
            arguments.push_back(buffer_of(*args.get<ffi::AnyBuffer>(index)));
        for (size_t index = 0; index < rets.size(); ++index)
            results.push_back(buffer_of(**rets.get<ffi::AnyBuffer>(index)));
    }
    jax::call call() const { return {arguments, results}; }

    std::vector<buffer> arguments;
    std::vector<buffer> results;
};

ffi::ErrorCode error_code_of(gradnn_status status) {
    switch (status) {
        case gradnn_out_of_memory: return ffi::ErrorCode::kResourceExhausted;
        case gradnn_unimplemented: return ffi::ErrorCode::kUnimplemented;
        case gradnn_runtime_error: return ffi::ErrorCode::kInternal;
        default: return ffi::ErrorCode::kInvalidArgument;
    }
}

/// Runs body; no exception leaves it.
template <typename Body>
ffi::Error fenced(const Body &body) {
    try {
        body();
        return ffi::Error::Success();
    } catch (const failure &what) {
        return {error_code_of(what.status), what.message};
    } catch (const std::bad_alloc &) {
        return {ffi::ErrorCode::kResourceExhausted,
                "gradnn.jax: out of memory"};
    } catch (const std::exception &what) {
        return {ffi::ErrorCode::kInternal, what.what()};
    }
}

ffi::Error run_on_cpu(ffi::RemainingArgs args, ffi::RemainingRets rets,
        std::string_view text) {
    return fenced([&] {
        program &what = program_of(text);
        const buffers given(args, rets);
        const int threads = cpu_threads.load(std::memory_order_relaxed);
        const compiled_op compiled
                = what.compile(engine_of(gradnn_cpu, 0), threads, given.call());
        std::unique_lock<std::mutex> turn;
        if (threads != 1) turn = std::unique_lock(cpu_turn);
        const cpu_workspace workspace(compiled.workspace_size());
        what.execute(compiled, nullptr, given.call(), workspace.get());
    });
}

/// XLA may capture the call into a CUDA graph, which keeps the addresses of all
/// memory. So workspace is a further result of the call, which lives as long as
/// the other buffers (XLA's scratch memory ends with the call), and the op is
/// compiled already (gradnn_jax_prepare), for compiling allocates.
ffi::Error run_on_cuda(void *stream, int32_t device, ffi::RemainingArgs args,
        ffi::RemainingRets rets, std::string_view text) {
    return fenced([&] {
        program &what = program_of(text);
        const buffers given(args, rets);
        const compiled_op compiled = what.compile(
                engine_of(gradnn_gpu, static_cast<size_t>(device)), 0,
                given.call());
        void *workspace = nullptr;
        size_t there = 0;
        if (given.results.size() > what.result_count()) {
            const buffer &last = given.results.back();
            workspace = last.data;
            there = 1;
            for (const int64_t dim : last.dims)
                there *= static_cast<size_t>(dim);
        }
        if (there < compiled.workspace_size())
            throw failure {gradnn_invalid_arguments,
                    "gradnn.jax: this GPU needs "
                            + std::to_string(compiled.workspace_size())
                            + " bytes of workspace; the program was compiled "
                              "for one that needs "
                            + std::to_string(there)};
        what.execute(compiled, stream, given.call(), workspace);
    });
}

} // namespace

} // namespace gradnn::jax

using namespace gradnn::jax;

#define GRADNN_JAX_API extern "C" __attribute__((visibility("default")))

GRADNN_JAX_API XLA_FFI_Error *gradnn_jax_cpu(XLA_FFI_CallFrame *);
GRADNN_JAX_API XLA_FFI_Error *gradnn_jax_cuda(XLA_FFI_CallFrame *);

XLA_FFI_DEFINE_HANDLER_SYMBOL(gradnn_jax_cpu, run_on_cpu,
        ffi::Ffi::Bind().RemainingArgs().RemainingRets().Attr<std::string_view>(
                "op"));

XLA_FFI_DEFINE_HANDLER_SYMBOL(gradnn_jax_cuda, run_on_cuda,
        ffi::Ffi::Bind()
                .Ctx<ffi::PlatformStream<void *>>()
                .Ctx<ffi::DeviceOrdinal>()
                .RemainingArgs()
                .RemainingRets()
                .Attr<std::string_view>("op"),
        {ffi::Traits::kCmdBufferCompatible});

/// The number of threads of CPU calls from now on; 0: gradnn's default.
GRADNN_JAX_API void gradnn_jax_set_threads(int threads) {
    cpu_threads = threads;
}

GRADNN_JAX_API int gradnn_jax_get_threads(void) {
    return cpu_threads;
}

/// The version of XLA's interface that the handlers are made for.
GRADNN_JAX_API void gradnn_jax_ffi_version(int *major, int *minor) {
    *major = XLA_FFI_API_MAJOR;
    *minor = XLA_FFI_API_MINOR;
}

/// A tensor of a call for gradnn_jax_prepare.
struct gradnn_jax_shape {
    int32_t data_type; ///< gradnn_data_type
    int32_t rank;
    int64_t dims[GRADNN_MAX_NDIMS];
};

/// Compiles what a call will run on a device, so that the call finds it, and
/// returns the bytes of workspace, with the names of the kernels as message;
/// -1, with the reason, where gradnn refuses.
GRADNN_JAX_API int64_t gradnn_jax_prepare(const char *text, int kind,
        size_t index, const gradnn_jax_shape *arguments, size_t argument_count,
        const gradnn_jax_shape *results, size_t result_count, char *message,
        size_t message_size) {
    int64_t bytes = -1;
    std::string kernels;
    const ffi::Error error = fenced([&] {
        const auto buffers_of = [](const gradnn_jax_shape *shapes,
                                        size_t count) {
            std::vector<buffer> list;
            for (size_t at = 0; at < count; ++at)
                list.push_back({static_cast<gradnn_data_type>(
                                        shapes[at].data_type),
                        {shapes[at].dims, static_cast<size_t>(shapes[at].rank)},
                        nullptr});
            return list;
        };
        const auto ins = buffers_of(arguments, argument_count);
        const auto outs = buffers_of(results, result_count);
        const auto device = static_cast<gradnn_engine_kind>(kind);
        const int threads = device == gradnn_cpu ? cpu_threads.load() : 0;
        const compiled_op compiled = program_of(text).compile(
                engine_of(device, index), threads, {ins, outs});
        for (const gradnn_step &step : compiled.steps()) {
            if (!kernels.empty()) kernels += ", ";
            kernels += step.kernel;
        }
        bytes = static_cast<int64_t>(compiled.workspace_size());
    });
    if (message && message_size > 0) {
        const std::string &said = error.failure() ? error.message() : kernels;
        std::strncpy(message, said.c_str(), message_size - 1);
        message[message_size - 1] = '\0';
    }
    return bytes;
}
