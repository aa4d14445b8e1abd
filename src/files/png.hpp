// PNG images.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gradnn::detail {

/// Red, green and blue of each pixel, row by row from the top.
struct rgb_image {
    int64_t width = 0;
    int64_t height = 0;
    std::vector<uint8_t> pixels;

    rgb_image(int64_t image_width, int64_t image_height, uint8_t grey);
    void set(int64_t x, int64_t y, uint8_t red, uint8_t green, uint8_t blue);
};

/// The contents of a PNG file. Nothing is compressed: images here are small.
std::string png_contents(const rgb_image &image);

} // namespace gradnn::detail
