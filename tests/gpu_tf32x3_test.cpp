// The arithmetic of convolution.gpu_tf32x3 on the host: the split of a number,
// as tensor cores read its parts. Needs no GPU.
#include <bit>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "gpu/convolution/implicit_gemm/tf32x3_split.hpp"
#include "support/random.hpp"

namespace {

using gradnn::gpu::implicit_gemm::split;

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr float largest = std::numeric_limits<float>::max();

/// A TF32 operand: the last 13 bits are not read.
float read(uint32_t bits) {
    return std::bit_cast<float>(bits & 0xffffe000U);
}

/// One product, in the order of the operator; partial sums as in f32.
float product(float x, float y) {
    const auto a = split(x);
    const auto b = split(y);
    float sum = read(a.small) * read(b.big);
    sum += read(a.big) * read(b.small);
    sum += read(a.big) * read(b.big);
    return sum;
}

std::vector<float> numbers() {
    gradnn::test::random_source random(20261121);
    std::vector<float> all {0.0F, -0.0F, 1.0F, -1.0F, largest, -largest,
            std::numeric_limits<float>::min(), 1e-30F, 1e30F,
            std::nextafter(1.0F, 2.0F), std::nextafter(2.0F, 1.0F)};
    for (int i = 0; i < 300; ++i) {
        const float x = static_cast<float>(random.value());
        all.push_back(x);
        all.push_back(std::ldexp(x, static_cast<int>(random.integer(-60, 60))));
    }
    return all;
}

TEST(tf32x3_split, parts_add_up_to_the_number) {
    for (const float x : numbers()) {
        const auto parts = split(x);
        EXPECT_EQ(parts.big & 0x1fffU, 0U) << x;
        const double sum = static_cast<double>(read(parts.big))
                + static_cast<double>(read(parts.small));
        EXPECT_LE(std::abs(sum - static_cast<double>(x)),
                std::abs(static_cast<double>(x)) * 0x1p-22)
                << x;
        EXPECT_EQ(std::signbit(read(parts.big)), std::signbit(x)) << x;
    }
}

TEST(tf32x3_split, products_are_as_exact_as_those_of_f32) {
    double square = 0.0;
    size_t count = 0;
    for (const float x : numbers())
        for (const float y : numbers()) {
            const double exact
                    = static_cast<double>(x) * static_cast<double>(y);
            // Where parts of the product leave f32's range it is rounded
            // otherwise.
            if (!(std::abs(exact) < 1e38) || std::abs(exact) < 1e-30) continue;
            const double error
                    = std::abs(static_cast<double>(product(x, y)) / exact - 1);
            EXPECT_LE(error, 0x1p-20) << x << " * " << y;
            square += error * error;
            ++count;
        }
    EXPECT_LE(std::sqrt(square / static_cast<double>(count)), 2.5e-7);
}

TEST(tf32x3_split, infinities_and_nans_as_in_ieee) {
    std::vector<float> all = numbers();
    for (const float special :
            {infinity, -infinity, nan, -nan, std::bit_cast<float>(0x7f800001U),
                    std::bit_cast<float>(0xffffffffU)})
        all.push_back(special);
    for (const float x : all)
        for (const float y : all) {
            if (std::isfinite(x) && std::isfinite(y)) continue;
            const float wanted = x * y;
            const float found = product(x, y);
            ASSERT_EQ(std::isnan(found), std::isnan(wanted)) << x << " * " << y;
            if (!std::isnan(wanted)) {
                ASSERT_EQ(found, wanted) << x << " * " << y;
            }
        }
}

TEST(tf32x3_split, large_products_overflow_to_their_sign) {
    for (const float x : {largest, -largest, 1e30F, -1e30F})
        for (const float y : {largest, -largest, 1e30F, -1e30F})
            EXPECT_EQ(product(x, y), x * y) << x << " * " << y;
    for (const float x : {largest, -largest}) {
        EXPECT_TRUE(std::isfinite(product(x, 0.999F)));
        EXPECT_TRUE(std::isfinite(product(0.5F, x)));
        EXPECT_TRUE(std::isfinite(product(x * 0.9999995F, 1.0F)));
    }
}

} // namespace
