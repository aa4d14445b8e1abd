// Where a convolution's tensors lie at an execution, as its kernels name them, and the
// kernels with their launches, which plans choose once.
#pragma once

#include <functional>

#include "gpu/runtime/launch.hpp"

namespace gradnn::gpu {

/// forward reads src and writes dst, the gradient of src reads dst and writes src.
/// Of the gradient of the weights `read` is src and `written` dst, which is read
/// too.
struct tensor_pointers {
    const void *read_data = nullptr;
    void *weights_data = nullptr;
    void *written_data = nullptr;
    void *workspace = nullptr;

    template <typename Type>
    const Type *read() const {
        return static_cast<const Type *>(read_data);
    }
    template <typename Type>
    Type *weights() const {
        return static_cast<Type *>(weights_data);
    }
    template <typename Type>
    Type *written() const {
        return static_cast<Type *>(written_data);
    }
    /// Partial sums, or what else a kernel keeps in the workspace.
    template <typename Sum>
    Sum *sums() const {
        return static_cast<Sum *>(workspace);
    }
};

/// A kernel, or some one after the other, with all of their launches but the tensors.
using launcher
        = std::function<void(const tensor_pointers &, const launch_stream &)>;

} // namespace gradnn::gpu
