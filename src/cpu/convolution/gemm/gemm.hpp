// A blocked matrix product that reads its operands and writes its result
// through a mapping, so that neither need be a matrix in memory:
//
//     result[p, q] = sum over k of vector_side[p, k] * broadcast_side[q, k]
//
// The p axis lies along SIMD lanes, elements of the q axis are broadcast. Sums
// run over chunks of at most gemm_max_steps k each: inside a chunk one FMA
// after the other in registers, over chunks in the order of their numbers.
// The bits of an element depend on its operands and on the chunks alone, not
// on how the p and q axes are divided into blocks.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernel/problem.hpp"

namespace gradnn::cpu {

/// The most k that a chunk may have: two packed panels fit into an L1 cache.
inline constexpr int64_t gemm_max_steps = 160;

/// After so many chunks a sum is added to a total of its own, so that the
/// rounding error of long f32 sums grows no further.
inline constexpr int64_t gemm_round_chunks = 64;

/// A call-back that does not own what it calls.
template <typename Argument>
class sink {
public:
    template <typename Callable>
    explicit sink(const Callable &callable)
        : context_(&callable), call_([](const void *context, Argument arg) {
              (*static_cast<const Callable *>(context))(arg);
          }) {}
    void operator()(Argument argument) const { call_(context_, argument); }

private:
    const void *context_;
    void (*call_)(const void *, Argument);
};

/// Elements (row + i, step + j * step_pitch) of an operand, i < rows and
/// j < steps, lie offset + i * row_stride + j * step_stride elements from the
/// operand's base; or, outside the tensor, are no terms of the sum at all.
struct operand_rectangle {
    int64_t row = 0;
    int64_t rows = 0;
    int64_t step = 0;
    int64_t steps = 0;
    int64_t step_pitch = 1;
    bool outside = false;
    int64_t offset = 0;
    int64_t row_stride = 0;
    int64_t step_stride = 0;
};

/// Elements (p + i, q + j) of the result, i < ps and j < qs, lie
/// offset + i * p_stride + j * q_stride elements from the result's base.
struct result_rectangle {
    int64_t p = 0;
    int64_t ps = 0;
    int64_t q = 0;
    int64_t qs = 0;
    int64_t offset = 0;
    int64_t p_stride = 0;
    int64_t q_stride = 0;
};

/// Where the elements are. Rows, p and q are counted from the first row of the
/// product, steps from the first of the chunk. The rectangles handed to a sink
/// cover what was asked for exactly once.
class gemm_mapping {
public:
    virtual ~gemm_mapping() = default;

    /// Steps of a chunk, 1 to gemm_max_steps.
    virtual int64_t steps(int64_t chunk) const = 0;
    /// Steps of all chunks before.
    virtual int64_t first_step(int64_t chunk) const = 0;
    virtual void vector_side(int64_t row, int64_t rows, int64_t chunk,
            const sink<const operand_rectangle &> &out) const = 0;
    virtual void broadcast_side(int64_t row, int64_t rows, int64_t chunk,
            const sink<const operand_rectangle &> &out) const = 0;
    virtual void result(int64_t p, int64_t ps, int64_t q, int64_t qs,
            const sink<const result_rectangle &> &out) const = 0;
};

/// The part of a product that one call computes.
struct gemm_block {
    int64_t p = 0;
    int64_t ps = 0;
    int64_t q = 0;
    int64_t qs = 0;
    int64_t chunk_begin = 0;
    int64_t chunk_end = 0; ///< == chunk_begin: a sum over nothing, 0
};

enum class gemm_side { vector, broadcast };

/// Either side may come packed already; its base is not read then.
struct gemm_pointers {
    const void *vector_side = nullptr;
    const void *broadcast_side = nullptr;
    const std::byte *packed_vector_side = nullptr;
    const std::byte *packed_broadcast_side = nullptr;
    int64_t packed_rows = 0; ///< of the whole product, on the packed side
    /// Null: the sums stay in `partial`, for sum_partials.
    void *result = nullptr;
    std::byte *partial = nullptr;
    std::byte *scratch = nullptr;
};

/// The product for one type of operands (f64, f32, bf16, f16) and of results
/// (the operands' type, or f32), compiled for the best SIMD target of this
/// machine. All pointers to bytes are multiples of 64.
struct gemm_kernels {
    const char *target = nullptr; ///< Highway's name, as "AVX3"
    int64_t lanes = 0;
    int64_t p_panel = 0; ///< p elements of a micro-kernel
    int64_t q_panel = 0;
    int64_t (*padded_rows)(gemm_side, int64_t rows) = nullptr;
    int64_t accumulator_bytes = 0; ///< of one element: 8 for f64, else 4

    /// Packs all `rows` of a chunk to its place in a packed side.
    void (*pack)(const gemm_mapping &, gemm_side, const void *base,
            int64_t rows, int64_t chunk, std::byte *packed)
            = nullptr;
    /// Computes a block, on the calling thread. Blocks begin with a panel.
    void (*run)(const gemm_mapping &, const gemm_block &, const gemm_pointers &)
            = nullptr;
    /// result = the sum of `count` partials of one block, `pitch` bytes apart,
    /// in their order. Overwrites the first.
    void (*sum_partials)(const gemm_mapping &, const gemm_block &,
            std::byte *partials, int64_t count, int64_t pitch, void *result)
            = nullptr;

    /// Of a packed side.
    int64_t packed_bytes(gemm_side side, int64_t rows, int64_t steps) const;
    /// Bytes, multiples of 64, that a block no larger than ps x qs needs.
    int64_t partial_bytes(int64_t ps, int64_t qs) const;
    int64_t scratch_bytes(int64_t ps, int64_t qs, int64_t chunks) const;
};

gemm_kernels gemm_kernels_for(
        detail::data_type type, detail::data_type result_type);

} // namespace gradnn::cpu
