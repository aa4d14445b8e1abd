// Where a convolution's tensors lie at an execution, and the kernels with their launches,
// which plans choose once.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

namespace gradnn::detail {
class plan;
}

namespace gradnn::gpu {

struct launch_stream;

/// An address, as a pointer to what the kernel takes.
struct tensor_pointer {
    void *data = nullptr;

    template <typename Type>
    operator Type *() const {
        return static_cast<Type *>(data);
    }
};

struct tensor_pointers {
    tensor_pointer src, weights, dst;
    tensor_pointer workspace; ///< of partial sums, or what else a kernel keeps

    /// What a kernel of data reads, and what it writes (README.md).
    tensor_pointer read(bool to_src) const { return to_src ? dst : src; }
    tensor_pointer written(bool to_src) const { return to_src ? src : dst; }
};

/// A kernel, or some one after the other, with all of their launches but the tensors.
using launcher
        = std::function<void(const tensor_pointers &, const launch_stream &)>;

/// A plan of these on the caller's tensors, with so many bytes of workspace.
std::unique_ptr<detail::plan> plan_of(
        launcher launches, size_t workspace_bytes);

} // namespace gradnn::gpu
