#include "compute_limit.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>

#include <gradnn/graph.hpp>

#include "base/parallel.hpp"
#include "base/text.hpp"
#include "device_clock.hpp"
#include "fma_loop.hpp"
#include "gpu/runtime/tools.hpp"
#include "onednn_product.hpp"

namespace gradnn::driver {

using detail::text;
using data_type = logical_tensor::data_type;

namespace {

// Long beside the time in which threads wake up.
constexpr double milliseconds_of_loop = 5;

double teraflops(double flops, double milliseconds) {
    return flops / std::max(milliseconds, 1e-6) / 1e9;
}

/// The loop, with so many rounds that it takes about milliseconds_of_loop.
/// `timed(rounds)` returns {flops, milliseconds}.
template <typename Timed>
std::function<double()> sized(const Timed &timed) {
    int64_t rounds = 1000;
    for (double spent = 0; spent < milliseconds_of_loop / 2;) {
        // The least: one that was interrupted would say too few rounds.
        spent = std::min({timed(rounds).second, timed(rounds).second,
                timed(rounds).second});
        const double factor = milliseconds_of_loop / std::max(spent, 1e-3);
        rounds = static_cast<int64_t>(static_cast<double>(rounds)
                         * std::clamp(factor, 0.01, 100.0))
                + 1;
    }
    return [timed, rounds] {
        const auto [flops, milliseconds] = timed(rounds);
        return teraflops(flops, milliseconds);
    };
}

std::function<double()> cpu_loop(data_type type) {
    return sized([type](int64_t rounds) {
        const auto begin = std::chrono::steady_clock::now();
        const double flops = run_fma_loop(type, rounds);
        return std::pair(flops, milliseconds_since(begin));
    });
}

/// The types in which a precision allows products of `type` to be computed,
/// itself included.
std::vector<data_type> product_types(data_type type, fpmath_mode mode) {
    std::vector<data_type> types = {type};
    if (type != data_type::f32) return types;
    if (mode == fpmath_mode::bf16 || mode == fpmath_mode::any)
        types.push_back(data_type::bf16);
    if (mode == fpmath_mode::f16 || mode == fpmath_mode::any)
        types.push_back(data_type::f16);
    return types;
}

/// A large convolution with a window of 1x1, channels last: a product of
/// matrices. Its time is that of one execution on the GPU.
class gpu_product {
public:
    gpu_product(const engine &e, data_type type, fpmath_mode mode)
        : queue_(e), clock_(queue_) {
        using lt = logical_tensor;
        const auto tensor_of = [&](size_t id, const lt::dims &dims) {
            return lt(id, type, dims, lt::layout_type::strided);
        };
        const std::vector<int64_t> ones = {1, 1};
        const std::vector<int64_t> zeros = {0, 0};
        op the_op(0, op::kind::ConvolutionBackwardData,
                {tensor_of(0, {1, rows / 64, 64, channels}),
                        tensor_of(1, {1, 1, channels, channels})},
                {tensor_of(2, {1, rows / 64, 64, channels})});
        the_op.set_attr(op::attr::strides, ones);
        the_op.set_attr(op::attr::dilations, ones);
        the_op.set_attr(op::attr::pads_begin, zeros);
        the_op.set_attr(op::attr::pads_end, zeros);
        the_op.set_attr<std::string>(op::attr::data_format, "NXC");
        the_op.set_attr<std::string>(op::attr::weights_format, "XIO");
        graph one(engine::kind::gpu, mode);
        one.add_op(the_op);
        one.finalize();
        const partition part = one.get_partitions().front();
        compiled_ = part.compile(
                part.get_input_ports(), part.get_output_ports(), e);
        for (const lt &each : part.get_input_ports())
            add(e, each, inputs_);
        for (const lt &each : part.get_output_ports())
            add(e, each, outputs_);
        run();
    }

    std::string kernel() const {
        return compiled_.get_info().steps.front().kernel;
    }

    double run() {
        const double flops = 2.0 * static_cast<double>(rows)
                * static_cast<double>(channels) * static_cast<double>(channels);
        return teraflops(flops, clock_.milliseconds_of(2, [&](size_t) {
            compiled_.execute(queue_, inputs_, outputs_);
        }));
    }

private:
    void add(const engine &e, const logical_tensor &lt,
            std::vector<tensor> &to) {
        // Bytes from 0x38 to 0x3f: positive numbers of all types, not alike.
        std::vector<unsigned char> bytes(lt.get_mem_size());
        uint32_t bits = 1;
        for (unsigned char &byte : bytes) {
            bits = bits * 1664525U + 1013904223U;
            byte = static_cast<unsigned char>(0x38U | (bits >> 29));
        }
        const tensor &made = to.emplace_back(lt, e);
        gpu::tools.copy_blocking(
                e, made.get_data_handle(), bytes.data(), bytes.size());
    }

    static constexpr int64_t rows = 8192;
    static constexpr int64_t channels = 4096;
    stream queue_;
    device_clock clock_;
    compiled_partition compiled_;
    std::vector<tensor> inputs_;
    std::vector<tensor> outputs_;
};

} // namespace

compute_limit::compute_limit(
        const engine &e, data_type type, fpmath_mode mode) {
    for (candidate &each : on_gpu(e) ? gpu_candidates(e, type, mode)
                                     : cpu_candidates(type, mode)) {
        std::vector<double> rates;
        for (int repeat = 0; repeat < 9; ++repeat)
            rates.push_back(each.measure());
        const double rate = median(std::move(rates));
        if (rate <= rate_) continue;
        rate_ = rate;
        best_ = std::move(each);
    }
}

std::vector<compute_limit::candidate> compute_limit::cpu_candidates(
        data_type type, fpmath_mode mode) {
    const std::string place
            = text(" (", fma_loop_target(), "), ", detail::max_threads(),
                    detail::max_threads() == 1 ? " thread" : " threads");
    const data_type summed
            = type == data_type::f64 ? data_type::f64 : data_type::f32;
    std::vector<candidate> result
            = {{text(to_string(summed), " FMA loop", place), cpu_loop(summed)}};
    for (const data_type each : product_types(type, mode)) {
        const auto product = onednn_product(each);
        if (!product) continue;
        result.push_back(
                {text(to_string(each), " product by oneDNN"), [product] {
                     const auto begin = std::chrono::steady_clock::now();
                     const double flops = product();
                     return teraflops(flops, milliseconds_since(begin));
                 }});
    }
    return result;
}

std::vector<compute_limit::candidate> compute_limit::gpu_candidates(
        const engine &e, data_type type, fpmath_mode mode) {
    std::vector<candidate> result;
    const stream queue(e);
    const auto add_loop = [&](const char *name, gpu::compute_loop loop,
                                  double products_of_one = 1) {
        const auto run = sized([queue, loop](int64_t rounds) {
            double flops = 0;
            const double milliseconds
                    = device_clock(queue).milliseconds_of(1, [&](size_t) {
                          flops = gpu::tools.compute_on(queue, loop, rounds);
                      });
            return std::pair(flops, milliseconds);
        });
        result.push_back({name,
                [run, products_of_one] { return run() / products_of_one; }});
    };
    const auto add_product = [&] {
        try {
            const auto product = std::make_shared<gpu_product>(e, type, mode);
            result.push_back({text("large ", to_string(type), " product by ",
                                      product->kernel()),
                    [product] { return product->run(); }});
        } catch (const error &) {
            // Too little memory: the loops are the limit then.
        }
    };
    const bool relaxed = type == data_type::f32 && mode != fpmath_mode::strict;
    if (type == data_type::f64) {
        add_loop("f64 FMA loop", gpu::compute_loop::f64_fma);
        add_loop("f64 tensor core loop", gpu::compute_loop::f64_tensor);
    } else if (type == data_type::f32) {
        add_loop("f32 FMA loop", gpu::compute_loop::f32_fma);
        // A product of f32 numbers takes three of TF32.
        if (relaxed)
            add_loop("TF32 tensor core loop", gpu::compute_loop::tf32_tensor);
        else
            add_loop("TF32 tensor core loop / 3",
                    gpu::compute_loop::tf32_tensor, 3);
    }
    for (const data_type each : product_types(type, mode)) {
        if (each == data_type::bf16)
            add_loop("bf16 tensor core loop", gpu::compute_loop::bf16_tensor);
        if (each == data_type::f16)
            add_loop("f16 tensor core loop", gpu::compute_loop::f16_tensor);
    }
    if (relaxed || type == data_type::bf16 || type == data_type::f16)
        add_product();
    return result;
}

} // namespace gradnn::driver
