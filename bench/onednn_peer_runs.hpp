// What onednn_peer times: an op of gradnn and a primitive of oneDNN, each with tensors
// of its own that rotate.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <string>
#include <unordered_map>
#include <vector>

#include <gradnn/gradnn.hpp>
#include <oneapi/dnnl/dnnl.hpp>

#include "driver/host_memory.hpp"

namespace gradnn::bench {

using lt = logical_tensor;
using driver::host_memory;

constexpr size_t copies = 3; // of every buffer: caches are cold

struct tensor_plan {
    lt::dims ncx; ///< dims in the order N, C, space
    lt::data_type type;
    bool nxc;
};

inline lt::dims permuted(const tensor_plan &t) {
    lt::dims dims = t.ncx;
    if (t.nxc) std::rotate(dims.begin() + 1, dims.begin() + 2, dims.end());
    return dims;
}

inline lt described(size_t id, const tensor_plan &t) {
    return {id, t.type, permuted(t), lt::layout_type::strided};
}

inline dnnl::memory::data_type dnnl_type(lt::data_type type) {
    return static_cast<dnnl::memory::data_type>(type);
}

/// In t's dense layout, or with any in the one that a primitive likes best.
inline dnnl::memory::desc dnnl_desc(const tensor_plan &t, bool any) {
    using tag = dnnl::memory::format_tag;
    constexpr tag ncx[] = {tag::ncw, tag::nchw, tag::ncdhw};
    constexpr tag nxc[] = {tag::nwc, tag::nhwc, tag::ndhwc};
    const size_t rank = t.ncx.size() - 3;
    return {t.ncx, dnnl_type(t.type),
            any             ? tag::any
                    : t.nxc ? nxc[rank]
                            : ncx[rank]};
}

inline size_t slot(size_t bytes) {
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

/// Runs all alternately for about `seconds`; medians in milliseconds.
inline std::vector<double> medians(
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

inline size_t bytes_of(const tensor_plan &t) {
    const size_t size = t.type == lt::data_type::f32 ? 4 : 2;
    return std::accumulate(t.ncx.begin(), t.ncx.end(), size,
            [](size_t a, int64_t b) { return a * static_cast<size_t>(b); });
}

} // namespace gradnn::bench
