#include "convolution_shape.hpp"

#include <algorithm>
#include <cstdlib>
#include <limits>

namespace gradnn::fuzz {

namespace {

constexpr int64_t most_attr = int64_t {1} << 40;

/// The kind of shapes that a convolution is drawn from.
enum class flavour {
    tiny, ///< everything small and odd
    typical, ///< channels and windows of networks
    depthwise,
    narrow_groups, ///< of 2 to 16 channels
    shallow, ///< axes shorter than the window, pads beyond it
    first_layer, ///< few channels, long sums
    pointwise,
    huge_attrs, ///< near 2^31, 2^32, 2^40 and beyond
};

int64_t stride_of(random_source &numbers, int64_t most) {
    return happens(numbers, 55) ? 1 : numbers.integer(1, most);
}

/// Positions of the window side by side, pads of about its size.
window_axis ordinary_axis(random_source &numbers, int64_t large,
        int64_t most_kernel, int64_t most_pad) {
    window_axis a;
    a.large = large;
    a.kernel = numbers.integer(1, most_kernel);
    a.stride = stride_of(numbers, 4);
    a.dilation = happens(numbers, 75) ? 1 : numbers.integer(1, 4);
    a.pads_begin = numbers.integer(happens(numbers, 15) ? -2 : 0, most_pad);
    a.pads_end = numbers.integer(happens(numbers, 15) ? -2 : 0, most_pad);
    const int64_t room = a.large + a.pads_begin + a.pads_end - a.reach();
    if (room < 0) a.pads_end -= room;
    a.small = std::max<int64_t>(0, room) / a.stride + 1;
    a.rest = std::max<int64_t>(0, room) % a.stride;
    return a;
}

/// Pads that make everything else fit: one tap is sure to meet an element.
void fit_pads(random_source &numbers, window_axis &a) {
    const int64_t y = numbers.integer(0, a.small - 1);
    const int64_t k = numbers.integer(0, a.kernel - 1);
    const int64_t x = numbers.integer(0, a.large - 1);
    a.pads_begin = y * a.stride + k * a.dilation - x;
    a.pads_end = (a.small - 1) * a.stride + a.reach() + a.rest - a.pads_begin
            - a.large;
}

/// Every attribute by itself; the pads follow. Either size may be given.
window_axis free_axis(random_source &numbers, int64_t large, int64_t small) {
    window_axis a;
    a.large = large > 0 ? large : numbers.integer(1, 12);
    a.small = small > 0 ? small : numbers.integer(1, 8);
    a.kernel = numbers.integer(1, 5);
    a.stride = numbers.integer(1, 5);
    a.dilation = numbers.integer(1, 4);
    a.rest = happens(numbers, 50) ? 0 : numbers.integer(0, a.stride - 1);
    fit_pads(numbers, a);
    return a;
}

int64_t huge_number(random_source &numbers) {
    static const std::vector<int64_t> powers {
            22, 24, 31, 31, 32, 32, 32, 33, 36, 40};
    const int64_t power = int64_t {1} << numbers.pick(powers);
    return std::min(most_attr, power + numbers.integer(-3, 3));
}

window_axis huge_axis(random_source &numbers) {
    for (int attempt = 0; attempt < 20; ++attempt) {
        window_axis a;
        a.large = numbers.integer(1, 9);
        a.small = numbers.integer(1, 3);
        a.kernel = numbers.integer(1, 4);
        if (happens(numbers, 60)) a.dilation = huge_number(numbers);
        if (happens(numbers, 60)) a.stride = huge_number(numbers);
        if (happens(numbers, 30)) a.dilation = a.stride; // taps meet again
        a.rest = numbers.integer(0, std::min<int64_t>(a.stride - 1, 3));
        if (a.reach() > most_attr * 4) continue;
        fit_pads(numbers, a);
        if (std::abs(a.pads_begin) <= most_attr
                && std::abs(a.pads_end) <= most_attr)
            return a;
    }
    return {};
}

int64_t channels_of(random_source &numbers) {
    static const std::vector<int64_t> usual {
            3, 8, 16, 16, 24, 32, 32, 48, 64, 96, 128};
    return happens(numbers, 70) ? numbers.pick(usual) : numbers.integer(1, 70);
}

window_axis axis_of(
        random_source &numbers, flavour kind, size_t rank, size_t place) {
    const bool first = place == 0;
    switch (kind) {
        case flavour::tiny:
            if (happens(numbers, 25)) return free_axis(numbers, 0, 0);
            return ordinary_axis(
                    numbers, numbers.integer(1, rank == 3 ? 6 : 14), 5, 4);
        case flavour::huge_attrs:
            if (happens(numbers, 60)) return huge_axis(numbers);
            return ordinary_axis(numbers, numbers.integer(1, 9), 3, 2);
        case flavour::shallow: {
            const bool shallow = first || happens(numbers, 30);
            return ordinary_axis(numbers,
                    shallow ? numbers.integer(1, 6)
                            : numbers.integer(4, rank == 3 ? 12 : 40),
                    7, 7);
        }
        case flavour::first_layer: {
            static const std::vector<int64_t> rows {28, 32, 64, 100, 112, 224};
            static const std::vector<int64_t> kernels {1, 3, 3, 5, 7};
            window_axis a = ordinary_axis(numbers,
                    rank == 3           ? numbers.integer(6, 24)
                            : rank == 1 ? numbers.integer(100, 30'000)
                                        : numbers.pick(rows),
                    1, 3);
            a.kernel = numbers.pick(kernels);
            a.dilation = 1;
            a.pads_begin = a.pads_end = a.kernel / 2;
            const int64_t room = a.large + 2 * a.pads_begin - a.kernel;
            a.small = room / a.stride + 1;
            a.rest = room % a.stride;
            return a;
        }
        case flavour::pointwise: {
            window_axis a;
            a.large = numbers.integer(1, rank == 3 ? 8 : rank == 2 ? 30 : 400);
            a.stride = stride_of(numbers, 3);
            a.small = (a.large - 1) / a.stride + 1;
            a.rest = (a.large - 1) % a.stride;
            return a;
        }
        default: {
            const int64_t most = rank == 3 ? 10 : rank == 2 ? 30 : 200;
            return ordinary_axis(numbers, numbers.integer(1, most),
                    happens(numbers, 10) ? (rank == 1 ? 40 : 9)
                                         : 5 - 2 * (rank == 3),
                    3);
        }
    }
}

void draw_channels(random_source &numbers, flavour kind, convolution_shape &s) {
    switch (kind) {
        case flavour::depthwise:
            s.groups = happens(numbers, 60) ? 8 * numbers.integer(1, 12)
                                            : numbers.integer(1, 70);
            s.large_channels = s.small_channels = s.groups;
            if (happens(numbers, 15)) s.small_channels *= numbers.integer(2, 4);
            return;
        case flavour::narrow_groups: {
            static const std::vector<int64_t> widths {2, 3, 4, 4, 8, 8, 16};
            s.groups = numbers.integer(2, 33);
            const int64_t width = numbers.pick(widths);
            s.large_channels = s.groups * width;
            s.small_channels = s.groups
                    * (happens(numbers, 70) ? width : numbers.pick(widths));
            return;
        }
        case flavour::first_layer:
            s.large_channels = numbers.integer(1, 4);
            s.small_channels = 8 * numbers.integer(1, 8);
            if (happens(numbers, 15)) // a last layer
                std::swap(s.large_channels, s.small_channels);
            return;
        case flavour::typical:
        case flavour::pointwise:
        case flavour::shallow:
            s.groups = happens(numbers, 80) ? 1 : numbers.integer(2, 4);
            s.large_channels = s.groups * channels_of(numbers);
            s.small_channels = s.groups * channels_of(numbers);
            return;
        default:
            s.groups = happens(numbers, 60) ? 1 : numbers.integer(2, 5);
            s.large_channels = s.groups * numbers.integer(1, 6);
            s.small_channels = s.groups * numbers.integer(1, 6);
    }
}

/// "valid" and "same_*" fix the pads, and with them one of the sizes.
void set_auto_pad(
        random_source &numbers, convolution_shape &s, bool transposed) {
    static const std::vector<std::string> words {
            "same_upper", "same_lower", "valid"};
    const std::string word = numbers.pick(words);
    for (window_axis &a : s.axes) {
        const bool fits = word == "valid"
                ? a.large >= a.reach()
                : a.stride < 1000 && a.dilation < 1000;
        if (!fits) return;
    }
    s.auto_pad = word;
    for (window_axis &a : s.axes) {
        a.rest = 0;
        if (word == "valid") {
            a.small = (a.large - a.reach()) / a.stride + 1;
            a.rest = (a.large - a.reach()) % a.stride;
        } else if (transposed) {
            a.large = a.small * a.stride;
        } else {
            a.small = (a.large + a.stride - 1) / a.stride;
        }
    }
}

/// A dim of 0 somewhere, rarely.
void empty_something(random_source &numbers, convolution_shape &s) {
    switch (numbers.integer(0, 4)) {
        case 0: s.n = 0; break;
        case 1: s.large_channels = 0; break;
        case 2: s.small_channels = 0; break;
        case 3: s.axes.back().large = 0; break;
        default: s.axes.front().small = 0;
    }
}

flavour flavour_of(random_source &numbers) {
    const int64_t choice = numbers.integer(0, 99);
    return choice < 38    ? flavour::tiny
            : choice < 54 ? flavour::typical
            : choice < 64 ? flavour::depthwise
            : choice < 74 ? flavour::narrow_groups
            : choice < 84 ? flavour::shallow
            : choice < 88 ? flavour::first_layer
            : choice < 93 ? flavour::pointwise
                          : flavour::huge_attrs;
}

} // namespace

int64_t convolution_shape::work() const {
    double total = static_cast<double>(n) * static_cast<double>(large_channels)
            * static_cast<double>(small_channels) / static_cast<double>(groups);
    double data
            = static_cast<double>(n * std::max(large_channels, small_channels));
    for (const window_axis &a : axes) {
        total *= static_cast<double>(a.kernel) * static_cast<double>(a.small);
        data *= static_cast<double>(std::max(a.large, a.small));
    }
    return static_cast<int64_t>(std::min(1e15, std::max(total, 8 * data)));
}

convolution_shape draw_convolution(
        random_source &numbers, bool transposed, int64_t most_work) {
    for (int attempt = 0; attempt < 40; ++attempt) {
        const flavour kind = attempt < 20 ? flavour_of(numbers) : flavour::tiny;
        convolution_shape s;
        const auto rank = static_cast<size_t>(
                happens(numbers, 50) ? 2 : numbers.integer(1, 3));
        s.n = happens(numbers, 50) ? 1 : numbers.integer(1, 5);
        draw_channels(numbers, kind, s);
        for (size_t place = 0; place < rank; ++place)
            s.axes.push_back(axis_of(numbers, kind, rank, place));
        if (happens(numbers, 12)) set_auto_pad(numbers, s, transposed);
        if (happens(numbers, 2) && s.auto_pad == "none")
            empty_something(numbers, s);
        if (s.work() <= most_work) return s;
    }
    convolution_shape s;
    s.axes = {ordinary_axis(numbers, 5, 3, 2)};
    return s;
}

convolution_shape draw_convolution_around(random_source &numbers,
        const graph_builder &graph, const dims &given, bool transposed) {
    convolution_shape s;
    s.n = given[0];
    const int64_t channels = graph.channels(given);
    s.groups = channels % 2 == 0 && happens(numbers, 20) ? 2 : 1;
    const int64_t others = s.groups * numbers.integer(1, 12);
    s.large_channels = transposed ? channels : others;
    s.small_channels = transposed ? others : channels;
    for (const int64_t size : graph.space(given))
        s.axes.push_back(free_axis(
                numbers, transposed ? size : 0, transposed ? 0 : size));
    return s;
}

void exceed_limits(random_source &numbers, convolution_shape &s) {
    window_axis &a = s.axes.front();
    a.kernel = 1;
    a.pads_begin = a.pads_end = 0;
    a.small = 1;
    a.large = 1;
    a.rest = 0;
    const int64_t beyond = happens(numbers, 50)
            ? std::numeric_limits<int64_t>::max() - numbers.integer(0, 2)
            : (int64_t {1} << numbers.integer(40, 62)) + numbers.integer(1, 3);
    (happens(numbers, 50) ? a.stride : a.dilation) = beyond;
}

} // namespace gradnn::fuzz
