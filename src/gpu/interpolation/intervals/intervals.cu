// InterpolateBackward, NXC, by intervals of columns: the choice of a tile and
// the plan. The kernel: kernel.cuh; how columns are cut:
// tables.hpp.
#include <limits>
#include <memory>

#include "gpu/device/constants.hpp"
#include "gpu/interpolation/intervals/kernel.cuh"
#include "gpu/interpolation/makers.hpp"
#include "gpu/interpolation/walk_plan.hpp"
#include "gpu/runtime/kernel_plan.hpp"
#include "gpu/runtime/residency.hpp"
#include "gpu/runtime/tensor_kernel.hpp"
#include "gpu/runtime/with_type.hpp"
#include "kernel/problem_text.hpp"

namespace gradnn::gpu::interpolation::intervals {

namespace {

template <typename Sum>
class intervals_plan final : public kernel_plan {
public:
    /// Check fits() before use.
    intervals_plan(const interpolation_problem &problem, const axis_maps &maps,
            const walk_description &walk, int device)
        : type_(problem.diff_src.type), walk_(walk.shape) {
        const allocation_guard current(device); // attributes load the kernel
        const auto &dst = problem.diff_dst;
        const auto &src = problem.diff_src;
        dst_elements_ = extent_of(dst);
        cut_.dst_column_pitch = pitch_of(dst, 4);
        cut_.src_column_pitch = pitch_of(src, 4);
        cut_.dst_columns = static_cast<int32_t>(dst.dims[4]);
        cut_.src_columns = static_cast<int32_t>(src.dims[4]);
        cut_.channels = static_cast<int32_t>(src.dims[1]);
        const interval_table<Sum> table
                = make_intervals<Sum>(maps[2], elements_of_thread<Sum>);
        taps_ = taps_that_hold(table.used);
        with_type_of_sum<Sum>(type_, [&]<typename Type>() {
            with_chosen(
                    [&]<int taps, int volume>() {
                        choose_tile(intervals_kernel<Type, taps, volume == 1>,
                                table, maps, walk, device);
                    },
                    one_of<4, 8, elements_of_thread<Sum>, 2> {
                            static_cast<int>(taps_)},
                    one_of<0, 1> {walk.volume ? 1 : 0});
        });
        if (!fits()) return;
        first_ = upload(device, table.first);
        weights_ = upload(device, table.weights);
        tables_ = walk_storage<Sum>(device, maps, walk, 1);
    }

    /// Whether the taps of a column have room in shared memory.
    bool fits() const { return kernel_.blocks > 0; }

private:
    void submit(std::span<void *const> args, std::byte *,
            const launch_stream &stream) const override {
        const int64_t element = detail::size_of(type_);
        const auto *const past = static_cast<const unsigned char *>(args[0])
                + dst_elements_ * element;
        const auto beyond = reinterpret_cast<uintptr_t>(past) % piece_bytes;
        const tensor_end end {
                past - beyond, static_cast<int>(beyond / element)};
        kernel_.launch_early("interpolation (intervals)", stream, args[0],
                args[1], walk_, tables_.tables(), cut_,
                first_.template as<int32_t>(),
                weights_.template as<weight_pair<Sum>>(), end);
    }

    /// Tries tiles of some widths and ranges of channels, and takes that of the
    /// lowest estimate of cycles.
    template <typename Kernel>
    void choose_tile(Kernel *kernel, const interval_table<Sum> &table,
            const axis_maps &maps, const walk_description &walk, int device) {
        const int64_t most_bytes
                = allow_most_shared_bytes(kernel, device, most_shared_bytes);
        const int64_t multiprocessors = properties_of(device).multiprocessors;
        const multiprocessor &sm = properties_of(device).sm;
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
                const double cost
                        = rows_walked(cut_walk, row_ratio_of(maps, walk),
                                  runs * tiles, held, multiprocessors)
                        * cycles_of(cut, held, sm);
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
                kernel_ = {nullptr, runs * tiles, threads_of(taps_),
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

    /// An estimate for a row of a tile, in cycles of a multiprocessor that holds so
    /// many blocks.
    double cycles_of(
            const work_cut &cut, int64_t held, const multiprocessor &sm) const {
        // Memory moves sectors of 32 bytes.
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
        const double memory = bytes / sm.bytes_a_cycle
                * std::max(1.0, sm.bytes_on_their_way / on_their_way);
        // Some 80 instructions a row, and 7 an element, at 2.8 a cycle, which
        // few warps do not reach (measured: 8 of them 1.4, in f64 1.24).
        constexpr double warp_rate = 0.17;
        const double warps = threads_of(taps_) / 32.0;
        const double work = warps * (80.0 + 7.0 * elements_of_thread<Sum>)
                / std::min(2.8, warp_rate * warps * static_cast<double>(held));
        return std::max(memory, work) + 0.3 * std::min(memory, work);
    }

    detail::data_type type_;
    int64_t taps_ = 2; ///< that the kernel holds
    int64_t dst_elements_ = 0; ///< from the first to the end of the last
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

} // namespace

plan_or_refusal make(
        const interpolation_problem &problem, const compile_options &options) {
    const auto [maps, walk, refusal] = walked_problem(problem, true);
    if (!refusal.empty()) return plan_or_refusal::refuse(refusal);
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
        return make_plan<double>(problem, maps, walk, device);
    return make_plan<float>(problem, maps, walk, device);
}

} // namespace gradnn::gpu::interpolation::intervals
