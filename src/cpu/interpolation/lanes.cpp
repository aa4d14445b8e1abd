// Which elements SIMD lanes hold: the way of the fewest instructions, which
// follow from the sums and the vectors that each way takes.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "cpu/interpolation/cut.hpp"
#include "cpu/interpolation/instructions.hpp"
#include "cpu/interpolation/taps.hpp"

namespace gradnn::cpu {

using detail::data_type;
using detail::size_of;

namespace {

/// Whether all planes are one distance apart.
bool planes_follow(const separable_job &job) {
    return job.n == 1 || job.c == 1
            || (job.diff_dst.n_stride == job.c * job.diff_dst.c_stride
                    && job.diff_src.n_stride == job.c * job.diff_src.c_stride);
}

/// So many planes play the part of H.
void planes_as_rows(separable_job &job, int64_t rows) {
    job.h = plain_axis(rows, job.type);
    job.diff_dst.h_stride = job.diff_dst.c_stride;
    job.diff_src.h_stride = job.diff_src.c_stride;
    job.diff_dst.c_stride *= rows;
    job.diff_src.c_stride *= rows;
    job.c /= rows;
}

/// Lines in a group: enough for several vectors of elements.
int64_t lines_of_elements(int64_t row) {
    return std::max<int64_t>(1, 16 * max_lanes / row);
}

/// Lines in a group whose elements are sorted by phase: what is done once a group
/// is shared by them, and a line's taps come when its sums are in the first-level
/// cache, where a group leaves room for rows.
int64_t lines_of_phases(const separable_job &job) {
    constexpr int64_t elements = 1024;
    if (!job.d.identity) return 1; // the ring's rows take that room
    return std::clamp<int64_t>(elements / job.w.dst, 1, 16);
}

/// The job with slabs in lanes, or nothing where they have gaps or what is held
/// transposed would not stay in the second-level cache.
std::optional<separable_job> as_planes(separable_job job) {
    if (!rows_follow(job)) { // an axis that needs no sum may be the inner one
        std::swap(job.d, job.h);
        for (plane_view *view : {&job.diff_dst, &job.diff_src})
            std::swap(view->d_stride, view->h_stride);
    }
    if (!rows_follow(job)) return std::nullopt;
    job.lanes = tap_lanes::slabs;
    job.lines = separable_lanes(job.type);
    const int64_t row = std::max(job.w.src, job.w.dst) * job.row_channels;
    if (job.d.src * job.d.dst * job.h.src * job.h.dst == 1) {
        merge_planes(job);
        // A slab of several rows is worth the calls.
        int64_t rows = std::clamp<int64_t>(512 / row, 1, job.c);
        while (job.c % rows != 0
                || (rows > 1 && job.c / rows * job.n < 4 * job.lines))
            --rows;
        const bool follow
                = job.diff_dst.c_stride == job.w.dst * job.row_channels
                && job.diff_src.c_stride == job.w.src * job.row_channels;
        if (follow) planes_as_rows(job, rows);
    }
    job.batch = std::clamp<int64_t>(
            64 / (job.w.src * job.row_channels), 1, job.h.src);
    size_planes(job);
    constexpr int64_t most_bytes = 256 << 10;
    const int64_t held = (job.window + job.results + job.line_pitch
                                 + job.ring_pitch * (job.ring_rows > 0))
                    * job.lines * (job.type == data_type::f64 ? 8 : 4)
            + job.stage_size * size_of(job.type);
    if (held > most_bytes) return std::nullopt;
    return job;
}

/// Whether each place sums as many elements, its own ones, as they are.
bool sums_equal_parts(const axis_taps &axis) {
    const int64_t ratio = axis.dst / axis.src;
    if (axis.dst % axis.src != 0 || ratio == 1) return false;
    // Of a stretch that repeats the first place that does not speaks for it.
    bool equal = true;
    axis.inputs().each_row(axis.src, [&](int64_t i) {
        equal = equal && axis.begin(i) == i * ratio && axis.taps(i) == ratio;
    });
    if (!equal) return false;
    const auto is_one = [](double weight) { return weight == 1; };
    return std::all_of(axis.weights_f32.begin(), axis.weights_f32.end(), is_one)
            && std::all_of(
                    axis.weights_f64.begin(), axis.weights_f64.end(), is_one);
}

/// The largest divisor of `count` up to `most`.
int64_t divisor_up_to(int64_t count, int64_t most) {
    int64_t divisor = std::clamp<int64_t>(most, 1, count);
    while (count % divisor != 0)
        --divisor;
    return divisor;
}

/// Rows that follow one another become longer ones where no sum depends on where
/// a row ends.
void join_rows(separable_job &given) {
    if (!given.h.identity || !sums_equal_parts(given.w)) return;
    separable_job job = given;
    constexpr int64_t most_columns = 1 << 14;
    const bool plane_is_row
            = job.d.src * job.d.dst * job.h.src * job.h.dst == 1;
    if (plane_is_row) {
        merge_planes(job);
        planes_as_rows(job, job.c);
    }
    if (!rows_follow(job)) return;
    const int64_t rows = divisor_up_to(job.h.src, most_columns / job.w.dst);
    job.w = axis_taps(detail::interpolation_mode::nearest,
            detail::coordinate_mode::asymmetric,
            {rows * job.w.src, rows * job.w.dst},
            job.type == data_type::f64 ? data_type::f64 : data_type::f32);
    job.h = plain_axis(job.h.src / rows, job.type);
    job.diff_dst.h_stride *= rows;
    job.diff_src.h_stride *= rows;
    given = std::move(job);
}

} // namespace

axis_taps plain_axis(int64_t size, data_type type) {
    return axis_taps(detail::interpolation_mode::nearest,
            detail::coordinate_mode::asymmetric, {size, size},
            type == data_type::f64 ? data_type::f64 : data_type::f32);
}

bool rows_follow(const separable_job &job) {
    return job.h.src * job.h.dst == 1
            || (job.diff_dst.h_stride == job.w.dst * job.row_channels
                    && job.diff_src.h_stride == job.w.src * job.row_channels);
}

bool slabs_follow(const separable_job &job) {
    return job.diff_dst.d_stride == job.h.dst * job.w.dst * job.row_channels
            && job.diff_src.d_stride
            == job.h.src * job.w.src * job.row_channels;
}

void merge_planes(separable_job &job) {
    plane_view &in = job.diff_dst;
    plane_view &out = job.diff_src;
    if (job.c == 1) {
        std::swap(job.c, job.n);
        in.c_stride = in.n_stride;
        out.c_stride = out.n_stride;
    } else if (planes_follow(job)) {
        job.c *= std::exchange(job.n, 1);
    }
}

/// Of so many and more, sums of short lines are as fast as those of other lanes.
constexpr int64_t most_channels_beside = 65;

/// How taps along W are taken, and of how many lines together.
void choose_lanes(separable_job &job, int64_t accumulator_bytes) {
    // Fewer channels than half a vector are better off as other lanes.
    const bool few = job.row_channels * accumulator_bytes < 32;
    const auto merge_rows = [&] {
        if (job.d.src * job.d.dst * job.h.src * job.h.dst != 1) return;
        merge_planes(job);
        planes_as_rows(job, job.c);
    };
    if (job.computed) {
        merge_rows();
        job.lines = 1;
        job.direct = job.d.identity && job.h.identity;
        job.lanes = job.row_channels == 1 || job.computed->tables > 0
                ? tap_lanes::computed
                : tap_lanes::channels;
        // Gathered are accumulators alone.
        if (job.row_channels == 1 && job.computed->tables == 0)
            job.direct = job.direct && size_of(job.type) > 2;
        return;
    }
    join_rows(job);
    // Another order of sums gives other bits, so whether it is taken must not
    // depend on the number of planes: lanes without a piece are not counted then.
    std::optional<std::pair<separable_job, double>> together;
    bool in_order = true;
    // Neither way holds what is longer.
    constexpr int64_t longest_row = int64_t {1} << 17;
    if (job.row_channels < most_channels_beside
            && job.w.src * job.row_channels <= longest_row) {
        if (auto as = as_pieces(job)) {
            in_order = as->in_order;
            together = std::pair(std::move(as->job),
                    in_order ? as->instructions : as->of_full_groups);
        }
        if (auto as = as_planes(job)) {
            const instructions count(*as);
            const auto of_all = [&](int64_t slabs) {
                return count.of_planes(slabs)
                        * static_cast<double>(as->n * as->c);
            };
            const double cost = of_all(in_order ? as->slabs() : as->lines);
            if (!together || cost < together->second) {
                const double whole = of_all(as->slabs());
                together = std::pair(std::move(*as), whole);
            }
        }
    }
    merge_rows();
    job.lanes = tap_lanes::channels;
    job.lines = 1;
    job.direct = job.d.identity && job.h.identity;
    const auto all_planes = static_cast<double>(job.n * job.c);
    const instructions count(job);
    const auto take_the_fewer = [&](double cost) {
        if (!together || together->second >= cost * all_planes) return;
        job = std::move(together->first);
        if (job.lanes == tap_lanes::pieces) finish_pieces(job);
    };
    if (!few) return take_the_fewer(count.of_channels());
    job.direct = false;
    // A single lane gains nothing by phases or look-ups, and lacks both.
    const bool vectors = separable_lanes(job.type) > 1;
    const auto phases = vectors ? find_phases(job.w, job.type) : std::nullopt;
    if (job.w.identity) {
        // Lines are results.
    } else if (phases && job.row_channels == 1
            && job.h.max_count <= most_phase_taps) {
        job.lanes = tap_lanes::phases;
        job.phases = *phases;
        job.lines = lines_of_phases(job);
    } else {
        const int64_t lines = lines_of_elements(job.w.src * job.row_channels);
        auto taps = vectors
                ? find_element_taps(job.w, job.row_channels, lines, job.type)
                : std::nullopt;
        if (taps && count.of_elements(*taps) < count.of_lines()) {
            job.lanes = tap_lanes::elements;
            job.lines = lines;
            job.direct = count.reads_rows(*taps);
            job.elements = std::move(*taps);
        } else {
            job.lanes = tap_lanes::lines;
            job.lines = separable_lanes(job.type);
            job.direct = job.d.identity && job.h.identity;
        }
    }
    const double cost = job.lanes == tap_lanes::lines ? count.of_lines()
            : job.lanes == tap_lanes::elements
            ? count.of_elements(job.elements)
            : count.of_rows(
                    job.lanes == tap_lanes::phases ? job.phases.count : 0);
    take_the_fewer(cost);
}

} // namespace gradnn::cpu
