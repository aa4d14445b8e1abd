// The gradients of convolutions and transposed convolutions.
//
// Both relate a large tensor and a small one: element y of small meets element
// y * stride - pad + k * dilation of large through weight k. A convolution's
// src is large and its dst small; a transposed one's src is small and its dst
// large. So each output of the six ops is one of three sums over that relation:
//     large[n, l] += small[n, s] * weights[s, l, k]
//     small[n, s] += large[n, l] * weights[s, l, k]
//     weights[s, l, k] += small[n, s] * large[n, l]
// for the channels s and l of each group.
#include <algorithm>
#include <functional>

#include "base/parallel.hpp"
#include "reference/ops.hpp"

namespace gradnn::detail {

namespace {

/// [channels of small, channels of large in a group, d, h, w].
struct filters {
    std::array<int64_t, 5> dims {1, 1, 1, 1, 1};
    std::vector<double> values;
};

struct window {
    int64_t groups = 1;
    std::array<int64_t, 3> strides {1, 1, 1};
    std::array<int64_t, 3> dilations {1, 1, 1};
    std::array<int64_t, 3> pads {0, 0, 0};
};

/// Calls body(index in the filters, index in the tensor) for every weight.
/// X-first formats keep [d, h, w, large, small].
template <typename Body>
void for_each_weight(
        const std::array<int64_t, 5> &dims, bool spatial_first, Body body) {
    const int64_t space = dims[2] * dims[3] * dims[4];
    for (int64_t s = 0; s < dims[0]; ++s)
        for (int64_t l = 0; l < dims[1]; ++l)
            for (int64_t k = 0; k < space; ++k) {
                const int64_t plain = (s * dims[1] + l) * space + k;
                const int64_t first = (k * dims[1] + l) * dims[0] + s;
                body(static_cast<size_t>(plain),
                        static_cast<size_t>(spatial_first ? first : plain));
            }
}

filters to_filters(const reference_tensor &tensor, bool spatial_first) {
    filters result;
    const size_t rank = tensor.dims.size();
    result.dims[0] = spatial_first ? tensor.dims[rank - 1] : tensor.dims[0];
    result.dims[1] = spatial_first ? tensor.dims[rank - 2] : tensor.dims[1];
    for (size_t axis = 0; axis < rank - 2; ++axis)
        result.dims[7 - rank + axis]
                = tensor.dims[(spatial_first ? 0 : 2) + axis];
    result.values.resize(tensor.values.size());
    for_each_weight(result.dims, spatial_first, [&](size_t to, size_t from) {
        result.values[to] = tensor.values[from];
    });
    return result;
}

void from_filters(
        const filters &from, bool spatial_first, reference_tensor &tensor) {
    for_each_weight(from.dims, spatial_first,
            [&](size_t of, size_t to) { tensor.values[to] = from.values[of]; });
}

/// The elements y of a small row whose element y * stride + shift lies in a
/// large row.
struct span_of_row {
    int64_t begin;
    int64_t end;
};

span_of_row inside(
        int64_t small, int64_t large, int64_t stride, int64_t shift) {
    const int64_t begin = shift >= 0 ? 0 : (-shift + stride - 1) / stride;
    const int64_t room = large - 1 - shift;
    const int64_t end = room < 0 ? 0 : std::min(small, room / stride + 1);
    return {begin, std::max(begin, end)};
}

/// Calls body(large row, small row, weight, span, shift) for all pairs of rows
/// of one plane pair that meet through one filter; rows and weight are offsets
/// in their planes.
template <typename Body>
void for_each_row_pair(const window &w, const std::array<int64_t, 5> &large,
        const std::array<int64_t, 5> &small,
        const std::array<int64_t, 5> &kernel, Body body) {
    const auto shift = [&](size_t axis, int64_t k) {
        return k * w.dilations[axis] - w.pads[axis];
    };
    int64_t weight = 0;
    for (int64_t kd = 0; kd < kernel[2]; ++kd)
        for (int64_t kh = 0; kh < kernel[3]; ++kh)
            for (int64_t kw = 0; kw < kernel[4]; ++kw, ++weight) {
                const auto d = inside(
                        small[2], large[2], w.strides[0], shift(0, kd));
                const auto h = inside(
                        small[3], large[3], w.strides[1], shift(1, kh));
                const auto x = inside(
                        small[4], large[4], w.strides[2], shift(2, kw));
                for (int64_t yd = d.begin; yd < d.end; ++yd)
                    for (int64_t yh = h.begin; yh < h.end; ++yh) {
                        const int64_t ld = yd * w.strides[0] + shift(0, kd);
                        const int64_t lh = yh * w.strides[1] + shift(1, kh);
                        body((ld * large[3] + lh) * large[4],
                                (yd * small[3] + yh) * small[4], weight, x,
                                shift(2, kw));
                    }
            }
}

/// Everything that one call needs; offsets of the planes of a channel.
struct relation {
    window w;
    std::array<int64_t, 5> large {};
    std::array<int64_t, 5> small {};
    std::array<int64_t, 5> kernel {};

    int64_t small_per_group() const { return kernel[0] / w.groups; }
    int64_t large_plane(int64_t n, int64_t c) const {
        return (n * large[1] + c) * large[2] * large[3] * large[4];
    }
    int64_t small_plane(int64_t n, int64_t c) const {
        return (n * small[1] + c) * small[2] * small[3] * small[4];
    }
    int64_t taps() const { return kernel[2] * kernel[3] * kernel[4]; }
    int64_t filter(int64_t s, int64_t l) const {
        return (s * kernel[1] + l) * taps();
    }
};

/// Calls body(a, b) for all a < count_a and b < count_b, on all threads.
template <typename Body>
void for_each_pair(int64_t count_a, int64_t count_b, const Body &body) {
    parallel_for(count_a * count_b, 1, [&](int64_t begin, int64_t end) {
        for (int64_t pair = begin; pair < end; ++pair)
            body(pair / count_b, pair % count_b);
    });
}

/// Terms that are added up one after the other, before their sum is added to
/// others with what that rounds off.
constexpr int64_t most_terms = 256;

/// A plane that is summed in parts of so many terms of an element.
class plane_sum {
public:
    plane_sum(double *total, const std::array<int64_t, 5> &dims)
        : total_(total),
          part_(static_cast<size_t>(dims[2] * dims[3] * dims[4])),
          lows_(part_.size()) {}
    plane_sum(const plane_sum &) = delete;
    plane_sum &operator=(const plane_sum &) = delete;
    ~plane_sum() {
        finish_part();
        for (size_t x = 0; x < part_.size(); ++x)
            total_[x] += lows_[x];
    }

    /// Where the terms of a weight are to be added. Weights come in ascending
    /// order; an element has at most one term of each.
    double *part(int64_t weight) {
        if (weight - first_ >= most_terms) {
            finish_part();
            first_ = weight;
        }
        return part_.data();
    }

private:
    void finish_part() {
        for (size_t x = 0; x < part_.size(); ++x)
            add_compensated(total_[x], lows_[x], part_[x]);
        std::fill(part_.begin(), part_.end(), 0.0);
    }

    double *const total_;
    std::vector<double> part_;
    std::vector<double> lows_;
    int64_t first_ = 0;
};

void sum_into_large(const relation &r, double *large, const double *small,
        const double *weights) {
    const int64_t stride = r.w.strides[2];
    for_each_pair(r.large[0], r.large[1], [&](int64_t n, int64_t c) {
        const int64_t group = c / r.kernel[1];
        const int64_t l = c % r.kernel[1];
        plane_sum sum(large + r.large_plane(n, c), r.large);
        for (int64_t i = 0; i < r.small_per_group(); ++i) {
            const int64_t s = group * r.small_per_group() + i;
            const double *const from = small + r.small_plane(n, s);
            const double *const filter = weights + r.filter(s, l);
            for_each_row_pair(r.w, r.large, r.small, r.kernel,
                    [&](int64_t large_row, int64_t small_row, int64_t k,
                            span_of_row x, int64_t shift) {
                        double *const to = sum.part(i * r.taps() + k);
                        const double weight = filter[k];
#pragma omp simd
                        for (int64_t y = x.begin; y < x.end; ++y)
                            to[large_row + y * stride + shift]
                                    += from[small_row + y] * weight;
                    });
        }
    });
}

void sum_into_small(const relation &r, const double *large, double *small,
        const double *weights) {
    const int64_t stride = r.w.strides[2];
    for_each_pair(r.small[0], r.small[1], [&](int64_t n, int64_t s) {
        const int64_t group = s / r.small_per_group();
        plane_sum sum(small + r.small_plane(n, s), r.small);
        for (int64_t l = 0; l < r.kernel[1]; ++l) {
            const double *const from
                    = large + r.large_plane(n, group * r.kernel[1] + l);
            const double *const filter = weights + r.filter(s, l);
            for_each_row_pair(r.w, r.large, r.small, r.kernel,
                    [&](int64_t large_row, int64_t small_row, int64_t k,
                            span_of_row x, int64_t shift) {
                        double *const to = sum.part(l * r.taps() + k);
                        const double weight = filter[k];
#pragma omp simd
                        for (int64_t y = x.begin; y < x.end; ++y)
                            to[small_row + y]
                                    += from[large_row + y * stride + shift]
                                    * weight;
                    });
        }
    });
}

void sum_into_weights(const relation &r, const double *large,
        const double *small, double *weights) {
    const int64_t stride = r.w.strides[2];
    for_each_pair(r.kernel[0], r.kernel[1], [&](int64_t s, int64_t l) {
        const int64_t group = s / r.small_per_group();
        double *const filter = weights + r.filter(s, l);
        std::vector<double> lows(static_cast<size_t>(r.taps()));
        for (int64_t n = 0; n < r.small[0]; ++n) {
            const double *const of_large
                    = large + r.large_plane(n, group * r.kernel[1] + l);
            const double *const of_small = small + r.small_plane(n, s);
            for_each_row_pair(r.w, r.large, r.small, r.kernel,
                    [&](int64_t large_row, int64_t small_row, int64_t k,
                            span_of_row x, int64_t shift) {
                        for (int64_t begin = x.begin; begin < x.end;
                                begin += most_terms) {
                            const int64_t end
                                    = std::min(x.end, begin + most_terms);
                            double sum = 0;
#pragma omp simd reduction(+ : sum)
                            for (int64_t y = begin; y < end; ++y)
                                sum += of_small[small_row + y]
                                        * of_large[large_row + y * stride
                                                + shift];
                            add_compensated(filter[k],
                                    lows[static_cast<size_t>(k)], sum);
                        }
                    });
        }
        std::transform(
                filter, filter + r.taps(), lows.begin(), filter, std::plus<>());
    });
}

window window_of(const op &the_op, const std::array<int64_t, 5> &large,
        const std::array<int64_t, 5> &small,
        const std::array<int64_t, 5> &kernel, size_t spatial_rank) {
    window result;
    if (const auto groups = the_op.get_attrs().find(op::attr::groups);
            groups != the_op.get_attrs().end())
        result.groups = std::get<int64_t>(groups->second);
    const auto strides = reference_list(the_op, op::attr::strides);
    const auto dilations = reference_list(the_op, op::attr::dilations);
    const auto pads = reference_list(the_op, op::attr::pads_begin);
    const std::string auto_pad
            = reference_word(the_op, op::attr::auto_pad, "none");
    for (size_t given = 0; given < spatial_rank; ++given) {
        const size_t axis = 3 - spatial_rank + given;
        result.strides[axis] = strides[given];
        result.dilations[axis] = dilations[given];
        if (auto_pad == "none") {
            result.pads[axis] = pads[given];
        } else if (auto_pad != "valid") {
            // As much padding as the windows need beyond large; the odd one
            // comes after it for same_upper, before it for same_lower.
            const int64_t reach = (small[2 + axis] - 1) * strides[given]
                    + (kernel[2 + axis] - 1) * dilations[given] + 1;
            const int64_t total = std::max<int64_t>(0, reach - large[2 + axis]);
            result.pads[axis]
                    = auto_pad == "same_upper" ? total / 2 : total - total / 2;
        }
    }
    return result;
}

/// Where an op keeps what; -1 where it has no such port.
struct ports {
    bool transposed;
    int in_src;
    int in_diff_dst;
    int in_weights;
    int out_src;
    int out_weights;
    int out_bias;
};

ports ports_of(op::kind kind) {
    switch (kind) {
        case op::kind::ConvBackward: return {false, 1, 0, 2, 0, 1, 2};
        case op::kind::ConvTransposeBackward: return {true, 1, 0, 2, 0, 1, 2};
        case op::kind::ConvTransposeBackwardData:
            return {true, -1, 0, 1, 0, -1, -1};
        case op::kind::ConvTransposeBackwardWeights:
            return {true, 0, 1, -1, -1, 0, -1};
        case op::kind::ConvolutionBackwardData:
            return {false, -1, 0, 1, 0, -1, -1};
        default: return {false, 0, 1, -1, -1, 0, -1};
    }
}

} // namespace

reference_tensors reference_convolution(
        const op &the_op, const reference_tensors &inputs) {
    const ports p = ports_of(the_op.get_kind());
    const bool channels_last
            = reference_word(the_op, op::attr::data_format, "nxc") == "nxc";
    const std::string format = reference_word(
            the_op, op::attr::weights_format, p.transposed ? "xoi" : "xio");
    const bool spatial_first = format == "xio" || format == "xoi";

    reference_tensors outputs;
    for (size_t index = 0; index < the_op.get_outputs().size(); ++index)
        outputs.push_back(reference_output(the_op, index));
    // Of src and weights either the values come in or zeros go out.
    const auto tensor = [&](int in, int out) -> const reference_tensor & {
        return in >= 0 ? inputs[static_cast<size_t>(in)]
                       : outputs[static_cast<size_t>(out)];
    };
    planes src = to_planes(tensor(p.in_src, p.out_src), channels_last);
    const planes diff_dst = to_planes(
            inputs[static_cast<size_t>(p.in_diff_dst)], channels_last);
    filters weights
            = to_filters(tensor(p.in_weights, p.out_weights), spatial_first);

    relation r;
    r.large = p.transposed ? diff_dst.dims : src.dims;
    r.small = p.transposed ? src.dims : diff_dst.dims;
    r.kernel = weights.dims;
    r.w = window_of(the_op, r.large, r.small, r.kernel,
            inputs[static_cast<size_t>(p.in_diff_dst)].dims.size() - 2);

    const auto wanted = [&](int out) {
        return out >= 0 && static_cast<size_t>(out) < outputs.size()
                && !outputs[static_cast<size_t>(out)].dims.empty();
    };
    if (wanted(p.out_src)) {
        planes diff_src {src.dims, std::vector<double>(src.values.size())};
        if (p.transposed)
            sum_into_small(r, diff_dst.values.data(), diff_src.values.data(),
                    weights.values.data());
        else
            sum_into_large(r, diff_src.values.data(), diff_dst.values.data(),
                    weights.values.data());
        from_planes(diff_src, channels_last,
                outputs[static_cast<size_t>(p.out_src)]);
    }
    if (wanted(p.out_weights)) {
        filters diff_weights {
                weights.dims, std::vector<double>(weights.values.size())};
        const double *const large
                = (p.transposed ? diff_dst : src).values.data();
        const double *const small
                = (p.transposed ? src : diff_dst).values.data();
        sum_into_weights(r, large, small, diff_weights.values.data());
        from_filters(diff_weights, spatial_first,
                outputs[static_cast<size_t>(p.out_weights)]);
    }
    if (wanted(p.out_bias))
        reference_bias(diff_dst, outputs[static_cast<size_t>(p.out_bias)]);
    return outputs;
}

} // namespace gradnn::detail
