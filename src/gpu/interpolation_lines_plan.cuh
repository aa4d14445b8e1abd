// The plan of the lines kernel, for NCX and NXC.
#pragma once

#include "gpu/interpolation_identity.hpp"
#include "gpu/interpolation_lines.cuh"
#include "gpu/interpolation_lines_choice.hpp"
#include "gpu/kernels.hpp"
#include "gpu/launch.hpp"

namespace gradnn::gpu {

/// `items_list` are the ways of taking outputs that the layout needs.
template <line_items... items_list>
class lines_plan final : public detail::plan {
public:
    lines_plan(const interpolation_problem &problem, lines_choice choice,
            const std::array<detail::axis_map, 3> &maps, int device)
        : type_(problem.diff_src.type), choice_(std::move(choice)) {
        const device_guard current(device);
        with_float_type(type_, [&]<typename Type>() {
            using sum = sum_of<Type>;
            const detail::axis_map &row_map = maps[choice_.row_axis - 2];
            const detail::axis_map &column_map = maps[choice_.column_axis - 2];
            rows_ = upload(device, make_rows<sum>(row_map));
            reach_ = upload(device, make_reach(row_map));
            columns_ = upload(device, make_columns(column_map));
            weights_ = upload(device,
                    std::vector<sum>(column_map.weights.begin(),
                            column_map.weights.end()));
            tiles_ = upload(device, choice_.tiles);
            shared_bytes_ = lines_shared_bytes<sum>(choice_.threads,
                    16 / static_cast<int>(sizeof(Type)),
                    choice_.shape.most_columns, choice_.shape.most_taps);
            with_kernel<Type>(choice_.vector, choice_.wide, [&](auto *kernel) {
                int resident = 0;
                check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident,
                              kernel, choice_.threads, shared_bytes_),
                        "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
                spread_rows(choice_,
                        int64_t {std::max(resident, 1)}
                                * properties_of(device).multiprocessors);
            });
        });
    }

    void execute(std::span<void *const> args, std::byte *,
            detail::stream_impl &stream) const override {
        const launch_scope scope(stream);
        with_float_type(type_, [&]<typename Type>() {
            using sum = sum_of<Type>;
            lines_shape shape = choice_.shape;
            int vector = choice_.vector;
            while (!aligned(args[0], static_cast<size_t>(vector) * sizeof(Type)))
                vector /= 2;
            constexpr int widest = sizeof(Type) == 8 ? 2 : 4;
            bool wide = choice_.wide;
            if (wide && !aligned(args[1], widest * sizeof(Type))) {
                wide = false;
                shape.units *= widest;
            }
            const lines_tables<sum> tables {rows_.as<line_row<sum>>(),
                    reach_.as<line_reach>(), columns_.as<line_column>(),
                    weights_.template as<sum>(), tiles_.as<line_tile>()};
            const dim3 grid(static_cast<unsigned>(ceil_div(
                                    shape.row_total, shape.rows_per_block)),
                    static_cast<unsigned>(choice_.tiles.size()),
                    static_cast<unsigned>(choice_.channel_tiles));
            with_kernel<Type>(vector, wide, [&](auto *kernel) {
                launch("interpolation (lines)", kernel, grid,
                        static_cast<unsigned>(choice_.threads), shared_bytes_,
                        scope.stream(), static_cast<const Type *>(args[0]),
                        static_cast<Type *>(args[1]), shape, tables);
            });
        });
    }

    std::string backend() const override { return "CUDA"; }

private:
    static bool aligned(const void *pointer, size_t bytes) {
        return reinterpret_cast<uintptr_t>(pointer) % bytes == 0;
    }

    /// Calls body with the kernel of a vector width.
    template <typename Type, typename Body>
    void with_kernel(int vector, bool wide, const Body &body) const {
        with_vector<Type, 16 / static_cast<int>(sizeof(Type))>(
                vector, wide, body);
    }

    template <typename Type, int vector, typename Body>
    void with_vector(int wanted, bool wide, const Body &body) const {
        if constexpr (vector > 1) {
            if (wanted < vector) {
                with_vector<Type, vector / 2>(wanted, wide, body);
                return;
            }
        }
        (with_items<Type, vector, items_list>(wide, body), ...);
    }

    template <typename Type, int vector, line_items items, typename Body>
    void with_items(bool wide, const Body &body) const {
        if (items != choice_.items) return;
        constexpr int widest = sizeof(Type) == 8 ? 2 : 4;
        if constexpr (items == line_items::channels) {
            if (wide) {
                body(lines_kernel<Type, vector, items, widest>);
                return;
            }
        }
        body(lines_kernel<Type, vector, items, 1>);
    }

    detail::data_type type_;
    lines_choice choice_;
    size_t shared_bytes_ = 0;
    device_buffer rows_;
    device_buffer reach_;
    device_buffer columns_;
    device_buffer weights_;
    device_buffer tiles_;
};

} // namespace gradnn::gpu
