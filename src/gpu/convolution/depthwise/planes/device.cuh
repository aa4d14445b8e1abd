// Depthwise, planes in shared memory: what the two kernels share.
#pragma once

#include "gpu/convolution/depthwise/planes/cut.hpp"
#include "gpu/convolution/depthwise/stretches.cuh"
#include "gpu/convolution/depthwise/taps.cuh"
#include "gpu/device/async_copy.cuh"
#include "gpu/device/constants.hpp"
#include "gpu/device/early_start.cuh"

namespace gradnn::gpu::depthwise::planes {

/// Where what lies at `global` comes to lie in shared memory: as far past a
/// multiple of 16 bytes, behind the slack.
template <typename Type>
__device__ __forceinline__ Type *place_of(
        std::byte *shared, const Type *global) {
    return reinterpret_cast<Type *>(shared + slack_elements * sizeof(Type)
            + (reinterpret_cast<uintptr_t>(global) & 15U));
}

/// `count` neighbouring columns of a row in shared memory, zeros in place of
/// those outside. All are loaded, `wide` (1 or 2) at a time, without a branch or a
/// predicate; with two, the first column is `lead` past a multiple of two.
template <typename Type, int count, int wide, int lead>
class masked_columns {
    static constexpr bool is_bf16 = std::is_same_v<Type, __nv_bfloat16>;
    static constexpr bool is_half = std::is_same_v<Type, __half>;
    static constexpr int skipped = wide == 2 ? lead : 0;

public:
    /// The first is column `first` of `columns`.
    __device__ __forceinline__ masked_columns(int first, int columns) {
#pragma unroll
        for (int c = 0; c < count; ++c) {
            const bool inside = is_inside(first + c, columns);
            masks_[c] = inside ? mask_of(c) : 0U;
            // Kept, or it would be compared and selected anew for every row.
            asm volatile("" : "+r"(masks_[c]));
        }
    }

    __device__ __forceinline__ void load(
            const Type *from, sum_of<Type> (&values)[count]) const {
#pragma unroll
        for (int c = -skipped; c < count; c += wide) {
            const auto bits = pack<Type, wide>::load(from + c).bits;
            if constexpr (sizeof(Type) == 8) {
                put(values, c, bits.x, bits.y);
                if constexpr (wide == 2) put(values, c + 1, bits.z, bits.w);
            } else if constexpr (sizeof(bits) == 8) {
                put(values, c, bits.x);
                put(values, c + 1, bits.y);
            } else {
                put(values, c, bits);
                if constexpr (wide == 2)
                    put(values, c + 1, is_half ? bits >> 16 : bits);
            }
        }
    }

private:
    /// A bf16 is the upper half of a float: the lower one of two, or one alone, is
    /// multiplied up, the upper one masked.
    static __device__ constexpr uint32_t mask_of(int c) {
        if (!is_bf16) return ~0U;
        return wide == 2 && (c + skipped) % 2 == 1 ? 0xffff0000U : 1U << 16;
    }
    __device__ __forceinline__ void put(
            float (&values)[count], int c, uint32_t bits) const {
        if (c < 0 || c >= count) return;
        if constexpr (is_half)
            values[c] = __half2float(__ushort_as_half(
                    static_cast<unsigned short>(bits & masks_[c])));
        else if (is_bf16 && mask_of(c) == 1U << 16)
            values[c] = __uint_as_float(bits * masks_[c]);
        else
            values[c] = __uint_as_float(bits & masks_[c]);
    }
    __device__ __forceinline__ void put(
            double (&values)[count], int c, uint32_t low, uint32_t high) const {
        if (c < 0 || c >= count) return;
        values[c] = __hiloint2double(static_cast<int>(high & masks_[c]),
                static_cast<int>(low & masks_[c]));
    }

    uint32_t masks_[count];
};

/// To neighbouring columns of a row in shared memory.
template <typename Type, int count>
__device__ __forceinline__ void store_columns(
        Type *to, const sum_of<Type> (&values)[count]) {
    if constexpr (sizeof(Type) == 8 && count == 2) {
        // The compiler would store some of these one by one.
        const auto at = static_cast<uint32_t>(__cvta_generic_to_shared(to));
        asm volatile("st.shared.v2.f64 [%0], {%1, %2};" ::"r"(at),
                     "d"(values[0]), "d"(values[1])
                     : "memory");
    } else {
        pack<Type, count>::of(values).store(to);
    }
}

/// What a thread of a block has; a plane beyond the last if nothing.
struct thread_place {
    int plane;
    int strip;
    int group;

    __device__ explicit thread_place(const work_cut &cut) {
        const auto thread = static_cast<int>(threadIdx.x);
        const auto along = [&](int distance, int count) {
            return thread / distance % count;
        };
        group = along(cut.group_distance, cut.groups);
        strip = along(cut.strip_distance, cut.strips);
        plane = along(cut.plane_distance, cut.planes);
        if (thread >= cut.planes * cut.strips * cut.groups) plane = cut.planes;
    }
};

/// What body.template operator()<size, stride, wide>() returns.
template <typename Body>
auto with_constants(const problem_shape &shape, bool wide, const Body &body) {
    return with_chosen(body, one_of<3, 5, 7> {shape.axes[1].kernel},
            one_of<1, 2> {shape.axes[1].stride}, one_of<1, 2> {wide ? 2 : 1});
}

} // namespace gradnn::gpu::depthwise::planes
