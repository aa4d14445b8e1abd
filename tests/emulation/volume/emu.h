#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <cmath>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#undef __device__
#undef __global__
#undef __host__
#undef __shared__
#undef __launch_bounds__
#undef __grid_constant__
#undef __forceinline__
#undef __noinline__
#define __device__
#define __global__
#define __host__
#define __shared__ static
#define __launch_bounds__(...)
#define __grid_constant__
#define __forceinline__ inline
#define __noinline__
struct emu_dim { unsigned x = 0; };
extern emu_dim threadIdx, blockIdx;
void emu_check(const void *, size_t, bool);
void emu_run(unsigned grid, unsigned block, const std::function<void()> &);
void emu_sync();
uint64_t emu_shuffle(uint64_t, int from);
inline void __syncthreads() { emu_sync(); }
template <typename T> T __shfl_down_sync(unsigned, T v, int d) {
    uint64_t b = 0; std::memcpy(&b, &v, sizeof v);
    const int lane = threadIdx.x % 32;
    b = emu_shuffle(b, lane + d < 32 ? lane + d : lane);
    std::memcpy(&v, &b, sizeof v); return v;
}
inline int min(int a, int b) { return a < b ? a : b; }
inline unsigned __umulhi(unsigned a, unsigned b) { return (uint64_t(a) * b) >> 32; }
inline float __uint_as_float(unsigned a) { float f; std::memcpy(&f, &a, 4); return f; }
