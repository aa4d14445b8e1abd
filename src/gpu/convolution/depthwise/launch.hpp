// Depthwise: launches of all families, which a plan chooses when it is made.
#pragma once

#include <type_traits>

#include "gpu/convolution/depthwise/shape.hpp"
#include "gpu/convolution/launcher.hpp"
#include "gpu/runtime/launch.hpp"
#include "kernel/problem.hpp"

namespace gradnn::gpu::depthwise {

/// How src and dst lie.
struct tensor_alignment {
    bool vectors = false; ///< at multiples of 16 bytes
    bool pairs = false; ///< at multiples of two elements
};

/// What kernels are chosen by, beside a family's cut.
struct launch_facts {
    detail::data_type type; ///< of src and dst
    const problem_shape &shape;
    tensor_alignment alignment;
};

/// The launch of a kernel of data, or of the weights' partial sums, which is given the
/// tensors, the shape and what else it takes.
template <typename Type, typename... Others>
launcher launch_of_data(const launch_facts &facts, const char *name,
        void (*kernel)(
                const Type *, const Type *, Type *, problem_shape, Others...),
        int64_t blocks, int threads, size_t shared_bytes,
        const std::type_identity_t<Others> &...others) {
    return [=, shape = facts.shape](
                   const tensor_pointers &at, const launch_stream &stream) {
        launch_early(name, kernel, blocks, threads, shared_bytes, stream,
                at.read(shape.to_src), at.weights, at.written(shape.to_src),
                shape, others...);
    };
}
template <typename Type, typename Sum, typename... Others>
launcher launch_of_weights(const launch_facts &facts, const char *name,
        void (*kernel)(
                const Type *, const Type *, Sum *, problem_shape, Others...),
        int64_t blocks, int threads, size_t shared_bytes,
        const std::type_identity_t<Others> &...others) {
    return [=, shape = facts.shape](
                   const tensor_pointers &at, const launch_stream &stream) {
        launch_early(name, kernel, blocks, threads, shared_bytes, stream,
                at.src, at.dst, at.workspace, shape, others...);
    };
}

/// The launch that adds up the partial sums of each weight, `parts` of them.
launcher parts_launcher(
        const launch_facts &, int64_t parts, detail::data_type weights_type);

} // namespace gradnn::gpu::depthwise
