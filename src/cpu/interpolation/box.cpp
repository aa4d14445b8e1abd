// interpolation.strided where weights of convolutions are composed: sums of windows of
// a few elements, which descend, along the axes of millions of small planes.
//
// A thread takes 16 planes at a time, side by side in its scratch, and adds along one
// axis after the other. Each sum is made in the order of its taps, in f32 (f64 for f64)
// like the products' sums that follow: the same bits on any number of threads.
#include <algorithm>
#include <array>

#include "base/parallel.hpp"
#include "cpu/interpolation/box.hpp"
#include "cpu/simd/float_types.hpp"

namespace gradnn::cpu {

using detail::interpolation_problem;
using detail::tensor_view;

namespace {

constexpr int64_t lanes = 16;

int64_t most_elements(const interpolation_problem &problem) {
    int64_t elements = 1;
    for (size_t axis = 2; axis < 5; ++axis)
        elements *= std::max(
                problem.diff_dst.dims[axis], problem.diff_src.dims[axis]);
    return elements;
}

template <typename T>
class box_worker {
public:
    using sum = accumulator_of<T>;

    box_worker(const interpolation_problem &problem, const void *read,
            void *written, std::byte *scratch)
        : in_(problem.diff_dst),
          out_(problem.diff_src),
          read_(static_cast<const T *>(read)),
          written_(static_cast<T *>(written)),
          now_(reinterpret_cast<sum *>(scratch)),
          next_(now_ + most_elements(problem) * lanes) {
        // Planes that are neighbours in memory go side by side.
        inner_ = in_.dims[1] > 1
                        && (in_.dims[0] == 1
                                || in_.strides[1] <= in_.strides[0])
                ? 1
                : 0;
    }

    void run(int64_t first, int64_t count) {
        std::array<int64_t, lanes> in {}, out {};
        for (int64_t lane = 0; lane < count; ++lane) {
            const int64_t inner = (first + lane) % in_.dims[inner_];
            const int64_t outer = (first + lane) / in_.dims[inner_];
            in[lane] = inner * in_.strides[inner_]
                    + outer * in_.strides[1 - inner_];
            out[lane] = inner * out_.strides[inner_]
                    + outer * out_.strides[1 - inner_];
        }
        for_each_element(in_, [&](int64_t element, int64_t offset) {
            sum *to = now_ + element * lanes;
            for (int64_t lane = 0; lane < count; ++lane)
                to[lane] = convert_scalar<sum>(read_[in[lane] + offset]);
            for (int64_t lane = count; lane < lanes; ++lane)
                to[lane] = 0;
        });
        std::array<int64_t, 3> sizes {in_.dims[2], in_.dims[3], in_.dims[4]};
        for (size_t axis = 3; axis-- > 0;) {
            if (sizes[axis] == 1 && out_.dims[2 + axis] == 1) continue;
            add_along(axis, sizes);
            sizes[axis] = out_.dims[2 + axis];
            std::swap(now_, next_);
        }
        for_each_element(out_, [&](int64_t element, int64_t offset) {
            const sum *from = now_ + element * lanes;
            for (int64_t lane = 0; lane < count; ++lane)
                written_[out[lane] + offset] = convert_scalar<T>(from[lane]);
        });
    }

private:
    template <typename Body>
    static void for_each_element(const tensor_view &view, const Body &body) {
        int64_t element = 0;
        for (int64_t d = 0; d < view.dims[2]; ++d)
            for (int64_t h = 0; h < view.dims[3]; ++h)
                for (int64_t w = 0; w < view.dims[4]; ++w)
                    body(element++,
                            d * view.strides[2] + h * view.strides[3]
                                    + w * view.strides[4]);
    }

    /// What is written at i sums what is read from last - i on, so many as the sizes
    /// differ by and one more.
    void add_along(size_t axis, const std::array<int64_t, 3> &sizes) {
        const int64_t from = sizes[axis];
        const int64_t to = out_.dims[2 + axis];
        const int64_t last = std::min(from, to) - 1;
        const int64_t window = std::max(from, to) - last;
        int64_t outer = 1, inner = lanes;
        for (size_t other = 0; other < 3; ++other)
            (other < axis ? outer : inner) *= other == axis ? 1 : sizes[other];
        for (int64_t o = 0; o < outer; ++o)
            for (int64_t i = 0; i < to; ++i) {
                const int64_t begin = std::max<int64_t>(0, last - i);
                const int64_t end = std::min(from, last - i + window);
                sum *const sums = next_ + (o * to + i) * inner;
                const sum *terms = now_ + (o * from + begin) * inner;
                std::copy_n(terms, inner, sums);
                for (int64_t tap = begin + 1; tap < end; ++tap) {
                    terms += inner;
                    for (int64_t x = 0; x < inner; ++x)
                        sums[x] += terms[x];
                }
            }
    }

    const tensor_view &in_;
    const tensor_view &out_;
    const T *const read_;
    T *const written_;
    sum *now_;
    sum *next_;
    size_t inner_ = 0;
};

class box_plan final : public detail::plan {
public:
    box_plan(const interpolation_problem &problem, int threads)
        : problem_(problem),
          planes_(problem.diff_src.dims[0] * problem.diff_src.dims[1]),
          blocks_((planes_ + lanes - 1) / lanes) {
        const int64_t elements = most_elements(problem) * lanes;
        shares_ = std::clamp<int64_t>(blocks_ * elements / share_elements, 1,
                std::min<int64_t>(threads, blocks_));
        scratch_ = static_cast<size_t>(2 * elements) * sizeof(double);
    }

    void execute(std::span<void *const> args, std::byte *workspace,
            detail::stream_impl &) const override {
        detail::parallel_for(shares_, 1, [&](int64_t begin, int64_t end) {
            with_type(problem_.diff_src.type, [&](auto type) {
                box_worker<decltype(type)> worker(problem_, args[0], args[1],
                        workspace + static_cast<size_t>(begin) * scratch_);
                for (int64_t block = blocks_ * begin / shares_;
                        block < blocks_ * end / shares_; ++block)
                    worker.run(block * lanes,
                            std::min(lanes, planes_ - block * lanes));
            });
        });
    }
    size_t workspace_bytes() const override {
        return static_cast<size_t>(shares_) * scratch_;
    }
    std::string backend() const override { return "C++"; }

private:
    // Elements that are worth waking a thread for.
    static constexpr int64_t share_elements = 32768;

    const interpolation_problem problem_;
    const int64_t planes_;
    const int64_t blocks_;
    int64_t shares_ = 1;
    size_t scratch_ = 0;
};

} // namespace

plan_or_refusal make_box(
        const interpolation_problem &problem, const compile_options &options) {
    return plan_or_refusal(
            std::make_unique<box_plan>(problem, options.threads));
}

} // namespace gradnn::cpu
