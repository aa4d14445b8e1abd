// The channels of groups in chunks: every channel is one of one chunk, and no chunk
// reaches beyond the tensor. Needs no GPU.
#include <vector>

#include <gtest/gtest.h>

#include "gpu/convolution/narrow_groups/shape.hpp"
#include "gpu/device/rounding.hpp"

namespace gradnn::test {
namespace {

using gpu::narrow_groups::channel_chunks;
using gpu::narrow_groups::chunk_channels;

/// Groups `pitch` channels apart.
void check(int groups, int channels, int pitch) {
    SCOPED_TRACE(testing::Message() << groups << " groups of " << channels
                                    << " channels, " << pitch << " apart");
    const int all = groups * pitch;
    const channel_chunks chunks {channels,
            (channels + chunk_channels - 1) / chunk_channels, pitch,
            all - chunk_channels};
    std::vector<int> times(static_cast<size_t>(all));
    for (int group = 0; group < groups; ++group)
        for (int chunk = 0; chunk < chunks.chunks; ++chunk) {
            const int first = chunks.first(group, chunk);
            ASSERT_GE(first, 0);
            ASSERT_LE(first + chunk_channels, all);
            for (int i = 0; i < chunk_channels; ++i) {
                const int number = chunks.number(group, chunk, i);
                if (number < 0) continue;
                ASSERT_LT(number, channels);
                ASSERT_EQ(group * pitch + number, first + i);
                ++times[static_cast<size_t>(first + i)];
            }
        }
    for (int channel = 0; channel < all; ++channel)
        ASSERT_EQ(times[static_cast<size_t>(channel)],
                channel % pitch < channels ? 1 : 0)
                << "channel " << channel;
}

TEST(narrow_groups, take_every_channel_once) {
    for (int groups = 1; groups < 12; ++groups)
        for (int channels = 1; channels < 40; ++channels) {
            // In NCX, and filled up with zeros.
            if (groups * channels >= chunk_channels)
                check(groups, channels, channels);
            check(groups, channels, gpu::round_up(channels, chunk_channels));
        }
}

} // namespace
} // namespace gradnn::test
