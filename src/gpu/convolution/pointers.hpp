// Where a convolution's tensors lie at an execution, as its kernels name them.
#pragma once

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

} // namespace gradnn::gpu
