#pragma once
// A convolution of oneDNN with buffers of its own, for onednn_versions: its
// problem from a line of text, a reference in plain loops, guards around the
// buffers.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>
#include <unordered_map>
#include <vector>

#include <oneapi/dnnl/dnnl.hpp>

namespace onednn_versions {

using dnnl::memory;
using dims = memory::dims;

enum class direction { forward, backward_data, backward_weights };

struct problem {
    direction to;
    memory::data_type type;
    std::string layout;
    int64_t groups;
    dims src, weights, dst; ///< N, C, space; (G,) O, I, space
    dims strides, dilates, begin, end; ///< dilates as in oneDNN, from 0
};

inline dims parse_sizes(const std::string &text) {
    dims sizes;
    std::istringstream in(text);
    for (std::string size; std::getline(in, size, 'x');)
        sizes.push_back(std::stoll(size));
    return sizes;
}

inline problem parse(const std::string &line) {
    std::istringstream in(line);
    std::string to, type, layout, src, kernel, strides, dilations, begin, end;
    int64_t groups, n, ic, oc;
    if (!(in >> to >> type >> layout >> groups >> n >> ic >> oc >> src >> kernel
                >> strides >> dilations >> begin >> end)) {
        std::fprintf(stderr, "not a problem: %s\n", line.c_str());
        std::exit(2);
    }
    problem p;
    p.to = to == "fwd"      ? direction::forward
            : to == "bwd_d" ? direction::backward_data
                            : direction::backward_weights;
    p.type = type == "f32"   ? memory::data_type::f32
            : type == "bf16" ? memory::data_type::bf16
                             : memory::data_type::f16;
    p.layout = layout;
    p.groups = groups;
    p.src = {n, ic};
    p.dst = {n, oc};
    p.weights = {oc / groups, ic / groups};
    if (groups > 1) p.weights.insert(p.weights.begin(), groups);
    p.strides = parse_sizes(strides);
    p.dilates = parse_sizes(dilations);
    p.begin = parse_sizes(begin);
    p.end = parse_sizes(end);
    const dims sizes = parse_sizes(src), taps = parse_sizes(kernel);
    for (size_t i = 0; i < sizes.size(); ++i) {
        const int64_t window = (taps[i] - 1) * p.dilates[i] + 1;
        p.src.push_back(sizes[i]);
        p.weights.push_back(taps[i]);
        p.dst.push_back(
                (sizes[i] + p.begin[i] + p.end[i] - window) / p.strides[i] + 1);
        --p.dilates[i];
    }
    return p;
}

inline int64_t count(const dims &sizes) {
    int64_t n = 1;
    for (int64_t size : sizes)
        n *= size;
    return n;
}

inline memory::desc plain(const dims &sizes, memory::data_type type, bool nxc) {
    dims strides(sizes.size());
    int64_t step = 1;
    if (nxc) {
        strides[1] = step;
        step *= sizes[1];
    }
    for (size_t i = sizes.size(); i-- > 0;) {
        if (nxc && i == 1) continue;
        strides[i] = step;
        step *= sizes[i];
    }
    return {sizes, type, strides};
}

/// Memory with a pattern before and after it.
class guarded {
public:
    guarded(size_t bytes, unsigned char fill)
        : bytes_(bytes), all_(bytes + 2 * guard, pattern) {
        std::memset(data(), fill, bytes);
    }
    unsigned char *data() { return all_.data() + guard; }
    bool intact() const {
        const auto kept = [](unsigned char byte) { return byte == pattern; };
        return std::all_of(all_.begin(), all_.begin() + guard, kept)
                && std::all_of(all_.end() - guard, all_.end(), kept);
    }
    std::vector<unsigned char> bytes() { return {data(), data() + bytes_}; }

private:
    static constexpr size_t guard = 1 << 20;
    static constexpr unsigned char pattern = 0x5a;
    size_t bytes_;
    std::vector<unsigned char> all_;
};

/// Exact: quarters from -1 to 1, whose products and sums are exact in f32, so
/// that the order of terms does not matter. Otherwise it does.
inline std::vector<float> numbers(int64_t n, uint32_t state, bool exact) {
    std::vector<float> values(static_cast<size_t>(n));
    for (float &value : values) {
        state = state * 1664525 + 1013904223;
        const float quarters = static_cast<float>(state >> 16 & 7) - 4;
        const float rest = static_cast<float>(state >> 8) * 0x1p-24F;
        value = (quarters + (exact ? 0 : rest)) / 4;
    }
    return values;
}

/// Adds up all products of the problem into `out`, which is one of a, b and c:
/// src, weights and dst in plain layouts.
inline void add_products(const problem &p, std::vector<double> &a,
        std::vector<double> &b, std::vector<double> &c) {
    const auto space = [](const dims &sizes, size_t axis, size_t first) {
        const size_t rank = sizes.size() - first;
        return axis + rank < 3 ? 1 : sizes[first + axis + rank - 3];
    };
    const size_t first = p.groups > 1 ? 3 : 2;
    int64_t in[3], out[3], taps[3], stride[3], dilate[3], pad[3];
    const size_t rank = p.strides.size();
    for (size_t i = 0; i < 3; ++i) {
        in[i] = space(p.src, i, 2);
        out[i] = space(p.dst, i, 2);
        taps[i] = space(p.weights, i, first);
        const bool absent = i + rank < 3;
        stride[i] = absent ? 1 : p.strides[i + rank - 3];
        dilate[i] = absent ? 1 : p.dilates[i + rank - 3] + 1;
        pad[i] = absent ? 0 : p.begin[i + rank - 3];
    }
    const int64_t ics = p.src[1] / p.groups, ocs = p.dst[1] / p.groups;
    const int64_t n_taps = taps[0] * taps[1] * taps[2];
    for (int64_t n = 0; n < p.src[0]; ++n)
        for (int64_t g = 0; g < p.groups; ++g)
            for (int64_t oc = 0; oc < ocs; ++oc)
                for (int64_t ic = 0; ic < ics; ++ic)
                    for (int64_t t = 0; t < n_taps; ++t) {
                        const int64_t k[3] = {t / (taps[1] * taps[2]),
                                t / taps[2] % taps[1], t % taps[2]};
                        const int64_t src_plane = n * p.src[1] + g * ics + ic;
                        const int64_t dst_plane = n * p.dst[1] + g * ocs + oc;
                        double &weight = b[static_cast<size_t>(
                                ((g * ocs + oc) * ics + ic) * n_taps + t)];
                        for (int64_t z = 0; z < out[0]; ++z)
                            for (int64_t y = 0; y < out[1]; ++y)
                                for (int64_t x = 0; x < out[2]; ++x) {
                                    const int64_t iz = z * stride[0] - pad[0]
                                            + k[0] * dilate[0];
                                    const int64_t iy = y * stride[1] - pad[1]
                                            + k[1] * dilate[1];
                                    const int64_t ix = x * stride[2] - pad[2]
                                            + k[2] * dilate[2];
                                    if (iz < 0 || iz >= in[0] || iy < 0
                                            || iy >= in[1] || ix < 0
                                            || ix >= in[2])
                                        continue;
                                    double &src = a[static_cast<size_t>(
                                            ((src_plane * in[0] + iz) * in[1]
                                                    + iy)
                                                    * in[2]
                                            + ix)];
                                    double &dst = c[static_cast<size_t>(
                                            ((dst_plane * out[0] + z) * out[1]
                                                    + y)
                                                    * out[2]
                                            + x)];
                                    if (p.to == direction::forward)
                                        dst += src * weight;
                                    if (p.to == direction::backward_data)
                                        src += dst * weight;
                                    if (p.to == direction::backward_weights)
                                        weight += src * dst;
                                }
                    }
}

inline dnnl::primitive_desc make_descriptor(
        const problem &p, const dnnl::engine &engine) {
    using tag = memory::format_tag;
    constexpr auto algorithm = dnnl::algorithm::convolution_direct;
    constexpr auto training = dnnl::prop_kind::forward_training;
    const auto data = [&](const dims &sizes) {
        return p.layout == "any" ? memory::desc(sizes, p.type, tag::any)
                                 : plain(sizes, p.type, p.layout == "nxc");
    };
    const memory::desc src = data(p.src), dst = data(p.dst);
    const memory::desc weights(p.weights, p.type, tag::any);
    dnnl::primitive_attr attr;
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    if (p.to == direction::forward)
        return dnnl::convolution_forward::primitive_desc(engine, training,
                algorithm, src, weights, dst, p.strides, p.dilates, p.begin,
                p.end, attr, true);
    const dnnl::convolution_forward::primitive_desc hint(engine, training,
            algorithm, {p.src, p.type, tag::any}, {p.weights, p.type, tag::any},
            {p.dst, p.type, tag::any}, p.strides, p.dilates, p.begin, p.end,
            attr, true);
    if (!hint) return {};
    if (p.to == direction::backward_data)
        return dnnl::convolution_backward_data::primitive_desc(engine,
                algorithm, src, weights, dst, p.strides, p.dilates, p.begin,
                p.end, hint, attr, true);
    return dnnl::convolution_backward_weights::primitive_desc(engine, algorithm,
            src, weights, dst, p.strides, p.dilates, p.begin, p.end, hint, attr,
            true);
}

/// A convolution with its buffers; the values of the inputs are set.
class convolution {
public:
    convolution(const problem &p, bool exact)
        : problem_(p),
          engine_(dnnl::engine::kind::cpu, 0),
          stream_(engine_),
          descriptor_(make_descriptor(p, engine_)) {
        if (!descriptor_) return;
        const auto get = [&](dnnl::query what) {
            return descriptor_.query_md(what, 0);
        };
        const bool data = p.to == direction::backward_data;
        const bool of_weights = p.to == direction::backward_weights;
        const bool forward = p.to == direction::forward;
        tensors_ = {{data ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC,
                            get(data ? dnnl::query::diff_src_md
                                     : dnnl::query::src_md),
                            p.src, data},
                {of_weights ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS,
                        get(of_weights ? dnnl::query::diff_weights_md
                                       : dnnl::query::weights_md),
                        p.weights, of_weights},
                {forward ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST,
                        get(forward ? dnnl::query::dst_md
                                    : dnnl::query::diff_dst_md),
                        p.dst, forward}};
        uint32_t seed = 1;
        for (tensor &t : tensors_) {
            buffers_.emplace_back(t.layout.get_size(), 0xff);
            auto values = numbers(count(t.sizes), seed, exact);
            if (!t.written) copy(values.data(), t, buffers_.back());
            ++seed;
        }
        buffers_.emplace_back(scratchpad().get_size(), 0);
        primitive_ = dnnl::primitive(descriptor_);
        for (size_t i = 0; i < tensors_.size(); ++i)
            arguments_[tensors_[i].argument]
                    = memory(tensors_[i].layout, engine_, buffers_[i].data());
        arguments_[DNNL_ARG_SCRATCHPAD]
                = memory(scratchpad(), engine_, buffers_.back().data());
    }

    explicit operator bool() const { return static_cast<bool>(descriptor_); }
    std::string name() const { return descriptor_.impl_info_str(); }

    void run() {
        primitive_.execute(stream_, arguments_);
        stream_.wait();
    }
    /// The output's bytes after a run with a scratchpad full of `fill`.
    std::vector<unsigned char> run_with(unsigned char fill) {
        const size_t at = output();
        std::memset(buffers_[at].data(), 0xff, tensors_[at].layout.get_size());
        std::memset(buffers_.back().data(), fill, scratchpad().get_size());
        run();
        return buffers_[at].bytes();
    }
    /// The largest difference from the reference, in units of the largest value.
    double error() {
        std::vector<double> plain[3];
        uint32_t seed = 1;
        for (size_t i = 0; i < 3; ++i, ++seed) {
            const int64_t n = count(tensors_[i].sizes);
            const auto values = numbers(n, seed, true);
            if (tensors_[i].written)
                plain[i].assign(static_cast<size_t>(n), 0);
            else
                plain[i].assign(values.begin(), values.end());
        }
        add_products(problem_, plain[0], plain[1], plain[2]);
        const std::vector<double> &right = plain[output()];
        std::vector<float> got(right.size());
        copy(got.data(), tensors_[output()], buffers_[output()], true);
        double largest = 0, worst = 0;
        for (size_t i = 0; i < right.size(); ++i) {
            const double off = std::abs(got[i] - right[i]);
            worst = std::isnan(off) ? INFINITY : std::max(worst, off);
            largest = std::max(largest, std::abs(right[i]));
        }
        return largest > 0 ? worst / largest : worst;
    }
    bool intact() const {
        return std::all_of(buffers_.begin(), buffers_.end(),
                [](const guarded &buffer) { return buffer.intact(); });
    }

private:
    struct tensor {
        int argument;
        memory::desc layout;
        dims sizes;
        bool written;
    };
    memory::desc scratchpad() const { return descriptor_.scratchpad_desc(); }
    size_t output() const {
        size_t i = 0;
        while (!tensors_[i].written)
            ++i;
        return i;
    }
    /// Between numbers in the plain layout and a tensor's own.
    void copy(float *numbers, const tensor &t, guarded &buffer,
            bool back = false) {
        memory user(plain(t.sizes, memory::data_type::f32, false), engine_,
                numbers);
        memory own(t.layout, engine_, buffer.data());
        if (back)
            dnnl::reorder(own, user).execute(stream_, own, user);
        else
            dnnl::reorder(user, own).execute(stream_, user, own);
        stream_.wait();
    }

    problem problem_;
    dnnl::engine engine_;
    dnnl::stream stream_;
    dnnl::primitive_desc descriptor_;
    dnnl::primitive primitive_;
    std::vector<tensor> tensors_;
    std::vector<guarded> buffers_; ///< the tensors', then the scratchpad's
    std::unordered_map<int, memory> arguments_;
};

} // namespace onednn_versions
