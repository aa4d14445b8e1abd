// A thread compares one element after another with the reference.
#include "gpu_reference.hpp"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "gpu_values.cuh"

namespace gradnn::sweep {

namespace {

using detail::data_type;

__device__ double load(data_type type, const void *data, size_t index) {
    switch (type) {
        case data_type::f16:
            return __half2float(static_cast<const __half *>(data)[index]);
        case data_type::bf16:
            return __bfloat162float(
                    static_cast<const __nv_bfloat16 *>(data)[index]);
        case data_type::f32: return static_cast<const float *>(data)[index];
        default: return static_cast<const double *>(data)[index];
    }
}

struct type_limits {
    int digits; ///< of the significand
    int lowest; ///< exponent of the smallest normal number
    double roundoff; ///< u
    double smallest; ///< magnitudes below count as that: products may underflow
};

type_limits limits_of(data_type type) {
    switch (type) {
        case data_type::f16: return {11, -14, 0x1p-24, 0x1p-100};
        case data_type::bf16: return {8, -126, 0x1p-24, 0x1p-100};
        case data_type::f32: return {24, -126, 0x1p-24, 0x1p-100};
        default: return {53, -1022, 0x1p-53, 0x1p-960};
    }
}

__device__ double half_ulp(const type_limits &type, double value) {
    const int exponent = value == 0 ? type.lowest : ilogb(value);
    return scalbn(0.5,
            (exponent < type.lowest ? type.lowest : exponent) - type.digits
                    + 1);
}

__device__ double error_of(
        const type_limits &type, double given, double exact, double magnitude) {
    const double larger = fmax(fabs(given), fabs(exact));
    const double beyond = fabs(given - exact) - half_ulp(type, larger);
    if (given == exact || beyond <= 0) return 0;
    if (magnitude == 0) return INFINITY;
    return beyond / (type.roundoff * fmax(magnitude, type.smallest));
}

__device__ bool same_bits(
        const void *first, const void *second, size_t index, int size) {
    const size_t at = index * static_cast<size_t>(size);
    for (int byte = 0; byte < size; ++byte)
        if (static_cast<const unsigned char *>(first)[at + byte]
                != static_cast<const unsigned char *>(second)[at + byte])
            return false;
    return true;
}

struct device_comparison {
    double error;
    double error_squares;
    unsigned long long not_finite;
    unsigned long long changed;
    unsigned long long index;
};

struct compared {
    data_type type;
    int size; ///< of an element, in bytes
    type_limits limits;
    const void *result;
    const void *again;
    const double *exact;
    const double *magnitudes;
    size_t count;
    double added;

    __device__ double error(size_t index) const {
        const double given = load(type, result, index);
        return isfinite(given) ? error_of(
                       limits, given, exact[index], magnitudes[index] + added)
                               : 0;
    }
};

__global__ void compare(compared c, device_comparison *found) {
    double worst = 0;
    double squares = 0;
    unsigned long long not_finite = 0;
    unsigned long long changed = 0;
    for (size_t index = blockIdx.x * size_t {block} + threadIdx.x;
            index < c.count; index += size_t {block} * gridDim.x) {
        if (!same_bits(c.result, c.again, index, c.size)) ++changed;
        const double given = load(c.type, c.result, index);
        if (!isfinite(given)) {
            ++not_finite;
            continue;
        }
        worst = fmax(worst, c.error(index));
        const double off = given - c.exact[index];
        squares += off * off;
    }
    raise_to(&found->error, worst);
    atomicAdd(&found->error_squares, squares);
    atomicAdd(&found->not_finite, not_finite);
    atomicAdd(&found->changed, changed);
}

/// The first element of the largest error, which compare has found.
__global__ void locate(compared c, device_comparison *found) {
    const double worst = found->error;
    for (size_t index = blockIdx.x * size_t {block} + threadIdx.x;
            index < c.count; index += size_t {block} * gridDim.x)
        if (c.error(index) == worst)
            atomicMin(&found->index, static_cast<unsigned long long>(index));
}

__global__ void count_written(
        const unsigned char *data, size_t bytes, unsigned long long *found) {
    unsigned long long mine = 0;
    for (size_t index = blockIdx.x * size_t {block} + threadIdx.x;
            index < bytes; index += size_t {block} * gridDim.x)
        if (data[index] != 0xFF) ++mine;
    if (mine != 0) atomicAdd(found, mine);
}

} // namespace

comparison compare_to_reference(data_type type, const void *result,
        const void *again, const double *exact, const double *magnitudes,
        size_t count, double added_magnitude) {
    const compared both {type, static_cast<int>(detail::size_of(type)),
            limits_of(type), result, again, exact, magnitudes, count,
            added_magnitude};
    const device_value<device_comparison> found;
    gpu::check(
            cudaMemset(&found.data()->index, 0xFF, sizeof(unsigned long long)),
            "cudaMemset");
    compare<<<blocks_for(count), block>>>(both, found.data());
    gpu::check(cudaGetLastError(), "compare");
    locate<<<blocks_for(count), block>>>(both, found.data());
    gpu::check(cudaGetLastError(), "locate");
    const device_comparison read = found.read();
    return {read.error, read.error_squares, read.not_finite, read.changed,
            static_cast<size_t>(read.index)};
}

uint64_t bytes_written(const void *data, size_t bytes) {
    const device_value<unsigned long long> found;
    count_written<<<blocks_for(bytes), block>>>(
            static_cast<const unsigned char *>(data), bytes, found.data());
    gpu::check(cudaGetLastError(), "count_written");
    return found.read();
}

} // namespace gradnn::sweep
