// Problems at both sides of what the GPU's kernels take: depthwise windows of all
// kinds, narrow groups, first layers, dense convolutions, interpolations by whole
// and ragged ratios; rows and channels that are multiples of vectors and that are
// not. Sizes are a network's and tiny ones; no data is made.
//
// Draws are never two of a call's arguments, whose order is the compiler's choice.
#include <algorithm>

#include "base/text.hpp"
#include "problems.hpp"
#include "support/op_builders.hpp"
#include "support/random.hpp"

namespace gradnn::test {

namespace {

using detail::text;

bool happens(random_source &numbers, int64_t percent) {
    return numbers.integer(0, 99) < percent;
}

int64_t one_of(random_source &numbers, const sizes &values) {
    return numbers.pick(values);
}

/// Now and then a plane of a network, else whatever.
int64_t draw_size(random_source &numbers, size_t rank) {
    static const std::vector<sizes> usual {
            {16, 100, 1000, 1024, 4096, 16000, 44100},
            {7, 14, 28, 32, 56, 57, 64, 112, 224, 513},
            {4, 8, 14, 16, 28, 32, 64}};
    static const sizes largest {5000, 130, 40};
    if (happens(numbers, 60)) return numbers.pick(usual[rank - 1]);
    return numbers.integer(1, happens(numbers, 30) ? 9 : largest[rank - 1]);
}

sizes draw_space(random_source &numbers, size_t rank) {
    sizes space;
    for (size_t axis = 0; axis < rank; ++axis)
        space.push_back(axis > 0 && happens(numbers, 60)
                        ? space.back()
                        : draw_size(numbers, rank));
    return space;
}

const layout &draw_layout(random_source &numbers) {
    std::vector<const layout *> all;
    for (const layout &l : layouts())
        if (l.how != arrangement::any) all.push_back(&l);
    // Dense NCX or NXC mostly.
    const size_t index = happens(numbers, 80)
            ? static_cast<size_t>(numbers.integer(0, 1))
            : static_cast<size_t>(
                    numbers.integer(0, static_cast<int64_t>(all.size()) - 1));
    return *all[index];
}

/// Windows as networks have them, or whatever; `small` leaves large ones out.
struct window {
    sizes kernel, strides, dilations, begin, end;
};

int64_t draw_kernel(random_source &numbers, size_t rank, bool small) {
    static const std::vector<sizes> usual {
            {1, 2, 3, 5, 7, 9, 15, 16, 31, 48, 63, 64},
            {1, 2, 3, 3, 5, 5, 7, 7, 9, 11, 31}, {1, 2, 3, 3, 3, 5}};
    const int64_t size = happens(numbers, 85)
            ? numbers.pick(usual[rank - 1])
            : numbers.integer(1, rank == 1 ? 80 : 12);
    return small ? std::min<int64_t>(size, 7) : size;
}

window draw_window(random_source &numbers, size_t rank, bool small) {
    window drawn;
    const bool even_sided = happens(numbers, 80);
    const bool plain = happens(numbers, 55); // strides and dilations of 1
    const int64_t how = numbers.integer(0, 9);
    for (size_t axis = 0; axis < rank; ++axis) {
        const bool as_before = axis > 0 && even_sided;
        const auto draw = [&](const sizes &list, const auto &make) {
            return as_before ? list.back() : make();
        };
        drawn.kernel.push_back(draw(drawn.kernel,
                [&] { return draw_kernel(numbers, rank, small); }));
        drawn.strides.push_back(draw(drawn.strides, [&] {
            return plain ? 1 : one_of(numbers, {1, 2, 2, 2, 3, 4});
        }));
        drawn.dilations.push_back(draw(drawn.dilations, [&] {
            return plain || happens(numbers, 60)
                    ? 1
                    : one_of(numbers, {1, 2, 2, 3, 4});
        }));
        const int64_t reach = (drawn.kernel[axis] - 1) * drawn.dilations[axis];
        int64_t begin = reach / 2; // same
        int64_t end = reach - begin;
        if (how == 6) begin = end = 0; // valid
        if (how == 7) begin = end = reach; // full
        if (how > 7) {
            begin = numbers.integer(-1, reach);
            end = numbers.integer(-1, reach);
        }
        drawn.begin.push_back(begin);
        drawn.end.push_back(end);
    }
    return drawn;
}

/// With planes that are no smaller than a window.
convolution_case case_of(random_source &numbers, const window &w, int64_t n,
        int64_t groups, int64_t large_channels, int64_t small_channels) {
    sizes large = draw_space(numbers, w.kernel.size());
    for (size_t axis = 0; axis < large.size(); ++axis)
        large[axis] = std::max(large[axis],
                (w.kernel[axis] - 1) * w.dilations[axis] + 1 - w.begin[axis]
                        - w.end[axis]);
    for (int64_t &size : large)
        size = std::max<int64_t>(size, 1);
    return {"", n, groups, large_channels, small_channels, large, w.kernel,
            w.strides, w.dilations, w.begin, w.end};
}

/// As most depthwise convolutions are, which most of the kernels are for: a
/// square, strides and dilations of 1, the same size.
window draw_usual_window(random_source &numbers, size_t rank) {
    const int64_t size = rank == 1 ? numbers.integer(3, 63)
            : rank == 2            ? one_of(numbers, {3, 5, 7})
                                   : 3;
    const sizes ones(rank, 1);
    const sizes half(rank, size / 2);
    return {sizes(rank, size), ones, ones, half, half};
}

convolution_case draw_depthwise(random_source &numbers, size_t rank) {
    const bool usual = happens(numbers, 40);
    const window w = usual ? draw_usual_window(numbers, rank)
                           : draw_window(numbers, rank, false);
    const int64_t n = one_of(numbers, {1, 2, 3, 8, 32, 64});
    const int64_t channels = one_of(numbers,
            {1, 2, 3, 8, 16, 24, 32, 48, 64, 72, 96, 99, 128, 144, 257, 672});
    // Rarely with two outputs a channel, which is not depthwise's.
    const int64_t multiplier = happens(numbers, 5) ? 2 : 1;
    return case_of(numbers, w, n, channels, channels, channels * multiplier);
}

convolution_case draw_narrow_groups(random_source &numbers, size_t rank) {
    const window w = draw_window(numbers, rank, true);
    const int64_t n = one_of(numbers, {1, 2, 8, 64});
    const int64_t groups = one_of(numbers, {2, 3, 4, 8, 16, 32, 36, 64});
    const int64_t in = one_of(numbers, {1, 2, 3, 4, 4, 8, 8, 12, 16});
    const int64_t out
            = happens(numbers, 70) ? in : one_of(numbers, {1, 2, 4, 8, 16});
    return case_of(numbers, w, n, groups, groups * in, groups * out);
}

convolution_case draw_first_layer(random_source &numbers, size_t rank) {
    const bool small = happens(numbers, 80);
    const window w = draw_window(numbers, rank, small);
    const int64_t n = one_of(numbers, {1, 4, 32, 64});
    const int64_t in = one_of(numbers, {1, 1, 2, 3, 3, 3, 4, 5});
    const int64_t out = one_of(numbers, {8, 16, 24, 32, 64, 65, 96, 128, 512});
    return case_of(numbers, w, n, 1, in, out);
}

convolution_case draw_dense(random_source &numbers, size_t rank) {
    const sizes channels {
            8, 12, 16, 21, 31, 32, 48, 64, 67, 96, 128, 131, 256, 512, 1024};
    const window w = draw_window(numbers, rank, true);
    const int64_t n = one_of(numbers, {1, 2, 8, 16, 64, 128});
    const int64_t groups = happens(numbers, 15) ? 2 : 1;
    const int64_t in = groups * one_of(numbers, channels);
    const int64_t out = groups * one_of(numbers, channels);
    return case_of(numbers, w, n, groups, in, out);
}

choice_problem draw_convolution(random_source &numbers, data_type type) {
    const auto rank
            = static_cast<size_t>(one_of(numbers, {1, 1, 2, 2, 2, 2, 3, 3}));
    const int64_t which = numbers.integer(0, 99);
    const convolution_case drawn = which < 55 ? draw_depthwise(numbers, rank)
            : which < 70 ? draw_narrow_groups(numbers, rank)
            : which < 82 ? draw_first_layer(numbers, rank)
                         : draw_dense(numbers, rank);
    const layout &l = draw_layout(numbers);
    const bool small_type = type == data_type::bf16 || type == data_type::f16;
    wanted_outputs wanted;
    wanted.f32_gradients = small_type && happens(numbers, 25);
    const op::kind kind = happens(numbers, 75)
            ? op::kind::ConvBackward
            : op::kind::ConvTransposeBackward;
    choice_problem problem {
            "", convolution_op(kind, drawn, l, type, wanted), {}};
    if (happens(numbers, 12))
        problem.options.fpmath = numbers.pick(std::vector<fpmath_mode> {
                fpmath_mode::tf32, fpmath_mode::bf16, fpmath_mode::any});
    problem.options.deterministic = !happens(numbers, 8);
    const char *family = which < 55 ? "depthwise"
            : which < 70            ? "narrow"
            : which < 82            ? "first"
                                    : "dense";
    problem.name = text(family, ' ', l.name, ' ', to_string(kind), " n",
            drawn.n, " g", drawn.groups, " c", drawn.large_channels, '/',
            drawn.small_channels, " large ", detail::text_of(drawn.large),
            " k ", detail::text_of(drawn.kernel), " s ",
            detail::text_of(drawn.strides), " d ",
            detail::text_of(drawn.dilations), " p ",
            detail::text_of(drawn.pads_begin), ' ',
            detail::text_of(drawn.pads_end), " fpmath ",
            static_cast<int>(problem.options.fpmath),
            problem.options.deterministic ? "" : " varies",
            wanted.f32_gradients ? " f32" : "");
    return problem;
}

int64_t draw_other_size(random_source &numbers, int64_t size) {
    const int64_t how = numbers.integer(0, 9);
    if (how < 5) return size * one_of(numbers, {2, 2, 2, 3, 4, 4, 8, 16});
    if (how < 7) return std::max<int64_t>(1, size / one_of(numbers, {2, 3, 4}));
    if (how < 9) return numbers.integer(1, 3 * size);
    return size;
}

choice_problem draw_interpolation(random_source &numbers, data_type type) {
    const auto rank
            = static_cast<size_t>(one_of(numbers, {1, 2, 2, 2, 2, 3, 3}));
    interpolation_case drawn {"", one_of(numbers, {1, 2, 4, 8, 16}),
            one_of(numbers,
                    {1, 1, 2, 3, 3, 4, 7, 8, 16, 19, 21, 32, 64, 96, 257,
                            2048}),
            draw_space(numbers, rank), {}};
    const bool identity = happens(numbers, 8);
    const bool doubles = happens(numbers, 25);
    const bool alike = happens(numbers, 50);
    for (size_t axis = 0; axis < rank; ++axis) {
        const int64_t src = drawn.src[axis];
        int64_t dst = src;
        if (doubles)
            dst = 2 * src;
        else if (!identity && alike && axis > 0)
            dst = std::max<int64_t>(1, src * drawn.dst[0] / drawn.src[0]);
        else if (!identity && !happens(numbers, 10))
            dst = draw_other_size(numbers, src);
        drawn.dst.push_back(dst);
    }
    if (!doubles && happens(numbers, 20)) std::swap(drawn.src, drawn.dst);
    const layout &l = draw_layout(numbers);
    const std::string mode = happens(numbers, 25) ? "nearest" : "linear";
    const std::string coordinates = numbers.pick(std::vector<std::string> {
            "half_pixel", "half_pixel", "align_corners", "asymmetric"});
    choice_problem problem {
            "", interpolation_op(drawn, {mode, coordinates}, l, type), {}};
    problem.name = text("interpolation ", l.name, ' ', mode, ' ', coordinates,
            " n", drawn.n, " c", drawn.c, ' ', detail::text_of(drawn.src),
            " to ", detail::text_of(drawn.dst),
            drawn.src == drawn.dst ? " identity" : "");
    return problem;
}

choice_problem draw_plane(random_source &numbers, data_type type) {
    plane_case drawn {"",
            {one_of(numbers, {1, 2, 32, 64}),
                    one_of(numbers, {1, 3, 64, 67, 256})}};
    const auto rank = static_cast<size_t>(numbers.integer(1, 3));
    const sizes space = draw_space(numbers, rank);
    drawn.dims.insert(drawn.dims.end(), space.begin(), space.end());
    const layout &l = draw_layout(numbers);
    const op::kind kind = numbers.pick(std::vector<op::kind> {
            op::kind::BiasAddBackward, op::kind::BiasAddBackward,
            op::kind::ReLUBackward, op::kind::Add});
    choice_problem problem {"", plane_op(kind, drawn, l, type), {}};
    problem.name = text("plane ", l.name, ' ', to_string(kind), ' ',
            detail::text_of(drawn.dims));
    return problem;
}

} // namespace

std::vector<choice_problem> random_problems(uint64_t seed, size_t count) {
    std::vector<choice_problem> all;
    for (size_t index = 0; index < count; ++index) {
        // Each of its own, so that a change of one leaves the others alone.
        random_source mixed(seed);
        random_source numbers(mixed.bits() ^ index);
        const data_type type = numbers.pick(float_types());
        const int64_t which = numbers.integer(0, 99);
        choice_problem problem = which < 65 ? draw_convolution(numbers, type)
                : which < 97                ? draw_interpolation(numbers, type)
                                            : draw_plane(numbers, type);
        problem.name = text(index, ' ', problem.name);
        all.push_back(std::move(problem));
    }
    return all;
}

} // namespace gradnn::test
