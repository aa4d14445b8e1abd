// What the kernels of a depthwise family have to do once, and a test of that.
#pragma once

#include <algorithm>
#include <array>

#include "gpu_choice/choice.hpp"
#include "gpu_cuts/depthwise.hpp"
#include "gpu_cuts/tally.hpp"

namespace gradnn::test {

using namespace gpu::depthwise;

inline int64_t divide(int64_t n, const small_divider &by) {
    EXPECT_GE(n, 0);
    return static_cast<int64_t>(static_cast<uint64_t>(2 * n) * by.magic >> 32);
}

/// What is counted of a problem: elements of written (of data), or positions of dst for
/// each of so many jobs; and (weights) the partial sums.
struct tallies {
    const problem_facts &facts;
    tally elements, sums;

    tallies(const problem_facts &of, int64_t parts)
        : facts(of),
          elements(dims_of(of)),
          sums({of.of_weights() ? of.shape.channels : 0, taps_of(of, 0),
                  taps_of(of, 1), taps_of(of, 2), parts}) {}

    static std::array<int64_t, 5> dims_of(const problem_facts &of) {
        const auto &axes = of.shape.axes;
        return {of.shape.images, of.shape.channels, axes[0].written,
                axes[1].written, axes[2].written};
    }
    static int64_t taps_of(const problem_facts &of, size_t axis) {
        return of.shape.axes[axis].kernel;
    }
    /// `columns` of a row from w on, those that there are.
    void add_run(int64_t n, int64_t c, int64_t d, int64_t h, int64_t w,
            int64_t columns) {
        const int64_t end
                = std::min<int64_t>(w + columns, facts.shape.axes[2].written);
        for (; w < end; ++w)
            elements.add({n, c, d, h, w});
    }
};

/// Rows of read that `count` positions of written from `first` on meet are among the
/// `held` ones from `begin` on.
inline void expect_held(const window_axis &axis, bool to_src, int64_t first,
        int64_t count, int64_t taps, int64_t begin, int64_t held) {
    for (int64_t x = first; x < std::min<int64_t>(first + count, axis.written);
            ++x)
        for (int64_t k = 0; k < taps; ++k) {
            int64_t at = x * axis.stride - axis.pad + k * axis.dilation;
            if (to_src) {
                at = x + axis.pad - k * axis.dilation;
                if (at % axis.stride != 0) continue;
                at /= axis.stride;
            }
            if (at < 0 || at >= axis.read) continue;
            EXPECT_TRUE(at >= begin && at < begin + held)
                    << at << " of " << begin << " and " << held << " on";
        }
}

template <typename Cut>
int64_t parts_of(const problem_facts &facts, const Cut &cut) {
    if (!facts.of_weights()) return 0;
    if constexpr (requires { cut.parts(); })
        return cut.parts();
    else
        return cut.parts;
}

/// Whether all elements can be gone through: long dilations make large tensors.
inline bool is_small(const convolution_problem &problem) {
    for (const detail::tensor_view *tensor : {&problem.src, &problem.dst}) {
        double elements = 1;
        for (const int64_t dim : tensor->dims)
            elements *= static_cast<double>(dim);
        if (elements > 1e5) return false;
    }
    return true;
}

/// Has random problems cut until each direction was taken `count` times. go_through(cut,
/// tallies) goes through a kernel's loops.
template <typename Cut, typename Loops>
void expect_all_once(uint64_t seed, int count, const Loops &go_through) {
    if (const std::string reason = why_not_comparable(); !reason.empty())
        GTEST_SKIP() << reason;
    random_source random(test_seed(seed));
    std::array<int, 3> taken {};
    for (int left = 1000 * count;
            left > 0 && *std::min_element(taken.begin(), taken.end()) < count;
            --left) {
        const convolution_problem problem
                = draw_depthwise(random, problem_size::few);
        SCOPED_TRACE(name_of(problem));
        std::string refusal;
        auto facts = facts_of(problem, {}, refusal);
        int &of_direction = taken[static_cast<size_t>(problem.direction)];
        if (!facts || of_direction == count || !is_small(problem)) continue;
        // With fewer a block has more than one part of the work.
        facts->multiprocessors = one_of(random, {1, 1, 4, 132});
        for (const bool vectors : {false, true}) {
            Cut work;
            bool is_cut = false;
            if constexpr (requires { cut(work, *facts, vectors); })
                is_cut = cut(work, *facts, vectors);
            else
                is_cut = cut(work, *facts);
            if (!is_cut) break;
            of_direction += vectors ? 1 : 0;
            tallies all(*facts, parts_of(*facts, work));
            go_through(work, all);
            EXPECT_TRUE(all.elements.all_once());
            EXPECT_TRUE(all.sums.all_once());
            if (testing::Test::HasFailure()) return;
        }
    }
    for (const int of_direction : taken)
        EXPECT_EQ(of_direction, count);
}

} // namespace gradnn::test
