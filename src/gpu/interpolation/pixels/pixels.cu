// InterpolateBackward, NXC, few taps a column: a thread a column and channels.
//
// diff_src[i,j,c] = sum over q of wh[q] * sum over k of ww[k] *
// diff_dst[q, first(j) + k, c].
//
// A thread owns a source column and a vector of up to 16 bytes of its channels
// (neighbouring threads: neighbouring channels, then columns); a block walks down
// the rows (interpolation/walk.cuh). Of each row of diff_dst it copies the
// columns that its source columns want, each once, to shared memory, some rows
// ahead; a thread sums the taps of its column, at most 8, adds that to the two
// source rows that it has in registers, and writes each source row once, 16
// bytes at a time. Single elements of 16 bits, which are too small to be copied,
// a thread loads to registers instead.
//
// Every sum runs over ascending rows, each a sum over ascending columns (over
// ascending depths in between where the depth is resampled), in one thread: the
// same bits on every run. A tap of weight 0 is never taken.
#include <memory>

#include "gpu/interpolation/walk_plan.hpp"
#include "gpu/kernels.hpp"
#include "gpu/runtime/launch.hpp"
#include "gpu/runtime/residency.hpp"

namespace gradnn::gpu {

namespace {

constexpr int most_threads = 256;
/// A block of vectors of 16 bytes, or of single elements.
constexpr int threads_of(int64_t vector_bytes) {
    return vector_bytes == 16 ? 128 : most_threads;
}
/// Blocks of a multiprocessor that walk at the same time: more of them are more
/// places of memory that are read and written in turns, which cost up to a tenth
/// of memory speed on an H200.
constexpr int most_resident = 4;
constexpr size_t most_shared_bytes = 45 * 1024;

struct pixels_shape {
    int64_t dst_column_pitch = 0;
    int64_t src_column_pitch = 0;
    int64_t tiles = 0;
    int32_t columns = 0;
    /// A tile is so many columns by so many neighbouring vectors of channels.
    int32_t tile_columns = 0;
    int32_t tile_units = 0;
    int32_t column_tiles = 0;
    int32_t span = 0; ///< columns of diff_dst that a tile wants at most
};

/// Whether a block copies its rows to shared memory.
template <typename Type, int vector>
constexpr bool copies_rows = sizeof(Type) * vector >= 4;

/// Planes of diff_dst that go into one addition.
template <typename Type, int vector, bool volume>
constexpr int planes_at_once = volume &&copies_rows<Type, vector> ? 3 : 1;
/// Planes of diff_src that a run has at once, where the depth is resampled.
constexpr int pixel_depths = 2;
/// Slots for additions of which all but one are on their way.
template <typename Type, int vector, int taps, bool volume>
constexpr int slots_ahead = !copies_rows<Type, vector> ? 16 / taps
        : volume || taps > 4                           ? 3
                                                       : 4;

template <typename Type, int vector, int taps, bool volume>
__global__ void __launch_bounds__(
        threads_of(sizeof(Type) * vector)) pixels_kernel(const Type *diff_dst,
        Type *diff_src, const __grid_constant__ walk_shape shape,
        const __grid_constant__ walk_tables<sum_of<Type>> tables,
        const __grid_constant__ pixels_shape pixels, const line_column *columns,
        const line_reach *spans, const sum_of<Type> *weights) {
    using sum = sum_of<Type>;
    using words = pack<Type, vector>;
    constexpr bool copies = copies_rows<Type, vector>;
    constexpr int ahead = slots_ahead<Type, vector, taps, volume>;
    constexpr int planes = planes_at_once<Type, vector, volume>;
    constexpr int depths = volume ? pixel_depths : 1;

    const int64_t run = blockIdx.x / pixels.tiles;
    const auto tile = static_cast<int>(blockIdx.x - run * pixels.tiles);
    const int channel_tile = tile / pixels.column_tiles;
    const int column_tile = tile - channel_tile * pixels.column_tiles;
    const int own = static_cast<int>(threadIdx.x) / pixels.tile_units;
    const int unit = static_cast<int>(threadIdx.x) - own * pixels.tile_units;
    const int tile_first = column_tile * pixels.tile_columns;
    const int tile_last
            = min(tile_first + pixels.tile_columns, pixels.columns) - 1;
    const bool writes = tile_first + own <= tile_last;
    if (!copies && !writes) return;
    // Threads without a column do as the last one does, and write nothing.
    const int j = min(tile_first + own, tile_last);
    const int64_t channel
            = (int64_t {channel_tile} * pixels.tile_units + unit) * vector;

    const line_column column = columns[j];
    sum by[taps];
#pragma unroll
    for (int k = 0; k < taps; ++k)
        by[k] = k < column.count ? weights[column.offset + k] : sum(0);

    // Slots of rows, either for the block or for the thread.
    extern __shared__ uint4 rows_of_block[];
    words *const rows = reinterpret_cast<words *>(rows_of_block);
    const int slot_size = pixels.span * pixels.tile_units;
    words slots[copies ? 1 : ahead][taps];
    int first = column.first; // of the columns that the block wants
    int copied = 0;
    int place = 0;
    if constexpr (copies) {
        const line_reach span = spans[column_tile];
        first = span.first + own;
        if (own < pixels.tile_columns)
            copied = (span.end - first + pixels.tile_columns - 1)
                    / pixels.tile_columns;
        if (column.count > 0)
            place = (column.first - span.first) * pixels.tile_units;
        place += unit;
    }
    const int copy_distance = pixels.tile_columns * pixels.tile_units;
    const int64_t copy_pitch = pixels.tile_columns * pixels.dst_column_pitch;
    const auto copy_if = [](bool wanted, words *to, const Type *from) {
        // Measured: with two taps, L1 is of use.
        if constexpr (sizeof(words) == 16 && taps > 2)
            copy_async_past_l1_if(wanted, to, from);
        else if constexpr (copies)
            copy_async_if<sizeof(words)>(wanted, to, from);
    };
    const auto load = [&](int slot, const Type *from, bool wanted) {
        if constexpr (copies) {
            words *to = rows + slot * slot_size + threadIdx.x;
            // As many as the linear family has for so many taps.
            constexpr int usual = taps / 2 + 1;
#pragma unroll
            for (int k = 0; k < usual; ++k) {
                copy_if(wanted && k < copied, to, from);
                to += copy_distance;
                from += copy_pitch;
            }
#pragma unroll 1
            for (int k = usual; k < copied; ++k) {
                copy_if(wanted, to, from);
                to += copy_distance;
                from += copy_pitch;
            }
        } else {
#pragma unroll
            for (int k = 0; k < taps; ++k) {
                slots[slot][k] = words {};
                if (k < column.count)
                    slots[slot][k]
                            = words::load(from + k * pixels.dst_column_pitch);
            }
        }
    };
    const auto tap_of = [&](int slot, int k) {
        if constexpr (copies) {
            words tap {};
            if (k < column.count)
                tap = rows[slot * slot_size + place + k * pixels.tile_units];
            return tap;
        } else {
            return slots[slot][k];
        }
    };
    sum low[depths][vector] = {};
    sum high[depths][vector] = {};
    const auto sum_taps = [&](int slot, sum(&row)[vector]) {
#pragma unroll
        for (int k = 0; k < taps; ++k) {
            sum values[vector];
            tap_of(slot, k).unpack(values);
#pragma unroll
            for (int e = 0; e < vector; ++e)
                row[e] = k == 0 ? by[0] * values[e]
                                : add_product(row[e], by[k], values[e]);
        }
    };
    // Of a volume: a row, summed over the planes that feed a depth.
    sum rows_of_depths[depths][volume ? vector : 1] = {};
    const auto gather = [&](int slot, const sum(&plane_weights)[planes][depths],
                                bool anew) {
        if constexpr (volume) {
            if (anew)
#pragma unroll
                for (int d = 0; d < depths; ++d)
#pragma unroll
                    for (int e = 0; e < vector; ++e)
                        rows_of_depths[d][e] = 0;
#pragma unroll
            for (int p = 0; p < planes; ++p) {
                if (!any_weight(plane_weights[p])) continue;
                sum row[vector];
                sum_taps(slot + p, row);
#pragma unroll
                for (int d = 0; d < depths; ++d) {
                    const sum weight = plane_weights[p][d];
                    if (weight == 0) continue;
#pragma unroll
                    for (int e = 0; e < vector; ++e)
                        rows_of_depths[d][e] = add_product(
                                rows_of_depths[d][e], weight, row[e]);
                }
            }
        }
    };
    const auto take_row = [&](int slot, int d, sum(&row)[vector]) {
        if constexpr (volume) {
#pragma unroll
            for (int e = 0; e < vector; ++e)
                row[e] = rows_of_depths[d][e];
        } else {
            sum_taps(slot, row);
        }
    };
    const auto add = [&](int slot, sum low_weight, sum high_weight) {
#pragma unroll
        for (int d = 0; d < depths; ++d) {
            sum row[vector];
            take_row(slot, d, row);
#pragma unroll
            for (int e = 0; e < vector; ++e)
                low[d][e] = add_product(low[d][e], low_weight, row[e]);
            if (high_weight != 0) {
#pragma unroll
                for (int e = 0; e < vector; ++e)
                    high[d][e] = add_product(high[d][e], high_weight, row[e]);
            }
        }
    };
    const auto shift = [&] {
#pragma unroll
        for (int d = 0; d < depths; ++d)
#pragma unroll
            for (int e = 0; e < vector; ++e) {
                low[d][e] = high[d][e];
                high[d][e] = 0;
            }
    };
    const auto shift_add = [&](int slot, sum low_weight, sum high_weight) {
#pragma unroll
        for (int d = 0; d < depths; ++d) {
            sum row[vector];
            take_row(slot, d, row);
#pragma unroll
            for (int e = 0; e < vector; ++e)
                low[d][e] = add_product(high[d][e], low_weight, row[e]);
#pragma unroll
            for (int e = 0; e < vector; ++e)
                // From +0: -0 would tell a run that goes on from one that begins.
                high[d][e] = high_weight != 0
                        ? add_product(sum(0), high_weight, row[e])
                        : sum(0);
        }
    };
    const auto emit = [&](Type *to, int d) {
        if (writes) words::of(low[d]).stream(to);
    };
    walk_rows<volume, ahead, planes, depths, copies>(shape, tables, run,
            diff_dst + first * pixels.dst_column_pitch + channel,
            diff_src + j * pixels.src_column_pitch + channel, load, gather, add,
            emit, shift, shift_add);
}

template <typename Sum>
class pixels_plan final : public detail::plan {
public:
    pixels_plan(const interpolation_problem &problem, const axis_maps &maps,
            const walk_description &walk, int device)
        : type_(problem.diff_src.type),
          walk_(walk),
          channels_(problem.diff_src.dims[1]),
          taps_(maps[2].max_count),
          multiprocessors_(properties_of(device).multiprocessors) {
        const device_guard current(device);
        const capture_mode_guard relaxed; // attributes load the kernel
        tables_ = walk_storage<Sum>(device, maps, walk, pixel_depths);
        if (walk_.volume) group_depths(walk_.shape, pixel_depths);
        column_taps_ = make_columns(maps[2]);
        columns_ = upload(device, column_taps_);
        // Not empty, even where no column has a tap.
        std::vector<Sum> weights(
                maps[2].weights.begin(), maps[2].weights.end());
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

    void execute(std::span<void *const> args, std::byte *,
            detail::stream_impl &stream) const override {
        const launch_scope scope(stream);
        with_float_type(type_, [&]<typename Type>() {
            if constexpr (std::is_same_v<sum_of<Type>, Sum>) {
                const bool wide
                        = is_aligned(args[0], 16) && is_aligned(args[1], 16);
                const arrangement &use = wide ? usual_ : narrow_;
                with_kernel<Type>(use.vector, [&](auto *kernel, int) {
                    launch_early("interpolation (pixels)", kernel, use.blocks,
                            static_cast<unsigned>(use.threads),
                            use.shared_bytes, scope.stream(),
                            static_cast<const Type *>(args[0]),
                            static_cast<Type *>(args[1]), use.walk,
                            tables_.tables(), use.pixels,
                            columns_.template as<line_column>(),
                            use.spans.template as<line_reach>(),
                            weights_.template as<Sum>());
                });
            }
        });
    }

    std::string backend() const override { return "CUDA"; }

private:
    struct arrangement {
        int vector = 1;
        int threads = 0;
        size_t shared_bytes = 0;
        walk_shape walk;
        pixels_shape pixels;
        unsigned blocks = 0;
        device_buffer spans;
    };

    arrangement arrange(int vector, int device) const {
        arrangement made;
        made.vector = vector;
        made.walk = walk_.shape;
        with_float_type(type_, [&]<typename Type>() {
            if constexpr (std::is_same_v<sum_of<Type>, Sum>) {
                with_kernel<Type>(vector, [&](auto *kernel, int row_slots) {
                    cut_tiles(made, row_slots);
                    const pixels_shape &pixels = made.pixels;
                    made.spans = upload(device, spans_of(pixels));
                    // Measured: the planes of volumes want the L1 cache more.
                    const residency held
                            = hold_at_most(most_resident, !walk_.volume, kernel,
                                    made.threads, made.shared_bytes);
                    made.shared_bytes = held.shared_bytes;
                    made.walk.lets_start = held.full ? 1 : 0;
                    const int64_t runs = cut_runs(made.walk, pixels.tiles,
                            int64_t {held.blocks} * multiprocessors_);
                    made.blocks = static_cast<unsigned>(runs * pixels.tiles);
                });
            }
        });
        return made;
    }

    /// Tiles whose rows fit in shared memory, in `row_slots` slots (0: stay in
    /// registers).
    void cut_tiles(arrangement &made, int row_slots) const {
        pixels_shape &pixels = made.pixels;
        pixels.dst_column_pitch = dst_column_pitch_;
        pixels.src_column_pitch = src_column_pitch_;
        pixels.columns = static_cast<int32_t>(source_columns_);
        const int64_t units = channels_ / made.vector;
        const int64_t unit_bytes = made.vector * detail::size_of(type_);
        for (int64_t run = 512;; run /= 2) {
            // Neighbouring bytes that a tile reads: less than 512 cost memory
            // speed, more leave fewer columns, which have taps in common.
            int64_t tile_units = 1;
            for (int64_t count = 1; count <= units; ++count) {
                if (units % count != 0 || count > threads_of(unit_bytes))
                    continue;
                tile_units = count;
                if (count * unit_bytes >= run) break;
            }
            pixels.tile_units = static_cast<int32_t>(tile_units);
            for (made.threads = threads_of(unit_bytes);
                    made.threads >= std::max<int64_t>(32, tile_units);
                    made.threads /= 2) {
                pixels.tile_columns = static_cast<int32_t>(
                        std::min(made.threads / tile_units, source_columns_));
                pixels.column_tiles = static_cast<int32_t>(
                        ceil_div(source_columns_, pixels.tile_columns));
                pixels.tiles = units / tile_units * pixels.column_tiles;
                pixels.span = 0;
                for (const line_reach &span : spans_of(pixels))
                    pixels.span = std::max(pixels.span, span.end - span.first);
                made.shared_bytes = static_cast<size_t>(
                        row_slots * pixels.span * tile_units * unit_bytes);
                if (made.shared_bytes <= most_shared_bytes) return;
            }
        }
    }

    /// The columns of diff_dst that each tile of columns wants.
    std::vector<line_reach> spans_of(const pixels_shape &pixels) const {
        std::vector<line_reach> spans;
        for (int64_t from = 0; from < source_columns_;
                from += pixels.tile_columns) {
            line_reach span;
            bool any = false;
            const int64_t to = std::min<int64_t>(
                    from + pixels.tile_columns, source_columns_);
            for (int64_t j = from; j < to; ++j) {
                const line_column &taps = column_taps_[static_cast<size_t>(j)];
                if (taps.count == 0) continue;
                if (!any || taps.first < span.first) span.first = taps.first;
                span.end = std::max(span.end, taps.first + taps.count);
                any = true;
            }
            spans.push_back(span);
        }
        return spans;
    }

    template <typename Type, typename Body>
    void with_kernel(int vector, const Body &body) const {
        constexpr int full = 16 / static_cast<int>(sizeof(Type));
        if (vector == full)
            with_taps<Type, full>(body);
        else
            with_taps<Type, 1>(body);
    }

    template <typename Type, int vector, typename Body>
    void with_taps(const Body &body) const {
        if (taps_ <= 2 && !walk_.volume)
            call<Type, vector, 2, false>(body);
        else if (taps_ <= 4)
            with_volume<Type, vector, 4>(body);
        else if (taps_ <= 6)
            with_volume<Type, vector, 6>(body);
        else
            with_volume<Type, vector, 8>(body);
    }

    template <typename Type, int vector, int taps, typename Body>
    void with_volume(const Body &body) const {
        if (walk_.volume)
            call<Type, vector, taps, true>(body);
        else
            call<Type, vector, taps, false>(body);
    }

    template <typename Type, int vector, int taps, bool volume, typename Body>
    static void call(const Body &body) {
        body(pixels_kernel<Type, vector, taps, volume>,
                copies_rows<Type, vector>
                        ? slots_ahead<Type, vector, taps,
                                  volume> * planes_at_once<Type, vector, volume>
                        : 0);
    }

    detail::data_type type_;
    walk_description walk_;
    int64_t channels_;
    int64_t taps_;
    int64_t multiprocessors_;
    int64_t dst_column_pitch_ = 0;
    int64_t src_column_pitch_ = 0;
    int64_t source_columns_ = 0;
    std::vector<line_column> column_taps_;
    arrangement usual_;
    arrangement narrow_; ///< for pointers that allow no vectors
    walk_storage<Sum> tables_;
    device_buffer columns_;
    device_buffer weights_;
};

} // namespace

plan_or_refusal make_interpolation_pixels(
        const interpolation_problem &problem, const compile_options &options) {
    const axis_maps maps = make_axis_maps(problem);
    if (is_copy(maps)) return refuse_copy();
    const auto &dst = problem.diff_dst;
    const auto &src = problem.diff_src;
    if (maps[2].max_count > 8)
        return plan_or_refusal::refuse("wants at most 8 taps for a column");
    std::string why;
    const auto walk = describe_walk(problem, maps, true, why);
    if (!walk) return plan_or_refusal::refuse(why);
    const walk_shape &shape = walk->shape;
    const int64_t bytes = detail::size_of(src.type);
    if (widest_vector(bytes, src.dims[1], pitch_of(dst, 4), pitch_of(src, 4),
                shape.dst_row_pitch, shape.src_row_pitch, shape.dst_group_pitch,
                shape.src_group_pitch, shape.dst_depth_pitch,
                shape.src_depth_pitch)
                    * bytes
            < 16)
        return plan_or_refusal::refuse(
                "wants 16 bytes of channels side by side, and rows and planes "
                "at multiples of that");
    const auto device = static_cast<int>(options.device);
    if (src.type == detail::data_type::f64)
        return std::make_unique<pixels_plan<double>>(
                problem, maps, *walk, device);
    return std::make_unique<pixels_plan<float>>(problem, maps, *walk, device);
}

} // namespace gradnn::gpu
