// What the core knows of an engine: a row of the table in src/backends.cpp. Each
// engine defines its own (src/cpu/backend.cpp, src/gpu/backend.cpp).
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <tuple>

#include <gradnn/engine.hpp>

#include "kernel/engine_impl.hpp"
#include "kernel/kernel.hpp"

namespace gradnn::detail {

/// Of every workspace, on every engine.
constexpr size_t workspace_alignment = 64;

template <typename Problem>
struct fused_problem;

/// A row of a list that may have ops of single elements in its loads and stores, and the maker
/// of its plans with them.
template <typename Problem>
struct fusing_row {
    const char *name;
    plan_or_refusal (*make)(
            const fused_problem<Problem> &, const compile_options &);
};
template <typename Problem>
using fusing_rows = std::span<const fusing_row<Problem>>;

/// What kernels do where they do well, in a second; on the host by one thread. For
/// comparing forms of a partition (compile/composed.hpp).
struct kernel_rates {
    double products;
    double bytes;
    double sums; ///< elements of composed weights, or of their gradients
    double launch; ///< seconds
    /// Channels of a group below which products are slower.
    double channels;
};

struct backend {
    engine::kind kind;
    const char *name; ///< of the kind

    /// Whether kernels run on the caller's threads, in the host's memory. There is
    /// one such device, and its kernels are neither timed nor compiled for problems.
    bool on_host;

    /// Devices that can be used here, and where there are none why ("this build
    /// has no GPU engine: ..."; else empty).
    size_t (*device_count)() noexcept;
    std::string (*unavailable_reason)();

    /// The device with this index. Throws unimplemented with unavailable_reason()
    /// where there is none, invalid_arguments for an index out of range or an
    /// allocator that cannot serve the device.
    std::shared_ptr<const engine_impl> (*make_engine)(
            size_t index, const allocator &alloc);

    /// A stream of its own on an engine of make_engine.
    std::shared_ptr<stream_impl> (*make_stream)(
            std::shared_ptr<const engine_impl> engine);

    /// Calls `run` with a stream for one execution with the caller's workspace,
    /// on the caller's queue `native` (a cudaStream_t; nothing on the CPU). Cheap,
    /// and nothing of the stream outlives the call. Throws invalid_arguments for a
    /// queue of another device. Returns whether what was executed is now in a CUDA
    /// graph, which refers to it.
    bool (*run_on_native_stream)(std::shared_ptr<const engine_impl> engine,
            void *native, const std::function<void(stream_impl &)> &run);

    const kernel_lists &(*kernels)();

    /// The library that computes convolutions beside gradnn's own kernels. What is
    /// measured of it is kept with its version.
    const char *library;
    std::string (*library_version)();

    /// For elements of a type. Null where no engine can be made.
    kernel_rates (*rates)(data_type type, fpmath_mode fpmath);

    /// What a thread finds again in its cache some steps later: tensors inside a
    /// partition are computed in slices of so much (compile/slices.hpp). 0: whole.
    size_t cached_bytes = 0;

    std::tuple<fusing_rows<interpolation_problem>,
            fusing_rows<convolution_problem>, fusing_rows<bias_problem>>
            fusing = {};
};

/// All rows, of engines that this build is without too.
std::span<const backend *const> backends();

/// The row of a kind; null for kind any.
const backend *find_backend(engine::kind kind);

/// "cpu and gpu are allowed", for messages.
std::string allowed_kinds();

/// The same for the kind of an engine or of a supported partition.
inline const backend &backend_of(engine::kind kind) {
    return *find_backend(kind);
}

} // namespace gradnn::detail
