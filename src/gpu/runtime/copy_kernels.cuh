// The kernels of copy.cu that go in the order of dst, and how elements are moved. A
// thread has several elements on their way at a time.
#pragma once

#include "gpu/device/dtype.cuh"
#include "gpu/device/early_start.cuh"
#include "gpu/device/positions.cuh"
#include "gpu/runtime/copy_shape.hpp"

namespace gradnn::gpu::copies {

using detail::data_type;

/// Moves elements whose bits are a Word.
template <typename Word>
struct same_type {
    using value = Word;
    static constexpr bool moves_bits = true;
    __device__ static int bytes(data_type) { return sizeof(Word); }
    __device__ static value load(const shape &, const void *src, int64_t at) {
        return static_cast<const Word *>(src)[at];
    }
    __device__ static void store(
            const shape &, void *dst, int64_t at, value moved) {
        static_cast<Word *>(dst)[at] = moved;
    }
};

struct conversion {
    using value = double;
    static constexpr bool moves_bits = false;
    __device__ static int bytes(data_type type) {
        return type == data_type::f64 ? 8 : type == data_type::f32 ? 4 : 2;
    }
    __device__ static value load(const shape &of, const void *src, int64_t at) {
        switch (of.src_type) {
            case data_type::f64: return static_cast<const double *>(src)[at];
            case data_type::f16:
                return widen(static_cast<const __half *>(src)[at]);
            case data_type::bf16:
                return widen(static_cast<const __nv_bfloat16 *>(src)[at]);
            default: return static_cast<const float *>(src)[at];
        }
    }
    __device__ static void store(
            const shape &of, void *dst, int64_t at, value moved) {
        switch (of.dst_type) {
            case data_type::f64: static_cast<double *>(dst)[at] = moved; break;
            case data_type::f16:
                static_cast<__half *>(dst)[at] = narrow<__half>(moved);
                break;
            case data_type::bf16:
                static_cast<__nv_bfloat16 *>(dst)[at]
                        = narrow<__nv_bfloat16>(moved);
                break;
            default:
                static_cast<float *>(dst)[at] = narrow<float>(moved);
                break;
        }
    }
};

/// Of each axis, what is written of it.
template <typename Index>
struct axis_dividers {
    divisor<Index> by[max_rank];
};

/// In the order of dst. Index: of elements, which are less than 2^31 within 2^31 of both
/// tensors where it has 32 bits. `width`: neighbours that a thread stores at a time, all of
/// one row; the dividers count axis 0 by them. `wide_loads`: it loads them so, too. With more
/// than one the Mover moves bits.
template <typename Mover, typename Index, int width = 1,
        bool wide_loads = false>
__global__ void __launch_bounds__(threads) elements_kernel(const void *src,
        void *dst, const __grid_constant__ shape of,
        const __grid_constant__ axis_dividers<Index> dividers) {
    using value = typename Mover::value;
    constexpr int words = elements_of_thread(width) / width;
    struct alignas(width * sizeof(value)) word {
        value of[width];
    };
    wait_and_let_later_work_start();
    const auto count = static_cast<Index>(of.count / width);
    const Index first = blockIdx.x * Index {threads * words} + threadIdx.x;
    Index rest[words];
    Index src_at[words];
    Index dst_at[words];
    using number = std::make_signed_t<Index>;
    number copied[words]; // elements
#pragma unroll
    for (int i = 0; i < words; ++i) {
        rest[i] = first + i * threads;
        src_at[i] = dst_at[i] = 0;
        copied[i] = rest[i] < count ? width : 0;
    }
#pragma unroll
    for (int axis = 0; axis < max_rank; ++axis) {
        if (axis >= of.rank) break;
        const divisor<Index> by = dividers.by[axis];
        const auto src_stride = static_cast<Index>(of.src_strides[axis]);
        const auto dst_stride = static_cast<Index>(of.dst_strides[axis]);
#pragma unroll
        for (int i = 0; i < words; ++i) {
            Index position = take(rest[i], by);
            if (axis == 0) {
                position *= width;
                copied[i] = min(copied[i],
                        static_cast<number>(of.dims[0])
                                - static_cast<number>(position));
            }
            src_at[i] += position * src_stride;
            dst_at[i] += position * dst_stride;
        }
    }
    word values[words];
#pragma unroll
    for (int i = 0; i < words; ++i) {
        values[i] = {};
        if constexpr (wide_loads) {
            if (copied[i] > 0)
                values[i] = *reinterpret_cast<const word *>(
                        static_cast<const value *>(src) + src_at[i]);
        } else {
#pragma unroll
            for (int e = 0; e < width; ++e)
                if (e < copied[i])
                    values[i].of[e] = Mover::load(of, src, src_at[i] + e);
        }
    }
#pragma unroll
    for (int i = 0; i < words; ++i) {
        if (first + i * threads >= count) continue;
        if constexpr (width > 1)
            *reinterpret_cast<word *>(static_cast<value *>(dst) + dst_at[i])
                    = values[i];
        else
            Mover::store(of, dst, dst_at[i], values[i].of[0]);
    }
}

} // namespace gradnn::gpu::copies
