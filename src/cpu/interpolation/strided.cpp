// Interpolation gradient on any strides:
//   diff_src[d,h,w] = sum_w' Ww[w,w'] sum_d',h' Wd[d,d'] Wh[h,h']
//                     diff_dst[d',h',w'].
//
// Threads own rows of diff_src (n, d, h, c; channels next to one another, so
// that layouts with channels innermost find their cache lines again). A row is
// made in two steps: the rows of diff_dst that touch it are summed into a line
// in the thread's scratch, then its elements take their taps from the line.
// All sums are in f64, whatever the type, in the order of the taps, and what they
// round off is kept: deterministic, and exact for any number of them.
#include <algorithm>
#include <array>
#include <utility>

#include "base/parallel.hpp"
#include "cpu/interpolation/box.hpp"
#include "cpu/interpolation/without_tables.hpp"
#include "cpu/kernels.hpp"
#include "cpu/simd/float_types.hpp"
#include "kernel/axis_map.hpp"

namespace gradnn::cpu {

using detail::tensor_view;

namespace {

struct weighted_axis {
    detail::gathered_axis taps;
    detail::counted_vector<double> weights;
};

template <typename T>
class strided_worker {
public:
    strided_worker(const std::array<weighted_axis, 3> &axes,
            const tensor_view &in, const tensor_view &out, const void *diff_dst,
            void *diff_src, double *line, int64_t line_elements)
        : axes_(axes),
          in_(in),
          out_(out),
          diff_dst_(static_cast<const T *>(diff_dst)),
          diff_src_(static_cast<T *>(diff_src)),
          line_(line),
          low_(line + line_elements) {}

    void run(int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) {
            int64_t rest = row;
            const int64_t c = rest % out_.dims[1];
            rest /= out_.dims[1];
            const int64_t h = rest % out_.dims[3];
            rest /= out_.dims[3];
            const int64_t d = rest % out_.dims[2];
            const int64_t n = rest / out_.dims[2];
            sum_rows(diff_dst_ + n * in_.strides[0] + c * in_.strides[1], d, h);
            take_taps(diff_src_ + n * out_.strides[0] + c * out_.strides[1]
                    + d * out_.strides[2] + h * out_.strides[3]);
        }
    }

private:
    void sum_rows(const T *plane, int64_t d, int64_t h) {
        const int64_t width = in_.dims[4];
        const int64_t step = in_.strides[4];
        std::fill(line_, line_ + width, 0.0);
        std::fill(low_, low_ + width, 0.0);
        const auto &[d_axis, d_weights] = axes_[0];
        const auto &[h_axis, h_weights] = axes_[1];
        const int64_t d_taps = d_axis.taps(d);
        const int64_t h_taps = h_axis.taps(h);
        const double *const of_d = d_weights.data() + d_axis.weights_at(d);
        const double *const of_h = h_weights.data() + h_axis.weights_at(h);
        const T *const corner = plane + d_axis.begin(d) * in_.strides[2]
                + h_axis.begin(h) * in_.strides[3];
        const bool many = d_taps * h_taps > few_terms;
        for (int64_t i = 0; i < d_taps; ++i) {
            for (int64_t j = 0; j < h_taps; ++j) {
                const double weight = of_d[i] * of_h[j];
                const T *row = corner + i * in_.strides[2] + j * in_.strides[3];
                if (many) {
                    for (int64_t x = 0; x < width; ++x)
                        add_exactly(
                                weight * convert_scalar<double>(row[x * step]),
                                line_[x], low_[x]);
                    continue;
                }
                for (int64_t x = 0; x < width; ++x)
                    line_[x] += weight * convert_scalar<double>(row[x * step]);
            }
        }
        if (!many) return;
        for (int64_t x = 0; x < width; ++x)
            line_[x] += low_[x];
    }

    void take_taps(T *row) const {
        const auto &[axis, table] = axes_[2];
        for (int64_t i = 0; i < axis.src; ++i) {
            const double *from = line_ + axis.begin(i);
            const double *weights = table.data() + axis.weights_at(i);
            const int64_t taps = axis.taps(i);
            double total = 0;
            double low = 0;
            for (int64_t begin = 0; begin < taps; begin += few_terms) {
                const int64_t end = std::min(taps, begin + few_terms);
                double sum = 0;
                for (int64_t t = begin; t < end; ++t)
                    sum += weights[t] * from[t];
                add_exactly(sum, total, low);
            }
            row[i * out_.strides[4]] = convert_scalar<T>(total + low);
        }
    }

    /// So many are added without that.
    static constexpr int64_t few_terms = 1024;

    const std::array<weighted_axis, 3> &axes_;
    const tensor_view &in_;
    const tensor_view &out_;
    const T *const diff_dst_;
    T *const diff_src_;
    double *const line_;
    double *const low_;
};

class strided_plan : public detail::plan {
public:
    strided_plan(const interpolation_problem &problem, int threads)
        : in_(problem.diff_dst), out_(problem.diff_src) {
        for (size_t a = 0; a < 3; ++a)
            axes_[a].taps = detail::gather_axis(problem.mode,
                    problem.coordinates, problem.axes[a], axes_[a].weights);
        rows_ = out_.dims[0] * out_.dims[1] * out_.dims[2] * out_.dims[3];
        shares_ = std::clamp<int64_t>(
                rows_ * (in_.dims[4] + out_.dims[4]) / share_elements, 1,
                std::min<int64_t>(threads, rows_));
        line_elements_ = (in_.dims[4] + 7) / 8 * 8;
    }

    void execute(std::span<void *const> args, std::byte *workspace,
            detail::stream_impl &) const override {
        auto *lines = reinterpret_cast<double *>(workspace);
        detail::parallel_for(shares_, 1, [&](int64_t begin, int64_t end) {
            with_type(out_.type, [&](auto type) {
                strided_worker<decltype(type)> worker(axes_, in_, out_, args[0],
                        args[1], lines + begin * 2 * line_elements_,
                        line_elements_);
                worker.run(rows_ * begin / shares_, rows_ * end / shares_);
            });
        });
    }
    size_t workspace_bytes() const override {
        return static_cast<size_t>(shares_ * 2 * line_elements_)
                * sizeof(double);
    }
    std::string backend() const override { return "C++"; }

private:
    // Elements that are worth waking a thread for.
    static constexpr int64_t share_elements = 8192;

    std::array<weighted_axis, 3> axes_;
    const tensor_view in_;
    const tensor_view out_;
    int64_t rows_ = 0;
    int64_t shares_ = 1;
    int64_t line_elements_ = 0;
};

} // namespace

plan_or_refusal make_interpolation_strided(
        const interpolation_problem &problem, const compile_options &options) {
    if (problem.mode == detail::interpolation_mode::box)
        return make_box(problem, options);
    for (const detail::interpolation_axis &axis : problem.axes)
        if (!detail::has_tables(problem.mode, problem.coordinates, axis))
            return make_without_tables(problem, options);
    return plan_or_refusal(
            std::make_unique<strided_plan>(problem, options.threads));
}

} // namespace gradnn::cpu
