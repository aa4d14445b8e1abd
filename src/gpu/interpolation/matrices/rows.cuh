// Device code of interpolation.gpu_matrices: segments of rows of diff_dst, put
// together for the tensor cores, and their products.
#pragma once

#include <cstdint>
#include <type_traits>

#include <cuda_fp16.h>

#include "gpu/interpolation/matrices/cut.hpp"

namespace gradnn::gpu::interpolation::matrices {

template <typename Type>
__device__ __forceinline__ void multiply(
        float (&sums)[4], const uint4 &a, uint32_t b0, uint32_t b1) {
    if constexpr (std::is_same_v<Type, __half>)
        asm volatile(
                "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                "{%0, %1, %2, %3};"
                : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
                : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
    else
        asm volatile(
                "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                "{%0, %1, %2, %3};"
                : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
                : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
}

/// The segments of four rows on their way to a lane: 0 and 2 of even distance, 1 and
/// 3 too. `vector`: elements that divide all distances from the first one's 16
/// bytes.
template <int vector>
struct loaded_rows {
    static constexpr int words = vector == 1 ? 5 : 4;
    uint32_t raw[4][words];
    uint32_t odd; ///< vector 1: bit r % 2: row r begins in the middle of a word

    template <typename Type>
    __device__ __forceinline__ void load(int row, const Type *from) {
        if constexpr (vector == 8) {
            const uint4 all = *reinterpret_cast<const uint4 *>(from);
            raw[row][0] = all.x;
            raw[row][1] = all.y;
            raw[row][2] = all.z;
            raw[row][3] = all.w;
        } else if constexpr (vector == 2) {
#pragma unroll
            for (int w = 0; w < 4; ++w)
                raw[row][w] = reinterpret_cast<const uint32_t *>(from)[w];
        } else {
            // Three whole words, and the two elements that are left.
            const bool half = (odd >> row % 2 & 1) != 0;
            const Type *const whole = half ? from + 1 : from;
#pragma unroll
            for (int w = 0; w < 3; ++w)
                raw[row][w] = reinterpret_cast<const uint32_t *>(whole)[w];
            raw[row][3] = *reinterpret_cast<const unsigned short *>(
                    half ? from : from + 6);
            raw[row][4] = *reinterpret_cast<const unsigned short *>(from + 7);
        }
    }

    /// Element e of the rows, two rows to a word, for product e.
    __device__ __forceinline__ void unpack(
            uint32_t (&b0)[segment], uint32_t (&b1)[segment]) const {
        uint32_t pairs[4][4]; // of elements
        if constexpr (vector != 1) {
#pragma unroll
            for (int row = 0; row < 4; ++row)
#pragma unroll
                for (int w = 0; w < 4; ++w)
                    pairs[row][w] = raw[row][w];
        } else {
#pragma unroll
            for (int parity = 0; parity < 2; ++parity) {
                const bool half = (odd >> parity & 1) != 0;
                const uint32_t first = half ? 0x5410 : 0x7654;
                const uint32_t next = half ? 0x5432 : 0x7654;
                const uint32_t last = half ? 0x0032 : 0x0054;
#pragma unroll
                for (int row = parity; row < 4; row += 2) {
                    const auto &from = raw[row];
                    auto &to = pairs[row];
                    to[0] = __byte_perm(from[3], from[0], first);
                    to[1] = __byte_perm(from[0], from[1], next);
                    to[2] = __byte_perm(from[1], from[2], next);
                    to[3] = __byte_perm(__byte_perm(from[2], from[3], last),
                            from[4], 0x5410);
                }
            }
        }
#pragma unroll
        for (int w = 0; w < 4; ++w) {
            b0[2 * w] = __byte_perm(pairs[0][w], pairs[1][w], 0x5410);
            b0[2 * w + 1] = __byte_perm(pairs[0][w], pairs[1][w], 0x7632);
            b1[2 * w] = __byte_perm(pairs[2][w], pairs[3][w], 0x5410);
            b1[2 * w + 1] = __byte_perm(pairs[2][w], pairs[3][w], 0x7632);
        }
    }
};

} // namespace gradnn::gpu::interpolation::matrices
