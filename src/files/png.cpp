#include "png.hpp"

#include <algorithm>
#include <string_view>

namespace gradnn::detail {

namespace {

void append_number(std::string &to, uint32_t value) {
    for (int shift = 24; shift >= 0; shift -= 8)
        to.push_back(static_cast<char>(value >> shift & 0xff));
}

/// The check sum of a chunk.
uint32_t crc32(std::string_view bytes) {
    uint32_t crc = 0xffffffff;
    for (const char byte : bytes) {
        crc ^= static_cast<uint8_t>(byte);
        for (int bit = 0; bit < 8; ++bit)
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
    }
    return ~crc;
}

/// The check sum of zlib's format.
uint32_t adler32(std::string_view bytes) {
    constexpr uint32_t prime = 65521;
    uint32_t low = 1;
    uint32_t high = 0;
    for (const char byte : bytes) {
        low = (low + static_cast<uint8_t>(byte)) % prime;
        high = (high + low) % prime;
    }
    return high << 16 | low;
}

void append_chunk(
        std::string &to, const std::string &kind, const std::string &data) {
    append_number(to, static_cast<uint32_t>(data.size()));
    to += kind + data;
    append_number(to, crc32(kind + data));
}

/// zlib's format, of blocks that are stored as they are.
std::string stored(std::string_view bytes) {
    constexpr size_t most = 0xffff;
    std::string result = "\x78\x01";
    const uint32_t sum = adler32(bytes);
    while (true) {
        const size_t length = std::min(most, bytes.size());
        result.push_back(length == bytes.size() ? '\1' : '\0'); // the last one?
        for (const size_t number : {length, ~length})
            for (const int shift : {0, 8})
                result.push_back(static_cast<char>(number >> shift & 0xff));
        result += bytes.substr(0, length);
        bytes.remove_prefix(length);
        if (bytes.empty()) break;
    }
    append_number(result, sum);
    return result;
}

} // namespace

rgb_image::rgb_image(int64_t image_width, int64_t image_height, uint8_t grey)
    : width(image_width),
      height(image_height),
      pixels(static_cast<size_t>(3 * width * height), grey) {}

void rgb_image::set(
        int64_t x, int64_t y, uint8_t red, uint8_t green, uint8_t blue) {
    const auto at = static_cast<size_t>(3 * (y * width + x));
    pixels[at] = red;
    pixels[at + 1] = green;
    pixels[at + 2] = blue;
}

std::string png_contents(const rgb_image &image) {
    std::string header;
    append_number(header, static_cast<uint32_t>(image.width));
    append_number(header, static_cast<uint32_t>(image.height));
    // 8 bits, red, green and blue; the only compression, filters and order.
    header += std::string("\x08\x02\x00\x00\x00", 5);

    std::string rows;
    const auto length = static_cast<size_t>(3 * image.width);
    for (size_t begin = 0; begin < image.pixels.size(); begin += length) {
        rows.push_back('\0'); // no filter
        rows.append(image.pixels.begin() + static_cast<int64_t>(begin),
                image.pixels.begin() + static_cast<int64_t>(begin + length));
    }
    std::string file = "\x89PNG\r\n\x1a\n";
    append_chunk(file, "IHDR", header);
    append_chunk(file, "IDAT", stored(rows));
    append_chunk(file, "IEND", "");
    return file;
}

} // namespace gradnn::detail
