// interpolation.gpu_pixels: which problems, the tiles, and the plan. The kernel:
// kernel.cuh.
#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "gpu/device/constants.hpp"
#include "gpu/interpolation/makers.hpp"
#include "gpu/interpolation/pixels/tiles.hpp"
#include "gpu/interpolation/walk_plan.hpp"
#include "gpu/runtime/kernel_plan.hpp"
#include "gpu/runtime/residency.hpp"
#include "gpu/runtime/tensor_kernel.hpp"
#include "gpu/runtime/with_type.hpp"
#include "kernel/problem_text.hpp"

namespace gradnn::gpu::interpolation::pixels {

namespace {

/// Blocks of a multiprocessor that walk at the same time. More of them are more
/// places of memory that are read and written alternately, which cost up to a
/// tenth of memory speed on an H200; with fewer bytes on their way than these a
/// multiprocessor waits for memory. Fitted to times of this kernel, which reads and
/// writes in turn, and so not multiprocessor::bytes_on_their_way.
constexpr int usual_resident = 4;
constexpr double bytes_on_their_way = 48.0 * 1024;
/// Of a column.
constexpr int most_taps = 8;
/// See with_rows_to_walk.
constexpr int64_t few_images = 4;
constexpr int64_t fewest_vectors_to_walk = 17;

template <typename Sum>
class pixels_plan final : public kernel_plan {
public:
    pixels_plan(const interpolation_problem &problem, const axis_maps &maps,
            const walk_description &walk, int device)
        : type_(problem.diff_src.type),
          walk_(walk),
          map_(maps[2]),
          channels_(problem.diff_src.dims[1]),
          taps_(maps[2].max_count),
          multiprocessors_(properties_of(device).multiprocessors) {
        const allocation_guard current(device); // attributes load the kernel
        tables_ = walk_storage<Sum>(device, maps, walk, depths_at_once);
        if (walk_.volume) group_depths(walk_.shape, depths_at_once);
        columns_ = upload(device, make_columns(maps[2]));
        // Not empty, even where no column has a tap.
        auto weights = maps[2].all_weights<Sum>();
        weights.push_back(0);
        weights_ = upload(device, weights);
        const auto &dst = problem.diff_dst;
        const auto &src = problem.diff_src;
        dst_column_pitch_ = pitch_of(dst, 4);
        src_column_pitch_ = pitch_of(src, 4);
        source_columns_ = src.dims[4];
        usual_ = arrange(static_cast<int>(16 / detail::size_of(type_)), device);
        narrow_ = arrange(1, device);
    }

private:
    void submit(std::span<void *const> args, std::byte *,
            const launch_stream &stream) const override {
        const bool wide = is_aligned(args[0], 16) && is_aligned(args[1], 16);
        const arrangement &use = wide ? usual_ : narrow_;
        use.kernel.launch_early("interpolation (pixels)", stream, args[0],
                args[1], use.walk, tables_.tables(), use.pixels,
                columns_.template as<line_column>(),
                use.spans.template as<dst_range>(),
                weights_.template as<Sum>());
    }

    struct arrangement {
        int vector = 1;
        int threads = 0;
        size_t shared_bytes = 0;
        walk_shape walk;
        work_cut pixels;
        tensor_kernel<walk_shape, walk_tables<Sum>, work_cut,
                const line_column *, const dst_range *, const Sum *>
                kernel;
        device_buffer spans;
    };

    arrangement arrange(int vector, int device) const {
        arrangement made;
        made.vector = vector;
        made.walk = walk_.shape;
        with_kernel(vector, [&](auto *kernel, int ahead, int row_slots) {
            made.pixels.dst_column_pitch = dst_column_pitch_;
            made.pixels.src_column_pitch = src_column_pitch_;
            const block_of_tile block = cut_tiles(made.pixels, channels_,
                    vector, detail::size_of(type_), map_, row_slots);
            made.threads = block.threads;
            made.shared_bytes = block.shared_bytes;
            const work_cut &pixels = made.pixels;
            made.spans = upload(device, spans_of(map_, pixels.tile_columns));
            // Measured: the planes of volumes gain more from the L1 cache.
            const residency held = hold_at_most(blocks_to_hold(made, ahead),
                    !walk_.volume, kernel, made.threads, made.shared_bytes);
            made.walk.lets_start = held.full ? 1 : 0;
            const int64_t runs = cut_runs(made.walk, pixels.tiles,
                    int64_t {held.blocks} * multiprocessors_);
            made.kernel = {nullptr, runs * pixels.tiles, made.threads,
                    held.shared_bytes};
            made.kernel.set(kernel);
        });
        return made;
    }

    /// Of a multiprocessor: see usual_resident. A block has `ahead` rows in shared
    /// memory, one of which has arrived, but no more than there are. Where it walks
    /// rows of images it writes rows in between: of the bytes that it moves, only the
    /// share that it reads has to be on its way.
    int blocks_to_hold(const arrangement &made, int ahead) const {
        const walk_shape &shape = walk_.shape;
        if (made.shared_bytes == 0
                || made.pixels.tiles * shape.row_total
                        < usual_resident * multiprocessors_ * ahead)
            return usual_resident;
        const int64_t rows
                = std::min(walk_.groups * shape.dst_rows, ahead - int64_t {1});
        const auto bytes = static_cast<double>(
                static_cast<int64_t>(made.shared_bytes) / ahead * rows);
        double wanted = bytes_on_their_way;
        if (shape.src_rows > 1 && source_columns_ > 1) {
            const auto read
                    = static_cast<double>(int64_t {shape.dst_rows} * map_.dst);
            const auto written
                    = static_cast<double>(int64_t {shape.src_rows} * map_.src);
            wanted *= read / (read + written);
        }
        return std::max(
                usual_resident, static_cast<int>(std::ceil(wanted / bytes)));
    }

    /// Calls body with the kernel, the rows that it has ahead, and the slots for them
    /// in shared memory.
    template <typename Body>
    void with_kernel(int of_vector, const Body &body) const {
        with_type_of_sum<Sum>(type_, [&]<typename Type>() {
            const auto call = [&]<int vector, int taps, int volume>() {
                constexpr bool deep = volume == 1;
                constexpr int ahead = slots_ahead<Type, vector, taps, deep>;
                constexpr int planes = planes_at_once<Type, vector, deep>;
                body(pixels_kernel<Type, vector, taps, deep>, ahead,
                        copies_rows<Type, vector> ? ahead * planes : 0);
            };
            const one_of<elements_of_16_bytes<Type>, 1> vectors {of_vector};
            const int taps = round_up(static_cast<int>(taps_), 2);
            if (taps <= 2 && !walk_.volume)
                with_chosen(call, vectors, one_of<2> {2}, one_of<0> {0});
            else
                with_chosen(call, vectors, one_of<4, 6, 8> {std::max(taps, 4)},
                        one_of<0, 1> {walk_.volume ? 1 : 0});
        });
    }

    detail::data_type type_;
    walk_description walk_;
    detail::axis_map map_; ///< of the columns
    int64_t channels_;
    int64_t taps_;
    int64_t multiprocessors_;
    int64_t dst_column_pitch_ = 0;
    int64_t src_column_pitch_ = 0;
    int64_t source_columns_ = 0;
    arrangement usual_;
    arrangement narrow_; ///< for pointers that allow no vectors
    walk_storage<Sum> tables_;
    device_buffer columns_;
    device_buffer weights_;
};

/// A row or a few, of more vectors of 16 bytes than the device has threads for, which are
/// more than half of a warp in each pixel: as columns of rows of one pixel each. A block
/// would have no row on its way while it adds another. Else as it is.
interpolation_problem with_rows_to_walk(
        const interpolation_problem &problem, int64_t multiprocessors) {
    constexpr int64_t vector_bytes = 16;
    interpolation_problem turned = problem;
    const auto &dims = problem.diff_src.dims;
    const bool few_rows = dims[0] <= few_images && dims[2] == 1 && dims[3] == 1
            && problem.diff_dst.dims[2] == 1 && problem.diff_dst.dims[3] == 1;
    const int64_t vectors
            = dims[1] * detail::size_of(problem.diff_src.type) / vector_bytes;
    if (!few_rows || vectors < fewest_vectors_to_walk
            || vectors * dims[4] <= usual_resident * threads_of(vector_bytes)
                            * multiprocessors
            || detail::make_axis_map(
                       problem.mode, problem.coordinates, problem.axes[2])
                            .max_count
                    > most_taps)
        return turned;
    std::swap(turned.axes[1], turned.axes[2]);
    for (detail::tensor_view *view : {&turned.diff_dst, &turned.diff_src}) {
        std::swap(view->dims[3], view->dims[4]);
        std::swap(view->strides[3], view->strides[4]);
    }
    return turned;
}

} // namespace

plan_or_refusal make(
        const interpolation_problem &given, const compile_options &options) {
    const auto device = static_cast<int>(options.device);
    const interpolation_problem problem
            = with_rows_to_walk(given, properties_of(device).multiprocessors);
    const auto [maps, walk, refusal] = walked_problem(problem, true);
    if (!refusal.empty()) return plan_or_refusal::refuse(refusal);
    const auto &dst = problem.diff_dst;
    const auto &src = problem.diff_src;
    if (maps[2].max_count > most_taps)
        return plan_or_refusal::refuse(detail::text("takes at most ", most_taps,
                " taps for a column, given ", maps[2].max_count));
    const walk_shape &shape = walk.shape;
    const int64_t bytes = detail::size_of(src.type);
    if (widest_vector(bytes, src.dims[1], pitch_of(dst, 4), pitch_of(src, 4),
                shape.dst_row_pitch, shape.src_row_pitch, shape.dst_group_pitch,
                shape.src_group_pitch, shape.dst_depth_pitch,
                shape.src_depth_pitch)
                    * bytes
            < 16)
        return detail::refuse("channels in vectors of 16 bytes, and columns, "
                              "rows and planes at multiples of that",
                given);
    if (src.type == detail::data_type::f64)
        return std::make_unique<pixels_plan<double>>(
                problem, maps, walk, device);
    return std::make_unique<pixels_plan<float>>(problem, maps, walk, device);
}

} // namespace gradnn::gpu::interpolation::pixels
