// Long sums of interpolation.gpu_strided, executed on the CPU.
#pragma once

#include "emulated/simt.hpp"

#include <array>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "gpu/device/dtype.cuh"
#include "gpu/interpolation/cuts.hpp"
#include "gpu/interpolation/generic.cuh"
#include "support/random.hpp"

namespace gradnn::test {

using namespace gpu::resample;
using detail::interpolation_problem;
using detail::tensor_view;

template <typename Type>
constexpr detail::data_type type_of() {
    if (std::is_same_v<Type, float>) return detail::data_type::f32;
    if (std::is_same_v<Type, double>) return detail::data_type::f64;
    return std::is_same_v<Type, __half> ? detail::data_type::f16
                                        : detail::data_type::bf16;
}

/// Dense, or with gaps between rows. Returns its elements.
inline int64_t lay_out(tensor_view &view, bool nxc, int64_t gap) {
    const std::array<size_t, 5> order = nxc
            ? std::array<size_t, 5> {1, 4, 3, 2, 0}
            : std::array<size_t, 5> {4, 3, 2, 1, 0};
    int64_t stride = 1;
    for (const size_t axis : order) {
        view.strides[axis] = stride;
        stride *= view.dims[axis];
        if (axis == 4) stride += gap;
    }
    return stride;
}

inline interpolation_problem dense_problem(detail::data_type type,
        const std::array<int64_t, 5> &src, const std::array<int64_t, 5> &dst,
        bool nxc) {
    interpolation_problem p;
    p.mode = detail::interpolation_mode::linear;
    p.coordinates = detail::coordinate_mode::half_pixel;
    p.diff_src.type = p.diff_dst.type = type;
    p.diff_src.dims = src;
    p.diff_dst.dims = dst;
    lay_out(p.diff_src, nxc, 0);
    lay_out(p.diff_dst, nxc, 0);
    for (size_t axis = 0; axis < 3; ++axis)
        p.axes[axis] = {src[axis + 2], dst[axis + 2]};
    return p;
}

/// The kernel's dynamic shared memory: sums of 8 bytes, 8 of each thread.
alignas(16) inline char shared[generic_threads * 8 * 8];

template <typename Kernel>
void run_blocks(int64_t blocks, random_source &random, const Kernel &kernel) {
    emulated::shared_memory = shared;
    emulated::shared_bytes = sizeof shared;
    emulated::grid_size = {static_cast<unsigned>(blocks), 1, 1};
    for (int64_t i = 0; i < blocks; ++i)
        emulated::block::run(static_cast<unsigned>(i), generic_threads,
                random.integer(0, 1) == 1, kernel);
}

/// All of a problem but the kernel.
template <typename Type>
struct strided_run {
    static constexpr element kind = type_of<Type>() == detail::data_type::f32
            ? element::f32
            : type_of<Type>() == detail::data_type::f64 ? element::f64
            : type_of<Type>() == detail::data_type::f16 ? element::f16
                                                        : element::bf16;
    using stored = gpu::jit::stored_of<kind>;
    using sum = gpu::jit::sum_of<kind>;
    using total = gpu::long_sum<sum>;

    random_source &random;
    const mapped_problem &of;
    const sharing h;
    const stored *read;
    stored *written;
    host_tables<sum> host {of};
    tables<sum> map {at(0), at(1), at(2), nullptr};
    std::vector<total> sums {};

    axis_table<sum> at(size_t axis) const {
        return {host.places[axis].data(), host.weights[axis].data(),
                host.rows[axis].data()};
    }
    template <int vector, int together, int chunk>
    void run() {
        sums.resize(static_cast<size_t>(
                h.parts * h.groups * h.side * vector * together));
        // Fewer blocks than elements need: they go on.
        const auto run_once = [&](int64_t blocks, bool adds_parts) {
            run_blocks(blocks, random, [&] {
                resample_any_kernel<kind, vector, together, chunk,
                        work::shared>(read, written, map, of.specification, h,
                        sums.data(), adds_parts);
            });
        };
        run_once(random.integer(1, 9) * h.parts, false);
        if (h.parts > 1) run_once(random.integer(1, 3), true);
    }
    void run_any() {
        constexpr int widest = 16 / gpu::jit::bytes_of(kind);
        if (h.vector > 1)
            run<widest, 1, 1>();
        else if (h.together == 1 && h.chunk == 1)
            run<1, 1, 1>();
        else if (h.together == 1)
            run<1, 1, widest>();
        else if (h.chunk == 1)
            run<1, 4, 1>();
        else
            run<1, 4, widest>();
    }
};

} // namespace gradnn::test
