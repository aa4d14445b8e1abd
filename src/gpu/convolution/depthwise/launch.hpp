// Depthwise: what the launches of all families are given at an execution.
#pragma once

#include <cstddef>
#include <type_traits>

#include "gpu/convolution/depthwise/shape.hpp"
#include "gpu/convolution/pointers.hpp"
#include "gpu/runtime/launch.hpp"

namespace gradnn::gpu::depthwise {

/// How src and dst lie.
struct tensor_alignment {
    bool vectors = false; ///< at multiples of 16 bytes
    bool pairs = false; ///< at multiples of two elements
};

/// One execution of a plan.
struct execution : tensor_pointers {
    detail::data_type type; ///< of src and dst
    const problem_shape &shape;
    tensor_alignment alignment;
    launch_stream stream;
};

/// Launches an execution's kernel of data, or of the weights' partial sums, which is
/// given the tensors, the shape and what else it takes.
template <typename Type, typename... Others>
void start_data(const execution &on, const char *name,
        void (*kernel)(
                const Type *, const Type *, Type *, problem_shape, Others...),
        int64_t blocks, int threads, size_t shared_bytes,
        const std::type_identity_t<Others> &...others) {
    launch_early(name, kernel, blocks, threads, shared_bytes, on.stream,
            on.read<Type>(), on.weights<Type>(), on.written<Type>(), on.shape,
            others...);
}
template <typename Type, typename Sum, typename... Others>
void start_weights(const execution &on, const char *name,
        void (*kernel)(
                const Type *, const Type *, Sum *, problem_shape, Others...),
        int64_t blocks, int threads, size_t shared_bytes,
        const std::type_identity_t<Others> &...others) {
    launch_early(name, kernel, blocks, threads, shared_bytes, on.stream,
            on.read<Type>(), on.written<Type>(), on.sums<Sum>(), on.shape,
            others...);
}

/// Adds up the partial sums of an execution, so many for each weight.
void launch_parts(
        const execution &, int64_t parts, detail::data_type weights_type);

} // namespace gradnn::gpu::depthwise
