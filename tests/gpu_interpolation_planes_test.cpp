// How interpolation's planes kernel cuts random problems: chunks have each plane once, what
// lies in shared memory fits and does not overlap, and the sums of rows and of columns have
// each tap once. Host arithmetic; needs no GPU.
#include "emulated/interpolation.hpp"

#include "gpu/interpolation/planes/plan.hpp"
#include "gpu_cuts/interpolation.hpp"
#include "gpu_cuts/tally.hpp"

namespace gradnn::test {
namespace {

using detail::axis_map;
using gpu::round_up;

constexpr int64_t block_bytes = 227 << 10;

/// Each plane of a pass is one slot's, and places in shared memory do not overlap.
void expect_places(const planes::arranged_work &made, int64_t bytes) {
    const planes::work_cut &shape = made.shape;
    const int64_t sum_bytes = bytes == 8 ? 8 : 4;
    tally of_pass({1, 1, 1, 1, int64_t {made.abreast} * shape.slots});
    for (const int32_t first : made.order)
        for (int64_t k = 0; k < made.abreast; ++k)
            of_pass.add({0, 0, 0, 0, first + k * shape.abreast_planes});
    EXPECT_TRUE(of_pass.all_once());
    int64_t end = 0;
    const int64_t planes = round_up(
            shape.chunk_planes, int64_t {shape.slots} * made.abreast);
    for (int64_t plane = 0; plane < planes; ++plane) {
        EXPECT_GE(planes::place_of(shape, plane), end);
        end = planes::place_of(shape, plane) + shape.plane_elements;
        if (plane + 1 == shape.chunk_planes)
            EXPECT_LE(end * bytes, shape.stage_bytes);
    }
    // The second stage's planes that are none may reach into what follows.
    EXPECT_LE(shape.stage_bytes + end * bytes, made.shared_bytes);
    EXPECT_LE(2 * shape.stage_bytes, shape.line_at);
    EXPECT_GE(shape.line_sums,
            planes * shape.src_rows * shape.line_pitch
                    + std::max(made.windows.taps, 4 * made.windows.fours));
    EXPECT_LE(shape.line_at + shape.line_sums * sum_bytes, shape.weights_at);
    EXPECT_LE(
            shape.weights_at + shape.weights * 2 * sum_bytes, shape.counts_at);
    EXPECT_LE(shape.counts_at + shape.src_rows * 4, made.shared_bytes);
    EXPECT_EQ(made.shared_bytes % 4, 0);
    EXPECT_EQ(shape.stage_bytes % 16, 0);
}

/// The sums of rows, then of columns, have each tap once.
void expect_taps(const planes::arranged_work &made, const axis_map &rows,
        const axis_map &columns) {
    const planes::work_cut &shape = made.shape;
    std::vector<double> found(static_cast<size_t>(rows.src * rows.dst));
    int64_t next_row = 0;
    const int64_t segments
            = made.threads / static_cast<int64_t>(shape.segment_threads);
    for (int64_t s = 0; s < segments; ++s) {
        const planes::row_segment &segment = shape.segments[s];
        EXPECT_EQ(segment.src_row, next_row);
        next_row += segment.rows;
        int64_t dst = segment.dst_row;
        auto weights = static_cast<size_t>(segment.first_weights);
        for (int64_t i = segment.src_row; i < next_row; ++i)
            for (int32_t k = 0; k < made.counts[static_cast<size_t>(i)];
                    ++k, ++dst, ++weights) {
                const auto &by = made.weights.at(weights);
                found.at(static_cast<size_t>(i * rows.dst + dst))
                        += by.low_weight;
                if (by.high_weight != 0)
                    found.at(static_cast<size_t>((i + 1) * rows.dst + dst))
                            += by.high_weight;
            }
    }
    EXPECT_EQ(next_row, rows.src);
    std::vector<double> wanted(found.size());
    for (int64_t i = 0; i < rows.src; ++i)
        each_tap(rows, i, [&](int64_t o, double weight) {
            wanted[static_cast<size_t>(i * rows.dst + o)] = weight;
        });
    EXPECT_EQ(found, wanted);
    const auto &windows = made.windows;
    const int64_t width
            = windows.taps > 0 ? windows.taps : int64_t {4} * windows.fours;
    for (int64_t j = 0; j < columns.src; ++j) {
        int64_t taps = 0;
        for (int64_t k = 0; k < width; ++k) {
            const auto at = static_cast<size_t>(windows.taps > 0
                            ? j * width + k
                            : (k / 4 * columns.src + j) * 4 + k % 4);
            taps += windows.weights.at(at) != 0 ? 1 : 0;
        }
        int64_t count = 0;
        each_tap(columns, j, [&](int64_t o, double weight) {
            const int64_t k = o + windows.shift
                    - windows.places[static_cast<size_t>(j)];
            ASSERT_TRUE(k >= 0 && k < width);
            EXPECT_EQ(windows.weights.at(static_cast<size_t>(windows.taps > 0
                                      ? j * width + k
                                      : (k / 4 * columns.src + j) * 4 + k % 4)),
                    weight);
            ++count;
        });
        EXPECT_EQ(taps, count);
    }
}

TEST(interpolation_planes, have_each_tap_once) {
    random_source random(test_seed(1));
    int taken = 0;
    int refused = 0;
    for (int left = 400; left > 0 && !HasFailure(); --left) {
        planes::problem_sizes sizes;
        sizes.element_bytes = draw_bytes(random);
        sizes.planes = random.integer(1,
                int64_t {1} << random.integer(1, one_in(random, 4) ? 38 : 16));
        sizes.multiprocessors = 132;
        sizes.shared_bytes
                = one_in(random, 8) ? random.integer(1, 4096) : block_bytes;
        const axis_map rows = draw_map(random, 60);
        const axis_map columns = draw_map(random, 63 / sizes.element_bytes * 2);
        if (rows.dst * columns.dst > 2048 || rows.src * columns.src > 2048)
            continue;
        SCOPED_TRACE(detail::text(sizes.planes, " planes of ", rows.dst, 'x',
                columns.dst, " to ", rows.src, 'x', columns.src, ", ",
                sizes.element_bytes, " bytes"));
        const auto made = planes::arrange(sizes, rows, columns);
        ++(made ? taken : refused);
        if (!made) continue;
        const planes::work_cut &shape = made->shape;
        EXPECT_LE(made->shared_bytes, sizes.shared_bytes);
        EXPECT_LE(made->threads, planes::most_threads);
        EXPECT_EQ(made->threads % 32, 0);
        EXPECT_GE(shape.last_planes, 1);
        EXPECT_LE(shape.last_planes, shape.chunk_planes);
        EXPECT_EQ(int64_t {shape.chunks - 1} * shape.chunk_planes
                        + shape.last_planes,
                sizes.planes);
        // Blocks go on to the next chunks but one.
        EXPECT_LE(shape.chunks, INT32_MAX / 4);
        EXPECT_GE(shape.slot_lanes, shape.words);
        EXPECT_LE(shape.slots * shape.slot_lanes, shape.segment_threads);
        EXPECT_GE(shape.gather_lanes, shape.src_columns);
        EXPECT_LE(shape.gather_rows * shape.gather_lanes, made->threads);
        expect_places(*made, sizes.element_bytes);
        expect_taps(*made, rows, columns);
    }
    EXPECT_GE(taken, 100);
    EXPECT_GE(refused, 5);
}

} // namespace
} // namespace gradnn::test
