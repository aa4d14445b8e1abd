// Copies between layouts that convolutions on the CPU make, against single
// elements: into blocks of channels and back, and transposes with a short side.
#include <array>
#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "cpu/copies/channel_blocks.hpp"
#include "cpu/copies/convert.hpp"
#include "support/random.hpp"

namespace gradnn::cpu {
namespace {

using detail::data_type;

/// Bytes with a guard behind them.
constexpr size_t guard = 64;
using memory = std::vector<unsigned char>;

int64_t width(data_type type) {
    return detail::size_of(type);
}

/// Numbers whose conversion is exact; of each type, and as f32.
memory numbers(data_type type, size_t count, uint64_t seed) {
    test::random_source random(seed);
    memory bytes(count * static_cast<size_t>(width(type)) + guard, 0xA5);
    for (size_t i = 0; i < count; ++i) {
        const auto value = static_cast<float>(random.integer(-8, 8));
        uint32_t bits = 0;
        std::memcpy(&bits, &value, sizeof(bits));
        if (type == data_type::f32) {
            std::memcpy(&bytes[4 * i], &bits, 4);
        } else {
            // f16 is moved, not computed with, unless the other side is f32.
            const auto half = static_cast<uint16_t>(bits >> 16U);
            std::memcpy(&bytes[2 * i], &half, 2);
        }
    }
    return bytes;
}

/// An element's bits, widened where the wanted type is f32.
uint32_t bits_at(
        const memory &from, int64_t at, data_type type, data_type wanted) {
    uint32_t bits = 0;
    std::memcpy(&bits, &from[static_cast<size_t>(at * width(type))],
            static_cast<size_t>(width(type)));
    return type == data_type::bf16 && wanted == data_type::f32 ? bits << 16U
                                                               : bits;
}

void expect_guard(const memory &bytes) {
    for (size_t i = bytes.size() - guard; i < bytes.size(); ++i)
        ASSERT_EQ(bytes[i], 0xA5);
}

struct types {
    data_type plain;
    data_type blocked;
};

void check_blocks(const types &t, int64_t block, bool nxc, int64_t images,
        int64_t channels, int64_t points) {
    SCOPED_TRACE(std::string(nxc ? "NXC" : "NCX") + ", blocks of "
            + std::to_string(block) + ", " + std::to_string(channels)
            + " channels, " + std::to_string(points) + " points");
    channel_blocking problem;
    problem.block = block;
    problem.plain_type = t.plain;
    problem.blocked_type = t.blocked;
    problem.images = images;
    problem.channels = channels;
    problem.points = points;
    problem.image_stride = channels * points;
    problem.channel_stride = nxc ? 1 : points;
    problem.point_stride = nxc ? channels : 1;
    const int64_t padded = (channels + block - 1) / block * block;
    const auto count = static_cast<size_t>(images * channels * points);
    const memory plain = numbers(t.plain, count, 7);
    memory blocked(
            static_cast<size_t>(images * padded * points * width(t.blocked))
                    + guard,
            0xA5);
    block_channels(problem, plain.data(), blocked.data());
    expect_guard(blocked);
    for (int64_t n = 0; n < images; ++n)
        for (int64_t c = 0; c < padded; ++c)
            for (int64_t p = 0; p < points; ++p) {
                const int64_t from = n * problem.image_stride
                        + c * problem.channel_stride + p * problem.point_stride;
                const int64_t to = n * padded * points
                        + c / block * block * points + p * block + c % block;
                ASSERT_EQ(bits_at(blocked, to, t.blocked, t.blocked),
                        c < channels ? bits_at(plain, from, t.plain, t.blocked)
                                     : 0)
                        << n << " " << c << " " << p;
            }
    memory back(plain.size(), 0xA5);
    unblock_channels(problem, blocked.data(), back.data());
    ASSERT_EQ(back, plain);
}

TEST(channel_blocks, there_and_back) {
    for (const types &t : {types {data_type::f32, data_type::f32},
                 types {data_type::bf16, data_type::bf16},
                 types {data_type::f16, data_type::f16},
                 types {data_type::bf16, data_type::f32}})
        for (const int64_t block : {8, 16})
            for (const bool nxc : {false, true})
                for (const int64_t channels :
                        {1, 3, 8, 13, 16, 17, 24, 32, 37, 40, 100})
                    for (const int64_t points : {2, 5, 16, 49, 130, 2100}) {
                        if (nxc && channels == 1) continue; // stride 1 twice
                        if (points == 2100 && channels > 24) continue;
                        check_blocks(t, block, nxc, 2, channels, points);
                    }
}

/// to[y][x] = from[x][y].
void check_transpose(
        data_type from_type, data_type to_type, int64_t xs, int64_t ys) {
    SCOPED_TRACE(std::to_string(xs) + " by " + std::to_string(ys));
    conversion problem;
    problem.src_type = from_type;
    problem.dst_type = to_type;
    problem.rank = 3;
    problem.dims = {2, ys, xs};
    problem.src_strides = {xs * ys, 1, ys};
    problem.dst_strides = {xs * ys, xs, 1};
    const memory from
            = numbers(from_type, static_cast<size_t>(2 * xs * ys), 11);
    memory to(static_cast<size_t>(2 * xs * ys * width(to_type)) + guard, 0xA5);
    convert(problem, from.data(), to.data());
    expect_guard(to);
    for (int64_t n = 0; n < 2; ++n)
        for (int64_t y = 0; y < ys; ++y)
            for (int64_t x = 0; x < xs; ++x)
                ASSERT_EQ(bits_at(to, (n * ys + y) * xs + x, to_type, to_type),
                        bits_at(from, (n * xs + x) * ys + y, from_type,
                                to_type))
                        << n << " " << y << " " << x;
}

TEST(convert, transposes_with_a_short_side) {
    for (const int64_t thin : {2, 3, 4, 5})
        for (const int64_t length : {3, 64, 127, 128, 129, 5000}) {
            for (const auto type : {data_type::f32, data_type::bf16}) {
                check_transpose(type, type, thin, length);
                check_transpose(type, type, length, thin);
            }
            check_transpose(data_type::bf16, data_type::f32, thin, length);
            check_transpose(data_type::bf16, data_type::f32, length, thin);
        }
}

} // namespace
} // namespace gradnn::cpu
