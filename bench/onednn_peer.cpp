// gradnn beside oneDNN called directly, in one process and in turns, with data
// in the same dense layouts; interpolation also beside the memory limit, and
// convolution beside the layouts that oneDNN likes best, with what it costs to
// copy data into and out of them. Prints Markdown tables.
// Usage: onednn_peer [seconds per case [name part]]
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <string>
#include <unordered_map>
#include <vector>

#include <gradnn/gradnn.hpp>
#include <oneapi/dnnl/dnnl.hpp>

#include "bench/cases.hpp"
#include "driver/host_memory.hpp"
#include "driver/memory_limit.hpp"

namespace gradnn::bench {

namespace {

using lt = logical_tensor;
using driver::host_memory;
using driver::memory_stream;

constexpr size_t copies = 3; // of every buffer: caches are cold

struct tensor_plan {
    lt::dims ncx; ///< dims in the order N, C, space
    lt::data_type type;
    bool nxc;
};

lt::dims permuted(const tensor_plan &t) {
    lt::dims dims = t.ncx;
    if (t.nxc) std::rotate(dims.begin() + 1, dims.begin() + 2, dims.end());
    return dims;
}

lt described(size_t id, const tensor_plan &t) {
    return {id, t.type, permuted(t), lt::layout_type::strided};
}

dnnl::memory::data_type dnnl_type(lt::data_type type) {
    return static_cast<dnnl::memory::data_type>(type);
}

/// In t's dense layout, or with any in the one that a primitive likes best.
dnnl::memory::desc dnnl_desc(const tensor_plan &t, bool any) {
    using tag = dnnl::memory::format_tag;
    constexpr tag ncx[] = {tag::ncw, tag::nchw, tag::ncdhw};
    constexpr tag nxc[] = {tag::nwc, tag::nhwc, tag::ndhwc};
    const size_t rank = t.ncx.size() - 3;
    return {t.ncx, dnnl_type(t.type),
            any             ? tag::any
                    : t.nxc ? nxc[rank]
                            : ncx[rank]};
}

size_t slot(size_t bytes) {
    return (bytes + 4095) / 4096 * 4096;
}

/// Buffers that rotate, filled with numbers around 1.
class buffers {
public:
    explicit buffers(size_t bytes)
        : bytes_(slot(bytes)), memory_(bytes_ * copies) {
        auto *words = reinterpret_cast<uint16_t *>(memory_.data());
        // Halves of f32 and whole 16-bit floats alike: 0.5 to 2, any sign.
        uint32_t state = 1;
        for (size_t i = 0; i < bytes_ * copies / 2; ++i) {
            state = state * 1664525 + 1013904223;
            words[i] = static_cast<uint16_t>(
                    0x3F00 | (state >> 31 << 15) | (state >> 24 & 0x7F));
        }
    }
    void *at(size_t copy) { return memory_.data() + copy * bytes_; }

private:
    size_t bytes_;
    host_memory memory_;
};

/// Runs all in turns for about `seconds`; medians in milliseconds.
std::vector<double> medians(
        double seconds, const std::vector<std::function<void(size_t)>> &runs) {
    using clock = std::chrono::steady_clock;
    std::vector<std::vector<double>> times(runs.size());
    const auto elapsed = [](clock::time_point since) {
        return std::chrono::duration<double>(clock::now() - since).count();
    };
    const auto start = clock::now();
    for (size_t round = 0; round < 6 || elapsed(start) < seconds; ++round)
        for (size_t i = 0; i < runs.size(); ++i) {
            const auto begin = clock::now();
            runs[i](round % copies);
            if (round > 0) times[i].push_back(1e3 * elapsed(begin));
        }
    std::vector<double> result;
    for (auto &list : times) {
        std::nth_element(list.begin(),
                list.begin() + static_cast<std::ptrdiff_t>(list.size() / 2),
                list.end());
        result.push_back(list[list.size() / 2]);
    }
    return result;
}

/// An op of gradnn, compiled, with its rotating tensors bound.
class gradnn_run {
public:
    gradnn_run(const op &the_op, const std::vector<buffers *> &inputs,
            buffers &output)
        : cpu_(engine::kind::cpu, 0), queue_(cpu_) {
        graph g(engine::kind::cpu);
        g.add_op(the_op);
        g.finalize();
        const auto partition = g.get_partitions()[0];
        compiled_ = partition.compile(
                the_op.get_inputs(), the_op.get_outputs(), cpu_);
        for (size_t copy = 0; copy < copies; ++copy) {
            std::vector<tensor> in;
            for (size_t i = 0; i < inputs.size(); ++i)
                in.emplace_back(
                        the_op.get_inputs()[i], cpu_, inputs[i]->at(copy));
            inputs_.push_back(in);
            outputs_.push_back(
                    {tensor(the_op.get_outputs()[0], cpu_, output.at(copy))});
        }
    }
    void operator()(size_t copy) {
        compiled_.execute(queue_, inputs_[copy], outputs_[copy]);
    }
    std::string kernel() const {
        const auto info = compiled_.get_info();
        return info.steps[0].kernel + ", " + info.steps[0].backend;
    }

private:
    engine cpu_;
    stream queue_;
    compiled_partition compiled_;
    std::vector<std::vector<tensor>> inputs_, outputs_;
};

/// A oneDNN primitive with rotating arguments of its own, in the layouts that
/// it was made for.
class dnnl_run {
public:
    /// `arguments`: DNNL_ARG_* of all that the primitive takes.
    dnnl_run(const dnnl::engine &engine, const dnnl::primitive_desc &descriptor,
            const std::vector<int> &arguments)
        : queue_(engine), primitive_(descriptor), bound_(copies) {
        for (const int which : arguments) {
            const auto layout
                    = descriptor.query_md(dnnl::query::exec_arg_md, which);
            memory_.emplace_back(layout.get_size());
            for (size_t copy = 0; copy < copies; ++copy)
                bound_[copy].emplace(which,
                        dnnl::memory(layout, engine, memory_.back().at(copy)));
        }
    }
    void operator()(size_t copy) {
        primitive_.execute(queue_, bound_[copy]);
        queue_.wait();
    }
    dnnl::memory::desc layout(int argument) const {
        return bound_[0].at(argument).get_desc();
    }

private:
    dnnl::stream queue_;
    dnnl::primitive primitive_;
    std::vector<buffers> memory_;
    std::vector<std::unordered_map<int, dnnl::memory>> bound_;
};

size_t bytes_of(const tensor_plan &t) {
    const size_t size = t.type == lt::data_type::f32 ? 4 : 2;
    return std::accumulate(t.ncx.begin(), t.ncx.end(), size,
            [](size_t a, int64_t b) { return a * static_cast<size_t>(b); });
}

struct mean {
    double sum = 0;
    int count = 0;
    void add(double ratio) {
        sum += std::log(ratio);
        ++count;
    }
    double value() const { return count ? std::exp(sum / count) : 0; }
};

void interpolation(const interpolation_case &c, lt::data_type type, bool nxc,
        double seconds, mean &share_mean, mean &ratio_mean) {
    const auto shape = [&](const std::vector<int64_t> &space) {
        lt::dims dims {c.batch, c.channels};
        dims.insert(dims.end(), space.begin(), space.end());
        return tensor_plan {dims, type, nxc};
    };
    const tensor_plan src = shape(c.src), dst = shape(c.dst);
    buffers diff_dst(bytes_of(dst)), diff_src(bytes_of(src));

    op resize(0, op::kind::InterpolateBackward,
            {described(0, src), described(1, dst)}, {described(2, src)});
    resize.set_attr<std::string>(op::attr::mode, c.mode)
            .set_attr<std::vector<int64_t>>(op::attr::sizes, c.dst)
            .set_attr<std::string>(op::attr::data_format, nxc ? "NXC" : "NCX");
    gradnn_run ours(resize, {&diff_src, &diff_dst}, diff_src);

    const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
    const auto algorithm = c.mode == "nearest"
            ? dnnl::algorithm::resampling_nearest
            : dnnl::algorithm::resampling_linear;
    const auto src_md = dnnl_desc(src, false), dst_md = dnnl_desc(dst, false);
    const dnnl::resampling_forward::primitive_desc hint(engine,
            dnnl::prop_kind::forward_training, algorithm, src_md, dst_md);
    const dnnl::resampling_backward::primitive_desc descriptor(
            engine, algorithm, src_md, dst_md, hint);
    dnnl_run theirs(engine, descriptor, {DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_SRC});

    memory_stream limit(bytes_of(dst), bytes_of(src), copies);
    const auto times = medians(seconds,
            {[&](size_t i) { ours(i); }, [&](size_t i) { theirs(i); },
                    [&](size_t i) { limit.run(i); }});
    const double share = times[2] / times[0];
    share_mean.add(share);
    ratio_mean.add(times[1] / times[0]);
    std::printf("| %s | %s | %s | %.2f | %.0f %% | %.2f | %.1f | %s |\n",
            c.name.c_str(), to_string(type), nxc ? "NXC" : "NCX", times[0],
            100 * share, times[1], times[1] / times[0], ours.kernel().c_str());
    std::fflush(stdout);
}

enum class direction { data, weights };

/// gradnn's time divided by that of oneDNN in its best layout, with and without
/// the caller's copies.
struct best_means {
    mean with_copies, alone;
};

struct convolution_means {
    mean speed; ///< times faster than oneDNN in the caller's layout
    best_means dense, depthwise;
};

void convolution(const convolution_case &c, lt::data_type type, bool nxc,
        direction which, double seconds, convolution_means &means) {
    const size_t rank = c.src.size();
    lt::dims dst_space;
    for (const int64_t size : c.src)
        dst_space.push_back(
                (size + 2 * c.pad - (c.kernel - 1) * c.dilation - 1) / c.stride
                + 1);
    const auto shape = [&](int64_t channels, const lt::dims &space) {
        lt::dims dims {c.batch, channels};
        dims.insert(dims.end(), space.begin(), space.end());
        return tensor_plan {dims, type, nxc};
    };
    const tensor_plan src = shape(c.in, c.src), dst = shape(c.out, dst_space);
    lt::dims kernel_dims {c.out, c.in / c.groups};
    kernel_dims.insert(kernel_dims.end(), rank, c.kernel);
    const tensor_plan weights {kernel_dims, type, false};
    buffers src_data(bytes_of(src)), dst_data(bytes_of(dst)),
            weights_data(bytes_of(weights));

    const bool data = which == direction::data;
    op conv(0,
            data ? op::kind::ConvolutionBackwardData
                 : op::kind::ConvolutionBackwardWeights,
            data ? std::vector<lt> {described(0, dst), described(1, weights)}
                 : std::vector<lt> {described(0, src), described(1, dst)},
            {data ? described(2, src) : described(2, weights)});
    const auto list
            = [&](int64_t value) { return std::vector<int64_t>(rank, value); };
    conv.set_attr(op::attr::strides, list(c.stride))
            .set_attr(op::attr::pads_begin, list(c.pad))
            .set_attr(op::attr::pads_end, list(c.pad))
            .set_attr(op::attr::dilations, list(c.dilation))
            .set_attr<int64_t>(op::attr::groups, c.groups)
            .set_attr<std::string>(op::attr::data_format, nxc ? "NXC" : "NCX")
            .set_attr<std::string>(op::attr::weights_format, "OIX");
    gradnn_run ours = data
            ? gradnn_run(conv, {&dst_data, &weights_data}, src_data)
            : gradnn_run(conv, {&src_data, &dst_data}, weights_data);

    const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
    lt::dims grouped = kernel_dims;
    if (c.groups > 1) {
        grouped[0] /= c.groups;
        grouped.insert(grouped.begin(), c.groups);
    }
    const auto strides = list(c.stride), dilates = list(c.dilation - 1),
               pads = list(c.pad);
    // The far pad that makes dst follow from src exactly.
    lt::dims far;
    for (size_t axis = 0; axis < rank; ++axis)
        far.push_back((dst_space[axis] - 1) * c.stride
                + (c.kernel - 1) * c.dilation + 1 - c.src[axis] - c.pad);
    const std::vector<int> arguments = data
            ? std::vector {DNNL_ARG_DIFF_DST, DNNL_ARG_WEIGHTS,
                    DNNL_ARG_DIFF_SRC}
            : std::vector {
                    DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_SRC};
    // oneDNN may always lay out the weights as it likes: the strongest peer
    // that takes the data as it is.
    const auto peer = [&](bool any_data) {
        const auto algorithm = dnnl::algorithm::convolution_direct;
        const auto src_md = dnnl_desc(src, any_data),
                   dst_md = dnnl_desc(dst, any_data);
        const dnnl::memory::desc weights_md(
                grouped, dnnl_type(type), dnnl::memory::format_tag::any);
        const dnnl::convolution_forward::primitive_desc hint(engine,
                dnnl::prop_kind::forward_training, algorithm, src_md,
                weights_md, dst_md, strides, dilates, pads, far);
        if (data)
            return dnnl_run(engine,
                    dnnl::convolution_backward_data::primitive_desc(engine,
                            algorithm, src_md, weights_md, dst_md, strides,
                            dilates, pads, far, hint),
                    arguments);
        return dnnl_run(engine,
                dnnl::convolution_backward_weights::primitive_desc(engine,
                        algorithm, src_md, weights_md, dst_md, strides, dilates,
                        pads, far, hint),
                arguments);
    };
    dnnl_run theirs = peer(false), best = peer(true);

    // The caller copies what its best layout has in another order, at the rate
    // of a stream over as many bytes as all three tensors have.
    using tag = dnnl::memory::format_tag;
    constexpr tag oix[] = {tag::abc, tag::abcd, tag::abcde, tag::abcdef};
    const dnnl::memory::desc given[] = {dnnl_desc(dst, false),
            {grouped, dnnl_type(type), oix[grouped.size() - 3]},
            dnnl_desc(src, false)};
    const size_t bytes[] = {bytes_of(dst), bytes_of(weights), bytes_of(src)};
    size_t copied = 0;
    for (size_t i = 0; i < 3; ++i)
        if (best.layout(arguments[i]) != given[i]) copied += bytes[i];
    const size_t streamed = bytes[0] + bytes[1] + bytes[2];
    memory_stream copying(streamed, streamed, copies);

    const auto times = medians(seconds,
            {[&](size_t i) { ours(i); }, [&](size_t i) { theirs(i); },
                    [&](size_t i) { best(i); },
                    [&](size_t i) { copying.run(i); }});
    const double copy_time = times[3] * static_cast<double>(copied)
            / static_cast<double>(streamed);
    const double of_best = times[0] / (times[2] + copy_time);
    means.speed.add(times[1] / times[0]);
    best_means &best_mean = c.groups == c.in ? means.depthwise : means.dense;
    best_mean.with_copies.add(of_best);
    best_mean.alone.add(times[0] / times[2]);
    double flops = 2.0 * static_cast<double>(bytes_of(weights)) / 2
            * static_cast<double>(c.batch)
            / (type == lt::data_type::f32 ? 2 : 1);
    for (const int64_t size : dst_space)
        flops *= static_cast<double>(size);
    std::printf("| %s | %s | %s | %s | %.2f | %.0f | %.2f | %.2f | %.2f | %.2f "
                "| %.2f | %s |\n",
            c.name.c_str(), data ? "dX" : "dW", to_string(type),
            nxc ? "NXC" : "NCX", times[0], flops / times[0] / 1e6, times[1],
            times[1] / times[0], times[2], copy_time, of_best,
            ours.kernel().c_str());
    std::fflush(stdout);
}

template <typename Case>
std::vector<Case> wanted(const std::vector<Case> &cases, const char *part) {
    std::vector<Case> result;
    for (const Case &each : cases)
        if (each.cpu_peer
                && (!part || each.name.find(part) != std::string::npos))
            result.push_back(each);
    return result;
}

int run(double seconds, const char *part) {
    const case_list cases = load_cases(CASES_FILE, case_size::cpu);
    const auto interpolations = wanted(cases.interpolation, part);
    const auto convolutions = wanted(cases.convolution, part);
    constexpr lt::data_type types[] = {lt::data_type::f32, lt::data_type::bf16};
    std::printf("| interpolation | type | layout | gradnn ms | of the memory "
                "limit | oneDNN ms | times faster | kernel |\n"
                "|---|---|---|---|---|---|---|---|\n");
    std::string summary;
    for (const auto type : types)
        for (const bool nxc : {false, true}) {
            mean share, ratio;
            for (const auto &c : interpolations)
                interpolation(c, type, nxc, seconds, share, ratio);
            char line[160];
            std::snprintf(line, sizeof(line),
                    "- interpolation %s %s: %.0f %% of the memory limit, %.1f "
                    "times oneDNN's speed\n",
                    to_string(type), nxc ? "NXC" : "NCX", 100 * share.value(),
                    ratio.value());
            summary += line;
        }
    std::printf("\n| convolution | gradient | type | layout | gradnn ms | "
                "GFLOP/s | oneDNN ms | times faster | best layout ms | copies "
                "ms | gradnn / (best + copies) | kernel |\n"
                "|---|---|---|---|---|---|---|---|---|---|---|---|\n");
    for (const auto type : types)
        for (const bool nxc : {false, true}) {
            convolution_means means;
            for (const auto which : {direction::data, direction::weights})
                for (const auto &c : convolutions)
                    convolution(c, type, nxc, which, seconds, means);
            char line[160];
            std::snprintf(line, sizeof(line),
                    "- convolution %s %s: %.2f times oneDNN's speed\n",
                    to_string(type), nxc ? "NXC" : "NCX", means.speed.value());
            summary += line;
            const auto against_best = [&](const char *kind,
                                              const best_means &m) {
                std::snprintf(line, sizeof(line),
                        "  - %s: %.2f of the time of oneDNN's best layout with "
                        "copies, %.2f without\n",
                        kind, m.with_copies.value(), m.alone.value());
                if (m.alone.count) summary += line;
            };
            against_best("dense", means.dense);
            against_best("depthwise", means.depthwise);
        }
    std::printf("\nGeometric means:\n%s", summary.c_str());
    return 0;
}

} // namespace

} // namespace gradnn::bench

int main(int argc, char **argv) {
    try {
        return gradnn::bench::run(argc > 1 ? std::atof(argv[1]) : 0.5,
                argc > 2 ? argv[2] : nullptr);
    } catch (const std::exception &failure) {
        std::fprintf(stderr, "onednn_peer: %s\n", failure.what());
        return 1;
    }
}
