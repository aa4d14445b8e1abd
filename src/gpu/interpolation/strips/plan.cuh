// The plan of the strips kernel (kernel.cuh): whether a problem
// has its form, and the kind, the tile and the blocks of the lowest estimate of
// cycles.
#pragma once

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "gpu/device/banks.hpp"
#include "gpu/interpolation/strips/kernel.cuh"
#include "gpu/interpolation/walk_plan.hpp"
#include "gpu/kernels.hpp"
#include "gpu/runtime/kernel_plan.hpp"
#include "gpu/runtime/residency.hpp"

namespace gradnn::gpu::interpolation::strips {

/// Weights of 8 taps at most: of the first column, the inner ones, the last.
using weights_of_map = std::array<std::array<float, 8>, 3>;

/// Nothing where taps lie elsewhere, one has weight 0 within the row, inner
/// columns differ, or there are less than four.
inline std::optional<weights_of_map> weigh_taps(
        const detail::axis_map &map, int64_t ratio) {
    if (map.dst != ratio * map.src || map.src < 4) return {};
    const int64_t count = 2 * ratio;
    const auto weights = weights_of_places<float>(map, ratio, ratio / 2, count);
    if (!weights) return {};
    weights_of_map made {};
    for (int64_t j = 0; j < map.src; ++j) {
        std::array<float, 8> taps {};
        std::copy_n(weights->begin() + j * count, count, taps.begin());
        auto &kept = made[j == 0 ? 0 : j + 1 == map.src ? 2 : 1];
        if (j > 1 && j + 1 < map.src && taps != kept) return {};
        kept = taps;
    }
    return made;
}

/// What the plan needs to know of a kind.
struct kind_limits {
    int64_t items, columns, ratio, window, taps, slots, pieces, lead;
    bool chunk;
};

template <typename Kind>
constexpr kind_limits limits_of() {
    return {Kind::items, Kind::columns, Kind::ratio, Kind::window, Kind::taps,
            Kind::slots, Kind::pieces, Kind::lead, Kind::chunk > 0};
}

/// A tile of `strips` strips; threads is 0 where it does not go.
struct measured_tile {
    work_cut cut;
    int64_t threads = 0;
    int64_t row_bytes = 0;
    int64_t shared_bytes = 0;
};

inline measured_tile measure_tile(const kind_limits &kind, int64_t columns,
        int64_t channels, int64_t strips, int64_t element) {
    measured_tile made;
    const auto short_of
            = [](int64_t value) { return static_cast<int32_t>(value); };
    const int64_t units = kind.chunk ? 1 : ceil_div(channels, kind.items);
    // None but the last item of a thread may lie beyond the channels.
    if (!kind.chunk && units * (kind.items - 1) > channels) return made;
    const int64_t all = ceil_div(columns, kind.columns);
    const int64_t tiles = ceil_div(all, strips);
    strips = ceil_div(all, tiles);
    const int64_t threads = ceil_div(strips * units, 32) * 32;
    if (threads > most_threads) return made;
    const int64_t width = std::min(strips * kind.columns, columns);
    const int64_t bytes = kind.chunk
            ? kind.ratio * width * channels * element + 2 * kind.lead
            : (kind.ratio * width + kind.ratio) * channels * element;
    made.row_bytes = bytes;
    const int64_t slot = round_up(bytes + 15, 16);
    const int64_t warp_bytes = round_up(ceil_div(slot, threads / 32), 512);
    if (warp_bytes > kind.pieces * 512) return made;
    work_cut &cut = made.cut;
    cut.channels = short_of(channels);
    cut.src_columns = short_of(columns);
    cut.tile_strips = short_of(strips);
    cut.tiles = short_of(tiles);
    cut.units = short_of(units);
    cut.warp_bytes = short_of(warp_bytes);
    cut.slot_bytes = short_of(slot);
    for (int64_t e = 0; e < kind.items; ++e)
        cut.item_bytes[e] = static_cast<uint32_t>(e * units * element);
    made.shared_bytes = kind.slots * slot;
    made.threads = threads;
    return made;
}

/// Turns that shared memory takes for a read of one element by a warp, on
/// average.
inline double bank_turns(
        const kind_limits &kind, const measured_tile &tile, int64_t element) {
    if (kind.chunk) return 1.0;
    const work_cut &cut = tile.cut;
    const int turns = shared_turns(
            static_cast<int>(tile.threads), element, [&](int thread) {
                const int strip
                        = std::min(thread / cut.units, cut.tile_strips - 1);
                const int unit
                        = std::min(thread - strip * cut.units, cut.units - 1);
                return (strip * kind.ratio * kind.columns * cut.channels + unit)
                        * element;
            });
    return turns / static_cast<double>(tile.threads / 32);
}

class strips_plan final : public kernel_plan {
public:
    /// Check fits() before use.
    strips_plan(const interpolation_problem &problem, const axis_maps &maps,
            const walk_description &walk, int64_t ratio,
            const weights_of_map &weights, int device)
        : type_(problem.diff_src.type),
          ratio_(ratio),
          weights_(weights),
          channels_(problem.diff_src.dims[1]),
          columns_(problem.diff_src.dims[4]) {
        const allocation_guard current(device); // attributes load the kernel
        const int64_t element = detail::size_of(type_);
        readable_bytes_ = extent_of(problem.diff_dst) * element;
        row_ratio_ = row_ratio_of(maps, walk);
        const walk_shape &shape = walk.shape;
        const auto all_multiples = [&](int64_t of, int64_t a, int64_t b) {
            return a % of == 0 && b % of == 0;
        };
        const bool pieces = columns_ % 4 == 0
                && all_multiples(16 / element, shape.dst_row_pitch,
                        shape.dst_group_pitch)
                && all_multiples(4, shape.src_row_pitch, shape.src_group_pitch);
        choose(any_, false, shape, device);
        if (pieces && any_.blocks > 0) choose(chunk_, true, shape, device);
        if (any_.blocks > 0)
            tables_ = walk_storage<float>(device, maps, walk, 1);
    }

    /// Whether pixels have room in shared memory, and their threads in a block.
    bool fits() const { return any_.blocks > 0; }
    /// Whether there is a kernel for so few channels.
    bool has_chunks() const { return chunk_.blocks > 0; }

private:
    void submit(std::span<void *const> args, std::byte *,
            const launch_stream &stream) const override {
        const auto *const begin = static_cast<const unsigned char *>(args[0]);
        byte_range readable;
        if (!is_aligned(begin, 16) || readable_bytes_ % 16 != 0)
            readable = {begin, begin + readable_bytes_};
        const auto four = static_cast<size_t>(4 * detail::size_of(type_));
        const bool chunk = has_chunks() && is_aligned(args[0], 16)
                && is_aligned(args[1], four);
        const arrangement &use = chunk ? chunk_ : any_;
        for_each_kind([&]<typename Type, typename Kind>(int number) {
            if (number != use.kind) return;
            tap_weights<float, Kind::ratio> weights {};
            for (size_t k = 0; k < Kind::taps; ++k) {
                weights.first[k] = weights_[0][k];
                weights.inner[k] = weights_[1][k];
                weights.last[k] = weights_[2][k];
            }
            launch_early("interpolation (strips)", strips_kernel<Type, Kind>,
                    use.blocks, use.threads, use.shared_bytes, stream,
                    static_cast<const Type *>(args[0]),
                    static_cast<Type *>(args[1]), use.walk, tables_.tables(),
                    use.cut, weights, readable);
        });
    }

    struct arrangement {
        int kind = -1;
        work_cut cut;
        walk_shape walk;
        int64_t blocks = 0;
        int64_t threads = 0;
        size_t shared_bytes = 0;
    };

    /// Calls body with every kind of the type and the ratio, and its number.
    template <typename Body>
    void for_each_kind(const Body &body) const {
        with_type_of_sum<float>(type_, [&]<typename Type>() {
            const auto each = [&]<typename... Kinds>() {
                int number = 0;
                (body.template operator()<Type, Kinds>(number++), ...);
            };
            if (ratio_ == 2)
                each.template operator()<kernel_kind<Type, 2, 4, 4>,
                        kernel_kind<Type, 2, 4, 6>, kernel_kind<Type, 2, 4, 7>,
                        kernel_kind<Type, 2, 4, 3, 3>>();
            else
                each.template operator()<kernel_kind<Type, 4, 4, 3>,
                        kernel_kind<Type, 4, 2, 3, 3>>();
        });
    }

    void choose(arrangement &made, bool chunk, const walk_shape &walk,
            int device) const {
        double best = 0;
        const int64_t element = detail::size_of(type_);
        const int64_t multiprocessors = properties_of(device).multiprocessors;
        for_each_kind([&]<typename Type, typename Kind>(int number) {
            constexpr kind_limits kind = limits_of<Kind>();
            if (kind.chunk != chunk || (chunk && channels_ != kind.items))
                return;
            auto *const kernel = strips_kernel<Type, Kind>;
            const int64_t most_bytes
                    = allow_most_shared_bytes(kernel, device, 100 * 1024);
            const int64_t all = ceil_div(columns_, kind.columns);
            int64_t seen = 0;
            for (int64_t strips = 1; strips <= std::min<int64_t>(all, 256);
                    ++strips) {
                const measured_tile tile = measure_tile(
                        kind, columns_, channels_, strips, element);
                if (tile.threads == 0 || tile.shared_bytes > most_bytes
                        || tile.cut.tile_strips == seen)
                    continue;
                seen = tile.cut.tile_strips;
                const int resident
                        = blocks_held(kernel, static_cast<int>(tile.threads),
                                static_cast<size_t>(tile.shared_bytes));
                const double row = cycles_of(kind, tile, element);
                for (int64_t held = 1; held <= std::min(resident, 16); ++held) {
                    walk_shape cut_walk = walk;
                    const int64_t runs = cut_runs(
                            cut_walk, tile.cut.tiles, held * multiprocessors);
                    const int64_t blocks = runs * tile.cut.tiles;
                    if (blocks > std::numeric_limits<int32_t>::max()) continue;
                    // Few warps do not keep a multiprocessor busy: 16 do.
                    const double warps
                            = static_cast<double>(held * (tile.threads / 32));
                    const double cost = rows_walked(cut_walk, row_ratio_,
                                                blocks, held, multiprocessors)
                            * row * std::max(1.0, 16.0 / warps);
                    if (best != 0 && cost >= best) continue;
                    best = cost;
                    const residency of_tile
                            = hold_at_most(static_cast<int>(held), true, kernel,
                                    static_cast<int>(tile.threads),
                                    static_cast<size_t>(tile.shared_bytes));
                    made.kind = number;
                    made.cut = tile.cut;
                    made.walk = cut_walk;
                    made.walk.lets_start = of_tile.full ? 1 : 0;
                    made.blocks = blocks;
                    made.threads = tile.threads;
                    made.shared_bytes = of_tile.shared_bytes;
                }
            }
        });
    }

    /// An estimate for a row of a tile, in cycles of a multiprocessor.
    double cycles_of(const kind_limits &kind, const measured_tile &tile,
            int64_t element) const {
        const auto number
                = [](int64_t value) { return static_cast<double>(value); };
        const double warps = number(tile.threads / 32);
        const double outputs = number(kind.items * kind.columns);
        const double reads = number(kind.items * kind.window);
        const double vectors = number(8 / element);
        // Instructions: of the walk, of reads and conversions, of products, and
        // of a source row in `row_ratio_` rows.
        const double work = warps
                * ((kind.chunk ? 65.0 : 110.0)
                        + (kind.chunk ? 0.3 : 1.5) * reads
                        + (element == 2 ? reads : 0.0)
                        + outputs * (number(kind.taps) + 2.4)
                        + (15.0 + outputs * (kind.chunk ? 1.0 : 4.0))
                                / row_ratio_)
                / 2.5;
        const double turns = bank_turns(kind, tile, element);
        const double memory_turns
                = warps * (kind.chunk ? reads / vectors : reads * turns)
                + number(tile.row_bytes) / 128.0 + warps * outputs / row_ratio_;
        const double memory = number(tile.row_bytes + 32) / 18.0;
        const double most = std::max({work, 1.2 * memory_turns, memory});
        return most + 0.1 * (work + memory_turns + memory - most);
    }

    detail::data_type type_;
    int64_t ratio_;
    weights_of_map weights_;
    int64_t channels_;
    int64_t columns_;
    int64_t readable_bytes_ = 0;
    double row_ratio_ = 1;
    arrangement any_;
    arrangement chunk_; ///< for pointers at multiples of 16 bytes
    walk_storage<float> tables_;
};

} // namespace gradnn::gpu::interpolation::strips
