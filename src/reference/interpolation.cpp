// diff_src[i] += w * diff_dst[o] for every tap (i, w) of every output o: the
// forward formulas of design section 1, scattered. A tap of weight 0 is no tap.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>

#include "base/parallel.hpp"
#include "reference/ops.hpp"

namespace gradnn::detail {

namespace {

using wide = __int128;

/// A coordinate num / den, den > 0.
struct ratio {
    wide num;
    wide den;
};

wide floor_of(const ratio &x) {
    const wide quotient = x.num / x.den;
    return x.num % x.den < 0 ? quotient - 1 : quotient;
}

struct axis {
    bool nearest;
    std::string coordinates;
    int64_t src;
    int64_t dst;
    /// 0 where the ratio of the shapes or `ratio` serves.
    double scale;
    /// src elements per output; 0 where none is given.
    double ratio;
    std::string arithmetic;
};

/// mantissa * 2^exponent.
struct binary {
    wide mantissa;
    int exponent;
};

binary binary_of(double value, int bits) {
    int exponent = 0;
    const double fraction = std::frexp(value, &exponent);
    return {static_cast<wide>(std::ldexp(fraction, bits)), exponent - bits};
}

int width_of(wide value) {
    int bits = 0;
    for (; value != 0; value /= 2)
        ++bits;
    return bits;
}

/// Of a value below 2^106 whose last bit is 2^-114 or more.
ratio ratio_of(const binary &value) {
    if (value.exponent < 0)
        return {value.mantissa, wide {1} << -value.exponent};
    return {value.mantissa << value.exponent, 1};
}

/// The coordinate in src of output o.
ratio coordinate(const axis &a, int64_t o) {
    if (a.coordinates == "align_corners") {
        if (a.dst == 1) return {0, 1};
        return {wide {o} * (a.src - 1), a.dst - 1};
    }
    if (a.ratio != 0) {
        const bool half = a.coordinates != "asymmetric";
        binary x = binary_of(a.ratio, 53);
        x.mantissa *= 2 * wide {o} + (half ? 1 : 0);
        --x.exponent;
        if (x.mantissa == 0) return {0, 1};
        if (width_of(x.mantissa) + x.exponent > 106) return {a.src, 1};
        const ratio scaled = ratio_of(x);
        if (!half) return scaled;
        return {2 * scaled.num - scaled.den, 2 * scaled.den};
    }
    wide scale_num = a.dst;
    wide scale_den = a.src;
    if (a.scale != 0) {
        // Clamped to the exponents at which coordinates of tensors that exist
        // differ.
        binary s = binary_of(a.scale, 24);
        s.exponent = std::clamp(s.exponent, -70, 70);
        scale_num = s.exponent > 0 ? s.mantissa << s.exponent : s.mantissa;
        scale_den = s.exponent < 0 ? wide {1} << -s.exponent : wide {1};
    }
    if (a.coordinates == "asymmetric") return {o * scale_den, scale_num};
    // (o + 1/2) / scale - 1/2
    return {(2 * wide {o} + 1) * scale_den - scale_num, 2 * scale_num};
}

// Floating-point arithmetic on integers: what a forward computes in f32 or in
// f64 without relying on how this file is compiled.

/// To so many bits, to nearest even. `more` says that the value lies above
/// value, by less than its last bit.
binary rounded(binary value, int bits, bool more = false) {
    const int excess = width_of(value.mantissa) - bits;
    if (excess <= 0) return value;
    const wide unit = wide {1} << excess;
    const wide rest = value.mantissa % unit;
    binary result {value.mantissa / unit, value.exponent + excess};
    const bool above = 2 * rest > unit || (2 * rest == unit && more);
    const bool tie = 2 * rest == unit && !more;
    if (above || (tie && result.mantissa % 2 != 0)) ++result.mantissa;
    return result;
}

binary quotient(const binary &a, const binary &b, int bits) {
    const int shift = 124 - width_of(a.mantissa);
    const wide num = a.mantissa << shift;
    return rounded({num / b.mantissa, a.exponent - shift - b.exponent}, bits,
            num % b.mantissa != 0);
}

/// value plus so many halves; not negative.
binary plus_halves(binary value, int halves, int bits) {
    for (; value.exponent > -1; --value.exponent)
        value.mantissa *= 2;
    value.mantissa += wide {halves} << (-1 - value.exponent);
    return rounded(value, bits);
}

/// Where a forward of rounded coordinates reads.
wide rounded_index(const axis &a, int64_t o) {
    const int bits = a.arithmetic == "float64" ? 53 : 24;
    const binary of = a.ratio != 0 ? rounded(binary_of(a.ratio, 53), bits)
                                   : quotient(rounded({a.src, 0}, bits),
                                           rounded({a.dst, 0}, bits), bits);
    const bool half = a.coordinates != "asymmetric";
    binary place = rounded({o, 0}, bits);
    if (half) place = plus_halves(place, 1, bits);
    binary x {place.mantissa * of.mantissa, place.exponent + of.exponent};
    if (x.mantissa == 0) return 0;
    const int magnitude = width_of(x.mantissa) + x.exponent;
    if (magnitude > 62) return a.src - 1;
    if (half && a.arithmetic == "float32_fma") {
        if (magnitude < 0) return 0; // a product below a half
        x = plus_halves(plus_halves(x, -1, bits), 1, bits);
    }
    x = rounded(rounded(x, bits), 24);
    if (x.mantissa == 0 || width_of(x.mantissa) + x.exponent <= 0) return 0;
    const ratio value = ratio_of(x);
    return value.num / value.den;
}

struct tap {
    int64_t index;
    double weight;
};

/// At most two taps of output o, all of weight other than 0.
std::vector<tap> taps_of(const axis &a, int64_t o) {
    const wide last = a.src - 1;
    if (a.arithmetic != "exact")
        return {{static_cast<int64_t>(std::min(rounded_index(a, o), last)),
                1.0}};
    ratio x = coordinate(a, o);
    if (a.nearest) {
        if (a.coordinates != "asymmetric") x = {2 * x.num + x.den, 2 * x.den};
        const wide index = std::clamp<wide>(floor_of(x), 0, last);
        return {{static_cast<int64_t>(index), 1.0}};
    }
    if (x.num < 0) x.num = 0;
    const wide low = floor_of(x);
    if (low >= last) return {{static_cast<int64_t>(last), 1.0}};
    const wide rest = x.num - low * x.den;
    const auto share = [&](wide part) {
        return static_cast<double>(static_cast<long double>(part)
                / static_cast<long double>(x.den));
    };
    std::vector<tap> taps {{static_cast<int64_t>(low), share(x.den - rest)}};
    if (rest != 0) taps.push_back({static_cast<int64_t>(low + 1), share(rest)});
    return taps;
}

using axis_taps = std::vector<std::vector<tap>>;

axis_taps taps_of(const axis &a) {
    axis_taps taps;
    taps.reserve(static_cast<size_t>(a.dst));
    for (int64_t o = 0; o < a.dst; ++o)
        taps.push_back(taps_of(a, o));
    return taps;
}

} // namespace

reference_tensors reference_interpolation(
        const op &the_op, const reference_tensors &inputs) {
    const bool channels_last
            = reference_word(the_op, op::attr::data_format, "nxc") == "nxc";
    const planes diff_dst = to_planes(inputs[1], channels_last);
    reference_tensors outputs {reference_output(the_op, 0)};
    planes diff_src = to_planes(outputs[0], channels_last);
    if (diff_src.values.empty() || diff_dst.values.empty()) return outputs;

    // Given sizes make scales void, whatever scale_rule says.
    const bool sizes_given = !reference_list(the_op, op::attr::sizes).empty()
            || (the_op.get_inputs().size() > 2
                    && !the_op.get_inputs()[2].is_absent());
    const bool scales_serve = !sizes_given
            && reference_word(the_op, op::attr::scale_rule, "shape_ratio")
                    == "given";
    const size_t spatial_rank = outputs[0].dims.size() - 2;
    std::array<axis_taps, 3> taps;
    for (size_t index = 0; index < 3; ++index) {
        axis a {reference_word(the_op, op::attr::mode, "") == "nearest",
                reference_word(the_op, op::attr::coordinate_transformation_mode,
                        "half_pixel"),
                diff_src.dims[2 + index], diff_dst.dims[2 + index], 0.0, 0.0,
                "exact"};
        const size_t padded = 3 - spatial_rank;
        if (index >= padded) {
            if (scales_serve)
                a.scale = std::get<std::vector<float>>(the_op.get_attrs().at(
                        op::attr::scales))[index - padded];
            if (reference_word(the_op, op::attr::scale_rule, "shape_ratio")
                    == "ratios")
                a.ratio = std::get<std::vector<double>>(the_op.get_attrs().at(
                        op::attr::ratios))[index - padded];
            a.arithmetic = reference_word(
                    the_op, op::attr::coordinate_arithmetic, "exact");
        }
        taps[index] = taps_of(a);
    }

    const int64_t plane_count = diff_src.dims[0] * diff_src.dims[1];
    const int64_t src_height = diff_src.dims[3];
    const int64_t src_width = diff_src.dims[4];
    const int64_t src_plane = diff_src.dims[2] * src_height * src_width;
    const int64_t dst_plane
            = diff_dst.dims[2] * diff_dst.dims[3] * diff_dst.dims[4];
    const auto scatter = [&](int64_t plane) {
        double *const to = diff_src.values.data() + plane * src_plane;
        std::vector<double> lows(static_cast<size_t>(src_plane));
        const double *from = diff_dst.values.data() + plane * dst_plane;
        for (const auto &depth_taps : taps[0])
            for (const auto &height_taps : taps[1])
                for (const auto &width_taps : taps[2]) {
                    const double value = *from++;
                    for (const tap &d : depth_taps)
                        for (const tap &h : height_taps)
                            for (const tap &w : width_taps) {
                                const int64_t x
                                        = (d.index * src_height + h.index)
                                                * src_width
                                        + w.index;
                                add_compensated(to[x],
                                        lows[static_cast<size_t>(x)],
                                        d.weight * h.weight * w.weight * value);
                            }
                }
        std::transform(to, to + src_plane, lows.begin(), to, std::plus<>());
    };
    cpu::parallel_for(plane_count, 1, [&](int64_t begin, int64_t end) {
        for (int64_t plane = begin; plane < end; ++plane)
            scatter(plane);
    });
    from_planes(diff_src, channels_last, outputs[0]);
    return outputs;
}

} // namespace gradnn::detail
