#include <algorithm>
#include <cstdint>

#include "gpu/device/early_start.cuh"
#include "gpu/interpolation/resample/generic.cuh"
#include "gpu/interpolation/resample/generic.hpp"

namespace gradnn::gpu::resample {

namespace {

constexpr int threads = 128;

template <element type, int vector>
__global__ void __launch_bounds__(threads)
        generic_kernel(const jit::stored_of<type> *read,
                jit::stored_of<type> *written, tables<jit::sum_of<type>> map,
                const __grid_constant__ problem_specification p,
                const __grid_constant__ generic_cut c) {
    wait_and_let_later_work_start();
    resample_any<type, vector>(read, written, map, p, c);
}

template <element type>
void launch_of_type(const char *name, const problem_specification &p,
        const device_tables &map, const launch_stream &stream, const void *read,
        void *written, const fused_places &others) {
    using stored = jit::stored_of<type>;
    const auto launch_by = [&]<int vector>() {
        const gpu_facts &device = properties_of(stream.device);
        problem_specification ordered = p;
        auto tables = map.as<jit::sum_of<type>>(others);
        order_by_sums(ordered, tables);
        const generic_cut c = generic_cut_of(
                p, vector, threads, device.multiprocessors * device.threads);
        launch_early(name, generic_kernel<type, vector>,
                std::min<int64_t>(c.blocks, 1 << 20), threads, 0, stream,
                static_cast<const stored *>(read),
                static_cast<stored *>(written), tables, ordered, c);
    };
    constexpr int widest = 16 / jit::bytes_of(type);
    if (is_of_vectors(p, widest))
        launch_by.template operator()<widest>();
    else
        launch_by.template operator()<1>();
}

} // namespace

template <typename Sum>
void device_tables::upload_all(int device, const mapped_problem &of) {
    const host_tables<Sum> host(of);
    for (size_t a = 0; a < 3; ++a) {
        places_[a] = upload(device, host.places[a]);
        weights_[a] = upload(device, host.weights[a]);
    }
    steps_ = upload(device, host.steps);
}

device_tables::device_tables(int device, const mapped_problem &of) {
    if (of.specification.type == element::f64)
        upload_all<double>(device, of);
    else
        upload_all<float>(device, of);
}

void launch_generic(const char *name, const problem_specification &of,
        const device_tables &map, const launch_stream &stream, const void *read,
        void *written, const fused_places &others) {
    const auto launch_as = [&]<element type>() {
        launch_of_type<type>(name, of, map, stream, read, written, others);
    };
    switch (of.type) {
        case element::f32: return launch_as.operator()<element::f32>();
        case element::f64: return launch_as.operator()<element::f64>();
        case element::bf16: return launch_as.operator()<element::bf16>();
        case element::f16: return launch_as.operator()<element::f16>();
    }
}

} // namespace gradnn::gpu::resample
