// How the depthwise families cut random problems of all sizes: what is launched fits the
// device, and nothing that kernels count in 32 bits overflows. Host arithmetic, on the
// stand-in for the CUDA runtime. What the parts cover: gpu_depthwise_maps_test.cpp.
#include "gpu_cuts/depthwise.hpp"

#include <map>

#include "gpu/convolution/depthwise/any/cut.hpp"
#include "gpu/convolution/depthwise/diagonals/cut.hpp"
#include "gpu/convolution/depthwise/lines/cut.hpp"
#include "gpu/convolution/depthwise/matrices/cut.hpp"
#include "gpu/convolution/depthwise/planes/cut.hpp"
#include "gpu/convolution/depthwise/rows_ncx/cut.hpp"
#include "gpu/convolution/depthwise/rows_nxc/cut.hpp"
#include "gpu/convolution/depthwise/walk/cut.hpp"
#include "gpu/runtime/device.hpp"
#include "gpu_choice/choice.hpp"

namespace gradnn::test {
namespace {

using namespace gpu::depthwise;

using wide = __int128;

/// What a kernel is launched with, and numbers that it holds in 32 bits.
struct figures {
    wide blocks = 0;
    int64_t threads = 0;
    int64_t most_threads = 256; ///< by the kernel's launch bounds
    int64_t shared_bytes = 0;
    int64_t most_shared_bytes = gpu::default_block_shared_bytes;
    std::vector<wide> numbers;
};

wide product(std::initializer_list<int64_t> factors) {
    wide all = 1;
    for (const int64_t each : factors)
        all *= each;
    return all;
}

wide taps_of_window(const problem_facts &facts) {
    const auto &axes = facts.shape.axes;
    return product({axes[0].kernel, axes[1].kernel, axes[2].kernel});
}

figures figures_of(const problem_facts &facts, const any::tiles_cut &cut) {
    const problem_shape &shape = facts.shape;
    const any::tile_shape &tile = cut.tile;
    const auto &[deep, down, along] = shape.axes;
    figures made;
    made.threads = tile.threads;
    made.shared_bytes = static_cast<int64_t>(
            any::shared_bytes_of(tile, static_cast<size_t>(facts.sum_bytes())));
    const wide staged
            = product({tile.planes, tile.read_depths, tile.read_rows});
    EXPECT_EQ(tile.staged_rows(), staged);
    made.numbers = {staged * tile.vectors * tile.vectors,
            staged * tile.read_rows * tile.read_depths, staged * tile.pitch,
            product({tile.items(), tile.groups}),
            product({tile.items(), tile.row_blocks()}),
            product({tile.items(), tile.depths})};
    if (facts.of_weights()) {
        // The block's sums of its warps are in memory of their own.
        made.shared_bytes += any::window_rows_of(shape.taps) * shape.taps * 8
                * facts.sum_bytes();
        const any::weights_parts &parts = cut.weights;
        made.blocks = product({parts.parts, parts.jobs, shape.channels});
        made.numbers.push_back(product({shape.images, deep.written}));
        made.numbers.push_back(parts.units);
        made.numbers.push_back(product({deep.kernel,
                ceil_div(down.kernel, parts.window_rows), shape.chunks}));
    } else {
        made.blocks = product(
                {ceil_div(shape.images * shape.channels, int64_t {tile.planes}),
                        tile.depth_tiles, tile.row_tiles, tile.column_tiles});
        made.numbers.push_back(product({shape.images, shape.channels}));
    }
    return made;
}

figures figures_of(const problem_facts &facts, const any::blocks_cut &cut) {
    const problem_shape &shape = facts.shape;
    const any::block_shape &block = cut.block;
    const any::weights_parts &parts = cut.weights;
    const auto &[deep, down, along] = shape.axes;
    figures made;
    if (facts.of_weights()) {
        made.blocks = product({parts.parts, block.channel_tiles,
                ceil_div(parts.jobs, parts.block_jobs)});
        made.threads = int64_t {block.lanes} * parts.block_jobs * parts.lanes;
        made.shared_bytes = block.vector * int64_t {256} * facts.sum_bytes();
        made.numbers = {wide {parts.units} + parts.lanes, taps_of_window(facts),
                product({deep.kernel, down.kernel, shape.chunks})};
    } else {
        made.blocks = product({shape.images, block.depth_tiles, block.row_tiles,
                block.column_tiles, block.channel_tiles});
        made.threads = int64_t {block.lanes} * block.groups * block.rows
                * block.depths;
        made.numbers = {
                product({deep.kernel, down.kernel, shape.chunks, shape.taps})};
    }
    return made;
}

figures figures_of(const problem_facts &facts, const walk::work_cut &cut) {
    figures made;
    made.threads = made.most_threads = walking_threads;
    if (facts.of_weights()) {
        made.blocks = product({cut.parts, cut.channel_tiles});
        made.numbers = {cut.units + product({cut.parts, cut.slots})};
        const int64_t taps = facts.shape.axes[0].kernel > 1 ? 9 : 1;
        made.shared_bytes
                = taps * cut.vector * walking_threads * facts.sum_bytes();
    } else {
        made.blocks = ceil_div(int64_t {cut.items}, made.threads);
        made.numbers = {cut.items};
        EXPECT_LE(cut.strip_rows, longest_strip);
    }
    return made;
}

figures figures_of(const problem_facts &facts, const planes::work_cut &cut) {
    figures made;
    made.threads = cut.threads;
    made.most_threads = walking_threads;
    made.shared_bytes = static_cast<int64_t>(cut.shared_bytes);
    made.blocks = product({cut.tiles, cut.bands, cut.image_parts});
    made.numbers = {facts.shape.images + wide {cut.image_parts}};
    EXPECT_LE(cut.strip_steps, longest_strip);
    EXPECT_LE(cut.planes * cut.strips * cut.groups, cut.threads);
    return made;
}

figures figures_of(const problem_facts &facts, const matrices::work_cut &cut) {
    figures made;
    made.threads = made.most_threads = matrices::block_warps * 32;
    made.shared_bytes = static_cast<int64_t>(cut.shared_bytes);
    made.blocks = product({cut.tiles, cut.bands, cut.image_parts});
    made.numbers = {ceil_div(facts.shape.images, int64_t {cut.images})
            + wide {cut.image_parts}};
    return made;
}

figures figures_of(const problem_facts &facts, const diagonals::work_cut &cut) {
    figures made;
    made.most_shared_bytes = facts.block_shared_bytes;
    const int size = facts.shape.axes[1].kernel;
    const auto set = [&](const auto &of, int warps, int64_t across) {
        made.threads = int64_t {of.all_warps()} * 32;
        made.most_threads = warps * 32;
        made.shared_bytes = static_cast<int64_t>(of.shared_bytes);
        made.blocks = product({of.channel_tiles, across, of.parts});
        made.numbers = {product({facts.shape.images, of.strips}) + of.parts};
        EXPECT_GE(of.copy_warps, 1);
        EXPECT_GE(of.warps(), 1);
    };
    if (facts.of_weights())
        set(cut.weights, diagonals::weights_warps, 1);
    else
        set(cut.data, diagonals::data_warps(size), cut.data.column_bands);
    return made;
}

figures figures_of(const problem_facts &facts, const lines::work_cut &cut) {
    const problem_shape &shape = facts.shape;
    figures made;
    made.threads = lines::block_warps * 32;
    made.blocks = product({shape.channels, cut.parts});
    made.numbers = {product({shape.images, shape.axes[1].read, cut.pieces})
            + product({2, lines::block_warps, cut.parts})};
    EXPECT_LE(lines::steps_of_taps(shape.axes[2].kernel + cut.lead), 5);
    return made;
}

figures figures_of(const problem_facts &facts, const rows_ncx::work_cut &cut) {
    figures made;
    const int64_t channels = facts.shape.channels;
    made.shared_bytes = static_cast<int64_t>(cut.shared_bytes);
    made.threads = int64_t {cut.jobs} * cut.threads;
    const wide units = product({cut.row_tiles, cut.pieces});
    if (facts.of_weights()) {
        made.most_threads = rows_ncx::weights_block_threads;
        made.blocks = product({channels, cut.parts});
        made.numbers = {units + product({2, cut.parts})};
        EXPECT_LE(cut.chunks, rows_ncx::weights_chunks);
    } else {
        made.most_threads = rows_ncx::data_threads;
        made.blocks = units * channels;
        EXPECT_LE(cut.chunks, rows_ncx::most_chunks);
    }
    made.numbers.push_back(product({cut.row_tiles, cut.rows}));
    EXPECT_LE(cut.rows * cut.groups, cut.threads);
    return made;
}

figures figures_of(const problem_facts &facts, const rows_nxc::work_cut &cut) {
    figures made;
    made.threads = made.most_threads = rows_nxc::block_threads;
    made.blocks = product({cut.parts, cut.channel_tiles,
            facts.of_weights() ? cut.chunks : 1});
    made.shared_bytes = facts.of_weights()
            ? cut.vector * made.threads * facts.sum_bytes()
            : int64_t {cut.chunks} * cut.taps * (cut.lanes * cut.vector + 2)
                    * facts.sum_bytes();
    made.numbers = {cut.units + product({cut.parts, cut.slots})};
    EXPECT_LE(cut.piece_runs, rows_nxc::longest_piece);
    return made;
}

template <typename Cut>
int64_t sums_of(const problem_facts &facts, const Cut &cut) {
    if (!facts.of_weights()) {
        if constexpr (requires { cut.data_sums; }) return cut.data_sums;
        return 0;
    }
    if constexpr (requires { cut.parts(); })
        return cut.parts();
    else
        return cut.parts;
}

template <typename Cut>
bool cut_by(Cut &work, const problem_facts &facts, bool vectors) {
    if constexpr (requires { cut(work, facts, vectors); })
        return cut(work, facts, vectors);
    else
        return cut(work, facts);
}

class DepthwiseCuts : public testing::Test {
protected:
    void SetUp() override {
        const std::string reason = why_not_comparable();
        if (!reason.empty()) GTEST_SKIP() << reason;
    }

    /// By "family, direction", and what was refused by "family".
    std::map<std::string, int> accepted_, refused_;

    template <typename Cut>
    void check(const char *name, const problem_facts &facts, bool makes_plan) {
        SCOPED_TRACE(name);
        std::array<Cut, 2> work;
        wide sums = 0;
        for (const bool vectors : {false, true}) {
            Cut &of = work[vectors ? 1 : 0];
            if (!cut_by(of, facts, vectors)) {
                ++refused_[name];
                return;
            }
            const figures found = figures_of(facts, of);
            EXPECT_GE(found.blocks, 1);
            EXPECT_LT(found.blocks, INT32_MAX);
            EXPECT_GE(found.threads, 1);
            EXPECT_LE(found.threads, found.most_threads);
            EXPECT_LE(found.shared_bytes, found.most_shared_bytes);
            for (size_t i = 0; i < found.numbers.size(); ++i)
                EXPECT_LT(found.numbers[i], wide {INT32_MAX} + 1)
                        << "number " << i;
            EXPECT_GE(sums_of(facts, of), facts.of_weights() ? 1 : 0);
            sums = std::max<wide>(sums, sums_of(facts, of));
        }
        ++accepted_[name
                + std::string(facts.of_weights() ? ", weights" : ", data")];
        wide bytes = sums * facts.shape.channels * facts.sum_bytes();
        if (facts.of_weights()) bytes *= taps_of_window(facts);
        EXPECT_LT(bytes, wide {1} << 62);
        if (!makes_plan) return;
        detail::compile_options options;
        options.convolution_workspace_limit = SIZE_MAX;
        const auto made = make<Cut>(facts.problem, options);
        ASSERT_TRUE(made.plan) << made.refusal;
        EXPECT_EQ(made.plan->workspace_bytes(), bytes);
    }

    void check_all(const convolution_problem &problem, bool makes_plans) {
        SCOPED_TRACE(name_of(problem));
        std::string refusal;
        const auto facts = facts_of(problem, {}, refusal);
        if (!facts) return;
        check<any::tiles_cut>("tiles", *facts, makes_plans);
        check<any::blocks_cut>("blocks", *facts, makes_plans);
        check<walk::work_cut>("walk", *facts, makes_plans);
        check<planes::work_cut>("planes", *facts, makes_plans);
        check<matrices::work_cut>("matrices", *facts, makes_plans);
        check<diagonals::work_cut>("diagonals", *facts, makes_plans);
        check<lines::work_cut>("lines", *facts, makes_plans);
        check<rows_ncx::work_cut>("rows_ncx", *facts, makes_plans);
        check<rows_nxc::work_cut>("rows_nxc", *facts, makes_plans);
    }

    void expect_all_kinds() {
        for (const char *name :
                {"tiles", "blocks", "walk", "planes", "matrices", "diagonals",
                        "lines", "rows_ncx", "rows_nxc"}) {
            EXPECT_GE(accepted_[name + std::string(", data")], 5) << name;
            EXPECT_GE(accepted_[name + std::string(", weights")], 5) << name;
            EXPECT_GE(refused_[name], 5) << name;
        }
    }
};

TEST_F(DepthwiseCuts, FitTheDevice) {
    random_source random(test_seed(1));
    for (int left = 12000; left > 0 && !HasFailure(); --left)
        check_all(draw_depthwise(random,
                          left % 3 == 0 ? problem_size::few
                                        : problem_size::usual),
                left % 8 == 0);
    expect_all_kinds();
}

TEST_F(DepthwiseCuts, FitTheDeviceInHugeProblems) {
    random_source random(test_seed(2));
    for (int left = 12000; left > 0 && !HasFailure(); --left)
        check_all(draw_depthwise(random, problem_size::huge), false);
    expect_all_kinds();
}

/// f32 without gaps; dims of dst are to be set.
convolution_problem dense_problem(convolution_direction direction,
        const std::array<int64_t, 5> &src,
        const std::array<int64_t, 3> &kernel) {
    convolution_problem p;
    p.direction = direction;
    p.src.type = p.dst.type = p.weights.type = data_type::f32;
    p.src.dims = p.dst.dims = src;
    p.weights.dims = {src[1], 1, 1, kernel[0], kernel[1], kernel[2]};
    p.weights.strides = {kernel[0] * kernel[1] * kernel[2], 1, 1,
            kernel[1] * kernel[2], kernel[2], 1};
    return p;
}

// Rows by depths that a tile reads are 2^32 and 256: the product was taken in 32 bits,
// and the tile was taken for one of 256 rows.
TEST_F(DepthwiseCuts, OfTilesCountRowsOfLongStepsInFull) {
    for (const auto direction : {convolution_direction::forward,
                 convolution_direction::backward_data}) {
        convolution_problem p
                = dense_problem(direction, {1, 2, 1, 254, 8}, {2, 3, 3});
        p.dilations[0] = int64_t {1} << 24;
        p.pads_begin = {p.dilations[0], 1, 1};
        lay_out(p.src, false, {});
        lay_out(p.dst, false, {});
        std::string refusal;
        const auto facts = facts_of(p, {}, refusal);
        ASSERT_TRUE(facts) << refusal;
        any::tiles_cut tiles;
        EXPECT_FALSE(any::cut(tiles, *facts, false));
    }
}

// The window has 2^32 times so many rows that their pieces, counted in 32 bits, were none,
// and a division by them ended the process.
TEST_F(DepthwiseCuts, OfAnyWindowCountItsPiecesInFull) {
    for (const bool nxc : {false, true}) {
        const int64_t rows = nxc ? 1 << 16 : 3 << 16;
        convolution_problem p
                = dense_problem(convolution_direction::backward_weights,
                        {1, 2, 1 << 16, rows, 1}, {1 << 16, rows, 1});
        p.dst.dims = {1, 2, 1, 1, 1};
        lay_out(p.src, nxc, {});
        lay_out(p.dst, nxc, {});
        std::string refusal;
        const auto facts = facts_of(p, {}, refusal);
        ASSERT_TRUE(facts) << refusal;
        any::tiles_cut tiles;
        EXPECT_FALSE(any::cut(tiles, *facts, false));
        any::blocks_cut blocks;
        EXPECT_FALSE(any::cut(blocks, *facts, false));
    }
}

TEST(Multiprocessor, HoldsWhatFits) {
    const gpu::multiprocessor &sm = gpu::properties_of(0).sm; // an H200's
    EXPECT_EQ(sm.blocks_held(32, 16, 0), 32);
    EXPECT_EQ(sm.blocks_held(512, 16, 0), 4); // by threads
    EXPECT_EQ(sm.blocks_held(128, 128, 0), 4); // by registers
    EXPECT_EQ(sm.blocks_held(128, 32, 56 << 10), 4); // by shared memory
    EXPECT_EQ(sm.blocks_held(128, 32, (56 << 10) + 1), 3);
    EXPECT_EQ(sm.blocks_held(32, 16, 228 << 10), 0);
    EXPECT_EQ(sm.registers_for(1024), 64);
}

} // namespace
} // namespace gradnn::test
