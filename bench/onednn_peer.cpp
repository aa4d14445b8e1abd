// gradnn beside oneDNN called directly, alternately in one process, with data in
// the same dense layouts; interpolation also beside the memory limit, and
// convolution beside the layouts that oneDNN likes best, with what it costs to
// copy data into and out of them. Prints Markdown tables.
// Usage: onednn_peer [seconds per case [name part]]
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <string>
#include <vector>

#include <gradnn/gradnn.hpp>
#include <oneapi/dnnl/dnnl.hpp>

#include "bench/cases.hpp"
#include "bench/onednn_peer_runs.hpp"
#include "driver/memory_limit.hpp"

namespace gradnn::bench {

namespace {

using driver::memory_stream;

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

/// A gradient of a convolution, for both libraries.
struct convolution_problem {
    const convolution_case &c;
    direction which;
    tensor_plan src, dst, weights;
    lt::dims grouped; ///< dims of the weights by oneDNN

    bool of_data() const { return which == direction::data; }
    lt::dims list(int64_t value) const { return lt::dims(c.src.size(), value); }
};

convolution_problem problem_of(const convolution_case &c, lt::data_type type,
        bool nxc, direction which) {
    lt::dims dst_space;
    for (size_t axis = 0; axis < c.src.size(); ++axis)
        dst_space.push_back((c.src[axis] + 2 * c.pad
                                    - (c.kernel[axis] - 1) * c.dilation - 1)
                        / c.stride[axis]
                + 1);
    const auto shape = [&](int64_t channels, const lt::dims &space) {
        lt::dims dims {c.batch, channels};
        dims.insert(dims.end(), space.begin(), space.end());
        return tensor_plan {dims, type, nxc};
    };
    lt::dims dims {c.out, c.in / c.groups};
    dims.insert(dims.end(), c.kernel.begin(), c.kernel.end());
    lt::dims grouped;
    if (c.groups > 1) grouped.push_back(c.groups);
    grouped.insert(grouped.end(), dims.begin(), dims.end());
    if (c.groups > 1) grouped[1] /= c.groups;
    return {c, which, shape(c.in, c.src), shape(c.out, dst_space),
            {dims, type, false}, grouped};
}

op op_of(const convolution_problem &p) {
    const auto src = described(0, p.src), dst = described(1, p.dst),
               weights = described(2, p.weights);
    op conv(0,
            p.of_data() ? op::kind::ConvolutionBackwardData
                        : op::kind::ConvolutionBackwardWeights,
            {p.of_data() ? dst : src, p.of_data() ? weights : dst},
            {p.of_data() ? src : weights});
    conv.set_attr(op::attr::strides, p.c.stride)
            .set_attr(op::attr::pads_begin, p.list(p.c.pad))
            .set_attr(op::attr::pads_end, p.list(p.c.pad))
            .set_attr(op::attr::dilations, p.list(p.c.dilation))
            .set_attr<int64_t>(op::attr::groups, p.c.groups)
            .set_attr<std::string>(
                    op::attr::data_format, p.src.nxc ? "NXC" : "NCX")
            .set_attr<std::string>(op::attr::weights_format, "OIX");
    return conv;
}

/// What the primitive takes, in the order dst, weights, src.
std::vector<int> arguments_of(const convolution_problem &p) {
    if (p.of_data())
        return {DNNL_ARG_DIFF_DST, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_SRC};
    return {DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_SRC};
}

/// oneDNN as it is fastest: it always chooses the layout of the weights, and with
/// `any_data` that of the data too, which it takes as it is otherwise.
dnnl_run peer_of(const convolution_problem &p, bool any_data) {
    const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
    const auto strides = p.c.stride, dilates = p.list(p.c.dilation - 1),
               pads = p.list(p.c.pad);
    // The far pad that makes dst follow from src exactly.
    lt::dims far;
    for (size_t axis = 0; axis < p.c.src.size(); ++axis)
        far.push_back((p.dst.ncx[axis + 2] - 1) * p.c.stride[axis]
                + (p.c.kernel[axis] - 1) * p.c.dilation + 1 - p.c.src[axis]
                - p.c.pad);
    const auto algorithm = dnnl::algorithm::convolution_direct;
    const auto src = dnnl_desc(p.src, any_data),
               dst = dnnl_desc(p.dst, any_data);
    const dnnl::memory::desc weights(
            p.grouped, dnnl_type(p.src.type), dnnl::memory::format_tag::any);
    const dnnl::convolution_forward::primitive_desc hint(engine,
            dnnl::prop_kind::forward_training, algorithm, src, weights, dst,
            strides, dilates, pads, far);
    if (p.of_data())
        return dnnl_run(engine,
                dnnl::convolution_backward_data::primitive_desc(engine,
                        algorithm, src, weights, dst, strides, dilates, pads,
                        far, hint),
                arguments_of(p));
    return dnnl_run(engine,
            dnnl::convolution_backward_weights::primitive_desc(engine,
                    algorithm, src, weights, dst, strides, dilates, pads, far,
                    hint),
            arguments_of(p));
}

/// Bytes of the tensors that the best layout has in another order than the
/// caller, who copies them.
size_t copied_bytes(const convolution_problem &p, const dnnl_run &best) {
    using tag = dnnl::memory::format_tag;
    constexpr tag oix[] = {tag::abc, tag::abcd, tag::abcde, tag::abcdef};
    const dnnl::memory::desc given[] = {dnnl_desc(p.dst, false),
            {p.grouped, dnnl_type(p.src.type), oix[p.grouped.size() - 3]},
            dnnl_desc(p.src, false)};
    const size_t bytes[]
            = {bytes_of(p.dst), bytes_of(p.weights), bytes_of(p.src)};
    const std::vector<int> arguments = arguments_of(p);
    size_t copied = 0;
    for (size_t i = 0; i < 3; ++i)
        if (best.layout(arguments[i]) != given[i]) copied += bytes[i];
    return copied;
}

double flops_of(const convolution_problem &p) {
    const auto product = [](const lt::dims &dims, size_t first) {
        return std::accumulate(
                dims.begin() + static_cast<std::ptrdiff_t>(first), dims.end(),
                1.0,
                [](double a, int64_t b) { return a * static_cast<double>(b); });
    };
    return 2 * static_cast<double>(p.c.batch) * product(p.weights.ncx, 0)
            * product(p.dst.ncx, 2);
}

void convolution(const convolution_problem &p, double seconds,
        convolution_means &means) {
    buffers src(bytes_of(p.src)), dst(bytes_of(p.dst)),
            weights(bytes_of(p.weights));
    gradnn_run ours = p.of_data() ? gradnn_run(op_of(p), {&dst, &weights}, src)
                                  : gradnn_run(op_of(p), {&src, &dst}, weights);
    dnnl_run theirs = peer_of(p, false), best = peer_of(p, true);
    // The caller copies at the rate of a stream over as many bytes as all three
    // tensors have.
    const size_t streamed
            = bytes_of(p.dst) + bytes_of(p.weights) + bytes_of(p.src);
    memory_stream copying(streamed, streamed, copies);

    const auto times = medians(seconds,
            {[&](size_t i) { ours(i); }, [&](size_t i) { theirs(i); },
                    [&](size_t i) { best(i); },
                    [&](size_t i) { copying.run(i); }});
    const double copy_time = times[3]
            * static_cast<double>(copied_bytes(p, best))
            / static_cast<double>(streamed);
    const double of_best = times[0] / (times[2] + copy_time);
    means.speed.add(times[1] / times[0]);
    best_means &best_mean
            = p.c.groups == p.c.in ? means.depthwise : means.dense;
    best_mean.with_copies.add(of_best);
    best_mean.alone.add(times[0] / times[2]);
    std::printf("| %s | %s | %s | %s | %.2f | %.0f | %.2f | %.2f | %.2f | %.2f "
                "| %.2f | %s |\n",
            p.c.name.c_str(), p.of_data() ? "dX" : "dW", to_string(p.src.type),
            p.src.nxc ? "NXC" : "NCX", times[0], flops_of(p) / times[0] / 1e6,
            times[1], times[1] / times[0], times[2], copy_time, of_best,
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
                    convolution(
                            problem_of(c, type, nxc, which), seconds, means);
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
