// Plans of the separable interpolation kernel: which tensors it takes, and how
// a problem is cut into units, strips and shares. The work itself is in
// interpolation_separable.cpp; what this refuses goes to
// interpolation_strided.cpp.
#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "axis_map.hpp"
#include "cpu/convert.hpp"
#include "cpu/interpolation_separable.hpp"
#include "cpu/kernels.hpp"
#include "cpu/parallel.hpp"
#include "cpu/simd_target.hpp"

namespace gradnn::cpu {

using detail::data_type;
using detail::size_of;
using detail::tensor_view;

axis_taps::axis_taps(detail::axis_map map, data_type accumulator)
    : src(map.src), dst(map.dst), max_count(map.max_count),
      identity(map.identity), first(std::move(map.first)),
      count(std::move(map.count)), offset(std::move(map.offset)) {
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
// Finished rows that are copied out together, unless they are longer.
constexpr int64_t stage_bytes = 8 << 10;
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
        std::array<size_t, 2> rest {w == 0 ? size_t {1} : 0, w == 2 ? size_t {1} : 2};
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

/// Columns of diff_src in a strip: as many as keep what a line is made of in
/// cache, but so many that what neighbouring strips both read stays small.
int64_t choose_strip(const separable_job &job, int64_t element_bytes,
        int64_t accumulator_bytes) {
    const int64_t columns = std::max(job.w.dst, job.w.src);
    int64_t most = 0;
    if (job.lines_in_lanes) {
        const bool sums_rows = !job.h.identity || !job.d.identity;
        most = (sums_rows ? 4096 : 1024) / job.row_channels;
    } else {
        const int64_t rows = std::max(job.h.max_count, job.d.max_count);
        most = strip_cache_bytes
                / (job.row_channels * (rows * element_bytes + accumulator_bytes));
    }
    most = std::max({most, 4 * job.w.max_count, int64_t {1}});
    const int64_t strips = (columns + most - 1) / most;
    return (job.w.src + strips - 1) / strips;
}

/// Cuts planes into blocks: small enough that the planes that one plane of
/// diff_src sums stay in cache, and that there are units for all threads.
void choose_blocks(separable_job &job, int64_t element_bytes, int threads) {
    job.d_block = job.d.src;
    job.h_block = job.h.src;
    // A strip follows another before its cache lines are forgotten.
    if (job.strips() > 1)
        job.h_block = std::min(
                job.h_block, job.h.identity ? max_lanes : 4 * max_lanes);
    if (!job.d.identity) {
        const int64_t row_bytes = job.d.max_count * element_bytes
                * job.row_channels * job.w.dst / job.strips();
        const int64_t rows = strip_cache_bytes / std::max<int64_t>(1, row_bytes);
        job.h_block = std::clamp<int64_t>(
                rows * job.h.src / job.h.dst, std::min<int64_t>(8, job.h.src),
                job.h.src);
    }
    const auto halve = [](int64_t &size) { size = (size + 1) / 2; };
    while (job.units() < 4 * threads) {
        if (job.h_block >= 2 * max_lanes)
            halve(job.h_block);
        else if (job.d_block > 1)
            halve(job.d_block);
        else if (job.h_block > 4 && (job.strips() == 1 || !job.lines_in_lanes))
            halve(job.h_block);
        else if (job.strip_src > 64
                && job.strip_src * job.w.dst > 8 * job.w.max_count * job.w.src)
            halve(job.strip_src);
        else
            break;
    }
}

/// Fills in the scratch arrays; separable_worker lays them out in this order.
void size_scratch(separable_job &job, int64_t element_bytes,
        int64_t accumulator_bytes) {
    int64_t length = 0;
    for (int64_t s = 0; s < job.strips(); ++s) {
        const int64_t begin = s * job.strip_src;
        const int64_t end = std::min(job.w.src, begin + job.strip_src);
        length = std::max(length, job.w.end(end - 1) - job.w.begin(begin));
    }
    length *= job.row_channels;
    // A vector may run over the end; an odd multiple of a cache line keeps the
    // lines of a group in different cache sets.
    job.line_pitch = round_up(length + max_lanes, max_lanes);
    if (job.line_pitch / max_lanes % 2 == 0) job.line_pitch += max_lanes;
    job.lines = job.lines_in_lanes ? max_lanes : 1;
    job.ring_rows = job.d.identity ? 0 : job.h.max_count;
    job.window = 0;
    if (job.lines_in_lanes && !job.w.identity)
        job.window = std::min(round_up(length, max_lanes) + max_lanes,
                std::max<int64_t>(
                        512, 2 * job.w.max_count * job.row_channels
                                + 2 * max_lanes));
    // Short rows are collected, so that they are copied out in long runs.
    const int64_t row_bytes = job.strip_src * job.row_channels * element_bytes;
    job.staged_rows = std::max(job.lines, stage_bytes / row_bytes);
    job.pointers = std::max(job.d.max_count, job.h.max_count);
    const auto bytes = [](int64_t count, int64_t each) {
        return static_cast<size_t>(round_up(count * each, 64));
    };
    job.scratch_bytes = 2 * bytes(job.pointers, sizeof(void *))
            + bytes(job.lines * job.line_pitch, accumulator_bytes)
            + bytes(job.ring_rows * job.line_pitch, accumulator_bytes)
            + bytes(job.window * max_lanes, accumulator_bytes)
            + bytes(job.staged_rows * job.strip_src * job.row_channels
                              + max_lanes,
                    element_bytes)
            + bytes(job.staged_rows, sizeof(void *));
    // Neighbouring threads' scratch is not to share pages.
    job.scratch_bytes = (job.scratch_bytes + 4095) / 4096 * 4096;
}

class separable_plan : public detail::plan {
public:
    explicit separable_plan(separable_job job)
        : job_(std::move(job)), run_share_(find_separable_share(job_.type)),
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

/// Where every axis maps onto itself.
class copy_plan : public detail::plan {
public:
    explicit copy_plan(const interpolation_problem &problem)
        : target_(simd_target()) {
        copy_.src_type = problem.diff_dst.type;
        copy_.dst_type = problem.diff_src.type;
        copy_.rank = 5;
        for (size_t a = 0; a < 5; ++a) {
            copy_.dims[a] = problem.diff_src.dims[a];
            copy_.src_strides[a] = problem.diff_dst.strides[a];
            copy_.dst_strides[a] = problem.diff_src.strides[a];
        }
    }

    void execute(std::span<void *const> args, std::byte *,
            detail::stream_impl &) const override {
        convert(copy_, args[0], args[1]);
    }
    std::string backend() const override { return "Highway " + target_; }

private:
    conversion copy_;
    const std::string target_;
};

/// One row a plane (spatial rank 1): the planes play the part of H, so that
/// several of them make a block.
void fold_planes(separable_job &job) {
    if (job.d.src * job.d.dst * job.h.src * job.h.dst != 1) return;
    plane_view &in = job.diff_dst;
    plane_view &out = job.diff_src;
    if (job.c == 1) {
        std::swap(job.c, job.n);
        in.c_stride = in.n_stride;
        out.c_stride = out.n_stride;
    } else if (in.n_stride == job.c * in.c_stride
            && out.n_stride == job.c * out.c_stride) {
        job.c *= std::exchange(job.n, 1);
    }
    job.h = axis_taps(
            detail::make_axis_map(detail::interpolation_mode::nearest,
                    detail::coordinate_mode::asymmetric, {job.c, job.c}),
            job.type == data_type::f64 ? data_type::f64 : data_type::f32);
    in.h_stride = in.c_stride;
    out.h_stride = out.c_stride;
    job.c = 1;
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
        return plan_or_refusal(std::make_unique<copy_plan>(problem));

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
        job.extent += (problem.diff_dst.dims[a] - 1)
                * problem.diff_dst.strides[a];
    job.n = problem.diff_src.dims[0];
    job.row_channels = layout->row_channels;
    job.c = job.row_channels > 1 ? 1 : problem.diff_src.dims[1];
    fold_planes(job);
    const int64_t element_bytes = size_of(type);
    const int64_t accumulator_bytes = size_of(accumulator);
    // Fewer channels than half a vector are better off as other lines' lanes.
    job.lines_in_lanes = job.row_channels * accumulator_bytes < 32;

    const int64_t bytes
            = bytes_of(problem.diff_dst) + bytes_of(problem.diff_src);
    job.stream = bytes >= stream_bytes;
    const int threads = static_cast<int>(
            std::clamp<int64_t>(bytes / share_bytes, 1, options.threads));
    job.strip_src = choose_strip(job, element_bytes, accumulator_bytes);
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
