// dst[o] = sum of w * src[i] over the taps (i, w) of output o, and diff_src[i] += w *
// diff_dst[o] for every tap of every output. Of nearest and linear a tap of weight 0 is no
// tap.
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
    bool cubic;
    bool antialias;
    bool exclude_outside;
    double cubic_coeff_a;
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

/// Keys' convolution, or a triangle, at num / den, not negative. In factors, which keep
/// the digits of weights near 0.
long double filter(const axis &a, long double num, long double den) {
    if (!a.cubic) return num < den ? (den - num) / den : 0;
    const long double x = num / den;
    const long double slope = a.cubic_coeff_a;
    const long double from_one = (num - den) / den;
    if (num <= den) return from_one * ((slope + 2) * x * x - x - 1);
    const long double from_two = (num - 2 * den) / den;
    return num < 2 * den ? slope * from_one * from_two * from_two : 0;
}

/// Of filters that are wider than two elements, or cut off at the ends: inputs nearer
/// than the radius of the filter, those outside at the ends.
std::vector<tap> filtered_taps(const axis &a, int64_t o) {
    const ratio x = coordinate(a, o);
    // The filter is as many times wider.
    long double stretch = 1;
    long double stretch_den = 1;
    if (a.antialias) {
        const bool corners = a.coordinates == "align_corners";
        stretch = a.ratio != 0 && !corners ? static_cast<long double>(a.ratio)
                : a.scale != 0 && !corners ? 1
                                           : static_cast<long double>(a.src);
        stretch_den = a.ratio != 0 && !corners ? 1
                : a.scale != 0 && !corners ? static_cast<long double>(a.scale)
                                           : static_cast<long double>(a.dst);
        if (stretch < stretch_den) stretch = stretch_den = 1;
    }
    const auto reach
            = static_cast<int64_t>(std::ceil(2 * stretch / stretch_den)) + 1;
    // Far outside nothing is nearer; there the end serves.
    if (floor_of(x) < -reach) return {{0, 1.0}};
    if (floor_of(x) > a.src + reach) return {{a.src - 1, 1.0}};
    const auto middle = static_cast<int64_t>(floor_of(x));
    const auto clamped
            = [&](int64_t i) { return std::clamp<int64_t>(i, 0, a.src - 1); };
    const int64_t first = clamped(middle - reach);
    const auto count = static_cast<size_t>(clamped(middle + reach) - first + 1);
    std::vector<long double> weights(count);
    std::vector<bool> named(count);
    long double all = 0;
    const auto add = [&](bool outside) {
        for (int64_t i = middle - reach; i <= middle + reach; ++i) {
            if (!outside && (i < 0 || i >= a.src)) continue;
            const wide away = i * x.den - x.num;
            const long double num
                    = static_cast<long double>(away < 0 ? -away : away)
                    * stretch_den;
            const long double den = static_cast<long double>(x.den) * stretch;
            if (num >= (a.cubic ? 2 : 1) * den) continue;
            const auto at = static_cast<size_t>(clamped(i) - first);
            weights[at] += filter(a, num, den);
            named[at] = true;
            all += filter(a, num, den);
        }
    };
    add(!a.exclude_outside);
    if (std::find(named.begin(), named.end(), true) == named.end()) add(true);
    if (all == 0) return {{x.num < 0 ? 0 : a.src - 1, 1.0}};
    const long double share = a.antialias || a.exclude_outside ? all : 1;
    std::vector<tap> taps;
    for (size_t i = 0; i < weights.size(); ++i)
        if (named[i])
            taps.push_back({first + static_cast<int64_t>(i),
                    static_cast<double>(weights[i] / share)});
    return taps;
}

/// All taps of output o; of nearest and linear of weight other than 0.
std::vector<tap> taps_of(const axis &a, int64_t o) {
    if (a.cubic || a.antialias) return filtered_taps(a, o);
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
    // An axis that is copied has no filter.
    if (a.cubic || a.antialias) {
        axis line = a;
        line.cubic = line.antialias = false;
        for (int64_t o = 0; o < a.dst && a.src == a.dst; ++o) {
            taps.push_back(taps_of(line, o));
            if (taps.back().size() > 1 || taps.back()[0].index != o) break;
            if (o + 1 == a.dst) return taps;
        }
        taps.clear();
    }
    taps.reserve(static_cast<size_t>(a.dst));
    for (int64_t o = 0; o < a.dst; ++o)
        taps.push_back(taps_of(a, o));
    return taps;
}

bool reference_flag(const op &the_op, op::attr name) {
    const auto found = the_op.get_attrs().find(name);
    return found != the_op.get_attrs().end() && std::get<bool>(found->second);
}

double cubic_coeff_a_of(const op &the_op) {
    const auto found = the_op.get_attrs().find(op::attr::cubic_coeff_a);
    return found == the_op.get_attrs().end() ? -0.75
                                             : std::get<float>(found->second);
}

} // namespace

reference_tensors reference_interpolation(const op &the_op,
        const reference_tensors &inputs, bool magnitudes_of_weights) {
    const bool channels_last
            = reference_word(the_op, op::attr::data_format, "nxc") == "nxc";
    const bool forward = the_op.get_kind() == op::kind::Interpolate;
    const size_t sizes_input = forward ? 1 : 2;
    const planes from = to_planes(inputs[sizes_input - 1], channels_last);
    reference_tensors outputs {reference_output(the_op, 0)};
    planes to = to_planes(outputs[0], channels_last);
    if (to.values.empty() || from.values.empty()) return outputs;
    const std::array<int64_t, 5> &src = forward ? from.dims : to.dims;
    const std::array<int64_t, 5> &dst = forward ? to.dims : from.dims;

    // Given sizes make scales void, whatever scale_rule says.
    const bool sizes_given = !reference_list(the_op, op::attr::sizes).empty()
            || (the_op.get_inputs().size() > sizes_input
                    && !the_op.get_inputs()[sizes_input].is_absent());
    const bool scales_serve = !sizes_given
            && reference_word(the_op, op::attr::scale_rule, "shape_ratio")
                    == "given";
    const size_t spatial_rank = outputs[0].dims.size() - 2;
    std::array<axis_taps, 3> taps;
    for (size_t index = 0; index < 3; ++index) {
        const std::string mode = reference_word(the_op, op::attr::mode, "");
        axis a {mode == "nearest", mode == "cubic" || mode == "bicubic",
                reference_flag(the_op, op::attr::antialias),
                reference_flag(the_op, op::attr::exclude_outside),
                cubic_coeff_a_of(the_op),
                reference_word(the_op, op::attr::coordinate_transformation_mode,
                        "half_pixel"),
                src[2 + index], dst[2 + index], 0.0, 0.0, "exact"};
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
        if (magnitudes_of_weights)
            for (auto &of_output : taps[index])
                for (tap &each : of_output)
                    each.weight = std::fabs(each.weight);
    }

    const int64_t src_plane = src[2] * src[3] * src[4];
    const int64_t dst_plane = dst[2] * dst[3] * dst[4];
    const auto sum_up = [&](int64_t plane) {
        const int64_t to_plane = forward ? dst_plane : src_plane;
        double *const sums = to.values.data() + plane * to_plane;
        std::vector<double> lows(static_cast<size_t>(to_plane));
        const double *const values = from.values.data()
                + plane * (forward ? src_plane : dst_plane);
        int64_t o = 0;
        for (const auto &depth_taps : taps[0])
            for (const auto &height_taps : taps[1])
                for (const auto &width_taps : taps[2]) {
                    for (const tap &d : depth_taps)
                        for (const tap &h : height_taps)
                            for (const tap &w : width_taps) {
                                const int64_t i
                                        = (d.index * src[3] + h.index) * src[4]
                                        + w.index;
                                const int64_t x = forward ? o : i;
                                add_compensated(sums[x],
                                        lows[static_cast<size_t>(x)],
                                        d.weight * h.weight * w.weight
                                                * values[forward ? i : o]);
                            }
                    ++o;
                }
        std::transform(
                sums, sums + to_plane, lows.begin(), sums, std::plus<>());
    };
    parallel_for(src[0] * src[1], 1, [&](int64_t begin, int64_t end) {
        for (int64_t plane = begin; plane < end; ++plane)
            sum_up(plane);
    });
    from_planes(to, channels_last, outputs[0]);
    return outputs;
}

} // namespace gradnn::detail
