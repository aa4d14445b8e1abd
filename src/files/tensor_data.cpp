#include "files/tensor_data.hpp"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "base/parallel.hpp"

namespace gradnn::detail {

using data_type = logical_tensor::data_type;

namespace {

/// A binary floating-point format of 16 bits.
struct small_format {
    int exponent_bits;
    int mantissa_bits;
};
constexpr small_format f16_format = {5, 10};
constexpr small_format bf16_format = {8, 7};

uint16_t narrow(double value, small_format to) {
    constexpr int double_mantissa = 52;
    const auto bits = std::bit_cast<uint64_t>(value);
    const auto sign = static_cast<uint16_t>(bits >> 48U & 0x8000U);
    const int exponent = static_cast<int>(bits >> double_mantissa & 0x7ffU);
    const uint64_t mantissa = bits & ((uint64_t {1} << double_mantissa) - 1);
    const int top_exponent = (1 << to.exponent_bits) - 1;
    const int infinity = top_exponent << to.mantissa_bits;

    const auto result = [&](uint64_t magnitude) {
        return static_cast<uint16_t>(sign | magnitude);
    };
    if (exponent == 0x7ff) {
        const uint64_t payload
                = mantissa >> (double_mantissa - to.mantissa_bits);
        const uint64_t quiet = uint64_t {1} << (to.mantissa_bits - 1);
        return result(static_cast<uint64_t>(infinity)
                | (mantissa == 0 ? 0 : payload | quiet));
    }
    if (exponent == 0) return result(0); // below half of any subnormal here

    int target = exponent - 1023 + top_exponent / 2;
    if (target >= top_exponent) return result(static_cast<uint64_t>(infinity));
    int shift = double_mantissa - to.mantissa_bits;
    if (target < 1) {
        shift += 1 - target;
        target = 1;
    }
    if (shift > double_mantissa + 1) return result(0);
    const uint64_t whole = mantissa | uint64_t {1} << double_mantissa;
    uint64_t kept = whole >> shift;
    const uint64_t rest = whole & ((uint64_t {1} << shift) - 1);
    const uint64_t half = uint64_t {1} << (shift - 1);
    if (rest > half || (rest == half && (kept & 1U) != 0)) ++kept;
    // `kept` holds the leading 1 of a normal number, which counts as 1 of the
    // exponent; a carry moves into the exponent by itself.
    return result(
            (static_cast<uint64_t>(target - 1) << to.mantissa_bits) + kept);
}

double widen(uint16_t bits, small_format from) {
    const int top_exponent = (1 << from.exponent_bits) - 1;
    const int exponent = bits >> from.mantissa_bits & top_exponent;
    const int mantissa = bits & ((1 << from.mantissa_bits) - 1);
    const double sign = (bits & 0x8000U) != 0 ? -1.0 : 1.0;
    const int bias = top_exponent / 2;
    if (exponent == top_exponent)
        return mantissa != 0 ? std::numeric_limits<double>::quiet_NaN()
                             : sign * std::numeric_limits<double>::infinity();
    if (exponent == 0)
        return sign * std::ldexp(mantissa, 1 - bias - from.mantissa_bits);
    return sign
            * std::ldexp(mantissa + (1 << from.mantissa_bits),
                    exponent - bias - from.mantissa_bits);
}

struct f16_bits {
    uint16_t bits;
};
struct bf16_bits {
    uint16_t bits;
};

template <typename Element>
double decode(Element element) {
    return static_cast<double>(element);
}
template <>
double decode(f16_bits element) {
    return from_f16(element.bits);
}
template <>
double decode(bf16_bits element) {
    return from_bf16(element.bits);
}

template <typename Element>
Element encode(double value) {
    return static_cast<Element>(value);
}
template <>
f16_bits encode(double value) {
    return {to_f16(value)};
}
template <>
bf16_bits encode(double value) {
    return {to_bf16(value)};
}

/// Calls body with a value of the C++ type that holds elements of `type`.
template <typename Body>
auto with_element_type(data_type type, const Body &body) {
    switch (type) {
        case data_type::f64: return body(double {});
        case data_type::f32: return body(float {});
        case data_type::f16: return body(f16_bits {});
        case data_type::bf16: return body(bf16_bits {});
        case data_type::s32: return body(int32_t {});
        default: break;
    }
    throw error(status::invalid_data_type,
            std::string("tensor data of type ") + to_string(type)
                    + " is not supported; f64, f32, bf16, f16, s32 are");
}

/// Rows along the last axis: a shape of rank 0 or 1 is one row.
struct rows {
    explicit rows(const logical_tensor &lt)
        : dims(lt.get_dims()), strides(lt.get_strides()) {
        if (dims.empty()) {
            dims = {1};
            strides = {1};
        }
        length = dims.back();
        stride = strides.back();
        for (size_t axis = 0; axis + 1 < dims.size(); ++axis)
            count *= dims[axis];
        if (length == 0) count = 0;
    }

    /// Where a row starts, in elements.
    int64_t offset(int64_t row) const {
        int64_t result = 0;
        for (size_t axis = dims.size() - 1; axis-- > 0;) {
            result += row % dims[axis] * strides[axis];
            row /= dims[axis];
        }
        return result;
    }

    logical_tensor::dims dims;
    logical_tensor::dims strides;
    int64_t count = 1;
    int64_t length = 1;
    int64_t stride = 1;
};

} // namespace

uint16_t to_f16(double value) {
    return narrow(value, f16_format);
}

uint16_t to_bf16(double value) {
    return narrow(value, bf16_format);
}

double from_f16(uint16_t bits) {
    return widen(bits, f16_format);
}

double from_bf16(uint16_t bits) {
    return widen(bits, bf16_format);
}

double rounded_to(data_type type, double value) {
    return with_element_type(type, [&](auto element) {
        return decode(encode<decltype(element)>(value));
    });
}

int64_t ulps_between(data_type type, double a, double b) {
    if (std::isnan(a) || std::isnan(b))
        return std::isnan(a) && std::isnan(b)
                ? 0
                : std::numeric_limits<int64_t>::max();
    const auto place = [&](double value) {
        const uint16_t bits
                = type == data_type::f16 ? to_f16(value) : to_bf16(value);
        const int64_t magnitude = bits & 0x7fffU;
        return (bits & 0x8000U) != 0 ? -magnitude : magnitude;
    };
    return std::abs(place(a) - place(b));
}

int64_t ulps_of_sum(
        data_type type, double given, double exact, double magnitude) {
    const double allowed = 0x1p-21 * magnitude;
    if (std::isfinite(allowed) && std::fabs(given - exact) <= allowed) return 0;
    return ulps_between(type, given, rounded_to(type, exact));
}

int64_t element_count(const logical_tensor &lt) {
    int64_t count = 1;
    for (const int64_t dim : lt.get_dims())
        count *= dim;
    return count;
}

std::vector<double> load(const logical_tensor &lt, const void *memory) {
    const rows all(lt);
    std::vector<double> values(static_cast<size_t>(all.count * all.length));
    with_element_type(lt.get_data_type(), [&](auto element) {
        const auto *elements = static_cast<const decltype(element) *>(memory);
        parallel_for(all.count, 1, [&](int64_t begin, int64_t end) {
            for (int64_t row = begin; row < end; ++row) {
                const auto *from = elements + all.offset(row);
                double *to = values.data() + row * all.length;
                for (int64_t index = 0; index < all.length; ++index)
                    to[index] = decode(from[index * all.stride]);
            }
        });
    });
    return values;
}

void store(const logical_tensor &lt, std::span<const double> values,
        void *memory) {
    if (static_cast<int64_t>(values.size()) != element_count(lt))
        throw error(status::invalid_arguments,
                "tensor " + std::to_string(lt.get_id()) + " has "
                        + std::to_string(element_count(lt))
                        + " elements, given are "
                        + std::to_string(values.size()) + " values");
    const rows all(lt);
    with_element_type(lt.get_data_type(), [&](auto element) {
        auto *elements = static_cast<decltype(element) *>(memory);
        // One thread: an input's rows may share memory (strides of 0).
        for (int64_t row = 0; row < all.count; ++row) {
            auto *to = elements + all.offset(row);
            const double *from = values.data() + row * all.length;
            for (int64_t index = 0; index < all.length; ++index)
                to[index * all.stride] = encode<decltype(element)>(from[index]);
        }
    });
}

void generate(const logical_tensor &lt, void *memory,
        const std::function<double(int64_t index)> &value_of) {
    const rows all(lt);
    bool shared = false; // an input's elements may share memory
    for (size_t axis = 0; axis < all.dims.size(); ++axis)
        shared = shared || (all.strides[axis] == 0 && all.dims[axis] > 1);
    const int64_t grain = shared ? all.count : 1;
    with_element_type(lt.get_data_type(), [&](auto element) {
        auto *elements = static_cast<decltype(element) *>(memory);
        parallel_for(all.count, grain, [&](int64_t begin, int64_t end) {
            for (int64_t row = begin; row < end; ++row) {
                auto *to = elements + all.offset(row);
                for (int64_t index = 0; index < all.length; ++index)
                    to[index * all.stride] = encode<decltype(element)>(
                            value_of(row * all.length + index));
            }
        });
    });
}

uint64_t checksum(const logical_tensor &lt, const void *memory) {
    const rows all(lt);
    return with_element_type(lt.get_data_type(), [&](auto element) {
        using element_type = decltype(element);
        const auto *elements = static_cast<const element_type *>(memory);
        uint64_t digest = 0xcbf29ce484222325U; // FNV-1a, an element at a time
        for (int64_t row = 0; row < all.count; ++row) {
            const auto *from = elements + all.offset(row);
            for (int64_t index = 0; index < all.length; ++index) {
                uint64_t bits = 0;
                std::memcpy(
                        &bits, from + index * all.stride, sizeof(element_type));
                digest = (digest ^ bits) * 0x100000001b3U;
                digest ^= digest >> 32U;
            }
        }
        return digest;
    });
}

} // namespace gradnn::detail
