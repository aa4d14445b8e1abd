// The plan of the columns kernel (kernel.cuh).
//
// Of the kernels that hold the taps of a column the one of the lowest cost
// (instructions a row of diff_dst) is taken. 16-bit elements go in pairs where
// rows begin at even ones, and rows in pieces of 16 bytes where the tensor ends
// with one; pointers that forbid that have an arrangement of their own.
#pragma once

#include <bit>
#include <memory>

#include "gpu/interpolation/columns/tables.hpp"
#include "gpu/interpolation/makers.hpp"
#include "gpu/runtime/kernel_plan.hpp"
#include "gpu/runtime/residency.hpp"
#include "gpu/runtime/tensor_kernel.hpp"
#include "gpu/runtime/with_type.hpp"

namespace gradnn::gpu::interpolation::columns {

template <typename... Kinds>
struct kind_list {};

/// Calls body with each kernel of a type and its limits.
template <typename Family, typename Type, typename Body>
void for_each_kernel(bool volume, const Body &body) {
    const auto visit = [&]<bool deep, typename... Kinds>(kind_list<Kinds...>) {
        (body(ncx_kernel<Type, Kinds, deep>, limits_of<Kinds, deep>()), ...);
    };
    if (volume)
        visit.template operator()<true>(
                Family::template kinds_of<Type, true>());
    else
        visit.template operator()<false>(
                Family::template kinds_of<Type, false>());
}

/// What a kernel may do where diff_dst lies at a multiple of 16 bytes and
/// diff_src at one of 4.
struct allowed_access {
    bool load_pairs = false; ///< of 16-bit elements
    bool store_pairs = false;
    bool load_pieces = false; ///< of 16 bytes
    bool any() const { return load_pairs || store_pairs || load_pieces; }
};

template <typename Type>
struct kernel_choice {
    /// Null where none holds the taps.
    void (*kernel)(const Type *, Type *, walk_shape, walk_tables<sum_of<Type>>,
            work_cut)
            = nullptr;
    kind_limits limits;
    channel_block channels;
};

/// The kernel of the lowest cost.
template <typename Family, typename Type>
kernel_choice<Type> choose_kernel(const detail::axis_map &map,
        const walk_description &walk, allowed_access access, int64_t channels) {
    kernel_choice<Type> best;
    double best_cost = 0;
    for_each_kernel<Family,
            Type>(walk.volume, [&](auto *kernel, const kind_limits &limits) {
        if ((limits.vector > 1 && !access.load_pairs)
                || (limits.side > 1 && !access.store_pairs)
                || (limits.dense && !access.load_pieces)
                || !holds_taps(limits, map))
            return;
        // All channels, or blocks of a power of two.
        for (int64_t block = channels; block == channels || block >= 8;
                block = std::bit_ceil(static_cast<uint64_t>(block)) / 2) {
            const bool whole = block == channels;
            if (!whole
                    && (limits.dense
                            || (channels % 2 != 0
                                    && limits.vector * limits.side > 1)))
                continue;
            double cost = cost_of<sum_of<Type>>(
                    limits, map, walk, {channels, block});
            // Short pieces of a row share their ends' sectors.
            if (!whole)
                cost *= 1.0
                        + 16.0
                                / static_cast<double>(
                                        block * int64_t {sizeof(Type)});
            if (cost > 0 && (best.kernel == nullptr || cost < best_cost)) {
                best = {kernel, limits, {channels, block}};
                best_cost = cost;
            }
        }
    });
    return best;
}

/// The walk and the tables of a kernel on a device.
template <typename Sum>
struct arranged_work {
    tensor_kernel<walk_shape, walk_tables<Sum>, work_cut> kernel;
    walk_shape walk;
    work_cut shape;
    int64_t depths = 1; ///< planes of diff_src that a run has at once
    device_buffer words;
    device_buffer outputs;
    device_buffer weights;
    device_buffer row_bytes;
};

template <typename Family, typename Sum>
class columns_plan final : public kernel_plan {
public:
    /// For columns that `fits` (below) says a warp holds.
    columns_plan(const interpolation_problem &problem, axis_maps maps,
            const walk_description &walk, allowed_access access,
            int64_t channels, int device)
        : type_(problem.diff_src.type),
          channels_(channels),
          map_(std::move(maps[2])),
          aligned_matters_(access.any()) {
        const device_guard current(device);
        with_type_of_sum<Sum>(type_, [&]<typename Type>() {
            usual_ = arrange<Type>(walk, access, device);
            if (access.any()) misaligned_ = arrange<Type>(walk, {}, device);
        });
        maps[2] = {};
        // All kernels of a type walk as many depths at once.
        tables_ = walk_storage<Sum>(device, maps, walk, usual_.depths);
    }

private:
    void submit(std::span<void *const> args, std::byte *,
            const launch_stream &stream) const override {
        const bool aligned = !aligned_matters_
                || (is_aligned(args[0], 16) && is_aligned(args[1], 4));
        const arranged_work<Sum> &use = aligned ? usual_ : misaligned_;
        use.kernel.launch_early("interpolation (NCX)", stream, args[0], args[1],
                use.walk, tables_.tables(), use.shape);
    }

    template <typename Type>
    arranged_work<Sum> arrange(
            walk_description walk, allowed_access access, int device) const {
        arranged_work<Sum> made;
        const auto [kernel, limits, channels]
                = choose_kernel<Family, Type>(map_, walk, access, channels_);
        const auto tables = arrange_columns<Sum>(
                limits, map_, walk, made.shape, channels);
        made.words = upload(device, tables.words);
        made.outputs = upload(device, tables.outputs);
        made.weights = upload(device, tables.weights);
        made.row_bytes = upload(device, tables.row_bytes);
        made.depths = limits.depths;
        const auto shared_bytes = static_cast<size_t>(
                made.shape.line_sums * int64_t {sizeof(Sum)}
                + limits.slots * limits.slot_bytes);
        const int64_t resident
                = std::max(blocks_held(kernel, 32, shared_bytes), 1);
        made.walk = walk.shape;
        made.walk.lets_start = 1; // no more blocks would fit
        if (walk.volume) group_depths(made.walk, limits.depths);
        const int64_t runs = cut_runs(made.walk, made.shape.tiles,
                resident * properties_of(device).multiprocessors);
        made.kernel = {nullptr, runs * made.shape.tiles, 32, shared_bytes};
        made.kernel.set(kernel);
        made.shape.words = made.words.template as<lane_place>();
        made.shape.outputs = made.outputs.template as<lane_place>();
        made.shape.weights = made.weights.data();
        made.shape.row_bytes = made.row_bytes.template as<int32_t>();
        return made;
    }

    detail::data_type type_;
    int64_t channels_;
    detail::axis_map map_; ///< of the columns
    bool aligned_matters_;
    arranged_work<Sum> usual_;
    arranged_work<Sum> misaligned_; ///< where the pointers forbid the usual one
    walk_storage<Sum> tables_;
};

/// Whether a warp holds the taps of any column, in single elements.
template <typename Family>
bool fits_in_warp(const detail::axis_map &map, detail::data_type type,
        const walk_description &walk, int64_t channels) {
    bool fit = false;
    with_float_type(type, [&]<typename Type>() {
        fit = choose_kernel<Family, Type>(map, walk, {}, channels).kernel
                != nullptr;
    });
    return fit;
}

inline bool all_even(std::initializer_list<int64_t> values) {
    return std::all_of(values.begin(), values.end(),
            [](int64_t value) { return value % 2 == 0; });
}

/// For a walk of `channels` (1 in NCX) to a pixel. Family::kinds_of lists the
/// kernels.
template <typename Family>
plan_or_refusal make_plan(const interpolation_problem &problem,
        walked_problem walked, int64_t channels, int device) {
    auto &[maps, walk, refusal] = walked;
    if (!refusal.empty()) return plan_or_refusal::refuse(refusal);
    const auto &dst = problem.diff_dst;
    const auto &src = problem.diff_src;
    if (!fits_in_warp<Family>(maps[2], src.type, walk, channels))
        return plan_or_refusal::refuse(detail::text(
                "takes tiles that a warp holds with all taps of a column, "
                "given ",
                maps[2].max_count, " taps and ", channels, " channels"));
    const walk_shape &shape = walk.shape;
    const int64_t bytes = detail::size_of(src.type);
    allowed_access access;
    // The last piece must end within the tensor.
    access.load_pieces = extent_of(dst) * bytes % 16 == 0;
    if (bytes == 2) {
        access.load_pairs
                = all_even({dst.dims[4] * channels, shape.dst_row_pitch,
                        shape.dst_depth_pitch, shape.dst_group_pitch});
        access.store_pairs
                = all_even({src.dims[4] * channels, shape.src_row_pitch,
                        shape.src_depth_pitch, shape.src_group_pitch});
    }
    if (src.type == detail::data_type::f64)
        return std::make_unique<columns_plan<Family, double>>(
                problem, std::move(maps), walk, access, channels, device);
    return std::make_unique<columns_plan<Family, float>>(
            problem, std::move(maps), walk, access, channels, device);
}

} // namespace gradnn::gpu::interpolation::columns
