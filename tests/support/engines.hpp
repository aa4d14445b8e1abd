// Engines that the suite runs on, and their memory.
//
// The suite takes the engine as a parameter. The CPU is always there; a GPU
// joins, in the same tests, once a backend of kind gpu is registered and the
// machine has a device. Tests on it carry "gpu" in their names.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include <gradnn/engine.hpp>

#include "kernel/kernel.hpp"

namespace gradnn::test {

/// How tests allocate and copy memory of an engine, and its kernel lists.
struct backend {
    void *(*allocate)(size_t bytes, size_t device);
    void (*deallocate)(void *pointer, size_t device);
    void (*copy_in)(
            void *to, const void *from_host, size_t bytes, size_t device);
    void (*copy_out)(
            void *to_host, const void *from, size_t bytes, size_t device);
    const detail::kernel_lists &(*kernels)();
};

/// Adds the backend of an engine kind; to be called before main (from the
/// initialiser of a static object).
bool register_backend(engine::kind kind, const backend &functions);
const backend &backend_of(engine::kind kind);

/// Kinds with a backend and at least one device here; the CPU first.
std::vector<engine::kind> engine_kinds();

/// An engine of index 0, made once.
engine shared_engine(engine::kind kind);

/// Names of an engine's kernels for a problem: "interpolation", "convolution",
/// "bias" or "elementwise"; with or without the last resorts.
std::vector<std::string> kernel_names(engine::kind kind,
        const std::string &problem, bool last_resorts = true);

/// Those of them that begin so, separated by commas, as forced_kernel takes
/// them: "convolution.gpu_depthwise" for those of tensor cores.
std::string kernels_that_begin(engine::kind kind, const std::string &problem,
        const std::string &beginning);

/// Memory of a device, not initialised; its address is a multiple of 64 plus
/// `offset`.
class device_memory {
public:
    device_memory(const engine &e, size_t bytes, size_t offset = 0);

    void *data() const;
    size_t size() const { return bytes_; }
    void write(const void *from_host);
    void read(void *to_host) const;

private:
    engine engine_;
    size_t bytes_;
    size_t offset_;
    std::shared_ptr<void> memory_;
};

} // namespace gradnn::test
