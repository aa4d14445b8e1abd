// ReLU's gradient, addition and zero-filling.
//
// relu_backward: out = a > 0 ? b : 0. add: out = a + b, summed in f32 (f64 for
// f64) and rounded once. zero_fill: out = 0 (runtime/copy.hpp).
//
// A thread has 16 bytes of each operand where all are dense and the pointers
// allow it, else one element found from its number by division. Reads a and b
// once, writes out once, nothing else; each element is written by one thread,
// so results do not depend on any order.
#include <algorithm>
#include <limits>

#include "gpu/device/dtype.cuh"
#include "gpu/kernels.hpp"
#include "gpu/runtime/copy.hpp"
#include "gpu/runtime/launch.hpp"
#include "gpu/runtime/with_type.hpp"

namespace gradnn::gpu {

namespace {

using detail::elementwise_kind;

constexpr int threads = 256;

template <elementwise_kind kind, typename Type>
__device__ Type combine(Type a, Type b) {
    if constexpr (kind == elementwise_kind::relu_backward)
        return widen(a) > 0 ? b : narrow<Type>(sum_of<Type>(0));
    else
        return narrow<Type>(widen(a) + widen(b));
}

template <elementwise_kind kind, typename Type, int vector>
__global__ void __launch_bounds__(threads)
        dense_kernel(const Type *a, const Type *b, Type *out, int64_t count) {
    // Two vectors a thread, a block apart, so that four loads are in flight.
    constexpr int64_t block_elements = 2 * threads * vector;
    const int64_t first = blockIdx.x * block_elements + threadIdx.x * vector;
    using words = pack<Type, vector>;
    words a_words[2];
    words b_words[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const int64_t at = first + i * threads * vector;
        if (at + vector > count) continue;
        a_words[i] = words::load_constant(a + at);
        b_words[i] = words::load_constant(b + at);
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const int64_t at = first + i * threads * vector;
        if (at + vector <= count) {
            Type a_values[vector];
            Type b_values[vector];
            memcpy(a_values, &a_words[i], sizeof a_values);
            memcpy(b_values, &b_words[i], sizeof b_values);
#pragma unroll
            for (int e = 0; e < vector; ++e)
                a_values[e] = combine<kind>(a_values[e], b_values[e]);
            memcpy(&a_words[i], a_values, sizeof a_values);
            a_words[i].store(out + at);
        } else {
            for (int64_t e = at; e < count; ++e)
                out[e] = combine<kind>(a[e], b[e]);
        }
    }
}

struct strided_shape {
    static constexpr int max_rank = detail::elementwise_problem::max_rank;
    int rank = 0;
    int64_t count = 1;
    int64_t dims[max_rank] = {};
    int64_t a_strides[max_rank] = {};
    int64_t b_strides[max_rank] = {};
    int64_t out_strides[max_rank] = {};
};

template <elementwise_kind kind, typename Type, typename Index>
__global__ void __launch_bounds__(threads) strided_kernel(const Type *a,
        const Type *b, Type *out, const __grid_constant__ strided_shape shape) {
    const auto step = static_cast<int64_t>(gridDim.x) * threads;
    for (int64_t number = blockIdx.x * int64_t(threads) + threadIdx.x;
            number < shape.count; number += step) {
        auto rest = static_cast<Index>(number);
        int64_t a_at = 0;
        int64_t b_at = 0;
        int64_t out_at = 0;
        for (int axis = shape.rank - 1; axis >= 0; --axis) {
            const auto dim = static_cast<Index>(shape.dims[axis]);
            const auto position = static_cast<int64_t>(rest % dim);
            rest /= dim;
            a_at += position * shape.a_strides[axis];
            b_at += position * shape.b_strides[axis];
            out_at += position * shape.out_strides[axis];
        }
        out[out_at] = combine<kind>(a[a_at], b[b_at]);
    }
}

template <elementwise_kind kind, typename Type>
launched_plan::launches launches_of(const strided_shape &shape, bool dense) {
    return [=](std::span<void *const> args, std::byte *,
                   const launch_stream &stream) {
        const auto *const a = static_cast<const Type *>(args[0]);
        const auto *const b = static_cast<const Type *>(args[1]);
        auto *const out = static_cast<Type *>(args[2]);
        if (!dense)
            return launch("elementwise (strided)",
                    shape.count < std::numeric_limits<int32_t>::max()
                            ? strided_kernel<kind, Type, uint32_t>
                            : strided_kernel<kind, Type, uint64_t>,
                    blocks_for(shape.count, threads), threads, 0, stream, a, b,
                    out, shape);
        // By vectors where all tensors are at multiples of 16 bytes.
        constexpr int together = 16 / sizeof(Type);
        const bool aligned = std::ranges::all_of(
                args, [](void *each) { return is_aligned(each, 16); });
        launch("elementwise",
                aligned ? dense_kernel<kind, Type, together>
                        : dense_kernel<kind, Type, 1>,
                ceil_div(shape.count, 2 * threads * (aligned ? together : 1)),
                threads, 0, stream, a, b, out, shape.count);
    };
}

} // namespace

plan_or_refusal make_elementwise(
        const elementwise_problem &problem, const compile_options &) {
    if (problem.kind == elementwise_kind::zero_fill) {
        strided_copy fill {problem.type, problem.type, problem.rank};
        if (problem.rank > static_cast<int>(fill.dims.size()))
            return plan_or_refusal::refuse("fills up to six axes with zeros");
        std::copy_n(problem.dims.begin(), problem.rank, fill.dims.begin());
        std::copy_n(problem.out_strides.begin(), problem.rank,
                fill.dst_strides.begin());
        return std::make_unique<launched_plan>(
                [=](std::span<void *const> args, std::byte *,
                        const launch_stream &stream) {
                    write_zeros(fill, args[0], stream);
                });
    }
    strided_shape shape {problem.rank};
    std::ranges::copy(problem.dims, shape.dims);
    std::ranges::copy(problem.a_strides, shape.a_strides);
    std::ranges::copy(problem.b_strides, shape.b_strides);
    std::ranges::copy(problem.out_strides, shape.out_strides);
    for (int axis = 0; axis < problem.rank; ++axis)
        shape.count *= shape.dims[axis];
    const bool dense = problem.rank == 1 && problem.out_strides[0] == 1
            && problem.a_strides[0] == 1 && problem.b_strides[0] == 1;
    return std::make_unique<launched_plan>(
            with_float_type(problem.type, [&]<typename Type>() {
                using enum elementwise_kind;
                return problem.kind == add
                        ? launches_of<add, Type>(shape, dense)
                        : launches_of<relu_backward, Type>(shape, dense);
            }));
}

} // namespace gradnn::gpu
