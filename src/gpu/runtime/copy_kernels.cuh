// The kernels of copy.cu that go in the order of dst, and how elements are moved. A
// thread has several elements on their way at a time.
#pragma once

#include "gpu/device/dtype.cuh"
#include "gpu/device/early_start.cuh"
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
struct axis_dividers {
    exact_divider by[max_rank];
};

/// In the order of dst, of less than 2^31 elements within 2^31 of both tensors.
/// `width`: neighbours that a thread stores at a time, all of one row; the dividers count
/// axis 0 by them. `wide_loads`: it loads them so, too. With more than one the Mover
/// moves bits.
template <typename Mover, int width = 1, bool wide_loads = false>
__global__ void __launch_bounds__(threads) elements_kernel(const void *src,
        void *dst, const __grid_constant__ shape of,
        const __grid_constant__ axis_dividers dividers) {
    using value = typename Mover::value;
    constexpr int words = elements_of_thread(width) / width;
    struct alignas(width * sizeof(value)) word {
        value of[width];
    };
    wait_and_let_later_work_start();
    const auto count = static_cast<uint32_t>(of.count / width);
    const uint32_t first = blockIdx.x * (threads * words) + threadIdx.x;
    uint32_t rest[words];
    uint32_t src_at[words];
    uint32_t dst_at[words];
    int copied[words]; // elements
#pragma unroll
    for (int i = 0; i < words; ++i) {
        rest[i] = first + i * threads;
        src_at[i] = dst_at[i] = 0;
        copied[i] = rest[i] < count ? width : 0;
    }
#pragma unroll
    for (int axis = 0; axis < max_rank; ++axis) {
        if (axis >= of.rank) break;
        const exact_divider by = dividers.by[axis];
        const auto src_stride = static_cast<uint32_t>(of.src_strides[axis]);
        const auto dst_stride = static_cast<uint32_t>(of.dst_strides[axis]);
#pragma unroll
        for (int i = 0; i < words; ++i) {
            const uint32_t next = by.quotient(rest[i]);
            uint32_t position = rest[i] - next * by.by;
            rest[i] = next;
            if (axis == 0) {
                position *= width;
                copied[i] = min(copied[i],
                        static_cast<int>(of.dims[0])
                                - static_cast<int>(position));
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

/// Of any number of elements.
template <typename Mover>
__global__ void __launch_bounds__(threads) many_elements_kernel(
        const void *src, void *dst, const __grid_constant__ shape of) {
    wait_and_let_later_work_start();
    const auto step = static_cast<int64_t>(gridDim.x) * threads;
    for (int64_t number = blockIdx.x * int64_t {threads} + threadIdx.x;
            number < of.count; number += step) {
        auto rest = static_cast<uint64_t>(number);
        int64_t src_at = 0;
        int64_t dst_at = 0;
        bool is_copied = true;
        for (int axis = 0; axis < of.rank; ++axis) {
            const auto dim = static_cast<uint64_t>(of.extent(axis));
            const auto position = static_cast<int64_t>(rest % dim);
            rest /= dim;
            if (axis == 0) is_copied = position < of.dims[0];
            src_at += position * of.src_strides[axis];
            dst_at += position * of.dst_strides[axis];
        }
        typename Mover::value value {};
        if (is_copied) value = Mover::load(of, src, src_at);
        Mover::store(of, dst, dst_at, value);
    }
}

} // namespace gradnn::gpu::copies
