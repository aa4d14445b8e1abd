// Which tile, and into how many slices the sums are cut: the least estimate of
//
//     rounds of blocks on a multiprocessor * (k tiles of a block * its work
//     + writing its tile) + adding up the slices
//
// in cycles of a multiprocessor. The constants are those of an H200 at 1.7 GHz,
// by measurements of every f32 tile over the convolutions of bench/cases.json:
// the estimates are within 15 % of the times, except for launches (2 us) and
// for many slices, whose cost (add_slice) is not measured. Plain host arithmetic.
#include <algorithm>
#include <cmath>

#include "base/text.hpp"
#include "gpu/convolution/implicit_gemm/implicit_gemm.hpp"
#include "gpu/device/rounding.hpp"

namespace gradnn::gpu::implicit_gemm {

namespace {

/// Starting a round of blocks, filling their pipelines and leaving them.
constexpr double round_start = 4500.0;
/// Bytes a cycle that one multiprocessor writes when all do.
constexpr double store_rate = 32.0;
/// Adding up slices: its launch, a slice (an eighth of what one took where a
/// thread reads them all), and bytes a cycle of the whole device.
constexpr double add_start = 6000.0;
constexpr double add_slice = 50.0;
constexpr double add_rate = 3000.0;
constexpr int most_slices = 1024;

/// The implicit GEMM of a problem.
struct matrices {
    int64_t rows, columns;
    int64_t channels; ///< terms that slices cut, each met `windows` times
    int64_t windows;
    double products; ///< without those of filled-up terms
};

matrices matrices_of(const dense_problem &p) {
    const int64_t windows = dense_problem::product(p.window);
    const int64_t points = p.n * dense_problem::product(p.dst);
    const double products
            = 1.0 * points * windows * p.c * p.k * p.callers_terms;
    switch (p.operation) {
        case operation::weights:
            return {p.k, windows * p.c, points, 1, products};
        case operation::strided_data:
            return {p.n * dense_problem::product(p.src), p.c, p.k, windows,
                    products};
        case operation::forward: break;
    }
    return {points, p.k, p.c, windows, products};
}

tile_choice estimate_of(const tile_set &set, const dense_problem &p,
        const matrices &g, const tile &t, int slices, int multiprocessors) {
    int64_t row_tiles = ceil_div(g.rows, t.m);
    const int64_t channel_tiles
            = ceil_div(ceil_div(g.channels, slices), set.terms);
    tile_choice made {&t, slices, g.windows * channel_tiles};
    double chain = 1.0 * made.chain;
    if (p.operation == operation::strided_data) {
        // Each phase of the strides has tiles and a part of the window of its
        // own.
        int64_t points = p.n;
        int64_t phases = 1;
        made.chain = channel_tiles;
        for (size_t axis = 0; axis < 3; ++axis) {
            points *= ceil_div(p.src[axis], p.strides[axis]);
            phases *= p.strides[axis];
            made.chain *= ceil_div(p.window[axis], p.strides[axis]);
        }
        row_tiles = ceil_div(points, t.m) * phases;
        chain /= 1.0 * phases;
    }
    const double blocks = 1.0 * row_tiles * ceil_div(g.columns, t.n) * slices;
    const double area = 1.0 * t.m * t.n;
    made.products = g.products;
    made.useful = g.products / (blocks * chain * area * set.terms);
    const double work = chain * area * set.terms / (set.rate * t.efficiency);
    const double rest
            = round_start + area * detail::size_of(p.types.sums()) / store_rate;
    const double each = std::ceil(blocks / multiprocessors);
    const double full = std::floor(each / t.resident);
    const double left = each - full * t.resident;
    // The device spreads the first blocks evenly. Those left after one full
    // round it gives to the multiprocessors that are done first, as many as
    // they hold, so that it takes as long as a full one; after more rounds
    // multiprocessors are less in step.
    double last = left / t.resident;
    if (left > 0.0 && full > 0.0) last = std::max(last, 1.0 / full);
    made.cycles = (full + last) * t.resident * work
            + (full + (left == 0.0 ? 0.0 : 1.0)) * rest;
    if (partial_bytes(p, slices) != 0)
        made.cycles += add_start + slices * add_slice
                + 1.0 * p.sums_bytes() * (slices + 1.0) / add_rate;
    return made;
}

} // namespace

std::string tile::name() const {
    constexpr const char *operations[] = {"forward", "strided_data", "weights"};
    return detail::text(operations[static_cast<int>(operation)],
            space == 3 ? "_3d_" : "_", m, "x", n);
}

std::string tile_choice::name() const {
    if (slices == 1) return tile->name();
    return detail::text(tile->name(), ", ", slices, " slices");
}

tile_choice choose_tile(const tile_set &set, const dense_problem &problem,
        int multiprocessors, size_t partial_bytes_limit) {
    const matrices g = matrices_of(problem);
    const int64_t all_tiles = ceil_div(g.channels, set.terms);
    const int64_t can = problem.operation == operation::strided_data
            ? 1
            : std::min<int64_t>(most_slices, all_tiles);
    tile_choice best;
    // A gradient of weights, where a slice costs little, has chains that keep their digits
    // (256 k tiles of f32 are off by 4e-7) unless the slices do not fit.
    constexpr int64_t short_chain = 256;
    const int64_t wanted_chain = problem.operation == operation::weights
            ? short_chain
            : set.longest_chain;
    for (const int64_t chain : {wanted_chain, set.longest_chain}) {
        for (const tile &each : set.tiles) {
            if (each.operation != problem.operation
                    || each.space != problem.space)
                continue;
            for (int slices = 1; slices <= can; ++slices) {
                if (partial_bytes(problem, slices) > partial_bytes_limit) break;
                const tile_choice found = estimate_of(
                        set, problem, g, each, slices, multiprocessors);
                if (found.chain <= chain
                        && (best.tile == nullptr || found.cycles < best.cycles))
                    best = found;
            }
        }
        if (best.tile != nullptr) break;
    }
    return best;
}

} // namespace gradnn::gpu::implicit_gemm
