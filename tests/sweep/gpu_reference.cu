// A term of a sum is a product of two f64 values. Products and sums keep what
// they round off (fma, two-sum), so that the result is right to f64 for f64 data
// too. A thread takes one output element after another and reads its factors
// straight from memory.
#include "gpu_reference.hpp"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "gpu_values.cuh"

namespace gradnn::sweep {

namespace {

using detail::convolution_direction;
using detail::data_type;

__device__ uint64_t mixed(uint64_t z) {
    z = (z ^ z >> 30U) * 0xbf58476d1ce4e5b9U;
    z = (z ^ z >> 27U) * 0x94d049bb133111ebU;
    return z ^ z >> 31U;
}

__device__ double rounded_to(data_type type, double value) {
    switch (type) {
        case data_type::f16: return __half2float(__double2half(value));
        case data_type::bf16: return __bfloat162float(__double2bfloat16(value));
        case data_type::f32: return static_cast<float>(value);
        default: return value;
    }
}

__device__ void store(data_type type, void *data, size_t index, double value) {
    switch (type) {
        case data_type::f16:
            static_cast<__half *>(data)[index] = __double2half(value);
            return;
        case data_type::bf16:
            static_cast<__nv_bfloat16 *>(data)[index]
                    = __double2bfloat16(value);
            return;
        case data_type::f32:
            static_cast<float *>(data)[index] = static_cast<float>(value);
            return;
        default: static_cast<double *>(data)[index] = value;
    }
}

__global__ void fill(data_type stored, data_type rounded, void *data,
        double *wide, size_t count, uint64_t seed, bool positive) {
    for (size_t index = blockIdx.x * size_t {block} + threadIdx.x;
            index < count; index += size_t {block} * gridDim.x) {
        const uint64_t bits = mixed(seed + (index + 1) * 0x9e3779b97f4a7c15U);
        const double unit = static_cast<double>(bits >> 11U) * 0x1p-53;
        const double value
                = rounded_to(rounded, positive ? unit : 2 * unit - 1);
        wide[index] = value;
        store(stored, data, index, value);
    }
}

/// A sum of products with what it rounds off.
class exact_sum {
public:
    __device__ void add(double a, double b) {
        const double product = __dmul_rn(a, b);
        const double next = __dadd_rn(sum_, product);
        const double kept = __dsub_rn(next, sum_);
        const double lost = __dadd_rn(__dsub_rn(sum_, __dsub_rn(next, kept)),
                __dsub_rn(product, kept));
        rest_ += lost + __fma_rn(a, b, -product);
        sum_ = next;
        magnitude += fabs(product);
        squares += product * product;
    }
    __device__ double value() const { return sum_ + rest_; }

    double magnitude = 0;
    double squares = 0;

private:
    double sum_ = 0;
    double rest_ = 0;
};

__device__ int at(
        const reference_tensor_shape &t, int n, int c, int z, int y, int x) {
    return n * t.strides[0] + c * t.strides[1] + z * t.strides[2]
            + y * t.strides[3] + x * t.strides[4];
}

/// Where a window's tap meets src.
__device__ int src_at(const reference_shape &s, int axis, int dst, int tap) {
    return dst * s.strides[axis] - s.pads_begin[axis] + tap * s.dilations[axis];
}

/// Which dst element a src element and a tap meet, or -1.
__device__ int dst_at(const reference_shape &s, int axis, int src, int tap) {
    const int from = src + s.pads_begin[axis] - tap * s.dilations[axis];
    if (from < 0 || from % s.strides[axis] != 0) return -1;
    const int dst = from / s.strides[axis];
    return dst < s.tensors[2].dims[axis + 2] ? dst : -1;
}

__device__ bool is_inside(int position, int size) {
    return position >= 0 && position < size;
}

/// dst[n, o, at], of the channels of its group.
__device__ void sum_forward(const reference_shape &s, const double *src,
        const double *weights, const int (&e)[5], exact_sum &sum) {
    const auto &[x_shape, w_shape, y_shape] = s.tensors;
    const int groups = x_shape.dims[1] / w_shape.dims[1];
    const int first = e[1] / (y_shape.dims[1] / groups) * w_shape.dims[1];
    for (int i = 0; i < w_shape.dims[1]; ++i)
        for (int a = 0; a < w_shape.dims[2]; ++a) {
            const int z = src_at(s, 0, e[2], a);
            if (!is_inside(z, x_shape.dims[2])) continue;
            for (int b = 0; b < w_shape.dims[3]; ++b) {
                const int y = src_at(s, 1, e[3], b);
                if (!is_inside(y, x_shape.dims[3])) continue;
                for (int c = 0; c < w_shape.dims[4]; ++c) {
                    const int x = src_at(s, 2, e[4], c);
                    if (is_inside(x, x_shape.dims[4]))
                        sum.add(src[at(x_shape, e[0], first + i, z, y, x)],
                                weights[at(w_shape, e[1], i, a, b, c)]);
                }
            }
        }
}

/// src[n, c, at].
__device__ void sum_data(const reference_shape &s, const double *weights,
        const double *dst, const int (&e)[5], exact_sum &sum) {
    const auto &[x_shape, w_shape, y_shape] = s.tensors;
    const int groups = x_shape.dims[1] / w_shape.dims[1];
    const int outputs = y_shape.dims[1] / groups;
    const int first = e[1] / w_shape.dims[1] * outputs;
    const int channel = e[1] % w_shape.dims[1];
    for (int o = first; o < first + outputs; ++o)
        for (int a = 0; a < w_shape.dims[2]; ++a) {
            const int z = dst_at(s, 0, e[2], a);
            if (z < 0) continue;
            for (int b = 0; b < w_shape.dims[3]; ++b) {
                const int y = dst_at(s, 1, e[3], b);
                if (y < 0) continue;
                for (int c = 0; c < w_shape.dims[4]; ++c) {
                    const int x = dst_at(s, 2, e[4], c);
                    if (x >= 0)
                        sum.add(weights[at(w_shape, o, channel, a, b, c)],
                                dst[at(y_shape, e[0], o, z, y, x)]);
                }
            }
        }
}

/// weights[o, i, tap].
__device__ void sum_weights(const reference_shape &s, const double *src,
        const double *dst, const int (&e)[5], exact_sum &sum) {
    const auto &[x_shape, w_shape, y_shape] = s.tensors;
    const int groups = x_shape.dims[1] / w_shape.dims[1];
    const int channel
            = e[0] / (y_shape.dims[1] / groups) * w_shape.dims[1] + e[1];
    for (int n = 0; n < y_shape.dims[0]; ++n)
        for (int a = 0; a < y_shape.dims[2]; ++a) {
            const int z = src_at(s, 0, a, e[2]);
            if (!is_inside(z, x_shape.dims[2])) continue;
            for (int b = 0; b < y_shape.dims[3]; ++b) {
                const int y = src_at(s, 1, b, e[3]);
                if (!is_inside(y, x_shape.dims[3])) continue;
                for (int c = 0; c < y_shape.dims[4]; ++c) {
                    const int x = src_at(s, 2, c, e[4]);
                    if (is_inside(x, x_shape.dims[4]))
                        sum.add(src[at(x_shape, n, channel, z, y, x)],
                                dst[at(y_shape, n, e[0], a, b, c)]);
                }
            }
        }
}

struct wide_tensors {
    double *of[3];
};

__global__ void convolve(reference_shape s, wide_tensors tensors,
        double *magnitudes, size_t count, reference_totals *totals) {
    const bool forward = s.direction == convolution_direction::forward;
    const bool data = s.direction == convolution_direction::backward_data;
    const int output = forward ? 2 : data ? 0 : 1;
    const reference_tensor_shape &shape = s.tensors[output];
    reference_totals mine;
    for (size_t index = blockIdx.x * size_t {block} + threadIdx.x;
            index < count; index += size_t {block} * gridDim.x) {
        int element[5];
        auto rest = static_cast<int>(index);
        for (int axis = 4; axis >= 0; --axis) {
            element[axis] = rest % shape.dims[axis];
            rest /= shape.dims[axis];
        }
        exact_sum sum;
        if (forward)
            sum_forward(s, tensors.of[0], tensors.of[1], element, sum);
        else if (data)
            sum_data(s, tensors.of[1], tensors.of[2], element, sum);
        else
            sum_weights(s, tensors.of[0], tensors.of[2], element, sum);
        const int offset = at(shape, element[0], element[1], element[2],
                element[3], element[4]);
        const double value = sum.value();
        tensors.of[output][offset] = value;
        magnitudes[offset] = sum.magnitude;
        mine.largest_magnitude = fmax(mine.largest_magnitude, sum.magnitude);
        mine.squares += value * value;
        mine.term_squares += sum.squares;
    }
    raise_to(&totals->largest_magnitude, mine.largest_magnitude);
    atomicAdd(&totals->squares, mine.squares);
    atomicAdd(&totals->term_squares, mine.term_squares);
}

} // namespace

void fill_random(data_type stored, data_type rounded, void *data, double *wide,
        size_t count, uint64_t seed, sign signs) {
    fill<<<blocks_for(count), block>>>(
            stored, rounded, data, wide, count, seed, signs == sign::positive);
    gpu::check(cudaGetLastError(), "fill");
}

reference_totals compute_reference(const reference_shape &shape,
        const std::array<double *, 3> &tensors, double *magnitudes) {
    const bool forward = shape.direction == convolution_direction::forward;
    const bool data = shape.direction == convolution_direction::backward_data;
    size_t count = 1;
    for (const int32_t dim : shape.tensors[forward ? 2 : data ? 0 : 1].dims)
        count *= static_cast<size_t>(dim);
    const device_value<reference_totals> totals;
    convolve<<<blocks_for(count), block>>>(shape,
            {{tensors[0], tensors[1], tensors[2]}}, magnitudes, count,
            totals.data());
    gpu::check(cudaGetLastError(), "convolve");
    return totals.read();
}

} // namespace gradnn::sweep
