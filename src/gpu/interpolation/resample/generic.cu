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
                const __grid_constant__ problem_specification p, int share) {
    wait_and_let_later_work_start();
    resample_any<type, vector>(read, written, map, p, share);
}

} // namespace

device_tables upload_tables(int device, const mapped_problem &of) {
    const auto upload_all = [&](const auto &host) {
        device_tables made;
        for (size_t a = 0; a < 3; ++a) {
            made[2 * a] = upload(device, host.places[a]);
            made[2 * a + 1] = upload(device, host.weights[a]);
        }
        made[6] = upload(device, host.steps);
        return made;
    };
    return of.specification.type == element::f64
            ? upload_all(host_tables<double>(of))
            : upload_all(host_tables<float>(of));
}

void launch_generic(const char *name, const problem_specification &p,
        const device_tables &map, const launch_stream &stream, const void *read,
        void *written, const fused_places &others) {
    const auto launch_by = [&]<element type, int vector>() {
        using stored = jit::stored_of<type>;
        const gpu_facts &device = properties_of(stream.device);
        problem_specification ordered = p;
        auto tables = tables_at<jit::sum_of<type>>(map, others);
        order_by_sums(ordered, tables);
        const int share = generic_share(
                p, vector, device.multiprocessors * device.threads);
        launch_early(name, generic_kernel<type, vector>,
                blocks_for(elements_of(p) / vector / p.outer[0]
                                * ceil_div(p.outer[0], share),
                        threads),
                threads, 0, stream, static_cast<const stored *>(read),
                static_cast<stored *>(written), tables, ordered, share);
    };
    const auto launch_as = [&]<element type>() {
        constexpr int widest = 16 / jit::bytes_of(type);
        if (is_of_vectors(p, widest))
            launch_by.template operator()<type, widest>();
        else
            launch_by.template operator()<type, 1>();
    };
    switch (p.type) {
        case element::f32: return launch_as.operator()<element::f32>();
        case element::f64: return launch_as.operator()<element::f64>();
        case element::bf16: return launch_as.operator()<element::bf16>();
        case element::f16: return launch_as.operator()<element::f16>();
    }
}

} // namespace gradnn::gpu::resample
