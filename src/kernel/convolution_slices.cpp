#include "kernel/convolution_slices.hpp"

#include <algorithm>
#include <numeric>

namespace gradnn::detail {

namespace {

/// [begin, end) of a dim.
struct range {
    int64_t begin;
    int64_t end;
    int64_t count() const { return end - begin; }
};

template <typename View>
void narrow_to(convolution_part &part, size_t argument, View &view, size_t dim,
        range to) {
    part.offsets[argument] += to.begin * view.strides[dim] * size_of(view.type);
    view.dims[dim] = to.count();
}

void take_images(convolution_part &part, range images) {
    narrow_to(part, 0, part.problem.src, 0, images);
    narrow_to(part, 2, part.problem.dst, 0, images);
}

void take_src_channels(convolution_part &part, range channels) {
    narrow_to(part, 0, part.problem.src, 1, channels);
    narrow_to(part, 1, part.problem.weights, 2, channels);
}

void take_dst_channels(convolution_part &part, range channels) {
    narrow_to(part, 1, part.problem.weights, 1, channels);
    narrow_to(part, 2, part.problem.dst, 1, channels);
}

/// Floor of the quotient; divisor > 0.
int64_t quotient(int64_t dividend, int64_t divisor) {
    return dividend / divisor - (dividend % divisor < 0 ? 1 : 0);
}

/// Of positive numbers.
int64_t quotient_up(int64_t dividend, int64_t divisor) {
    return (dividend + divisor - 1) / divisor;
}

/// Positions of the output along an axis, or of dst where that is the weights, and of the
/// other tensor those that they meet. False where they meet none.
bool take_slab(convolution_part &part, size_t axis, range slab) {
    convolution_problem &p = part.problem;
    const size_t dim = 2 + axis;
    const int64_t stride = p.strides[axis];
    const int64_t pad = p.pads_begin[axis];
    const int64_t span = (p.weights.dims[3 + axis] - 1) * p.dilations[axis];
    range src = slab;
    range dst = slab;
    if (p.direction == convolution_direction::backward_data) {
        dst.begin = std::max<int64_t>(
                0, quotient(slab.begin + pad - span + stride - 1, stride));
        dst.end = std::min(
                p.dst.dims[dim], quotient(slab.end - 1 + pad, stride) + 1);
        if (dst.count() <= 0) return false;
    } else {
        const int64_t first = slab.begin * stride - pad;
        const int64_t last = (slab.end - 1) * stride - pad + span;
        src.begin = std::clamp<int64_t>(first, 0, p.src.dims[dim] - 1);
        src.end = std::clamp<int64_t>(last + 1, src.begin + 1, p.src.dims[dim]);
    }
    p.pads_begin[axis] = pad + src.begin - dst.begin * stride;
    narrow_to(part, 0, p.src, dim, src);
    narrow_to(part, 2, p.dst, dim, dst);
    return true;
}

/// An axis with a stride, taken apart.
struct axis_phases {
    int64_t apart; ///< taps of a part
    int64_t dilation; ///< of a part
    int64_t count; ///< parts with taps, at most

    axis_phases(const convolution_problem &p, size_t axis) {
        const int64_t window = p.weights.dims[3 + axis];
        dilation = window == 1 ? 1 : p.dilations[axis];
        const int64_t common = std::gcd(p.strides[axis], dilation);
        apart = p.strides[axis] / common;
        dilation /= common;
        count = std::min(apart, window);
    }
};

/// Channels that fill a tile of tensor cores: slices of fewer leave most of it empty.
constexpr int64_t tile_channels = 64;

/// What is cut, and into how many slices at most.
class cutter {
public:
    cutter(size_t most,
            const std::function<bool(const convolution_problem &)> &fits)
        : most_(static_cast<int64_t>(most)), fits_(fits) {}

    /// The fewest slices of `size` elements, each but the last a multiple of `together`
    /// and of `least` at least; nothing where none fit. `take(part, range)` makes one, or
    /// says that it is zeros.
    template <typename Take>
    convolution_slices cut(const convolution_part &whole, int64_t size,
            int64_t together, const Take &take, int64_t least = 1) const {
        int64_t before = size;
        for (int64_t count = 2; count <= std::min(size, most_); ++count) {
            const int64_t even = quotient_up(size, count);
            const int64_t each = quotient_up(even, together) * together;
            if (each < least) break;
            if (each >= before) continue;
            before = each;
            convolution_slices made;
            bool fit = true;
            for (int64_t at = 0; fit && at < size; at += each) {
                convolution_part part = whole;
                if (!take(part, range {at, std::min(at + each, size)})) {
                    made.zeros = true;
                    continue;
                }
                fit = fits_(part.problem);
                made.parts.push_back(part);
            }
            if (fit) return made;
        }
        return {};
    }

    /// Kernels read 8 of 16 bits at once.
    static int64_t channels_together(int64_t channels) {
        constexpr int64_t word = 8;
        return channels < 2 * word ? 1 : word;
    }

    /// None but the last of less than `least` channels.
    convolution_slices of_channels(
            const convolution_part &whole, int64_t least) const {
        const convolution_problem &p = whole.problem;
        if (p.weights.dims[0] != 1) return {};
        const bool to_src = p.direction == convolution_direction::backward_data;
        const bool to_dst = p.direction == convolution_direction::forward;
        const auto of = [&](int64_t channels, auto take) {
            return cut(
                    whole, channels, channels_together(channels),
                    [&](convolution_part &part, range some) {
                        take(part, some);
                        return true;
                    },
                    least);
        };
        const auto src = [&] { return of(p.src.dims[1], take_src_channels); };
        const auto dst = [&] { return of(p.dst.dims[1], take_dst_channels); };
        if (to_src) return src();
        if (to_dst) return dst();
        convolution_slices by_src = src();
        convolution_slices by_dst = dst();
        return !by_src.parts.empty()
                        && (by_dst.parts.empty()
                                || by_src.parts.size() <= by_dst.parts.size())
                ? by_src
                : by_dst;
    }

    /// Along the outermost axis of which slabs share little of what they read.
    convolution_slices of_slabs(const convolution_part &whole) const {
        const convolution_problem &p = whole.problem;
        const bool to_src = p.direction == convolution_direction::backward_data;
        const auto &output = to_src ? p.src.dims : p.dst.dims;
        const auto &read = to_src ? p.dst.dims : p.src.dims;
        convolution_slices best;
        int64_t least
                = 0; // elements along the axis that are read twice, of 2^20
        for (size_t axis = 0; axis < 3; ++axis) {
            const size_t dim = 2 + axis;
            convolution_slices made = cut(whole, output[dim], 1,
                    [&](convolution_part &part, range slab) {
                        return take_slab(part, axis, slab);
                    });
            if (made.parts.empty()) continue;
            int64_t all = 0;
            for (const convolution_part &part : made.parts)
                all += to_src ? part.problem.dst.dims[dim]
                              : part.problem.src.dims[dim];
            constexpr int64_t unit = int64_t {1} << 20;
            const int64_t twice = (all - read[dim]) * unit / read[dim];
            if (!best.parts.empty() && twice >= least) continue;
            best = std::move(made);
            least = twice;
            if (twice <= unit / 8) break;
        }
        return best;
    }

private:
    int64_t most_;
    const std::function<bool(const convolution_problem &)> &fits_;
};

} // namespace

std::vector<convolution_part> groups_of(const convolution_part &whole) {
    const convolution_problem &p = whole.problem;
    const int64_t outputs = p.weights.dims[1];
    const int64_t inputs = p.weights.dims[2];
    std::vector<convolution_part> parts;
    for (int64_t group = 0; group < p.weights.dims[0]; ++group) {
        convolution_part part = whole;
        convolution_problem &made = part.problem;
        narrow_to(part, 0, made.src, 1, {group * inputs, (group + 1) * inputs});
        narrow_to(part, 1, made.weights, 0, {group, group + 1});
        narrow_to(
                part, 2, made.dst, 1, {group * outputs, (group + 1) * outputs});
        made.weights.strides[0] = 0;
        parts.push_back(part);
    }
    return parts;
}

int64_t phases_along(const convolution_problem &p, size_t axis) {
    return axis_phases(p, axis).count;
}

std::vector<convolution_part> phases_of(
        const convolution_part &whole, size_t axis) {
    const convolution_problem &p = whole.problem;
    const axis_phases phases(p, axis);
    const int64_t stride = p.strides[axis];
    const int64_t pad = p.pads_begin[axis];
    const int64_t size = p.src.dims[2 + axis];
    std::vector<convolution_part> parts;
    for (int64_t tap = 0; tap < phases.count; ++tap) {
        const int64_t reach = tap * p.dilations[axis];
        // The first position of src, and the one of dst that it meets by the tap.
        const int64_t first = ((reach - pad) % stride + stride) % stride;
        int64_t met = (first + pad - reach) / stride;
        if (first >= size) continue;
        convolution_part part = whole;
        convolution_problem &made = part.problem;
        const int64_t count = quotient_up(size - first, stride);
        const int64_t taps
                = quotient_up(p.weights.dims[3 + axis] - tap, phases.apart);
        const int64_t nearest = met - (taps - 1) * phases.dilation;
        if (nearest >= p.dst.dims[2 + axis] || met + count <= 0) continue;
        // Of dst, at most one position at either end meets nothing: kernels expect
        // no more, and parts with the same dst share a copy of it.
        const int64_t skipped = std::max<int64_t>(nearest - 1, 0);
        met -= skipped;
        const int64_t positions
                = std::min(p.dst.dims[2 + axis] - skipped, met + count + 1);
        made.strides[axis] = 1;
        made.dilations[axis] = phases.dilation;
        made.pads_begin[axis] = met;
        made.src.dims[2 + axis] = count;
        made.src.strides[2 + axis] *= stride;
        made.dst.dims[2 + axis] = positions;
        made.weights.dims[3 + axis] = taps;
        made.weights.strides[3 + axis] *= phases.apart;
        part.offsets[0]
                += first * p.src.strides[2 + axis] * size_of(p.src.type);
        part.offsets[1]
                += tap * p.weights.strides[3 + axis] * size_of(p.weights.type);
        part.offsets[2]
                += skipped * p.dst.strides[2 + axis] * size_of(p.dst.type);
        parts.push_back(part);
    }
    return parts;
}

convolution_slices slices_of(const convolution_problem &whole, size_t most,
        const std::function<bool(const convolution_problem &)> &fits,
        bool may_be_sums) {
    const convolution_slices uncut {{{whole, {}}}, false};
    if (fits(whole)) return uncut;
    const bool of_data
            = whole.direction != convolution_direction::backward_weights;
    const bool sums = !of_data && may_be_sums;
    const int64_t images = whole.src.dims[0];
    std::vector<convolution_part> of_images = uncut.parts;
    if ((of_data || sums) && images > 1) {
        convolution_slices made
                = cutter(most, fits)
                          .cut(uncut.parts.front(), images, 1,
                                  [](convolution_part &part, range some) {
                                      take_images(part, some);
                                      return true;
                                  });
        made.sums = sums;
        if (!made.parts.empty()) return made;
        if (images <= static_cast<int64_t>(most)) {
            of_images.clear();
            for (int64_t image = 0; image < images; ++image) {
                of_images.push_back(uncut.parts.front());
                take_images(of_images.back(), {image, image + 1});
            }
        } else if (of_data)
            return uncut;
    }
    const cutter of_one(most / of_images.size(), fits);
    convolution_slices all;
    all.sums = sums;
    for (const convolution_part &image : of_images) {
        convolution_slices made;
        if (!sums)
            made = of_one.of_channels(image, of_data ? tile_channels : 1);
        if (made.parts.empty() && (of_data || sums))
            made = of_one.of_slabs(image);
        if (of_data && made.parts.empty()) made = of_one.of_channels(image, 1);
        if (made.parts.empty())
            return sums ? slices_of(whole, most, fits) : uncut;
        all.zeros = all.zeros || made.zeros;
        all.parts.insert(all.parts.end(), made.parts.begin(), made.parts.end());
    }
    return all;
}

} // namespace gradnn::detail
