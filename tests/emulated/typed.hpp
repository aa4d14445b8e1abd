// Values in the type and in the place that a kernel has them, with what lies beside them.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "kernel/problem.hpp"

namespace gradnn::test {

inline float to_float(uint16_t bits, bool f16) {
    if (!f16) {
        const uint32_t wide = uint32_t {bits} << 16;
        float value = 0;
        std::memcpy(&value, &wide, 4);
        return value;
    }
    const int exponent = bits >> 10 & 31;
    const double fraction = (bits & 1023) / 1024.0;
    double value = exponent == 0 ? std::ldexp(fraction, -14)
            : exponent == 31     ? HUGE_VAL
                                 : std::ldexp(1 + fraction, exponent - 15);
    if (exponent == 31 && fraction != 0) value = std::nan("");
    return static_cast<float>(bits >> 15 ? -value : value);
}

/// Values in a type, and what lies beyond both sides of their tensor.
class typed {
public:
    typed(const std::vector<double> &values, detail::data_type type,
            int misplaced)
        : type_(type), bytes_(static_cast<size_t>(detail::size_of(type))) {
        storage_.resize(values.size() * bytes_ + 96);
        std::fill(storage_.begin(), storage_.end(), char {0x7f});
        const auto past = reinterpret_cast<uintptr_t>(storage_.data()) % 16;
        begin_ = storage_.data() + (16 - past) % 16 + 32 + misplaced;
        for (size_t i = 0; i < values.size(); ++i)
            set(i, values[i]);
        count_ = values.size();
        outside_ = storage_;
    }
    void *data() { return begin_; }
    void read(std::vector<double> &values) const {
        for (size_t i = 0; i < values.size(); ++i)
            values[i] = get(i);
    }
    bool kept_outside() const {
        const auto before = static_cast<size_t>(begin_ - storage_.data());
        const size_t behind = before + count_ * bytes_;
        return std::equal(storage_.begin(), storage_.begin() + before,
                       outside_.begin())
                && std::equal(storage_.begin() + behind, storage_.end(),
                        outside_.begin() + behind);
    }
    static double rounded(double value, detail::data_type type) {
        return typed({value}, type, 0).get(0);
    }
    const void *end() const { return begin_ + count_ * bytes_; }
    std::vector<char> bytes() const {
        return {begin_, begin_ + count_ * bytes_};
    }

private:
    void set(size_t i, double value) {
        char *const at = begin_ + i * bytes_;
        if (type_ == detail::data_type::f64) {
            std::memcpy(at, &value, 8);
        } else if (type_ == detail::data_type::f32) {
            const auto narrow = static_cast<float>(value);
            std::memcpy(at, &narrow, 4);
        } else {
            // To the nearest of all, ties to even.
            const auto narrow = static_cast<float>(value);
            const bool bf16 = type_ == detail::data_type::bf16;
            uint16_t best = 0;
            if (!std::isfinite(value)) {
                best = static_cast<uint16_t>((std::signbit(value) ? 0x8000 : 0)
                        | (bf16 ? 0x7f80 : 0x7c00)
                        | (std::isnan(value) ? 0x40 : 0));
            } else if (type_ == detail::data_type::bf16) {
                uint32_t bits = 0;
                std::memcpy(&bits, &narrow, 4);
                bits += 0x7fffU + (bits >> 16 & 1U);
                best = static_cast<uint16_t>(bits >> 16);
            } else {
                int exponent = 0;
                std::frexp(std::abs(value), &exponent);
                const double step
                        = std::ldexp(1.0, std::max(exponent, -13) - 11);
                const double whole = std::nearbyint(value / step) * step;
                if (whole != 0) {
                    std::frexp(std::abs(whole), &exponent);
                    // Below 2^-14 there is no leading one.
                    const bool small = exponent < -13;
                    const double unit
                            = std::ldexp(1.0, small ? -24 : exponent - 11);
                    best = static_cast<uint16_t>(
                            (small ? 0 : exponent + 14) << 10
                            | (static_cast<int>(std::abs(whole) / unit) & 1023)
                            | (whole < 0 ? 0x8000 : 0));
                }
            }
            std::memcpy(at, &best, 2);
        }
    }
    double get(size_t i) const {
        const char *const at = begin_ + i * bytes_;
        if (type_ == detail::data_type::f64) {
            double value = 0;
            std::memcpy(&value, at, 8);
            return value;
        }
        if (type_ == detail::data_type::f32) {
            float value = 0;
            std::memcpy(&value, at, 4);
            return value;
        }
        uint16_t bits = 0;
        std::memcpy(&bits, at, 2);
        return to_float(bits, type_ == detail::data_type::f16);
    }

    detail::data_type type_;
    size_t bytes_, count_ = 0;
    std::vector<char> storage_, outside_;
    char *begin_ = nullptr;
};

} // namespace gradnn::test
