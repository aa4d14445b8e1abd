// Every multiprocessor has 32 warps, each with eight sums that do not wait for
// each other: of one number a thread, or of one small matrix a warp. A round
// adds a product to each of them. Factors stay in registers; they are not 0,
// since tensor cores need less power, and clock higher, where they are. Nothing
// is read from memory, and nothing is written (the condition never holds, which
// the compiler cannot know). Sums truncate on tensor cores as they will.
#include <type_traits>

#include <gradnn/cuda.hpp>

#include "gpu/device/constants.hpp"
#include "gpu/device/tensor_cores.cuh"
#include "gpu/runtime/launch.hpp"
#include "gpu/runtime/tools.hpp"

namespace gradnn::gpu {

namespace {

constexpr int threads = 256;
constexpr int blocks_of_multiprocessor = 4;
constexpr int sums = 8;

template <compute_loop Loop>
constexpr bool is_fma
        = Loop == compute_loop::f32_fma || Loop == compute_loop::f64_fma;

template <compute_loop Loop>
constexpr bool is_f64
        = Loop == compute_loop::f64_fma || Loop == compute_loop::f64_tensor;

/// Multiplications and additions that one product adds to a sum.
template <compute_loop Loop>
constexpr int flops_of_product = is_fma<Loop> ? 2
        : is_f64<Loop>                        ? 2 * 16 * 8 * 4
        : Loop == compute_loop::tf32_tensor   ? 2 * 16 * 8 * 8
                                              : 2 * 16 * 8 * 16;

/// Of f64, and of the other types on tensor cores.
struct factors {
    double a[2], b;
    uint32_t left[4], right[2];
};

/// A product of numbers, or of matrices: 16x16 times 16x8, of TF32 16x8 times 8x8.
template <compute_loop Loop, typename Number, int count>
__device__ __forceinline__ void multiply(
        Number (&sum)[count], const factors &by) {
    const auto &[a_f64, b_f64, a, b] = by;
    if constexpr (is_fma<Loop>)
        sum[0] = fma(sum[0], Number(0.5), Number(1));
    else if constexpr (is_f64<Loop>)
        multiply_f64_matrices(sum, a_f64, b_f64, sum);
    else if constexpr (Loop == compute_loop::tf32_tensor)
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
                     "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                     "{%0, %1, %2, %3};"
                     : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]),
                     "r"(b[1]));
    else
        multiply_matrices<std::conditional_t<Loop == compute_loop::bf16_tensor,
                __nv_bfloat16, __half>>(
                sum, {a[0], a[1]}, {a[2], a[3]}, b[0], b[1]);
}

/// Bits of one number of 1 to 2, or of two, by chance.
template <compute_loop Loop>
__device__ uint32_t factor_bits(uint32_t seed) {
    uint32_t bits = seed * 2654435761U;
    bits ^= bits >> 15;
    if constexpr (Loop == compute_loop::tf32_tensor)
        return 0x3f800000U | (bits & 0x007fe000U);
    else if constexpr (Loop == compute_loop::bf16_tensor)
        return 0x3f803f80U | (bits & 0x007f007fU);
    else
        return 0x3c003c00U | (bits & 0x03ff03ffU);
}

template <compute_loop Loop>
__global__ void __launch_bounds__(threads)
        compute_kernel(int64_t rounds, double *never_written) {
    using number = std::conditional_t<is_f64<Loop>, double, float>;
    constexpr int of_sum = is_fma<Loop> ? 1 : 4;
    constexpr int rounds_at_once = is_fma<Loop> ? 16 : 4;
    number values[sums][of_sum] {};
    // Not alike, or one would be computed for all.
    for (int i = 0; i < sums && is_fma<Loop>; ++i)
        values[i][0] = static_cast<number>(threadIdx.x + i);
    factors by {{1.0 + 1e-3 * threadIdx.x, 1.5}, 1.0 + 1e-4 * threadIdx.x};
    for (uint32_t i = 0; i < 4; ++i)
        by.left[i] = factor_bits<Loop>(6 * threadIdx.x + i);
    for (uint32_t i = 0; i < 2; ++i)
        by.right[i] = factor_bits<Loop>(6 * threadIdx.x + 4 + i);
#pragma unroll rounds_at_once
    for (int64_t round = 0; round < rounds; ++round)
#pragma unroll
        for (int i = 0; i < sums; ++i)
            multiply<Loop>(values[i], by);
    number total = 0;
    for (const auto &sum : values)
        for (const number value : sum)
            total += value;
    // Of positive numbers.
    if (total < 0) *never_written = total;
}

template <compute_loop Loop>
double compute(const stream &s, int64_t rounds) {
    const auto device = static_cast<int>(s.get_engine().get_index());
    const device_guard current(device);
    const int blocks
            = blocks_of_multiprocessor * properties_of(device).multiprocessors;
    launch("a loop of arithmetic", compute_kernel<Loop>, blocks, threads, 0,
            cuda_interop::get_native(s), rounds,
            static_cast<double *>(nullptr));
    const double of_block = is_fma<Loop> ? threads : threads / 32.0;
    return flops_of_product<Loop> * sums * static_cast<double>(rounds)
            * of_block * blocks;
}

} // namespace

double compute_on(const stream &s, compute_loop loop, int64_t rounds) {
    return with_chosen(
            [&]<int number>() {
                return compute<static_cast<compute_loop>(number)>(s, rounds);
            },
            one_of<0, 1, 2, 3, 4, 5> {static_cast<int>(loop)});
}

} // namespace gradnn::gpu
