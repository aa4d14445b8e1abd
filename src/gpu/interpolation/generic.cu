#include "gpu/interpolation/generic.cuh"

namespace gradnn::gpu::resample {

device_tables upload_tables(int device, const mapped_problem &of) {
    const auto upload_all = [&](const auto &host) {
        device_tables made;
        for (size_t a = 0; a < 3; ++a) {
            made[2 * a] = upload(device, host.places[a]);
            made[2 * a + 1] = upload(device, host.weights[a]);
            made[7 + a] = upload(device, host.rows[a]);
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
        void *written, const fused_places &others, const sharing *long_sums,
        std::byte *sums) {
    const auto &gpu = properties_of(stream.device);
    problem_specification ordered = p;
    order_by_sums(p, ordered);
    const sharing h = long_sums ? *long_sums
                                : sharing_of(ordered, false, false,
                                        gpu.multiprocessors * gpu.threads);
    const auto launch_by = [&]<element type, int vector, int together,
                                   int chunk, work what>() {
        using stored = jit::stored_of<type>;
        using total = long_sum<jit::sum_of<type>>;
        auto tables = tables_at<jit::sum_of<type>>(map, others);
        order_by_sums(p, tables);
        const auto run = [&](int parts, bool adds_parts) {
            launch_early(name,
                    resample_any_kernel<type, vector, together, chunk, what>,
                    blocks_for(h.groups * h.side * h.lanes, generic_threads)
                            * parts,
                    generic_threads,
                    h.shared ? generic_threads * vector * together
                                    * sizeof(total)
                             : 0,
                    stream, static_cast<const stored *>(read),
                    static_cast<stored *>(written), tables, ordered, h,
                    reinterpret_cast<total *>(sums), adds_parts);
        };
        run(h.parts, false);
        if (h.parts > 1) run(1, true);
    };
    const auto launch_for = [&]<element type, work what>() {
        constexpr int widest = 16 / jit::bytes_of(type);
        constexpr int chunk = what == work::shared ? widest : 1;
        const auto launch_single = [&]<int taps>() {
            h.together == 1
                    ? launch_by.template operator()<type, 1, 1, taps, what>()
                    : launch_by.template operator()<type, 1, 4, taps, what>();
        };
        if (h.vector > 1)
            launch_by.template operator()<type, widest, 1, 1, what>();
        else if (h.chunk > 1)
            launch_single.template operator()<chunk>();
        else
            launch_single.template operator()<1>();
    };
    const auto launch_as = [&]<element type>() {
        h.shared ? launch_for.template operator()<type, work::shared>()
                : p.prologue == fused_op::none &&epilogues_of(p) == 0
                ? launch_for.template operator()<type, work::plain>()
                : launch_for.template operator()<type, work::with_ops>();
    };
    switch (p.type) {
        case element::f32: return launch_as.operator()<element::f32>();
        case element::f64: return launch_as.operator()<element::f64>();
        case element::bf16: return launch_as.operator()<element::bf16>();
        case element::f16: return launch_as.operator()<element::f16>();
    }
}

} // namespace gradnn::gpu::resample
