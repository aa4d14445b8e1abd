// What a piece is (pieces.hpp), the order in which its axes are summed, and what
// instructions that takes.
#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/whole_numbers.hpp"
#include "cpu/interpolation/cut.hpp"
#include "cpu/interpolation/taps.hpp"

namespace gradnn::cpu {

using detail::ceil_divide;
using detail::data_type;
using detail::round_up;
using detail::size_of;

namespace {

// What a piece's lanes may take of a core's second-level cache, and of half of its
// first-level one.
constexpr int64_t most_held_bytes = 256 << 10;
constexpr int64_t near_bytes = 32 << 10;

int64_t vector_bytes(const separable_job &job) {
    return separable_lanes(job.type) * (job.type == data_type::f64 ? 8 : 4);
}

using axes_of_job = std::array<const axis_taps *, 3>;

/// The extents of a piece's axes, which passes change from dst to src.
using extents = std::array<int64_t, 3>;

piece_pass make_pass(const axis_taps &axis, size_t number, const extents &now,
        int64_t channels) {
    piece_pass pass;
    pass.axis = number;
    pass.src = axis.src;
    pass.dst = axis.dst;
    for (size_t a = 0; a < number; ++a)
        pass.outer *= now[a];
    pass.inner = channels;
    for (size_t a = number + 1; a < now.size(); ++a)
        pass.inner *= now[a];
    return pass;
}

/// A multiply-add for each tap; for each sum a store and a share of a loop; for
/// each place of each call its taps' weights and where they lie.
double instructions_of_pass(const piece_pass &pass, const axis_taps &axis) {
    const auto taps = static_cast<double>(axis.all_taps());
    const auto src = static_cast<double>(pass.src);
    const auto calls = static_cast<double>(std::min(pass.outer, pass.inner));
    const auto sums = static_cast<double>(pass.outer * pass.inner);
    return calls * (60 + taps + 12 * src) + sums * (taps + 2.5 * src);
}

/// Passes over the axes `order` says, as far as they are resampled.
double add_passes(separable_job &job, const std::array<size_t, 3> &order) {
    const axes_of_job axes {&job.d, &job.h, &job.w};
    extents now {job.d.dst, job.h.dst, job.w.dst};
    double sum = 0;
    job.passes.clear();
    for (const size_t number : order) {
        const axis_taps &axis = *axes[number];
        if (axis.identity) continue;
        job.passes.push_back(make_pass(axis, number, now, job.row_channels));
        sum += instructions_of_pass(job.passes.back(), axis);
        now[number] = axis.src;
    }
    return sum;
}

int64_t piece_dst(const separable_job &job) {
    return job.d.dst * job.h.dst * job.w.dst * job.row_channels;
}

int64_t piece_src(const separable_job &job) {
    return job.d.src * job.h.src * job.w.src * job.row_channels;
}

int64_t row_dst(const separable_job &job) {
    return job.w.dst * job.row_channels;
}

/// Elements of a piece that are transposed at once: all, or where it is summed over
/// W first and is larger than that is worth, so many whole rows.
int64_t chunk_of(const separable_job &job) {
    const int64_t piece = piece_dst(job);
    const bool rows_first = !job.passes.empty() && job.passes.front().axis == 2;
    constexpr int64_t most = 256;
    if (!rows_first || piece <= most) return piece;
    const int64_t square
            = separable_lanes(job.type) * (size_of(job.type) == 2 ? 2 : 1);
    const int64_t row = row_dst(job);
    // Of the numbers of rows whose squares are not too many, the one that leaves
    // the least of them unused.
    int64_t best = row;
    for (int64_t size = row; size <= std::min(piece, most); size += row)
        if (ceil_divide(size, square) * best
                <= ceil_divide(best, square) * size)
            best = size;
    return best;
}

/// The two arrays that a group's pieces go to and fro between, and where results
/// wait to be written.
void size_pieces(separable_job &job) {
    job.chunk = chunk_of(job);
    job.window = job.chunk;
    job.results = 0;
    bool in_window = true;
    for (const piece_pass &pass : job.passes) {
        in_window = !in_window;
        int64_t &size = in_window ? job.window : job.results;
        size = std::max(size, pass.outer * pass.src * pass.inner);
    }
    job.window += 2 * max_lanes;
    job.results += 2 * max_lanes;
    // Two buffers: whole cache lines, a part of one before and a square beyond.
    const int64_t line = 64 / size_of(job.type);
    const int64_t results = job.lines * piece_src(job);
    const int64_t buffers
            = 2 * (round_up(results, line) + 2 * line + 2 * max_lanes);
    job.gradual = (job.window + job.results) * vector_bytes(job)
                    + buffers * size_of(job.type)
            <= near_bytes;
    job.stage_size = std::max(
            stage_bytes / size_of(job.type) + results + 2 * max_lanes,
            job.gradual ? buffers : 0);
    job.pointers = 1;
}

/// Of a group, with `passes` those of its sums.
double instructions_of_group(const separable_job &job, double passes) {
    const int64_t lanes = separable_lanes(job.type);
    const bool narrow = size_of(job.type) == 2;
    // Of a square: its loads, its stores and its steps.
    double steps = 2;
    for (int64_t size = 1; size < lanes; size *= 2)
        ++steps;
    const auto square = static_cast<double>(lanes);
    const int64_t elements = narrow ? 2 * lanes : lanes;
    const auto in = static_cast<double>(
            piece_dst(job) * ceil_divide(job.chunk, elements) / job.chunk);
    const auto out = static_cast<double>(ceil_divide(piece_src(job), elements));
    double sum = passes + 300 + in * square * (steps + (narrow ? 3 : 0))
            + out * square * (steps + (narrow ? 12 : 0))
            + static_cast<double>(piece_src(job) * size_of(job.type) * lanes)
                    / 24;
    if ((job.window + job.results) * vector_bytes(job) > near_bytes) sum *= 1.5;
    return sum;
}

/// So many planes, which follow one another, play the part of D.
separable_job with_planes(separable_job job, int64_t planes) {
    job.d = plain_axis(planes, job.type);
    for (plane_view *view : {&job.diff_dst, &job.diff_src}) {
        view->d_stride = view->c_stride;
        view->c_stride *= planes;
    }
    job.c /= planes;
    return job;
}

using axis_order = std::array<size_t, 3>;

/// Fills in what follows from the order of the axes; the instructions of a group,
/// or nothing where too much would be held.
std::optional<double> complete(separable_job &job, const axis_order &order) {
    const double passes = add_passes(job, order);
    size_pieces(job);
    const int64_t held = (job.window + job.results) * vector_bytes(job);
    if (held > most_held_bytes) return std::nullopt;
    return instructions_of_group(job, passes);
}

/// The order of the fewest instructions. It follows from the axes alone, as the
/// bits of results do from it.
std::optional<axis_order> best_order(separable_job job) {
    axis_order order {0, 1, 2};
    std::optional<axis_order> best;
    double least = 0;
    do {
        const auto sum = complete(job, order);
        if (!sum || (best && *sum >= least)) continue;
        best = order;
        least = *sum;
    } while (std::next_permutation(order.begin(), order.end()));
    return best;
}

/// Of all groups, with those of one.
double of_groups(const separable_job &job, double group) {
    return group * static_cast<double>(ceil_divide(job.slabs(), job.lines));
}

} // namespace

std::optional<piece_way> as_pieces(separable_job job) {
    if (!rows_follow(job)) { // an axis that needs no sum may be the inner one
        std::swap(job.d, job.h);
        for (plane_view *view : {&job.diff_dst, &job.diff_src})
            std::swap(view->d_stride, view->h_stride);
    }
    if (!rows_follow(job)) return std::nullopt;
    const bool flat = job.d.src * job.d.dst == 1;
    if (!flat && !slabs_follow(job)) return std::nullopt;
    job.lanes = tap_lanes::pieces;
    job.lines = separable_lanes(job.type);
    // Slabs that need no sum over D are planes of their own.
    const bool planes_are_slabs = !flat && job.d.identity
            && job.diff_dst.c_stride == job.d.dst * job.diff_dst.d_stride
            && job.diff_src.c_stride == job.d.src * job.diff_src.d_stride;
    if (planes_are_slabs) {
        job.c *= job.d.src;
        job.diff_dst.c_stride = job.diff_dst.d_stride;
        job.diff_src.c_stride = job.diff_src.d_stride;
        job.d = plain_axis(1, job.type);
    }
    merge_planes(job);
    const auto order = best_order(job);
    if (!order) return std::nullopt;
    const double group = *complete(job, *order);
    piece_way best {job, of_groups(job, group),
            group * static_cast<double>(job.slabs())
                    / static_cast<double>(job.lines),
            std::is_sorted(job.passes.begin(), job.passes.end(),
                    [](const piece_pass &a, const piece_pass &b) {
                        return a.axis < b.axis;
                    })};
    const bool follow = job.d.src * job.d.dst == 1
            && job.diff_dst.c_stride == piece_dst(job)
            && job.diff_src.c_stride == piece_src(job);
    if (!follow) return best;
    // Several small planes share the work that a group is, and fill its squares.
    const int64_t most
            = std::min(256 / std::max(piece_dst(job), piece_src(job)),
                    job.c * job.n / (4 * job.lines));
    for (int64_t planes = 2; planes <= most; ++planes) {
        if (job.c % planes != 0) continue;
        separable_job other = with_planes(job, planes);
        const auto sum = complete(other, *order);
        if (!sum || of_groups(other, *sum) >= best.instructions) continue;
        best.instructions = of_groups(other, *sum);
        best.job = std::move(other);
    }
    return best;
}

/// Places of each pass, once it is known that this way is gone.
void finish_pieces(separable_job &job) {
    const axes_of_job axes {&job.d, &job.h, &job.w};
    for (piece_pass &pass : job.passes)
        add_columns(pass.table, *axes[pass.axis], 1, 0, pass.src, pass.src,
                job.type);
    job.h_block = job.h.src;
    job.d_block = job.d.src;
    job.strip_src = job.w.src;
}

} // namespace gradnn::cpu
