// Plans of the separable interpolation kernel: which tensors it takes, and how
// a problem is cut into units, strips and shares. The work itself is in
// separable.cpp; what this refuses goes to
// strided.cpp.
#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "axis_map.hpp"
#include "cpu/copies/convert.hpp"
#include "cpu/interpolation/separable.hpp"
#include "cpu/interpolation/taps.hpp"
#include "cpu/kernels.hpp"
#include "cpu/simd/simd_target.hpp"
#include "parallel.hpp"

namespace gradnn::cpu {

using detail::data_type;
using detail::size_of;
using detail::tensor_view;

axis_taps::axis_taps(detail::axis_map map, data_type accumulator)
    : src(map.src),
      dst(map.dst),
      max_count(map.max_count),
      identity(map.identity),
      first(std::move(map.first)),
      count(std::move(map.count)),
      offset(std::move(map.offset)) {
    if (accumulator == data_type::f64)
        weights_f64 = std::move(map.weights);
    else
        for (const double weight : map.weights)
            weights_f32.push_back(static_cast<float>(weight));
}

namespace {

// Per-thread scratch beyond this is refused: it would leave every cache.
constexpr size_t most_scratch_bytes = size_t {8} << 20;
// What a strip's rows may take of a core's second-level cache.
constexpr int64_t strip_cache_bytes = 512 << 10;
// Problems of more bytes write past the caches.
constexpr int64_t stream_bytes = 16 << 20;
// Bytes that are worth waking a thread for.
constexpr int64_t share_bytes = 64 << 10;

constexpr int64_t round_up(int64_t value, int64_t multiple) {
    return (value + multiple - 1) / multiple * multiple;
}

/// Which spatial axes play D, H and W, and how many channels a column has.
struct row_layout {
    std::array<size_t, 3> axes {};
    int64_t row_channels = 1;
};

/// Whether an axis of both tensors steps by `stride`, so that it can be W.
bool is_row(const interpolation_problem &problem, size_t axis, int64_t stride) {
    bool trivial = true;
    for (const tensor_view *view : {&problem.diff_dst, &problem.diff_src}) {
        if (view->dims[2 + axis] == 1) continue;
        trivial = false;
        if (view->strides[2 + axis] != stride) return false;
    }
    return !trivial;
}

std::optional<row_layout> find_rows(const interpolation_problem &problem,
        const std::array<bool, 3> &identity) {
    const tensor_view &in = problem.diff_dst;
    const tensor_view &out = problem.diff_src;
    const int64_t channels = in.dims[1];
    const bool channels_within
            = channels > 1 && in.strides[1] == 1 && out.strides[1] == 1;
    for (const size_t w : {size_t {2}, size_t {1}, size_t {0}}) {
        row_layout layout;
        if (channels_within && is_row(problem, w, channels))
            layout.row_channels = channels;
        else if (!is_row(problem, w, 1))
            continue;
        // D is the axis that needs no sum, or else the one of longer steps.
        std::array<size_t, 2> rest {
                w == 0 ? size_t {1} : 0, w == 2 ? size_t {1} : 2};
        if (identity[rest[1]]
                || (!identity[rest[0]]
                        && in.strides[2 + rest[0]] < in.strides[2 + rest[1]]))
            std::swap(rest[0], rest[1]);
        layout.axes = {rest[0], rest[1], w};
        return layout;
    }
    return std::nullopt;
}

plane_view make_plane_view(const tensor_view &view, const row_layout &layout) {
    return {view.strides[0], view.strides[1], view.strides[2 + layout.axes[0]],
            view.strides[2 + layout.axes[1]]};
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

class separable_plan : public detail::plan {
public:
    explicit separable_plan(separable_job job)
        : job_(std::move(job)),
          run_share_(find_separable_share(job_.type)),
          target_(simd_target()) {}

    void execute(std::span<void *const> args, std::byte *workspace,
            detail::stream_impl &) const override {
        parallel_for(job_.shares, 1, [&](int64_t begin, int64_t end) {
            for (int64_t share = begin; share < end; ++share)
                run_share_(job_, args[0], args[1],
                        workspace
                                + static_cast<size_t>(share)
                                        * job_.scratch_bytes,
                        share);
        });
    }
    size_t workspace_bytes() const override {
        return static_cast<size_t>(job_.shares) * job_.scratch_bytes;
    }
    std::string backend() const override { return "Highway " + target_; }

private:
    const separable_job job_;
    const separable_share run_share_;
    const std::string target_;
};

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

int64_t bytes_of(const tensor_view &view) {
    int64_t bytes = size_of(view.type);
    for (const int64_t dim : view.dims)
        bytes *= dim;
    return bytes;
}

} // namespace

plan_or_refusal make_interpolation_separable(
        const interpolation_problem &problem, const compile_options &options) {
    const data_type type = problem.diff_src.type;
    const data_type accumulator
            = type == data_type::f64 ? data_type::f64 : data_type::f32;
    std::array<axis_taps, 3> taps;
    std::array<bool, 3> identity {};
    for (size_t a = 0; a < 3; ++a) {
        taps[a] = axis_taps(detail::make_axis_map(problem.mode,
                                    problem.coordinates, problem.axes[a]),
                accumulator);
        identity[a] = taps[a].identity;
    }
    if (identity[0] && identity[1] && identity[2])
        return plan_or_refusal::refuse(
                "takes an axis that is resampled, given equal sizes");

    const auto layout = find_rows(problem, identity);
    if (!layout)
        return plan_or_refusal::refuse("wants a spatial axis of stride 1, or "
                                       "of stride C with channels of stride "
                                       "1, in both tensors");
    separable_job job;
    job.type = type;
    job.d = std::move(taps[layout->axes[0]]);
    job.h = std::move(taps[layout->axes[1]]);
    job.w = std::move(taps[layout->axes[2]]);
    job.diff_dst = make_plane_view(problem.diff_dst, *layout);
    job.diff_src = make_plane_view(problem.diff_src, *layout);
    job.extent = 1;
    for (size_t a = 0; a < 5; ++a)
        job.extent
                += (problem.diff_dst.dims[a] - 1) * problem.diff_dst.strides[a];
    job.n = problem.diff_src.dims[0];
    job.row_channels = layout->row_channels;
    job.c = job.row_channels > 1 ? 1 : problem.diff_src.dims[1];
    const int64_t element_bytes = size_of(type);
    const int64_t accumulator_bytes = size_of(accumulator);
    choose_lanes(job, accumulator_bytes);

    const int64_t bytes
            = bytes_of(problem.diff_dst) + bytes_of(problem.diff_src);
    job.stream = bytes >= stream_bytes;
    for (int64_t h = 0; h < job.h.src; ++h)
        job.fresh_rows = std::max(job.fresh_rows, job.h.fresh(h));
    const int threads = static_cast<int>(
            std::clamp<int64_t>(bytes / share_bytes, 1, options.threads));
    job.strip_src = choose_strip(job, element_bytes, accumulator_bytes);
    if (job.lanes != tap_lanes::planes)
        choose_blocks(job, element_bytes, threads);
    job.shares = std::min<int64_t>(threads, job.units());
    size_scratch(job, element_bytes, accumulator_bytes);
    if (job.scratch_bytes > most_scratch_bytes)
        return plan_or_refusal::refuse("wants at most "
                + std::to_string(most_scratch_bytes)
                + " bytes of scratch a thread, would need "
                + std::to_string(job.scratch_bytes));
    return plan_or_refusal(std::make_unique<separable_plan>(std::move(job)));
}

} // namespace gradnn::cpu
