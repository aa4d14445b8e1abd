// The shapes that figures are made of. Spatial dims have rank 1 to 3; batch
// and channels are cut so that a case moves about 64 MB on a small machine.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace gradnn::bench {

struct interpolation_case {
    const char *name;
    int64_t batch;
    int64_t channels;
    std::vector<int64_t> src;
    std::vector<int64_t> dst;
    const char *mode = "linear";
};

inline std::vector<interpolation_case> interpolation_cases() {
    return {
            {"fpn_2x", 3, 256, {64, 64}, {128, 128}},
            {"seg_logits_4x", 2, 19, {128, 256}, {512, 1024}},
            {"up_16x", 4, 21, {33, 33}, {513, 513}},
            {"ragged", 2, 40, {200, 300}, {333, 500}},
            {"down_2x", 1, 64, {512, 512}, {256, 256}},
            {"vol_2x", 1, 7, {64, 64, 64}, {128, 128, 128}},
            {"audio_4x", 3, 96, {16000}, {64000}},
            {"wide_4x", 1, 2, {256, 4096}, {1024, 16384}},
            {"tiny_planes", 40, 2048, {7, 7}, {14, 14}},
            {"nearest_2x", 3, 256, {64, 64}, {128, 128}, "nearest"},
    };
}

struct convolution_case {
    const char *name;
    int64_t batch;
    int64_t in; ///< channels of src
    int64_t out; ///< channels of dst
    std::vector<int64_t> src;
    int64_t kernel;
    int64_t stride = 1;
    int64_t pad = 0;
    int64_t dilation = 1;
    int64_t groups = 1;
};

inline std::vector<convolution_case> convolution_cases() {
    return {
            {"resnet_stem", 8, 3, 64, {224, 224}, 7, 2, 3},
            {"resnet_3x3_64", 8, 64, 64, {56, 56}, 3, 1, 1},
            {"resnet_3x3_256", 8, 256, 256, {14, 14}, 3, 1, 1},
            {"resnet_3x3_s2", 8, 128, 128, {56, 56}, 3, 2, 1},
            {"resnet_1x1", 8, 256, 64, {56, 56}, 1},
            {"resnet_1x1_wide", 8, 1024, 256, {14, 14}, 1},
            {"dilated_256", 2, 256, 256, {32, 32}, 3, 1, 2, 2},
            {"depthwise_3x3", 8, 256, 256, {56, 56}, 3, 1, 1, 1, 256},
            {"audio_1d", 8, 64, 64, {16000}, 5, 1, 2},
            {"volume_3d", 2, 32, 32, {24, 24, 24}, 3, 1, 1},
    };
}

} // namespace gradnn::bench
