// InterpolateBackward, NXC, by intervals of columns: the choice of a tile and
// the plan. The kernel: kernel.cuh; how columns are cut:
// tables.hpp.
#include <limits>
#include <memory>

#include "gpu/interpolation/intervals/kernel.cuh"
#include "gpu/interpolation/walk_plan.hpp"
#include "gpu/kernels.hpp"
#include "gpu/runtime/residency.hpp"
#include "gpu/runtime/tensor_kernel.hpp"
#include "problem_text.hpp"

namespace gradnn::gpu::interpolation::intervals {

namespace {

template <typename Sum>
class intervals_plan final : public detail::plan {
public:
    /// Check fits() before use.
    intervals_plan(const interpolation_problem &problem, const axis_maps &maps,
            const walk_description &walk, int device)
        : type_(problem.diff_src.type),
          volume_(walk.volume),
          walk_(walk.shape) {
        const device_guard current(device);
        const capture_mode_guard relaxed; // attributes load the kernel
        const auto &dst = problem.diff_dst;
        const auto &src = problem.diff_src;
        for (size_t axis = 0; axis < dst.dims.size(); ++axis)
            dst_elements_ += (dst.dims[axis] - 1) * dst.strides[axis];
        cut_.dst_column_pitch = pitch_of(dst, 4);
        cut_.src_column_pitch = pitch_of(src, 4);
        cut_.dst_columns = static_cast<int32_t>(dst.dims[4]);
        cut_.src_columns = static_cast<int32_t>(src.dims[4]);
        cut_.channels = static_cast<int32_t>(src.dims[1]);
        const interval_table<Sum> table
                = make_intervals<Sum>(maps[2], elements_of_thread<Sum>);
        taps_ = taps_that_hold(table.used);
        with_float_type(type_, [&]<typename Type>() {
            with_kernel<Type>([&](auto *kernel) {
                choose_tile(kernel, table, maps, walk, device);
            });
        });
        if (!fits()) return;
        first_ = upload(device, table.first);
        weights_ = upload(device, table.weights);
        tables_ = walk_storage<Sum>(device, maps, walk, 1);
    }

    /// Whether the taps of a column have room in shared memory.
    bool fits() const { return kernel_.blocks > 0; }

    void execute(std::span<void *const> args, std::byte *,
            detail::stream_impl &stream) const override {
        const launch_scope scope(stream);
        const int64_t element = detail::size_of(type_);
        const auto *const past = static_cast<const unsigned char *>(args[0])
                + dst_elements_ * element;
        const auto beyond = reinterpret_cast<uintptr_t>(past) % piece_bytes;
        const tensor_end end {
                past - beyond, static_cast<int>(beyond / element)};
        kernel_.launch_early("interpolation (intervals)", scope.stream(),
                args[0], args[1], walk_, tables_.tables(), cut_,
                first_.template as<int32_t>(),
                weights_.template as<weight_pair<Sum>>(), end);
    }

    std::string backend() const override { return "CUDA"; }

private:
    /// Tries tiles of some widths and ranges of channels, and takes that of the
    /// lowest estimate of cycles.
    template <typename Kernel>
    void choose_tile(Kernel *kernel, const interval_table<Sum> &table,
            const axis_maps &maps, const walk_description &walk, int device) {
        const int64_t most_bytes
                = allow_most_shared_bytes(kernel, device, most_shared_bytes);
        const int64_t multiprocessors = properties_of(device).multiprocessors;
        const int64_t element = detail::size_of(type_);
        const int64_t items = elements_of_thread<Sum> / taps_;
        double best = 0;
        const work_cut whole = cut_;
        const walk_shape walk_of_all = walk_;
        const auto consider = [&](int64_t columns, int64_t channels) {
            work_cut cut = whole;
            cut.tile_columns = static_cast<int32_t>(columns);
            cut.tile_channels = static_cast<int32_t>(channels);
            measure_tile(cut, table, element, threads_of(taps_));
            // Every piece of a run is some thread's.
            if (cut.apart && cut.runs_at_once == 0) return;
            const int64_t bytes = shared_bytes_of(cut, table);
            if (bytes > most_bytes) return;
            const int resident = blocks_held(
                    kernel, threads_of(taps_), static_cast<size_t>(bytes));
            const int64_t tiles
                    = int64_t {cut.column_tiles} * cut.channel_tiles;
            for (int64_t held = 1; held <= std::min(resident, 8); ++held) {
                walk_shape cut_walk = walk_of_all;
                const int64_t runs
                        = cut_runs(cut_walk, tiles, held * multiprocessors);
                const double cost = cycles_of(cut, maps, walk, cut_walk,
                        runs * tiles, held, multiprocessors);
                if (best != 0 && cost >= best) continue;
                if (runs * tiles > std::numeric_limits<int32_t>::max())
                    continue;
                best = cost;
                cut_ = cut;
                walk_ = cut_walk;
                const residency of_tile
                        = hold_at_most(static_cast<int>(held), true, kernel,
                                threads_of(taps_), static_cast<size_t>(bytes));
                walk_.lets_start = of_tile.full ? 1 : 0;
                kernel_ = {nullptr, static_cast<unsigned>(runs * tiles),
                        static_cast<unsigned>(threads_of(taps_)),
                        of_tile.shared_bytes};
                kernel_.set(kernel);
            }
        };
        for (int64_t ranges = 1; ranges <= 32; ++ranges) {
            const int64_t channels = ceil_div(whole.channels, ranges);
            // Short runs cost memory speed.
            if (ranges > 1 && channels * element < 64 && best != 0) break;
            int64_t columns = std::min<int64_t>(
                    threads_of(taps_) * items / (channels * table.parts)
                            - table.lead,
                    whole.src_columns);
            for (; columns > 0; columns = columns * 3 / 4)
                consider(columns, channels);
        }
    }

    int64_t shared_bytes_of(
            const work_cut &cut, const interval_table<Sum> &table) const {
        const int64_t lines = cut.lead + cut.parts > 1
                ? 2 * threads_of(taps_) * (elements_of_thread<Sum> / taps_)
                : 0;
        const int64_t pairs
                = (cut.tile_columns + cut.lead) * cut.parts * table.pitch;
        return slots_of(taps_, detail::size_of(type_))
                * int64_t {cut.slot_bytes}
        + lines * int64_t {sizeof(Sum)}
        + pairs * int64_t {sizeof(weight_pair<Sum>)};
    }

    /// An estimate for all the blocks, in cycles of a multiprocessor.
    double cycles_of(const work_cut &cut, const axis_maps &maps,
            const walk_description &walk, const walk_shape &cut_walk,
            int64_t blocks, int64_t held, int64_t multiprocessors) const {
        // A row of a tile: memory gives a multiprocessor 18 bytes a cycle, in
        // sectors of 32, provided that 40 KB are on their way.
        const auto element = static_cast<double>(detail::size_of(type_));
        const double runs = cut.apart ? cut.span : 1;
        const double run
                = (cut.apart ? cut.tile_channels
                             : static_cast<double>(cut.span) * cut.channels)
                * element;
        const double bytes = runs * (run + 32.0);
        const double on_their_way
                = static_cast<double>(
                          held * (slots_of(taps_, detail::size_of(type_)) - 1))
                * bytes;
        const double memory
                = bytes / 18.0 * std::max(1.0, 40.0 * 1024.0 / on_their_way);
        // Some 80 instructions a row, and 7 an element, at 2.8 a cycle, which
        // few warps do not reach (measured: 8 of them 1.4, in f64 1.24).
        constexpr double warp_rate = 0.17;
        const double warps = threads_of(taps_) / 32.0;
        const double work = warps * (80.0 + 7.0 * elements_of_thread<Sum>)
                / std::min(2.8, warp_rate * warps * static_cast<double>(held));
        const double row
                = std::max(memory, work) + 0.3 * std::min(memory, work);
        // Rows of diff_dst for one of diff_src; a start costs two of them, and
        // a run shares those of a source row with the next.
        const detail::axis_map &map = maps[walk.row_axis - 2];
        const double ratio = std::max(1.0,
                static_cast<double>(map.dst) / static_cast<double>(map.src));
        const double rows = static_cast<double>(cut_walk.rows_per_run)
                + (cut_walk.src_rows > 1 ? 1.0 : 0.0) + 2.0 / ratio;
        const auto waves
                = static_cast<double>(ceil_div(blocks, held * multiprocessors));
        return waves * static_cast<double>(held) * rows * row;
    }

    template <typename Type, typename Body>
    void with_kernel(const Body &body) const {
        if constexpr (std::is_same_v<sum_of<Type>, Sum>)
            volume_ ? with_taps<Type, true>(body)
                    : with_taps<Type, false>(body);
    }

    template <typename Type, bool volume, typename Body>
    void with_taps(const Body &body) const {
        if constexpr (elements_of_thread<Sum> == 16)
            if (taps_ == 16) return body(intervals_kernel<Type, 16, volume>);
        if (taps_ == 8)
            body(intervals_kernel<Type, 8, volume>);
        else if (taps_ == 4)
            body(intervals_kernel<Type, 4, volume>);
        else
            body(intervals_kernel<Type, 2, volume>);
    }

    detail::data_type type_;
    bool volume_;
    int64_t taps_ = 2; ///< that the kernel holds
    int64_t dst_elements_ = 1; ///< from the first to the end of the last
    work_cut cut_;
    walk_shape walk_;
    tensor_kernel<walk_shape, walk_tables<Sum>, work_cut, const int32_t *,
            const weight_pair<Sum> *, tensor_end>
            kernel_; ///< without blocks where no tile fits
    walk_storage<Sum> tables_;
    device_buffer first_;
    device_buffer weights_;
};

template <typename Sum>
plan_or_refusal make_plan(const interpolation_problem &problem,
        const axis_maps &maps, const walk_description &walk, int device) {
    auto plan = std::make_unique<intervals_plan<Sum>>(
            problem, maps, walk, device);
    if (!plan->fits())
        return detail::refuse("taps and channels of a column whose rows fit "
                              "in shared memory",
                problem);
    return plan_or_refusal(std::move(plan));
}

/// NCX as NXC: planes at even distances are images of one channel. Other problems
/// stay as they are.
interpolation_problem planes_as_images(interpolation_problem problem) {
    const auto dst = merge_axes(problem.diff_dst, {0, 1});
    const auto src = merge_axes(problem.diff_src, {0, 1});
    if (!dst || !src) return problem;
    for (const auto &[view, images] : {std::pair {&problem.diff_dst, *dst},
                 std::pair {&problem.diff_src, *src}}) {
        view->dims[0] = images.first;
        view->strides[0] = images.second;
        view->dims[1] = view->strides[1] = 1;
    }
    return problem;
}

} // namespace

plan_or_refusal make(
        const interpolation_problem &given, const compile_options &options) {
    const axis_maps maps = make_axis_maps(given);
    if (is_copy(maps)) return refuse_copy();
    interpolation_problem problem = given;
    std::string why;
    auto walk = describe_walk(problem, maps, true, why);
    if (!walk) {
        problem = planes_as_images(given);
        walk = describe_walk(problem, maps, true, why);
    }
    if (!walk) return plan_or_refusal::refuse(why);
    const auto &dst = problem.diff_dst;
    const auto &src = problem.diff_src;
    for (const int64_t extent :
            {dst.dims[4] * pitch_of(dst, 4), src.dims[4] * pitch_of(src, 4)})
        if (extent > std::numeric_limits<int32_t>::max() / 16)
            return plan_or_refusal::refuse(detail::text(
                    "takes rows that span less than 2^27 elements, given ",
                    extent));
    const auto device = static_cast<int>(options.device);
    if (src.type == detail::data_type::f64)
        return make_plan<double>(problem, maps, *walk, device);
    return make_plan<float>(problem, maps, *walk, device);
}

} // namespace gradnn::gpu::interpolation::intervals
