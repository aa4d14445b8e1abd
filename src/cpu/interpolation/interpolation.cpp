// Plans of the separable interpolation kernel: which tensors it takes. cut.cpp
// cuts a problem into strips and blocks; the work itself is in separable.cpp.
#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "base/parallel.hpp"
#include "base/text.hpp"
#include "cpu/copies/convert.hpp"
#include "cpu/interpolation/cut.hpp"
#include "cpu/interpolation/separable.hpp"
#include "cpu/interpolation/shares.hpp"
#include "cpu/interpolation/taps.hpp"
#include "cpu/kernels.hpp"
#include "cpu/simd/simd_target.hpp"
#include "kernel/axis_map.hpp"
#include "kernel/problem_text.hpp"

namespace gradnn::cpu {

using detail::data_type;
using detail::size_of;
using detail::tensor_view;
using detail::text;

axis_taps::axis_taps(detail::interpolation_mode mode,
        detail::coordinate_mode coordinates,
        const detail::interpolation_axis &axis, data_type accumulator) {
    auto &base = static_cast<detail::gathered_axis &>(*this);
    base = accumulator == data_type::f64
            ? gather_axis(mode, coordinates, axis, weights_f64)
            : gather_axis(mode, coordinates, axis, weights_f32);
}

namespace {

/// The most scratch that all threads together may have: 8 MiB each (more would leave
/// every cache), or an eighth of the tensors' bytes, if that is more.
int64_t most_scratch_bytes(int64_t tensor_bytes, int64_t shares) {
    constexpr int64_t of_thread = int64_t {8} << 20;
    return std::max(of_thread * shares, tensor_bytes / 8);
}
// More of diff_dst is not copied: the caller has to have the workspace.
constexpr size_t most_copied_bytes = size_t {1} << 30;

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

class separable_plan : public detail::plan {
public:
    explicit separable_plan(separable_job job)
        : job_(std::move(job)),
          run_share_(find_separable_share(job_.type, job_.lanes)),
          target_(simd_target()) {}

    void execute(std::span<void *const> args, std::byte *workspace,
            detail::stream_impl &) const override {
        detail::parallel_for(job_.shares, 1, [&](int64_t begin, int64_t end) {
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

/// The view's tensor without gaps, axes in the order of `like`'s strides.
tensor_view dense(tensor_view view, const tensor_view &like) {
    std::array<size_t, 5> axes {0, 1, 2, 3, 4};
    std::stable_sort(axes.begin(), axes.end(), [&](size_t a, size_t b) {
        return like.strides[a] < like.strides[b];
    });
    int64_t stride = 1;
    for (const size_t axis : axes) {
        view.strides[axis] = stride;
        stride *= view.dims[axis];
    }
    return view;
}

/// Whether diff_dst is laid out otherwise than a dense tensor in diff_src's order
/// of axes: a slice of channels, an expanded gradient.
bool has_gaps(const interpolation_problem &problem) {
    const tensor_view &view = problem.diff_dst;
    const tensor_view packed = dense(view, problem.diff_src);
    for (size_t axis = 0; axis < view.dims.size(); ++axis)
        if (view.dims[axis] > 1 && view.strides[axis] != packed.strides[axis])
            return true;
    return false;
}

/// Blocks of images, whose diff_dst is copied to the workspace before `rest`
/// computes them, or whose diff_src is copied from it after.
class copying_plan : public detail::plan {
public:
    copying_plan(const interpolation_problem &problem,
            const interpolation_problem &packed, bool copies_gradient,
            std::unique_ptr<detail::plan> rest)
        : copies_gradient_(copies_gradient),
          blocks_(problem.diff_src.dims[0] / packed.diff_src.dims[0]),
          rest_(std::move(rest)) {
        const tensor_view &theirs
                = copies_gradient ? problem.diff_dst : problem.diff_src;
        const tensor_view &ours
                = copies_gradient ? packed.diff_dst : packed.diff_src;
        copy_ = {.src_type = theirs.type, .dst_type = theirs.type, .rank = 5};
        copy_.dims = pad_rank(ours.dims);
        copy_.src_strides
                = pad_rank(copies_gradient ? theirs.strides : ours.strides);
        copy_.dst_strides
                = pad_rank(copies_gradient ? ours.strides : theirs.strides);
        copy_bytes_ = (static_cast<size_t>(bytes_of(ours)) + 63) / 64 * 64;
        const int64_t bytes_of_image = size_of(theirs.type);
        const int64_t images = packed.diff_src.dims[0];
        dst_step_ = images * problem.diff_dst.strides[0] * bytes_of_image;
        src_step_ = images * problem.diff_src.strides[0] * bytes_of_image;
    }

    void execute(std::span<void *const> args, std::byte *workspace,
            detail::stream_impl &stream) const override {
        for (int64_t block = 0; block < blocks_; ++block) {
            std::byte *dst
                    = static_cast<std::byte *>(args[0]) + block * dst_step_;
            std::byte *src
                    = static_cast<std::byte *>(args[1]) + block * src_step_;
            if (copies_gradient_) convert(copy_, dst, workspace);
            const std::array<void *, 2> rest {
                    copies_gradient_ ? workspace : dst,
                    copies_gradient_ ? src : workspace};
            rest_->execute(rest, workspace + copy_bytes_, stream);
            if (!copies_gradient_) convert(copy_, workspace, src);
        }
    }
    size_t workspace_bytes() const override {
        return copy_bytes_ + rest_->workspace_bytes();
    }
    std::string backend() const override { return rest_->backend(); }

private:
    static std::array<int64_t, 6> pad_rank(const std::array<int64_t, 5> &from) {
        std::array<int64_t, 6> to {};
        std::copy(from.begin(), from.end(), to.begin());
        return to;
    }

    const bool copies_gradient_;
    const int64_t blocks_;
    const std::unique_ptr<detail::plan> rest_;
    conversion copy_;
    size_t copy_bytes_ = 0;
    int64_t dst_step_ = 0;
    int64_t src_step_ = 0;
};

/// How many images are copied at a time: a divisor of the batch that keeps the
/// copy in the caches on its way.
int64_t images_at_a_time(const tensor_view &copied, int64_t threads) {
    constexpr int64_t of_thread = int64_t {1} << 20;
    const int64_t batch = copied.dims[0];
    int64_t images = std::clamp<int64_t>(
            of_thread * threads * batch / bytes_of(copied), 1, batch);
    while (batch % images != 0)
        --images;
    return images;
}

/// Layouts that no way takes as they are: the smaller tensor is copied, or
/// diff_dst where it is not dense in an order that diff_src could have.
plan_or_refusal plan_of_copy(const interpolation_problem &problem,
        const compile_options &options, const std::array<bool, 3> &identity) {
    interpolation_problem packed = problem;
    packed.diff_src = dense(problem.diff_src, problem.diff_dst);
    const bool copies_gradient
            = bytes_of(problem.diff_dst) <= bytes_of(problem.diff_src)
            || !find_rows(packed, identity);
    if (copies_gradient) {
        packed = problem;
        packed.diff_dst = dense(problem.diff_dst, problem.diff_src);
    }
    tensor_view &copied = copies_gradient ? packed.diff_dst : packed.diff_src;
    const int64_t images
            = images_at_a_time(copied, std::max(1, options.threads));
    packed.diff_dst.dims[0] = packed.diff_src.dims[0] = images;
    // The order of axes alone says where images lie.
    copied = dense(
            copied, copies_gradient ? problem.diff_src : problem.diff_dst);
    const auto bytes = static_cast<size_t>(bytes_of(copied));
    if (bytes > most_copied_bytes)
        return detail::refuse(
                text("at most ", most_copied_bytes, " bytes to copy"), problem);
    plan_or_refusal rest = make_interpolation_separable(packed, options);
    if (!rest.plan) return rest;
    return plan_or_refusal(std::make_unique<copying_plan>(
            problem, packed, copies_gradient, std::move(rest.plan)));
}

} // namespace

plan_or_refusal make_interpolation_separable(
        const interpolation_problem &problem, const compile_options &options) {
    const data_type type = problem.diff_src.type;
    const data_type accumulator
            = type == data_type::f64 ? data_type::f64 : data_type::f32;
    std::array<bool, 3> identity {};
    for (size_t a = 0; a < 3; ++a) {
        const detail::interpolation_axis &axis = problem.axes[a];
        if (!detail::has_tables(problem.mode, problem.coordinates, axis))
            return plan_or_refusal::refuse(
                    text("takes axes that repeat or have less than 2^24 "
                         "elements, given ",
                            axis.src, " from ", axis.dst));
        identity[a]
                = detail::is_identity(problem.mode, problem.coordinates, axis);
    }
    if (identity[0] && identity[1] && identity[2])
        return plan_or_refusal::refuse(
                "takes an axis that is resampled, given equal sizes");

    const auto layout = find_rows(problem, identity);
    if (!layout && has_gaps(problem))
        return plan_of_copy(problem, options, identity);
    if (!layout)
        return detail::refuse("a diff_src with a spatial axis of stride 1, or "
                              "of stride C with "
                              "channels of stride 1",
                problem);
    separable_job job;
    job.type = type;
    const auto taps = [&](size_t axis) {
        return axis_taps(problem.mode, problem.coordinates,
                problem.axes[layout->axes[axis]], accumulator);
    };
    job.d = taps(0);
    job.h = taps(1);
    job.computed = find_computed_taps(problem.mode, problem.coordinates,
            problem.axes[layout->axes[2]], type, layout->row_channels);
    if (job.computed) {
        job.w.src = job.computed->src;
        job.w.dst = job.computed->dst;
        job.w.max_count = job.computed->max_count;
        job.w.identity = false;
    } else {
        job.w = taps(2);
    }
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

    const int64_t bytes = bytes_of(problem);
    job.stream = writes_past_caches(bytes);
    job.h.inputs().each_row(job.h.src, [&](int64_t h) {
        job.fresh_rows = std::max(job.fresh_rows, job.h.fresh(h));
    });
    const int threads = static_cast<int>(threads_for(bytes, options.threads));
    if (job.lanes == tap_lanes::slabs) {
        spread_planes(job, threads);
    } else if (job.lanes != tap_lanes::pieces) {
        job.strip_src = choose_strip(job, element_bytes, accumulator_bytes);
        choose_blocks(job, element_bytes, threads);
    }
    cut_columns(job);
    job.shares = std::min<int64_t>(threads, job.units());
    size_scratch(job, element_bytes, accumulator_bytes);
    // The tables of elements and of columns have theirs.
    if (job.lanes != tap_lanes::phases) job.w.forget_weights();
    const int64_t most_scratch = most_scratch_bytes(bytes, job.shares);
    const int64_t scratch
            = static_cast<int64_t>(job.scratch_bytes) * job.shares;
    if (scratch > most_scratch)
        return detail::refuse(
                text("at most ", most_scratch, " bytes of scratch, not ",
                        scratch, " for ", job.shares, " threads"),
                problem);
    return plan_or_refusal(std::make_unique<separable_plan>(std::move(job)));
}

} // namespace gradnn::cpu
