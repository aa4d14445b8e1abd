// What kernels compiled at run time share (src/gpu/device/elements.cuh), executed on the CPU
// (emulated/simt.hpp). Needs no GPU.
#include "emulated/simt.hpp"

#include <bit>
#include <vector>

#include <gtest/gtest.h>

#include "gpu/device/elements.cuh"
#include "support/random.hpp"

namespace gradnn::test {
namespace {

using namespace gpu;
using namespace gpu::jit;

/// A stored element as float64, by CUDA's own types.
template <element type>
double value_of(stored_of<type> stored) {
    if constexpr (type == element::bf16)
        return __bfloat162float(std::bit_cast<__nv_bfloat16>(stored));
    else if constexpr (type == element::f16)
        return __half2float(std::bit_cast<__half>(stored));
    else
        return stored;
}

template <element type, int count>
void expect_round_trip() {
    random_source random(test_seed(20261127));
    for (int round = 0; round < 2000; ++round) {
        sum_of<type> values[count];
        for (auto &value : values)
            value = static_cast<sum_of<type>>(random.value()
                    * std::exp2(static_cast<double>(random.integer(-30, 20))));
        alignas(16) stored_of<type> kept[count];
        elements<type, count>::of(values).stream(kept);
        const auto read = elements<type, count>::load(kept);
        for (int i = 0; i < count; ++i) {
            ASSERT_EQ(read[i], value_of<type>(kept[i]));
            if constexpr (type == element::bf16)
                ASSERT_EQ(kept[i],
                        std::bit_cast<uint16_t>(
                                __float2bfloat16_rn(values[i])));
            else if constexpr (type == element::f16)
                ASSERT_EQ(kept[i],
                        std::bit_cast<uint16_t>(__float2half_rn(values[i])));
            else
                ASSERT_EQ(kept[i], values[i]);
        }
        ASSERT_EQ((elements<type, count>::zeros()[count - 1]), 0);
    }
}

TEST(jit_device, keeps_and_rounds_vectors_of_elements) {
    expect_round_trip<element::f32, 1>();
    expect_round_trip<element::f32, 2>();
    expect_round_trip<element::f32, 4>();
    expect_round_trip<element::f64, 1>();
    expect_round_trip<element::f64, 2>();
    expect_round_trip<element::bf16, 1>();
    expect_round_trip<element::bf16, 2>();
    expect_round_trip<element::bf16, 8>();
    expect_round_trip<element::f16, 1>();
    expect_round_trip<element::f16, 4>();
    expect_round_trip<element::f16, 8>();
}

/// Thread 0 copies two tiles after each other by one barrier; all add them up.
void add_tiles(const float *tiles, int bytes, float *sums) {
    alignas(16) __shared__ float tile[2][64];
    __shared__ copy_barrier barrier;
    if (threadIdx.x == 0) begin_barrier(&barrier);
    __syncthreads();
    float sum = 0;
    for (uint32_t step = 0; step < 2; ++step) {
        if (threadIdx.x == 0) {
            expect_copies(&barrier, 256);
            copy_bulk(tile[step], tiles + 64 * step, bytes, &barrier);
            if (bytes < 256)
                copy_bulk(&tile[step][bytes / 4], tiles + 64 * step + bytes / 4,
                        256 - bytes, &barrier);
        }
        wait_for_copies(&barrier, step % 2);
        sum += tile[step][threadIdx.x];
        __syncthreads();
    }
    sums[threadIdx.x] = sum + __shfl_xor_sync(0xffffffffU, sum, 1);
}

TEST(jit_device, copies_tiles_and_waits_for_them) {
    alignas(16) float tiles[128];
    for (int i = 0; i < 128; ++i)
        tiles[i] = static_cast<float>(i);
    emulated::tensors = {{tiles, tiles + 128}};
    for (const int bytes : {256, 128})
        for (unsigned run = 0; run < 4; ++run) {
            float sums[64] = {};
            emulated::block::run(0, 64, run % 2 == 0,
                    [&] { add_tiles(tiles, bytes, sums); });
            for (int i = 0; i < 64; ++i)
                ASSERT_EQ(sums[i], i + i + 64 + (i ^ 1) + (i ^ 1) + 64);
        }
}

TEST(jit_device, refuses_copies_of_other_memory) {
    alignas(16) float tiles[128] = {};
    alignas(16) float tile[64];
    copy_barrier barrier = 0;
    emulated::tensors = {{tiles, tiles + 128}};
    EXPECT_THROW(copy_bulk(tile, tiles + 1, 16, &barrier), std::out_of_range);
    EXPECT_THROW(copy_bulk(tile, tiles, 12, &barrier), std::out_of_range);
    EXPECT_THROW(
            copy_bulk(tile, tiles + 100, 256, &barrier), std::out_of_range);
}

} // namespace
} // namespace gradnn::test
