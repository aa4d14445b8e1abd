// Planes in lanes: as many short-rowed planes as a vector has lanes are
// transposed whole, summed along H and then along W, and transposed back.
//
// Included once for each of Highway's targets, like simd.hpp.
#include <algorithm>

#include "cpu/interpolation/scratch.hpp"
#include "cpu/interpolation/separable.hpp"
#include "cpu/interpolation/stage.hpp"
#include "cpu/interpolation/sums.hpp"
#include "cpu/interpolation/window.hpp"
#include "cpu/simd/simd.hpp"

#if defined(GRADNN_CPU_INTERPOLATION_PLANES_TOGGLE) \
        == defined(HWY_TARGET_TOGGLE)
#ifdef GRADNN_CPU_INTERPOLATION_PLANES_TOGGLE
#undef GRADNN_CPU_INTERPOLATION_PLANES_TOGGLE
#else
#define GRADNN_CPU_INTERPOLATION_PLANES_TOGGLE
#endif

HWY_BEFORE_NAMESPACE();
namespace gradnn::cpu::HWY_NAMESPACE {

/// Fetches what is between two addresses, a few cache lines at a time.
class gradual_fetch {
public:
    gradual_fetch(const void *begin, const void *end, int64_t steps)
        : at_(static_cast<const std::byte *>(begin)),
          end_(static_cast<const std::byte *>(end)),
          step_((end_ - at_ + steps - 1) / steps) {}

    HWY_INLINE void step() {
        const std::byte *const until = at_ + std::min(step_, end_ - at_);
        for (; at_ < until; at_ += 64)
            hwy::Prefetch(at_);
    }

private:
    const std::byte *at_;
    const std::byte *const end_;
    const std::ptrdiff_t step_;
};

/// The share's scratch, and what is in it. Element e of all planes is a vector
/// at e * lanes.
template <typename T>
class plane_worker {
    using acc = accumulator_of<T>;
    static constexpr hn::ScalableTag<acc> tag {};
    using vector = hn::VFromD<hn::ScalableTag<acc>>;
    static constexpr auto lanes = static_cast<int64_t>(lanes_of<acc>);
    /// Elements of a plane that are transposed at once.
    static constexpr int64_t square = has_load_half<T> ? 2 * lanes : lanes;

public:
    plane_worker(const separable_job &job, const T *diff_dst, T *diff_src,
            std::byte *scratch)
        : job_(job),
          diff_dst_(diff_dst),
          diff_src_(diff_src),
          row_src_(job.w.src * job.row_channels),
          row_dst_(job.w.dst * job.row_channels),
          plane_src_(job.h.src * row_src_),
          plane_dst_(job.h.dst * row_dst_),
          scratch_(job, scratch) {
        scratch_.results.set_row(plane_src_);
    }

    void run(int64_t share) {
        const int64_t units = job_.units();
        const int64_t begin = units * share / job_.shares * lanes;
        const int64_t end
                = std::min(job_.c, units * (share + 1) / job_.shares * lanes);
        for (int64_t first = begin; first < end; first += lanes)
            take_planes(first, std::min(lanes, end - first), end);
        scratch_.results.finish();
    }

private:
    const T *plane(int64_t c) const {
        return diff_dst_ + c * job_.diff_dst.c_stride;
    }

    /// Computes `count` planes from `first` on, while fetching the next ones.
    void take_planes(int64_t first, int64_t count, int64_t end) {
        const int64_t next = std::min(first + lanes, end);
        gradual_fetch fetch(plane(next), plane(std::min(next + lanes, end)),
                plane_dst_ / square + 2 * job_.h.src + plane_src_ / lanes + 2);
        transpose_planes(first, count, fetch);
        sum_along_h(fetch);
        switch (level_of(job_.w.max_count)) {
            case 0: sum_along_w<0>(fetch); break;
            case 1: sum_along_w<1>(fetch); break;
            case 2: sum_along_w<2>(fetch); break;
            default: sum_along_w<3>(fetch); break;
        }
        store_planes(first, count, fetch);
    }

    /// What is beyond the last plane repeats it.
    void transpose_planes(int64_t first, int64_t count, gradual_fetch &fetch) {
        for (int64_t done = 0; done < plane_dst_; done += square) {
            fetch.step();
            // The last square begins so that it ends with the planes.
            const int64_t at
                    = std::max<int64_t>(0, std::min(done, plane_dst_ - square));
            const int64_t elements = std::min(square, plane_dst_);
            vector rows[static_cast<size_t>(lanes)];
            acc *out = scratch_.window + at * lanes;
            if (has_load_half<T> && elements == square) {
                transpose_pairs(first, count, at, out);
                continue;
            }
            for (int64_t part = 0; part < elements; part += lanes) {
                const int64_t left = elements - part;
                for (int64_t l = 0; l < lanes; ++l) {
                    const T *from
                            = plane(first + std::min(l, count - 1)) + at + part;
                    rows[l] = left >= lanes
                            ? load(tag, from)
                            : load_first(tag, from, static_cast<size_t>(left));
                }
                transpose<acc>(rows);
                for (int64_t l = 0; l < lanes; ++l)
                    hn::StoreU(rows[l], tag, out + (part + l) * lanes);
            }
        }
    }

    /// Of elements of 16 bits, two at a time.
    void transpose_pairs([[maybe_unused]] int64_t first,
            [[maybe_unused]] int64_t count, [[maybe_unused]] int64_t at,
            [[maybe_unused]] acc *out) {
        if constexpr (has_load_half<T>) {
            const hn::RebindToUnsigned<decltype(tag)> pairs;
            vector rows[static_cast<size_t>(lanes)];
            for (int64_t l = 0; l < lanes; ++l)
                rows[l] = hn::BitCast(tag,
                        load_pairs(tag,
                                plane(first + std::min(l, count - 1)) + at));
            transpose<acc>(rows);
            for (int64_t l = 0; l < lanes; ++l, out += 2 * lanes) {
                const auto pair = hn::BitCast(pairs, rows[l]);
                hn::StoreU(half_of(tag, pair, true), tag, out);
                hn::StoreU(half_of(tag, pair, false), tag, out + lanes);
            }
        }
    }

    void sum_along_h(gradual_fetch &fetch) {
        const int64_t length = row_dst_ * lanes;
        for (int64_t h = 0; h < job_.h.src; ++h) {
            fetch.step();
            for (int64_t t = 0; t < job_.h.taps(h); ++t)
                scratch_.sums[t]
                        = scratch_.window + (job_.h.begin(h) + t) * length;
            sum_rows(static_cast<const acc *const *>(scratch_.sums),
                    job_.h.weights<acc>(h), job_.h.taps(h), length, {},
                    scratch_.ring + h * length);
        }
    }

    template <int level>
    void sum_along_w(gradual_fetch &fetch) {
        const int64_t channels = job_.row_channels;
        const tap_tables<acc> taps(job_.w);
        acc *out = scratch_.group;
        const acc *row = scratch_.ring;
        for (int64_t h = 0; h < job_.h.src; ++h, row += row_dst_ * lanes) {
            fetch.step();
            for (int64_t i = 0; i < job_.w.src; ++i) {
                const acc *in = row + taps.first[i] * channels * lanes;
                for (int64_t c = 0; c < channels; ++c) {
                    vector sum[1];
                    sum_taps<level>(tag, taps.weights + taps.offset[i],
                            taps.count[i], in + c * lanes, channels * lanes, 0,
                            sum);
                    hn::StoreU(sum[0], tag, out);
                    out += lanes;
                }
            }
        }
    }

    void store_planes(int64_t first, int64_t count, gradual_fetch &fetch) {
        result_stage<T> &results = scratch_.results;
        for (int64_t l = 0; l < count; ++l)
            results.add_row(diff_src_ + (first + l) * job_.diff_src.c_stride);
        results.open(false);
        for (int64_t done = 0; done < plane_src_; done += lanes) {
            fetch.step();
            const int64_t at
                    = std::max<int64_t>(0, std::min(done, plane_src_ - lanes));
            store_transposed<T>(scratch_.group + at * lanes, lanes, count,
                    plane_src_, results.out() + at);
        }
        results.set_out(results.out() + count * plane_src_);
        results.close();
    }

    const separable_job &job_;
    const T *const diff_dst_;
    T *const diff_src_;
    // Elements.
    const int64_t row_src_;
    const int64_t row_dst_;
    const int64_t plane_src_;
    const int64_t plane_dst_;
    separable_scratch<T> scratch_;
};

} // namespace gradnn::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
