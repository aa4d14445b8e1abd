// What kernels compiled at run time share: types and vectors of elements. Needs no header
// of CUDA's, and reads alike to NVRTC, nvcc and, after tests/emulated/simt.hpp, g++.
#pragma once

#include <cstdint>

#include "gpu/device/async_copy.cuh"
#include "gpu/device/instructions.cuh"
#include "gpu/device/specification.hpp"

namespace gradnn::gpu::jit {

/// One of some types, by its number.
template <int number, typename First, typename... Others>
struct one_of_types : one_of_types<number - 1, Others...> {};
template <typename First, typename... Others>
struct one_of_types<0, First, Others...> {
    using type = First;
};
template <int number, typename... Types>
using nth = typename one_of_types<number, Types...>::type;

/// 16-bit elements are kept as their bits.
template <element type>
using stored_of
        = nth<static_cast<int>(type), float, double, uint16_t, uint16_t>;
/// What sums and products are computed in.
template <element type>
using sum_of = nth<type == element::f64, float, double>;

/// a * b + c, rounded once.
__device__ __forceinline__ float multiply_add(float a, float b, float c) {
    return __fmaf_rn(a, b, c);
}
__device__ __forceinline__ double multiply_add(double a, double b, double c) {
    return __fma_rn(a, b, c);
}

/// What one instruction loads and stores, and the cells in which a vector keeps it:
/// whole elements of f32 and f64, pairs of 16-bit ones, or one of those.
unsigned short word_of(uint16_t (*)[1]);
unsigned word_of(uint32_t (*)[1]);
uint2 word_of(uint32_t (*)[2]);
uint4 word_of(uint32_t (*)[4]);
float word_of(float (*)[1]);
float2 word_of(float (*)[2]);
float4 word_of(float (*)[4]);
double word_of(double (*)[1]);
double2 word_of(double (*)[2]);

/// `count` neighbouring elements, 2 to 16 bytes of them, at an address that is a
/// multiple of these.
template <element type, int count>
struct elements {
    using stored = stored_of<type>;
    using sum = sum_of<type>;
    static constexpr bool halves = bytes_of(type) == 2;
    static constexpr int cells = halves && count > 1 ? count / 2 : count;
    using cell = nth<(halves && count > 1), stored, uint32_t>;
    using word_type = decltype(word_of(static_cast<cell (*)[cells]>(nullptr)));
    static_assert(sizeof(word_type) == sizeof(stored) * count);

    cell all[cells];

    __device__ __forceinline__ static elements zeros() {
        elements made;
#pragma unroll
        for (int i = 0; i < cells; ++i)
            made.all[i] = cell(0);
        return made;
    }
    __device__ __forceinline__ static elements load(const stored *from) {
        return of_word(*reinterpret_cast<const word_type *>(from));
    }
    __device__ __forceinline__ void store(stored *to) const {
        *reinterpret_cast<word_type *>(to) = as_word();
    }
    /// To global memory, by one instruction.
    __device__ __forceinline__ void store_global(stored *to) const {
        store_whole(reinterpret_cast<word_type *>(to), as_word());
    }
    /// The same, and the first to leave the caches.
    __device__ __forceinline__ void stream(stored *to) const {
        __stcs(reinterpret_cast<word_type *>(to), as_word());
    }

    /// An element; the index is to be known when the kernel is compiled.
    __device__ __forceinline__ sum operator[](int index) const {
        if constexpr (!halves) {
            return all[index];
        } else {
            const uint32_t pair = all[index / 2];
            if constexpr (type == element::bf16)
                return __uint_as_float(
                        index % 2 == 0 ? pair << 16 : pair & 0xffff0000U);
            else
                return value_of_f16(
                        static_cast<uint16_t>(pair >> index % 2 * 16));
        }
    }

    /// Rounds each once, to nearest even.
    __device__ __forceinline__ static elements of(const sum (&values)[count]) {
        elements made;
#pragma unroll
        for (int i = 0; i < cells; ++i) {
            if constexpr (!halves)
                made.all[i] = values[i];
            else if constexpr (count == 1)
                made.all[i] = static_cast<cell>(pair(values[i], 0.0F));
            else
                made.all[i] = pair(values[2 * i], values[2 * i + 1]);
        }
        return made;
    }

private:
    __device__ __forceinline__ static uint32_t pair(float low, float high) {
        if constexpr (type == element::bf16)
            return pair_of_bf16(low, high);
        else
            return pair_of_f16(low, high);
    }
    // Member by member: the compiler keeps cells in registers then.
    __device__ __forceinline__ static elements of_word(const word_type &bits) {
        elements made;
        if constexpr (cells == 1) {
            made.all[0] = bits;
        } else {
            made.all[0] = bits.x;
            made.all[1] = bits.y;
        }
        if constexpr (cells == 4) {
            made.all[2] = bits.z;
            made.all[3] = bits.w;
        }
        return made;
    }
    __device__ __forceinline__ word_type as_word() const {
        word_type word;
        memcpy(&word, all, sizeof word);
        return word;
    }
};

/// The same place of the other tensor of a fused op.
template <typename Type>
__device__ __forceinline__ const Type *other_of(
        const Type *at, long long bytes) {
    return reinterpret_cast<const Type *>(
            reinterpret_cast<const char *>(at) + bytes);
}
/// As elementwise.cu computes it, before it is rounded.
template <typename Sum>
__device__ __forceinline__ Sum computed(fused_op op, Sum value, Sum other) {
    return op == fused_op::add ? value + other : other > 0 ? value : Sum(0);
}
template <element type, int count>
__device__ __forceinline__ elements<type, count> computed(fused_op op,
        const elements<type, count> &value,
        const elements<type, count> &other) {
    sum_of<type> values[count];
#pragma unroll
    for (int i = 0; i < count; ++i)
        values[i] = computed(op, value[i], other[i]);
    return elements<type, count>::of(values);
}

/// What is written to a place, by the ops behind a problem.
template <typename Problem, element type, int count>
__device__ __forceinline__ elements<type, count> with_epilogue(const Problem &p,
        elements<type, count> value, const stored_of<type> *to,
        const fused_places &others) {
#pragma unroll
    for (int e = 0; e < 2; ++e)
        if (p.epilogue[e] != fused_op::none)
            value = computed(p.epilogue[e], value,
                    elements<type, count>::load(
                            other_of(to, others.epilogue[e])));
    return value;
}

/// Rows of a thread that are on their way, in places of shared memory that no other thread
/// reads. (Loads to registers share few scoreboards: a thread that waits for the oldest waits
/// for the youngest.)
template <typename Unit, int units, int threads>
struct rows_on_their_way {
    using stored = typename Unit::stored;

    Unit *own;

    rows_on_their_way() = default;
    /// What is never copied is 0.
    __device__ __forceinline__ rows_on_their_way(char *shared, int rows)
        : own(reinterpret_cast<Unit *>(shared) + threadIdx.x) {
#pragma unroll 1
        for (int i = 0; i < rows * units; ++i)
            Unit::zeros().store(reinterpret_cast<stored *>(own + i * threads));
    }
    __device__ __forceinline__ void copy(
            int row, int unit, bool wanted, const stored *from) const {
        copy_async_if<sizeof(Unit)>(wanted, place(row, unit), from);
    }
    __device__ __forceinline__ void copy_or_zero(
            int row, int unit, bool wanted, const stored *from) const {
        copy_async_or_zero<sizeof(Unit)>(wanted, place(row, unit), from);
    }
    __device__ __forceinline__ stored *place(int row, int unit) const {
        return reinterpret_cast<stored *>(own + (row * units + unit) * threads);
    }
    __device__ __forceinline__ Unit taken(int row, int unit) const {
        return Unit::load(place(row, unit));
    }
    __device__ __forceinline__ void take(int row, Unit (&to)[units]) const {
#pragma unroll
        for (int u = 0; u < units; ++u)
            to[u] = taken(row, u);
    }
};

} // namespace gradnn::gpu::jit
