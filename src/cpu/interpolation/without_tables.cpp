// Axes of millions of elements that repeat nothing (detail::has_tables): each
// element of diff_src walks the outputs that touch it along the three axes, whose
// coordinates are computed meanwhile, and sums in f64 in their order, keeping what
// is rounded off. Elements that nothing touches, most of an axis that is much
// longer than diff_dst's, take two comparisons.
#include "cpu/interpolation/without_tables.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>

#include "base/parallel.hpp"
#include "cpu/kernels.hpp"
#include "cpu/simd/float_types.hpp"
#include "kernel/axis_walk.hpp"

namespace gradnn::cpu {

using detail::axis_walk;
using detail::tensor_view;

namespace {

/// The outputs that touch one input after another.
class axis_cursor {
public:
    explicit axis_cursor(const axis_walk &walk) : walk_(walk) {}

    /// Whether any output touches `input`.
    bool go_to(int64_t input) {
        if (input < input_) {
            first_ = walk_.first_at(input);
            look();
        }
        // Steps where few are needed.
        constexpr int64_t most_steps = 64;
        for (int64_t step = 0; high_ < input; ++step) {
            first_ = step < most_steps ? first_ + 1 : walk_.first_at(input);
            look();
        }
        input_ = input;
        return low_ <= input;
    }

    /// Calls use(output, weight) for each.
    template <typename Use>
    void each_tap(const Use &use) {
        for (int64_t o = first_; o < walk_.dst(); ++o) {
            const detail::output_taps taps = walk_.at(o);
            if (taps.low == input_)
                use(o, taps.low_weight);
            else if (taps.high() == input_)
                use(o, taps.high_weight);
            else
                break;
        }
    }

private:
    void look() {
        low_ = high_ = std::numeric_limits<int64_t>::max();
        if (first_ == walk_.dst()) return;
        const detail::output_taps taps = walk_.at(first_);
        low_ = taps.low;
        high_ = taps.high();
    }

    axis_walk walk_;
    int64_t input_ = std::numeric_limits<int64_t>::max();
    int64_t first_ = 0; ///< the first output that reaches input_
    int64_t low_ = 0; ///< what it reads
    int64_t high_ = 0;
};

/// Elements [begin, end) of diff_src, counted along w, then c, h, d, n.
template <typename T>
void run(const std::array<axis_walk, 3> &axes, const tensor_view &in,
        const tensor_view &out, const T *diff_dst, T *diff_src, int64_t begin,
        int64_t end) {
    std::array<axis_cursor, 3> cursors {
            axis_cursor(axes[0]), axis_cursor(axes[1]), axis_cursor(axes[2])};
    constexpr std::array<size_t, 5> order {4, 1, 3, 2, 0};
    std::array<int64_t, 5> at {};
    int64_t rest = begin;
    for (const size_t axis : order) {
        at[axis] = rest % out.dims[axis];
        rest /= out.dims[axis];
    }
    for (int64_t number = begin; number < end; ++number) {
        T *to = diff_src;
        for (size_t axis = 0; axis < at.size(); ++axis)
            to += at[axis] * out.strides[axis];
        const T *const plane
                = diff_dst + at[0] * in.strides[0] + at[1] * in.strides[1];
        double total = 0;
        double low = 0;
        if (cursors[2].go_to(at[4]) && cursors[1].go_to(at[3])
                && cursors[0].go_to(at[2]))
            cursors[0].each_tap([&](int64_t d, double of_d) {
                cursors[1].each_tap([&](int64_t h, double of_h) {
                    const T *const row
                            = plane + d * in.strides[2] + h * in.strides[3];
                    cursors[2].each_tap([&](int64_t w, double of_w) {
                        add_exactly(of_d * of_h * of_w
                                        * convert_scalar<double>(
                                                row[w * in.strides[4]]),
                                total, low);
                    });
                });
            });
        *to = convert_scalar<T>(total + low);
        for (const size_t axis : order) {
            if (++at[axis] < out.dims[axis]) break;
            at[axis] = 0;
        }
    }
}

class plan_without_tables final : public detail::plan {
public:
    plan_without_tables(
            const detail::interpolation_problem &problem, int threads)
        : axes_ {walk_of(problem, 0), walk_of(problem, 1), walk_of(problem, 2)},
          in_(problem.diff_dst),
          out_(problem.diff_src) {
        for (const int64_t dim : out_.dims)
            elements_ *= dim;
        shares_ = std::min<int64_t>(elements_, threads);
    }

    void execute(std::span<void *const> args, std::byte *,
            detail::stream_impl &) const override {
        detail::parallel_for(shares_, 1, [&](int64_t begin, int64_t end) {
            with_type(out_.type, [&](auto type) {
                using T = decltype(type);
                // One product of the two could overflow.
                const int64_t each = elements_ / shares_;
                const int64_t more = elements_ % shares_;
                run<T>(axes_, in_, out_, static_cast<const T *>(args[0]),
                        static_cast<T *>(args[1]),
                        begin * each + std::min(begin, more),
                        end * each + std::min(end, more));
            });
        });
    }
    std::string backend() const override { return "C++"; }

private:
    static axis_walk walk_of(
            const detail::interpolation_problem &problem, size_t axis) {
        return {problem.mode, problem.coordinates, problem.axes[axis]};
    }

    const std::array<axis_walk, 3> axes_;
    const tensor_view in_;
    const tensor_view out_;
    int64_t elements_ = 1;
    int64_t shares_ = 1;
};

} // namespace

detail::plan_or_refusal make_without_tables(
        const detail::interpolation_problem &problem,
        const detail::compile_options &options) {
    return detail::plan_or_refusal(
            std::make_unique<plan_without_tables>(problem, options.threads));
}

} // namespace gradnn::cpu
