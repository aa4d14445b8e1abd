// Strided typed memory to and from float64 values, and exact conversions of
// single values. For the driver, files and tests; kernels have their own.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include <gradnn/tensor.hpp>

namespace gradnn::detail {

// Round once, to nearest even; overflow gives an infinity, NaN stays NaN.
uint16_t to_f16(double value);
uint16_t to_bf16(double value);
double from_f16(uint16_t bits);
double from_bf16(uint16_t bits);

/// The value nearest to `value` that a type holds: f64, f32, bf16, f16, or s32
/// (whose range `value` must be in).
double rounded_to(logical_tensor::data_type type, double value);

/// How many representable values of f16 or bf16 lie between two values that
/// are representable themselves; the largest int64 for a NaN beside another
/// value.
int64_t ulps_between(logical_tensor::data_type type, double a, double b);

/// The same between an f16 or bf16 sum of f32 terms and what rounding the exact
/// sum once gives. 0 where they differ by no more than the f32 terms may be off:
/// 2^-21 of `magnitude`, the sum of the terms' absolute values, which matters
/// where a sum nearly cancels.
int64_t ulps_of_sum(logical_tensor::data_type type, double given, double exact,
        double magnitude);

/// The product of the known dims.
int64_t element_count(const logical_tensor &lt);

/// The elements of strided memory in row-major order of the logical dims.
std::vector<double> load(const logical_tensor &lt, const void *memory);

/// The same, backwards: each value is rounded to the tensor's type. Memory
/// between the elements is left alone. Throws invalid_arguments where the
/// number of values is not that of the elements.
void store(
        const logical_tensor &lt, std::span<const double> values, void *memory);

/// Stores value_of(index) to every element, index counting in row-major order
/// of the logical dims. Runs on several threads.
void generate(const logical_tensor &lt, void *memory,
        const std::function<double(int64_t index)> &value_of);

/// A 64-bit digest of the bits of all elements in logical order, whatever the
/// strides.
uint64_t checksum(const logical_tensor &lt, const void *memory);

} // namespace gradnn::detail
