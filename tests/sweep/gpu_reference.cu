// A term of a sum is a product of two f64 values. Products and sums keep what
// they round off (fma, two-sum), so that the result is right to f64 for f64 data
// too. A thread takes one output element after another and reads its factors
// straight from memory.
#include "gpu_reference.hpp"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "gpu/runtime/cuda_check.hpp"

namespace gradnn::sweep {

namespace {

using detail::convolution_direction;
using detail::data_type;

constexpr unsigned block = 128;
constexpr unsigned most_blocks = 8192;

unsigned blocks_for(size_t count) {
    const size_t wanted = (count + block - 1) / block;
    return static_cast<unsigned>(wanted < most_blocks ? wanted : most_blocks);
}

/// One result of a kernel, in device memory until it is read.
template <typename Value>
class device_value {
public:
    device_value() {
        gpu::check(cudaMalloc(&data_, sizeof(Value)), "cudaMalloc");
        gpu::check(cudaMemset(data_, 0, sizeof(Value)), "cudaMemset");
    }
    device_value(const device_value &) = delete;
    device_value &operator=(const device_value &) = delete;
    ~device_value() { gpu::ignore(cudaFree(data_)); }

    Value *data() const { return data_; }
    Value read() const {
        Value value;
        gpu::check(cudaMemcpy(&value, data_, sizeof(Value),
                           cudaMemcpyDeviceToHost),
                "cudaMemcpy");
        return value;
    }

private:
    Value *data_ = nullptr;
};

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

__device__ void raise_to(double *most, double value) {
    // Doubles that are not negative are ordered as their bits are.
    atomicMax(reinterpret_cast<unsigned long long *>(most),
            static_cast<unsigned long long>(__double_as_longlong(value)));
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
