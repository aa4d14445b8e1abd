#include "onednn_product.hpp"

#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include <oneapi/dnnl/dnnl.hpp>

#include "base/parallel.hpp"
#include "cpu/convolution/onednn/engine.hpp"

namespace gradnn::driver {

namespace {

/// Whether the CPU has instructions that multiply numbers of the type.
bool cpu_multiplies(logical_tensor::data_type type) {
    const auto has = [](dnnl::cpu_isa wanted) {
        const auto bits = static_cast<unsigned>(wanted);
        const auto isa = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
        return (isa & bits) == bits; // newer sets hold the older ones' bits
    };
    if (type == logical_tensor::data_type::bf16)
        return has(dnnl::cpu_isa::avx512_core_bf16);
    if (type == logical_tensor::data_type::f16)
        return has(dnnl::cpu_isa::avx512_core_fp16);
    return false;
}

struct product {
    explicit product(dnnl::memory::data_type type)
        : queue(cpu::onednn::cpu_engine()) {
        using dims = dnnl::memory::dims;
        using tag = dnnl::memory::format_tag;
        const dnnl::engine &engine = cpu::onednn::cpu_engine();
        const dims left_dims {rows, terms};
        const dims right_dims {terms, columns};
        const dims out_dims {rows, columns};
        const dnnl::matmul::primitive_desc description(engine,
                {left_dims, type, tag::any}, {right_dims, type, tag::any},
                {out_dims, dnnl::memory::data_type::f32, tag::any});
        multiply = dnnl::matmul(description);
        for (const auto &each : {description.src_desc(),
                     description.weights_desc(), description.dst_desc()}) {
            memory.emplace_back(each, engine);
            // Bytes of 0x3c are numbers near 1 in both types.
            std::memset(memory.back().get_data_handle(), 0x3c, each.get_size());
        }
    }

    double run() {
        multiply.execute(queue,
                {{DNNL_ARG_SRC, memory[0]}, {DNNL_ARG_WEIGHTS, memory[1]},
                        {DNNL_ARG_DST, memory[2]}});
        queue.wait();
        return 2.0 * static_cast<double>(rows) * static_cast<double>(columns)
                * static_cast<double>(terms);
    }

    // A few milliseconds, and weights that a second-level cache holds.
    static constexpr int64_t rows_of_thread = 512;
    static constexpr int64_t columns = 1024;
    static constexpr int64_t terms = 1024;
    const int64_t rows = rows_of_thread * detail::max_threads();
    dnnl::stream queue;
    dnnl::matmul multiply;
    std::vector<dnnl::memory> memory;
};

} // namespace

std::function<double()> onednn_product(logical_tensor::data_type type) {
    if (!cpu_multiplies(type)) return {};
    try {
        const auto made = std::make_shared<product>(
                type == logical_tensor::data_type::bf16
                        ? dnnl::memory::data_type::bf16
                        : dnnl::memory::data_type::f16);
        return [made] { return made->run(); };
    } catch (const dnnl::error &) {
        return {}; // oneDNN has no such product here
    }
}

} // namespace gradnn::driver
