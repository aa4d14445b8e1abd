#include "picture.hpp"

#include <algorithm>
#include <cmath>

namespace gradnn::driver {

namespace {

constexpr int64_t most_planes = 16;
constexpr int64_t plane_pixels = 192; ///< of a plane's longer side, about
constexpr int64_t gap = 4;
constexpr uint8_t background = 255;

int64_t divided_up(int64_t value, int64_t by) {
    return (value + by - 1) / by;
}

/// One axis of a plane.
struct shown_axis {
    int64_t step; ///< of `step` elements one is shown
    int64_t pixels;
};

shown_axis axis_of(int64_t size, int64_t longer) {
    if (longer <= plane_pixels) return {1, size * (plane_pixels / longer)};
    const int64_t step = divided_up(longer, plane_pixels);
    return {step, divided_up(size, step)};
}

void draw(detail::rgb_image &image, int64_t x, int64_t y, double value,
        double largest) {
    if (!std::isfinite(value)) {
        image.set(x, y, 128, 128, 128);
        return;
    }
    const double strength = largest > 0 ? std::abs(value) / largest : 0;
    const auto rest = static_cast<uint8_t>(std::lround(255 * (1 - strength)));
    if (value < 0)
        image.set(x, y, rest, rest, 255);
    else
        image.set(x, y, 255, rest, rest);
}

} // namespace

detail::rgb_image picture_of(
        std::span<const int64_t> dims, std::span<const double> values) {
    if (values.empty()) return {1, 1, background};
    const size_t rank = dims.size();
    const int64_t columns = rank > 0 ? dims[rank - 1] : 1;
    const int64_t rows = rank > 1 ? dims[rank - 2] : 1;
    const auto planes = std::min(most_planes,
            static_cast<int64_t>(values.size()) / (rows * columns));
    const auto shown
            = values.first(static_cast<size_t>(planes * rows * columns));
    double largest = 0;
    for (const double value : shown)
        if (std::isfinite(value)) largest = std::max(largest, std::abs(value));

    const int64_t longer = std::max(rows, columns);
    const shown_axis across = axis_of(columns, longer);
    const shown_axis down = axis_of(rows, longer);
    const auto beside = static_cast<int64_t>(
            std::ceil(std::sqrt(static_cast<double>(planes))));
    detail::rgb_image image(beside * (across.pixels + gap) + gap,
            divided_up(planes, beside) * (down.pixels + gap) + gap, background);
    for (int64_t plane = 0; plane < planes; ++plane) {
        const int64_t left = plane % beside * (across.pixels + gap) + gap;
        const int64_t top = plane / beside * (down.pixels + gap) + gap;
        for (int64_t y = 0; y < down.pixels; ++y)
            for (int64_t x = 0; x < across.pixels; ++x) {
                const int64_t row = down.step > 1 ? y * down.step
                                                  : y * rows / down.pixels;
                const int64_t column = across.step > 1
                        ? x * across.step
                        : x * columns / across.pixels;
                draw(image, left + x, top + y,
                        shown[static_cast<size_t>(
                                (plane * rows + row) * columns + column)],
                        largest);
            }
    }
    return image;
}

} // namespace gradnn::driver
