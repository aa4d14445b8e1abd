// InterpolateBackward, NXC, any number of channels and taps (of 16-bit types
// more than 8 taps): a thread a few columns of diff_dst between two source
// columns.
//
// diff_src[i,j,c] = sum over k of v[k] * line_i[j-1][k,c]
//                 + sum over k of w[k] * line_i[j][k,c],
// line_i[m][k,c] = sum over q of wh[q] * diff_dst[q, first(m) + k, c].
//
// The columns of diff_dst that lie between the source columns m and m + 1, an
// interval, feed these two alone, by w and v. A thread has a channel of an
// interval (or of a part of one, where that has many columns), an item, or
// several: 16 elements of a row (f64: 8). It walks down the rows with its
// block (interpolation_walk.cuh), reads each of its elements once from shared
// memory, and keeps, for each, the sums of the two source rows that a row
// feeds. When a source row is complete, it takes the two sums along the row;
// that for the next source column goes through a line of shared memory to the
// thread that has the interval there, which writes the source column.
//
// Rows are copied to shared memory some rows ahead, in pieces of 16 bytes at
// multiples of 16: from the piece that a row of the tile begins in to that which
// it ends in, so that any number of channels and any alignment go. No piece is
// read that holds nothing of the tensor; of the tensor's last piece, where it
// is not all in the tensor, single elements. Neighbouring tiles both read the
// interval between them.
//
// Instructions a lane and element, bf16 (f32: 1 less), at 16 elements a row:
// 4.5 for the read, the conversion and the two products, 4.5 for the walk, 1.5
// for the copies of whole pixels (3 of runs of channels), 2 for a source row
// complete every 4 rows and 4 every 2 rows. At the copy rate an H200 has 13 (26
// for f32).
//
// Every sum runs over ascending rows (over ascending depths in between, where
// the depth is resampled), then over ascending columns of an interval, then
// over its parts, from +0, each product added by one fma: the same bits on
// every run, whatever the tiles and the alignment. A tap of weight 0 is never
// taken.
#include <limits>
#include <memory>

#include "gpu/interpolation_identity.hpp"
#include "gpu/interpolation_intervals_tables.hpp"
#include "gpu/interpolation_walk_plan.hpp"
#include "gpu/kernels.hpp"
#include "gpu/launch.hpp"

namespace gradnn::gpu {

namespace {

/// Threads of a block: many where intervals are wide, so that it has several.
__host__ __device__ constexpr int threads_of(int64_t taps) {
    return taps >= 8 ? 256 : 128;
}
/// Rows that have room in shared memory, all but one of them on their way: a
/// power of two, and 4 bits for each are 32 at most.
__host__ __device__ constexpr int slots_of(int64_t taps, int64_t element) {
    return taps >= 8 && element == 2 ? 8 : 4;
}
/// Two blocks of them have room on a multiprocessor.
constexpr int64_t most_shared_bytes = 108 * 1024;

/// Elements of a row of diff_dst that a thread has.
template <typename Sum>
constexpr int thread_elements = sizeof(Sum) == 8 ? 8 : 16;

/// Where a tensor ends: in the piece of 16 bytes at `piece`, after `elements`.
struct tensor_end {
    const unsigned char *piece = nullptr;
    int elements = 0;
};

/// Blocks of a multiprocessor, at least: as many as leave no register in memory.
constexpr int resident_of(int64_t taps, bool volume) {
    return volume && taps < 8 ? 3 : 512 / threads_of(taps);
}

template <typename Type, int taps, bool volume>
__global__ void __launch_bounds__(threads_of(taps), (resident_of(taps, volume)))
        intervals_kernel(const Type *__restrict__ diff_dst,
                Type *__restrict__ diff_src,
                const __grid_constant__ walk_shape shape,
                const __grid_constant__ walk_tables<sum_of<Type>> tables,
                const __grid_constant__ intervals_shape cut,
                const int32_t *__restrict__ first_of_part,
                const weight_pair<sum_of<Type>> *__restrict__ weights,
                const tensor_end end) {
    using sum = sum_of<Type>;
    using pair = weight_pair<sum>;
    constexpr int threads = threads_of(taps);
    constexpr int slots_ahead = slots_of(taps, sizeof(Type));
    constexpr int items = thread_elements<sum> / taps;
    constexpr int pitch = taps + 1; // of the weights
    // Where all parts are short, the last quarter of the taps is left out.
    constexpr int short_taps = taps > 2 ? taps * 3 / 4 : taps;

    const auto thread = static_cast<int>(threadIdx.x);
    const int tiles = cut.column_tiles * cut.channel_tiles;
    const int64_t run = blockIdx.x / tiles;
    const auto tile = static_cast<int>(blockIdx.x - run * tiles);
    const int column_tile = tile / cut.channel_tiles;
    const int channel_tile = tile - column_tile * cut.channel_tiles;
    const int first_column = first_of_tile(cut, column_tile);
    const int channel = min(
            channel_tile * cut.tile_channels, cut.channels - cut.tile_channels);
    const tile_span span = span_of_tile(cut, first_of_part, first_column);

    extern __shared__ __align__(16) unsigned char shared[];
    unsigned char *const slots = shared;
    auto *const lines
            = reinterpret_cast<sum *>(slots + slots_ahead * cut.slot_bytes);
    constexpr int line_sums = threads * items;
    const bool has_lines = cut.lead + cut.parts > 1;
    auto *const pairs
            = reinterpret_cast<pair *>(lines + (has_lines ? 2 * line_sums : 0));

    const int tile_parts = (cut.tile_columns + cut.lead) * cut.parts;
    const int first_part = first_column * cut.parts;
#pragma unroll 1
    for (int i = thread; i < tile_parts * pitch; i += threads)
        pairs[i] = weights[int64_t {first_part} * pitch + i];

    int place[items]; // in a slot, bytes
    int pairs_at[items];
    int out[items]; // in diff_src, elements
    bool writes[items];
#pragma unroll
    for (int e = 0; e < items; ++e) {
        // Threads beyond the items do as the last one does, and write nothing.
        const int item = thread + e * threads;
        const int mine = min(item, cut.items - 1);
        const int part = mine / cut.tile_channels;
        const int c = mine - part * cut.tile_channels;
        const int column = part / cut.parts - cut.lead;
        place[e] = (first_of_part[first_part + part] - span.first)
                        * cut.column_bytes
                + c * static_cast<int>(sizeof(Type));
        pairs_at[e] = part * pitch;
        out[e] = static_cast<int>(column * cut.src_column_pitch) + c;
        writes[e] = item < cut.items && column >= 0;
    }
    __syncthreads();

    // Whether every weight that the warp has is one, so that it need not look.
    bool all_weights = true;
#pragma unroll
    for (int e = 0; e < items; ++e)
#pragma unroll
        for (int k = 0; k < taps; ++k) {
            const pair by = pairs[pairs_at[e] + k];
            if (!(k >= short_taps && cut.is_short))
                all_weights = all_weights && by.low != 0
                        && (cut.lead == 0 || by.high != 0);
        }
    all_weights = __all_sync(0xffffffffU, all_weights);

    // Bytes to the tile's end from its beginning in a row, and those from one
    // column to the next.
    const int step = static_cast<int>(cut.dst_column_pitch * sizeof(Type));
    const int run_bytes = cut.tile_channels * static_cast<int>(sizeof(Type));
    const int bytes = (span.count - 1) * step + run_bytes;
    // Where runs lie apart: the first that this thread copies a piece of, that
    // piece, in the slot and from the 16 bytes in memory that an aligned row
    // begins with, and how far into it the run begins.
    constexpr auto piece = static_cast<int>(piece_bytes);
    const int own_run = thread / cut.run_pieces;
    const int own_piece = (thread - own_run * cut.run_pieces) * piece;
    const int runs = own_run < cut.runs_at_once ? span.count - own_run : 0;
    const int remainder
            = static_cast<int>(static_cast<unsigned>(own_run * cut.column_bytes)
                    % static_cast<unsigned>(piece));
    const int into = remainder - own_piece;
    const int slot_offset = own_run * cut.column_bytes - into;
    const int offset = own_run * step - into;
    const auto copy_piece
            = [&](auto inside, unsigned char *to, const unsigned char *from) {
                  if (decltype(inside)::value || from < end.piece) {
                      copy_async_past_l1(to, from);
                  } else {
#pragma unroll 1
                      for (int i = 0; i < end.elements; ++i)
                          reinterpret_cast<Type *>(to)[i]
                                  = reinterpret_cast<const Type *>(from)[i];
                  }
              };
    // `inside` says whether all pieces are in the tensor.
    const auto copy_row = [&](auto inside, unsigned char *to,
                                  const unsigned char *from, int shift) {
        constexpr int round = sizeof(Type) < 4 ? 2 : 4; // mostly the only one
        if (!cut.apart) {
            to += thread * piece;
            from += thread * piece - shift;
#pragma unroll 1
            for (int left = shift + bytes - thread * piece; left > 0;
                    left -= round * threads * piece) {
#pragma unroll
                for (int i = 0; i < round; ++i)
                    if (left > i * threads * piece)
                        copy_piece(inside, to + i * threads * piece,
                                from + i * threads * piece);
                to += round * threads * piece;
                from += round * threads * piece;
            }
        } else {
            if (into + shift <= -run_bytes || into + shift >= piece) return;
            to += slot_offset;
            from += offset - shift;
#pragma unroll 1
            for (int left = runs; left > 0; left -= round * cut.runs_at_once) {
#pragma unroll
                for (int i = 0; i < round; ++i) {
                    if (left > i * cut.runs_at_once)
                        copy_piece(inside, to, from);
                    to += cut.runs_at_once * cut.column_bytes;
                    from += cut.runs_at_once * step;
                }
            }
        }
    };
    // Bytes of a slot before the row, 4 bits a row: when a row is added, the
    // `slots_ahead - 1` after it have been loaded (interpolation_walk.cuh).
    uint32_t shifts = 0;
    const auto load = [&](int slot, const Type *row, bool) {
        const auto *const from = reinterpret_cast<const unsigned char *>(row);
        const auto shift = static_cast<uint32_t>(
                reinterpret_cast<uintptr_t>(from) % piece_bytes);
        shifts = shifts << 4 | shift;
        unsigned char *const to = slots + slot * cut.slot_bytes;
        if (from + bytes + (piece - 1) <= end.piece)
            copy_row(std::true_type {}, to, from, static_cast<int>(shift));
        else
            copy_row(std::false_type {}, to, from, static_cast<int>(shift));
    };

    const auto read = [&](int slot, sum(&values)[taps][items]) {
        const unsigned char *const row = slots
                + (slot * cut.slot_bytes
                        + static_cast<int>(
                                shifts >> 4 * (slots_ahead - 1) & 15U));
#pragma unroll
        for (int k = 0; k < taps; ++k) {
            if (k == short_taps && cut.is_short) break;
#pragma unroll
            for (int e = 0; e < items; ++e)
                values[k][e] = widen(*reinterpret_cast<const Type *>(
                        row + place[e] + k * cut.column_bytes));
        }
    };
    const auto for_each_element = [&](const auto &body) {
#pragma unroll
        for (int k = 0; k < taps; ++k) {
            if (k == short_taps && cut.is_short) break;
#pragma unroll
            for (int e = 0; e < items; ++e)
                body(k, e);
        }
    };
    // Sums of two source rows. Those of columns that an item has not are of
    // other columns, and none looks at them.
    sum low[taps][items] = {};
    sum high[taps][items] = {};
    // Of a volume: a row, summed over planes.
    sum planes[volume ? taps : 1][items] = {};
    const auto gather = [&](int slot, const sum(&plane_weights)[1][1],
                                bool anew) {
        if constexpr (volume) {
            if (anew)
                for_each_element([&](int k, int e) { planes[k][e] = 0; });
            const sum weight = plane_weights[0][0];
            if (weight == 0) return;
            sum values[taps][items];
            read(slot, values);
            for_each_element([&](int k, int e) {
                planes[k][e] = add_product(planes[k][e], weight, values[k][e]);
            });
        }
    };
    const auto take_row = [&](int slot, sum(&values)[taps][items]) {
        if constexpr (volume) {
#pragma unroll
            for (int k = 0; k < taps; ++k)
#pragma unroll
                for (int e = 0; e < items; ++e)
                    values[k][e] = planes[k][e];
        } else {
            read(slot, values);
        }
    };
    const auto add = [&](int slot, sum low_weight, sum high_weight) {
        sum values[taps][items];
        take_row(slot, values);
        for_each_element([&](int k, int e) {
            low[k][e] = add_product(low[k][e], low_weight, values[k][e]);
        });
        if (high_weight == 0) return;
        for_each_element([&](int k, int e) {
            high[k][e] = add_product(high[k][e], high_weight, values[k][e]);
        });
    };
    const auto shift_rows = [&] {
        for_each_element([&](int k, int e) {
            low[k][e] = high[k][e];
            high[k][e] = 0;
        });
    };
    const auto shift_add = [&](int slot, sum low_weight, sum high_weight) {
        sum values[taps][items];
        take_row(slot, values);
        for_each_element([&](int k, int e) {
            low[k][e] = add_product(high[k][e], low_weight, values[k][e]);
            high[k][e] = add_product(sum(0), high_weight, values[k][e]);
        });
        if (high_weight != 0) return;
        asm volatile(""); // a branch, and no selections
        for_each_element([&](int k, int e) { high[k][e] = 0; });
    };

    // Along the complete row: what its items give to either source column.
    const auto sum_taps = [&](sum(&to_low)[items], sum(&to_high)[items]) {
#pragma unroll
        for (int e = 0; e < items; ++e)
            to_low[e] = to_high[e] = 0;
        if (all_weights) {
            for_each_element([&](int k, int e) {
                const pair by = pairs[pairs_at[e] + k];
                to_low[e] = add_product(to_low[e], by.low, low[k][e]);
                to_high[e] = add_product(to_high[e], by.high, low[k][e]);
            });
        } else {
            for_each_element([&](int k, int e) {
                const pair by = pairs[pairs_at[e] + k];
                if (by.low != 0)
                    to_low[e] = add_product(to_low[e], by.low, low[k][e]);
                if (by.high != 0)
                    to_high[e] = add_product(to_high[e], by.high, low[k][e]);
            });
        }
    };
    // Two lines take turns, so that a thread that writes the one meets none that
    // still reads it.
    int turn = 0;
    const auto emit = [&](Type *to, int) {
        sum to_low[items];
        sum to_high[items];
        sum_taps(to_low, to_high);
        if (cut.parts == 1) {
            if (cut.lead != 0) {
                sum *const line = lines + turn;
                turn = line_sums - turn;
#pragma unroll
                for (int e = 0; e < items; ++e)
                    line[thread + e * threads] = to_high[e];
                __syncthreads();
#pragma unroll
                for (int e = 0; e < items; ++e)
                    if (writes[e])
                        to_low[e] += line[thread + e * threads
                                - cut.tile_channels];
            }
#pragma unroll
            for (int e = 0; e < items; ++e)
                if (writes[e]) stream_one(to + out[e], to_low[e]);
            return;
        }
        // Parts of intervals: their sums, then the sums of these.
#pragma unroll
        for (int e = 0; e < items; ++e) {
            lines[thread + e * threads] = to_low[e];
            lines[line_sums + thread + e * threads] = to_high[e];
        }
        __syncthreads();
#pragma unroll 1
        for (int i = thread; i < cut.tile_columns * cut.tile_channels;
                i += threads) {
            const int column = i / cut.tile_channels;
            const int c = i - column * cut.tile_channels;
            sum total = 0;
            const auto add_parts = [&](const sum *line, int interval) {
#pragma unroll 1
                for (int part = 0; part < cut.parts; ++part)
                    total += line[(interval * cut.parts + part)
                                    * cut.tile_channels
                            + c];
            };
            if (cut.lead != 0) add_parts(lines + line_sums, column);
            add_parts(lines, column + cut.lead);
            stream_one(to + column * cut.src_column_pitch + c, total);
        }
        __syncthreads();
    };
    walk_rows<volume, slots_ahead, 1, 1, true, false>(shape, tables, run,
            diff_dst + span.first * cut.dst_column_pitch + channel,
            diff_src + first_column * cut.src_column_pitch + channel, load,
            gather, add, emit, shift_rows, shift_add);
}

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
                = make_intervals<Sum>(maps[2], thread_elements<Sum>);
        taps_ = taps_that_hold(table.used);
        with_float_type(type_, [&]<typename Type>() {
            with_kernel<Type>([&](auto *kernel) {
                choose_tile(kernel, table, maps, walk, device);
            });
        });
        if (blocks_ == 0) return;
        first_ = upload(device, table.first);
        weights_ = upload(device, table.weights);
        tables_ = walk_storage<Sum>(device, maps, walk, 1);
    }

    /// Whether the taps of a column have room in shared memory.
    bool fits() const { return blocks_ > 0; }

    void execute(std::span<void *const> args, std::byte *,
            detail::stream_impl &stream) const override {
        const launch_scope scope(stream);
        with_float_type(type_, [&]<typename Type>() {
            const auto *const diff_dst = static_cast<const Type *>(args[0]);
            const auto *const past = reinterpret_cast<const unsigned char *>(
                    diff_dst + dst_elements_);
            const auto beyond = reinterpret_cast<uintptr_t>(past) % piece_bytes;
            const tensor_end end {
                    past - beyond, static_cast<int>(beyond / sizeof(Type))};
            with_kernel<Type>([&](auto *kernel) {
                launch("interpolation (intervals)", kernel, blocks_,
                        threads_of(taps_), shared_bytes_, scope.stream(),
                        diff_dst, static_cast<Type *>(args[1]), walk_,
                        tables_.tables(), cut_, first_.template as<int32_t>(),
                        weights_.template as<weight_pair<Sum>>(), end);
            });
        });
    }

    std::string backend() const override { return "CUDA"; }

private:
    /// Tries tiles of some widths and ranges of channels, and takes that of the
    /// lowest estimate of cycles.
    template <typename Kernel>
    void choose_tile(Kernel *kernel, const interval_table<Sum> &table,
            const axis_maps &maps, const walk_description &walk, int device) {
        cudaFuncAttributes attributes {};
        check(cudaFuncGetAttributes(&attributes, kernel),
                "cudaFuncGetAttributes");
        const int64_t most_bytes = std::min<int64_t>(most_shared_bytes,
                static_cast<int64_t>(properties_of(device).block_shared_bytes)
                        - static_cast<int64_t>(attributes.sharedSizeBytes));
        // The same for all plans: they share the kernel.
        check(cudaFuncSetAttribute(kernel,
                      cudaFuncAttributeMaxDynamicSharedMemorySize,
                      static_cast<int>(most_bytes)),
                "cudaFuncSetAttribute");
        check(cudaFuncSetAttribute(kernel,
                      cudaFuncAttributePreferredSharedMemoryCarveout,
                      cudaSharedmemCarveoutMaxShared),
                "cudaFuncSetAttribute");
        const int64_t multiprocessors = properties_of(device).multiprocessors;
        const int64_t element = detail::size_of(type_);
        const int64_t items = thread_elements<Sum> / taps_;
        double best = 0;
        const intervals_shape whole = cut_;
        const walk_shape walk_of_all = walk_;
        const auto consider = [&](int64_t columns, int64_t channels) {
            intervals_shape cut = whole;
            cut.tile_columns = static_cast<int32_t>(columns);
            cut.tile_channels = static_cast<int32_t>(channels);
            measure_tile(cut, table, element, threads_of(taps_));
            // Every piece of a run is some thread's.
            if (cut.apart && cut.runs_at_once == 0) return;
            const int64_t bytes = shared_bytes_of(cut, table);
            if (bytes > most_bytes) return;
            int resident = 0;
            check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident,
                          kernel, threads_of(taps_),
                          static_cast<size_t>(bytes)),
                    "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
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
                shared_bytes_ = static_cast<size_t>(bytes);
                blocks_ = static_cast<unsigned>(runs * tiles);
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

    int64_t shared_bytes_of(const intervals_shape &cut,
            const interval_table<Sum> &table) const {
        const int64_t lines = cut.lead + cut.parts > 1
                ? 2 * threads_of(taps_) * (thread_elements<Sum> / taps_)
                : 0;
        const int64_t pairs
                = (cut.tile_columns + cut.lead) * cut.parts * table.pitch;
        return slots_of(taps_, detail::size_of(type_))
                * int64_t {cut.slot_bytes}
        + lines * int64_t {sizeof(Sum)}
        + pairs * int64_t {sizeof(weight_pair<Sum>)};
    }

    /// An estimate for all the blocks, in cycles of a multiprocessor.
    double cycles_of(const intervals_shape &cut, const axis_maps &maps,
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
        // few warps do not reach.
        const double warps = threads_of(taps_) / 32.0;
        const double work = warps * (80.0 + 7.0 * thread_elements<Sum>)
                / std::min(2.8, 0.28 * warps * static_cast<double>(held));
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
        if constexpr (thread_elements<Sum> == 16)
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
    intervals_shape cut_;
    walk_shape walk_;
    unsigned blocks_ = 0;
    size_t shared_bytes_ = 0;
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
        return plan_or_refusal::refuse("wants fewer taps for a column, or fewer channels");
    return plan_or_refusal(std::move(plan));
}

} // namespace

// Taken for what gpu_pixels, which is tried before, refuses: pixels that are no
// multiple of 16 bytes, and more than 8 taps a column. Of 16-bit types gpu_nxc,
// tried after, is faster for few taps (measured on an H200).
plan_or_refusal make_interpolation_intervals(
        const interpolation_problem &problem, const compile_options &options) {
    const axis_maps maps = make_axis_maps(problem);
    if (maps[0].identity && maps[1].identity && maps[2].identity)
        return std::make_unique<identity_plan>(problem);
    const auto &dst = problem.diff_dst;
    const auto &src = problem.diff_src;
    if ((dst.dims[1] != 1 && (dst.strides[1] != 1 || src.strides[1] != 1)))
        return plan_or_refusal::refuse(
                "wants the channels of a pixel side by side");
    if (detail::size_of(src.type) == 2 && maps[2].max_count <= 8)
        return plan_or_refusal::refuse(
                "of 16-bit types, wants more than 8 taps for a column");
    std::string why;
    const auto walk = describe_walk(problem, maps, true, why);
    if (!walk) return plan_or_refusal::refuse(why);
    for (const int64_t extent :
            {dst.dims[4] * pitch_of(dst, 4), src.dims[4] * pitch_of(src, 4)})
        if (extent > std::numeric_limits<int32_t>::max() / 16)
            return plan_or_refusal::refuse(
                    "wants rows that span less than 2^27 elements");
    const auto device = static_cast<int>(options.device);
    if (src.type == detail::data_type::f64)
        return make_plan<double>(problem, maps, *walk, device);
    return make_plan<float>(problem, maps, *walk, device);
}

} // namespace gradnn::gpu
