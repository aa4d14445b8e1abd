// Instructions of the ways that a separable job can go, by the sums and the vectors that
// each way takes: what the choice (lanes.cpp) compares.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "cpu/interpolation/separable.hpp"

namespace gradnn::cpu {

inline double sum_of_taps(const axis_taps &axis) {
    return static_cast<double>(axis.all_taps());
}

/// Places of diff_src that something feeds.
inline double fed_places(const axis_taps &axis) {
    return static_cast<double>(axis.fed());
}

/// Counts instructions. Vectors are of `lanes` elements.
class instructions {
public:
    explicit instructions(const separable_job &job)
        : job_(job),
          lanes_(static_cast<double>(separable_lanes(job.type))),
          narrow_(detail::size_of(job.type) == 2),
          row_src_(static_cast<double>(job.w.src * job.row_channels)),
          row_dst_(static_cast<double>(job.w.dst * job.row_channels)),
          d_src_(static_cast<double>(job.d.src)),
          h_src_(static_cast<double>(job.h.src)),
          d_taps_(sum_of_taps(job.d)),
          h_taps_(sum_of_taps(job.h)),
          w_taps_(sum_of_taps(job.w)) {
        for (int64_t size = 1; size < separable_lanes(job.type); size *= 2)
            ++squares_;
    }

    /// Of a plane's slabs in lanes, `slabs` being those of all planes. What nothing
    /// feeds is written as it is.
    double of_planes(int64_t slabs) const {
        const double slab_dst = static_cast<double>(job_.h.dst) * row_dst_;
        const bool sums_d = !job_.d.identity;
        const double chunks = std::max(1.0, slab_dst / 256);
        const auto d_fed = static_cast<double>(job_.fed.size());
        const double h_fed = job_.batch > 1 ? h_src_ : fed_places(job_.h);
        double sum = 0;
        if (sums_d)
            sum += rows(d_taps_, d_fed, slab_dst, narrow_)
                    + d_fed * chunks * call
                    + d_fed * slab_dst / lanes_ * transposed(false);
        else
            sum += d_fed * slab_dst / lanes_ * transposed(narrow_);
        if (!job_.h.identity)
            sum += d_fed
                    * (rows(h_taps_, h_fed, row_dst_, false)
                            + h_fed * call / lanes_);
        sum += d_fed * h_fed * columns();
        // The second-level cache takes its time.
        const int64_t held = (job_.window + job_.results + job_.line_pitch)
                * job_.lines * (job_.type == detail::data_type::f64 ? 8 : 4);
        if (held > (32 << 10)) sum *= 1.5;
        sum += d_fed * call / lanes_
                * (4 + h_src_ / static_cast<double>(job_.batch));
        const auto groups = static_cast<int64_t>(lanes_);
        const int64_t used = (slabs + groups - 1) / groups * groups;
        const double empty_rows = d_fed * (h_src_ - h_fed);
        const double empty_slabs = d_src_ - d_fed;
        return sum * static_cast<double>(used) / static_cast<double>(slabs)
                + empty_rows * (call / 2 + 3 * row_src_ / lanes_)
                + empty_slabs * (call + 3 * h_src_ * row_src_ / lanes_);
    }

    /// Of a plane, channels in lanes. Nothing waits for a transposition there: by
    /// the times of 86 problems an instruction takes less than half as long.
    double of_channels() const {
        const double share = job_.type == detail::data_type::f64 ? 0.3 : 0.45;
        const double vectors
                = std::ceil(static_cast<double>(job_.row_channels) / lanes_);
        const double columns = static_cast<double>(job_.w.src);
        const double of_vectors
                = vectors * (1.75 * w_taps_ + columns * (2 + stored(narrow_)));
        return share
                * (sums_of_lines()
                        + d_src_ * h_src_
                                * (2 * call + columns * column + of_vectors));
    }

    /// Of a plane, a group of lines in lanes.
    double of_lines() const {
        const double lines = d_src_ * h_src_;
        return sums_of_lines() + lines * columns()
                + lines * row_dst_ / lanes_ * transposed(false)
                + lines * 4 * call / lanes_;
    }

    /// Of a plane, where taps are looked up in `tables` vectors.
    double of_elements(const element_taps &look_ups) const {
        const int64_t tables = look_ups.tables;
        // Without a permutation of two vectors a look-up takes one of each.
        const bool pairs = separable_lanes(detail::data_type::f32) == 16;
        const double look_up
                = tables == 1 ? 1 : (tables == 2 ? 1 : 3) * (pairs ? 1.0 : 5.0);
        const double taps = static_cast<double>(job_.w.max_count);
        // Patterns that half of the first-level cache has no room for come from
        // the second-level one.
        const double table = static_cast<double>(look_ups.patterns.size())
                * (taps + 1) * 4 * (job_.type == detail::data_type::f64 ? 2 : 1)
                * lanes_;
        const double fetched = table > (16 << 10) ? 2 * (taps + 1) : 0;
        const double lines = d_src_ * h_src_;
        const double vectors = lines * row_src_ / lanes_;
        const double of_vector
                = 8 + taps * (look_up + 4) + fetched + stored(narrow_);
        if (!reads_rows(look_ups))
            return sums_of_lines() + lines * call + vectors * of_vector;
        // By the times of 80 problems: no line is written and read again, but each
        // row is a group of its own.
        constexpr double share = 0.85;
        const double widened = narrow_ ? 3.0 * static_cast<double>(tables) : 0;
        return share * (lines * 3 * call + vectors * (of_vector + widened));
    }

    /// Whether taps are looked up in rows of diff_dst as they are.
    bool reads_rows(const element_taps &look_ups) const {
        return job_.d.identity && job_.h.identity && look_ups.rows == 1;
    }

    /// Of a plane, where taps have a vector each, or lines are results.
    double of_rows(int64_t taps) const {
        const bool results = job_.w.identity;
        const double vectors = row_src_ / lanes_;
        return sums_of_lines(results ? result : 2 * call)
                + d_src_ * h_src_
                * ((results ? 0 : call)
                        + (results ? std::ceil(vectors) : vectors)
                                * (4 + static_cast<double>(taps)
                                        + stored(narrow_)));
    }

private:
    /// A call, its tables and its loops' ends.
    static constexpr double call = 80;
    /// A column whose taps are vectors: its place, its number of taps.
    static constexpr double column = 40;
    /// A line that is a result, by the times of 132 problems.
    static constexpr double result = 55;

    /// Of the sums of `taps` rows in all to `sums` rows.
    double rows(double taps, double sums, double length, bool narrow) const {
        return length / lanes_ * (taps * (narrow ? 3 : 1.75) + sums * 1.5);
    }
    double sums_of_lines(double of_line = 2 * call) const {
        double sum = 0;
        const double h_dst = static_cast<double>(job_.h.dst);
        const bool sums_d = !job_.d.identity;
        if (sums_d)
            sum += h_dst
                    * (rows(d_taps_, d_src_, row_dst_, narrow_)
                            + d_src_ * 2 * call);
        sum += d_src_
                * (rows(h_taps_, h_src_, row_dst_, narrow_ && !sums_d)
                        + h_src_ * of_line);
        return sum;
    }
    /// Of a vector: its load, its store and its share of a square's steps.
    double transposed(bool narrow) const { return 2 + squares_ + narrow; }
    static double stored(bool narrow) { return narrow ? 12 : 2; }
    /// Of a line's results in a vector: taps, transposed back and stored.
    double columns() const {
        const double channels = static_cast<double>(job_.row_channels);
        const double weights = job_.row_channels > 1 ? 1 : 2;
        return (w_taps_ * channels * weights
                       + static_cast<double>(job_.w.src) * (4 + 3 * channels))
                / lanes_
                + row_src_ / lanes_ * (transposed(narrow_) + stored(narrow_));
    }

    const separable_job &job_;
    const double lanes_;
    const bool narrow_;
    const double row_src_;
    const double row_dst_;
    const double d_src_;
    const double h_src_;
    const double d_taps_;
    const double h_taps_;
    const double w_taps_;
    double squares_ = 0;
};

} // namespace gradnn::cpu
