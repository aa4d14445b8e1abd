// How the work of the separable kernel is cut. Plain arithmetic.
#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <utility>

#include "cpu/interpolation/cut.hpp"
#include "cpu/interpolation/taps.hpp"

namespace gradnn::cpu {

using detail::data_type;
using detail::size_of;

namespace {

// What a strip's rows may take of a core's second-level cache.
constexpr int64_t strip_cache_bytes = 512 << 10;

constexpr int64_t round_up(int64_t value, int64_t multiple) {
    return (value + multiple - 1) / multiple * multiple;
}

/// Whether all planes are one distance apart.
bool planes_follow(const separable_job &job) {
    return job.n == 1 || job.c == 1
            || (job.diff_dst.n_stride == job.c * job.diff_dst.c_stride
                    && job.diff_src.n_stride == job.c * job.diff_src.c_stride);
}

/// All planes become channels where they can.
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

/// The planes play the part of H, so that several of them make a block.
void planes_as_rows(separable_job &job) {
    merge_planes(job);
    job.h = axis_taps(
            detail::make_axis_map(detail::interpolation_mode::nearest,
                    detail::coordinate_mode::asymmetric, {job.c, job.c}),
            job.type == data_type::f64 ? data_type::f64 : data_type::f32);
    job.diff_dst.h_stride = job.diff_dst.c_stride;
    job.diff_src.h_stride = job.diff_src.c_stride;
    job.c = 1;
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

/// Whether planes are without gaps and their rows fill no vector of 64 bytes.
bool has_short_rows(const separable_job &job, int64_t accumulator_bytes) {
    const int64_t row_src = job.w.src * job.row_channels;
    const int64_t row_dst = job.w.dst * job.row_channels;
    constexpr int64_t most_elements = 4096;
    return job.d.src * job.d.dst == 1 && !job.h.identity && !job.w.identity
            && row_dst * accumulator_bytes <= 64
            && job.h.dst * row_dst <= most_elements
            && job.h.src * row_src <= most_elements
            && job.diff_dst.h_stride == row_dst
            && job.diff_src.h_stride == row_src && planes_follow(job);
}

/// Whether rows may be cut: the taps of elements are those of whole rows where
/// a group has several.
bool takes_strips(const separable_job &job) {
    return job.lanes != tap_lanes::elements || job.lines == 1;
}

/// Strips of elements in lanes are vectors, except the last.
int64_t whole_vectors(const separable_job &job, int64_t columns) {
    return job.lanes == tap_lanes::elements || job.lanes == tap_lanes::phases
            ? std::min(job.w.src, round_up(columns, max_lanes))
            : columns;
}

/// The scratch of tap_lanes::planes.
void size_plane_scratch(separable_job &job, int64_t element_bytes) {
    const int64_t row_src = job.w.src * job.row_channels;
    const int64_t row_dst = job.w.dst * job.row_channels;
    const int64_t plane_src = job.h.src * row_src;
    // A square of vectors may be more than a plane.
    job.window = job.h.dst * row_dst + 2 * max_lanes;
    job.ring_rows = job.h.src;
    job.ring_pitch = row_dst * job.lines;
    job.group_size = (plane_src + max_lanes) * job.lines;
    job.stage_size
            = stage_bytes / element_bytes + job.lines * plane_src + max_lanes;
    job.pointers = job.h.max_count;
}

/// The scratch of the other ways.
void size_line_scratch(separable_job &job, int64_t element_bytes) {
    int64_t length = 0;
    for (int64_t s = 0; s < job.strips(); ++s) {
        const int64_t begin = s * job.strip_src;
        const int64_t end = std::min(job.w.src, begin + job.strip_src);
        length = std::max(length, job.w.end(end - 1) - job.w.begin(begin));
    }
    length *= job.row_channels;
    // A vector may run over the end; an odd multiple of a cache line keeps the
    // lines of a group in different cache sets.
    job.ring_pitch = round_up(length + max_lanes, max_lanes);
    if (job.ring_pitch / max_lanes % 2 == 0) job.ring_pitch += max_lanes;
    job.line_pitch = job.lanes == tap_lanes::elements ? length : job.ring_pitch;
    // A look-up may read four vectors from where a tap of the last element is,
    // or would be.
    job.group_size = job.lines * job.line_pitch + 4 * max_lanes
            + job.w.max_count * job.row_channels;
    if (job.lanes == tap_lanes::phases) {
        // Vectors may begin before a phase and run over its end.
        job.phase_pitch = round_up(length / job.phases.ratio + 1, max_lanes)
                + 2 * max_lanes;
        job.line_pitch = job.phases.ratio * job.phase_pitch;
        job.group_size = job.lines * job.line_pitch + 2 * max_lanes;
    }
    job.ring_rows = job.d.identity ? 0 : job.h.max_count;
    job.window = 0;
    if (job.lanes == tap_lanes::lines)
        job.window = std::min(round_up(length, max_lanes) + max_lanes,
                std::max<int64_t>(512,
                        2 * job.w.max_count * job.row_channels
                                + 2 * max_lanes));
    // What is left of before, a group, and a vector that runs over its end.
    job.stage_size = stage_bytes / element_bytes
            + job.lines * job.strip_src * job.row_channels + max_lanes;
    job.pointers = std::max(job.d.max_count, job.h.max_count);
}

} // namespace

/// How taps along W are taken, and of how many lines together.
void choose_lanes(separable_job &job, int64_t accumulator_bytes) {
    // Fewer channels than half a vector are better off as other lanes.
    const bool few = job.row_channels * accumulator_bytes < 32;
    if (few && has_short_rows(job, accumulator_bytes)) {
        job.lanes = tap_lanes::planes;
        job.lines = separable_lanes(job.type);
        merge_planes(job);
        return;
    }
    if (job.d.src * job.d.dst * job.h.src * job.h.dst == 1) planes_as_rows(job);
    job.lanes = tap_lanes::channels;
    job.lines = 1;
    if (!few || job.w.identity) return;
    const auto phases = find_phases(job.w, job.type);
    if (phases && job.row_channels == 1 && job.h.max_count <= most_phase_taps) {
        job.lanes = tap_lanes::phases;
        job.phases = *phases;
        job.lines = lines_of_phases(job);
        return;
    }
    const int64_t lines = lines_of_elements(job.w.src * job.row_channels);
    if (auto taps
            = find_element_taps(job.w, job.row_channels, lines, job.type)) {
        job.lanes = tap_lanes::elements;
        job.lines = lines;
        job.elements = std::move(*taps);
    } else {
        job.lanes = tap_lanes::lines;
        job.lines = max_lanes;
    }
}

/// Columns of diff_src in a strip: as many as keep what a line is made of in
/// cache, but so many that what neighbouring strips both read stays small.
int64_t choose_strip(const separable_job &job, int64_t element_bytes,
        int64_t accumulator_bytes) {
    if (!takes_strips(job)) return job.w.src;
    const int64_t columns = std::max(job.w.dst, job.w.src);
    int64_t most = 0;
    if (job.lanes == tap_lanes::elements || job.lanes == tap_lanes::phases) {
        // Where rows are not summed, short strips let what is fetched ahead
        // arrive while taps are taken.
        const bool sums_rows = !job.h.identity || !job.d.identity;
        most = (sums_rows ? 4096 : 4096 / element_bytes) / job.row_channels;
    } else if (job.lanes == tap_lanes::lines) {
        const bool sums_rows = !job.h.identity || !job.d.identity;
        most = (sums_rows ? 4096 : 1024) / job.row_channels;
    } else {
        const int64_t rows = std::max(job.h.max_count, job.d.max_count);
        most = strip_cache_bytes
                / (job.row_channels
                        * (rows * element_bytes + accumulator_bytes));
    }
    most = std::max({most, 4 * job.w.max_count, int64_t {1}});
    const int64_t strips = (columns + most - 1) / most;
    return whole_vectors(job, (job.w.src + strips - 1) / strips);
}

/// Cuts planes into blocks: small enough that the planes that one plane of
/// diff_src sums stay in cache, and that there are units for all threads.
void choose_blocks(separable_job &job, int64_t element_bytes, int threads) {
    job.d_block = job.d.src;
    job.h_block = job.h.src;
    // A strip follows another before its cache lines are forgotten.
    if (job.strips() > 1)
        job.h_block = std::min(job.h_block,
                !job.h.identity                         ? 4 * max_lanes
                        : job.lanes == tap_lanes::lines ? max_lanes
                                                        : 1);
    if (!job.d.identity) {
        const int64_t row_bytes = job.d.max_count * element_bytes
                * job.row_channels * job.w.dst / job.strips();
        const int64_t rows
                = strip_cache_bytes / std::max<int64_t>(1, row_bytes);
        job.h_block = std::clamp<int64_t>(rows * job.h.src / job.h.dst,
                std::min<int64_t>(8, job.h.src), job.h.src);
    }
    const auto halve = [](int64_t &size) { size = (size + 1) / 2; };
    while (job.units() < 4 * threads) {
        if (job.h_block >= 2 * max_lanes)
            halve(job.h_block);
        else if (job.d_block > 1)
            halve(job.d_block);
        else if (job.h_block > 4
                && (job.strips() == 1 || job.lanes != tap_lanes::lines))
            halve(job.h_block);
        else if (job.strip_src > 64 && takes_strips(job)
                && job.strip_src * job.w.dst > 8 * job.w.max_count * job.w.src)
            job.strip_src = whole_vectors(job, (job.strip_src + 1) / 2);
        else
            break;
    }
}

/// Fills in the scratch arrays; separable_scratch lays them out in this order.
void size_scratch(
        separable_job &job, int64_t element_bytes, int64_t accumulator_bytes) {
    if (job.lanes == tap_lanes::planes)
        size_plane_scratch(job, element_bytes);
    else
        size_line_scratch(job, element_bytes);
    const auto bytes = [](int64_t count, int64_t each) {
        return static_cast<size_t>(round_up(count * each, 64));
    };
    job.scratch_bytes = 2 * bytes(job.pointers, sizeof(void *))
            + bytes(job.group_size, accumulator_bytes)
            + bytes(job.ring_rows * job.ring_pitch, accumulator_bytes)
            + bytes(job.window * max_lanes, accumulator_bytes)
            + bytes(job.stage_size, element_bytes)
            + bytes(job.lines, sizeof(void *));
    // Neighbouring threads' scratch is not to share pages.
    job.scratch_bytes = (job.scratch_bytes + 4095) / 4096 * 4096;
}

} // namespace gradnn::cpu
