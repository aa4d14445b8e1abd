// How the work of the separable kernel is cut. Plain arithmetic.
#include <algorithm>
#include <cstdint>
#include <numeric>

#include "base/whole_numbers.hpp"
#include "cpu/interpolation/cut.hpp"
#include "cpu/interpolation/taps.hpp"

namespace gradnn::cpu {

using detail::data_type;
using detail::round_up;
using detail::size_of;

namespace {

// What a strip's rows may take of a core's second-level cache.
constexpr int64_t strip_cache_bytes = 512 << 10;

/// Columns of diff_src whose taps are held transposed, and whose results, in
/// half of the first-level cache.
int64_t column_block(const separable_job &job) {
    const int64_t vector
            = separable_lanes(job.type) * (job.type == data_type::f64 ? 8 : 4);
    const int64_t elements = (16 << 10) / vector / job.row_channels;
    return std::max<int64_t>(1,
            (elements * job.w.src - job.w.max_count * job.w.src)
                    / (job.w.src + job.w.dst));
}

/// Whether rows may be cut: the taps of elements are those of whole rows where
/// a group has several.
bool takes_strips(const separable_job &job) {
    return job.lanes != tap_lanes::elements || job.lines == 1;
}

/// Strips of elements in lanes are vectors, except the last.
int64_t whole_vectors(const separable_job &job, int64_t columns) {
    return looks_up(job.lanes) || job.lanes == tap_lanes::phases
            ? std::min(job.w.src, round_up(columns, max_lanes))
            : columns;
}

/// The scratch of the other ways.
void size_line_scratch(separable_job &job, int64_t element_bytes) {
    int64_t length = 0;
    for (int64_t s = 0; s < job.strips(); ++s) {
        const int64_t begin = s * job.strip_src;
        const int64_t end = std::min(job.w.src, begin + job.strip_src);
        length = std::max(
                length, job.taps_end(end - 1) - job.taps_begin(begin));
    }
    if (job.computed && job.computed->is_widened())
        job.factors = length + 8 * max_lanes; // vectors run over the end
    length *= job.row_channels;
    // A vector may run over the end; an odd multiple of a cache line keeps the
    // lines of a group in different cache sets.
    job.ring_pitch = round_up(length + max_lanes, max_lanes);
    if (job.ring_pitch / max_lanes % 2 == 0) job.ring_pitch += max_lanes;
    job.line_pitch = job.ring_pitch;
    if (job.lanes
            == tap_lanes::elements) // several follow as rows of diff_dst do
        job.line_pitch = job.lines > 1 ? job.w.dst * job.row_channels : length;
    job.group_size = job.lines * job.line_pitch + look_up_slack(job);
    if (job.lanes == tap_lanes::phases) {
        // Vectors may begin before a phase and run over its end.
        job.phase_pitch = round_up(length / job.phases.ratio + 1, max_lanes)
                + 2 * max_lanes;
        job.line_pitch = job.phases.ratio * job.phase_pitch;
        job.group_size = job.lines * job.line_pitch + 2 * max_lanes;
    }
    job.ring_rows = job.d.identity ? 0 : job.h.max_count;
    job.window = 0;
    job.results = 0;
    if (!job.columns.blocks.empty()) {
        for (const column_taps::block &block : job.columns.blocks) {
            job.window = std::max(job.window,
                    (block.dst_end - block.dst_begin) * job.row_channels);
            job.results = std::max(job.results,
                    (block.src_end - block.src_begin) * job.row_channels);
        }
        job.window += 2 * max_lanes;
        job.results += 2 * max_lanes;
        if (job.lanes == tap_lanes::channels) job.window = 0;
    }
    if (lists_of(job).columns > 0)
        job.results = job.block * job.row_channels + 2 * max_lanes;
    // What is left of before, a group, and a vector that runs over its end.
    job.stage_size = stage_bytes / element_bytes
            + job.lines * job.strip_src * job.row_channels + max_lanes;
    job.pointers = std::max(job.d.max_count, job.h.max_count);
    if (job.direct) job.pointers = std::max(job.pointers, job.lines);
}

} // namespace

/// The slabs of tap_lanes::slabs, their scratch, and blocks of H.
void size_planes(separable_job &job) {
    job.fed.clear();
    for (int64_t d = 0; d < job.d.src; ++d)
        if (job.d.taps(d) > 0) job.fed.push_back(d);
    const int64_t row_src = job.w.src * job.row_channels;
    const int64_t row_dst = job.w.dst * job.row_channels;
    const int64_t element_bytes = size_of(job.type);
    // Results of a group on their way to memory.
    constexpr int64_t most_staged = 64 << 10;
    const int64_t rows
            = most_staged / (job.lines * row_src * element_bytes) / job.batch;
    job.h_block = std::min(job.h.src, std::max<int64_t>(1, rows) * job.batch);
    job.d_block = job.d.src;
    job.strip_src = job.w.src;
    // Where lines are rows as they are, a block of columns is held; else the rows
    // that a line sums, and so many more that few of them are moved.
    const int64_t block = job.batch > 1 ? job.w.src : column_block(job);
    add_columns(job.columns, job.w, job.batch, 0, job.w.src, block, job.type);
    if (job.h.src % job.batch != 0)
        add_columns(job.last_columns, job.w, job.h.src % job.batch, 0,
                job.w.src, job.w.src, job.type);
    job.results = 0;
    int64_t held = 0;
    for (const column_taps::block &each : job.columns.blocks) {
        held = std::max(
                held, (each.dst_end - each.dst_begin) * job.row_channels);
        job.results = std::max(job.results,
                (each.src_end - each.src_begin) * job.row_channels);
    }
    job.results += 10 * max_lanes;
    if (!job.h.identity) held = job.h.max_count * row_dst;
    job.chunk = job.d.identity ? 4 * max_lanes : 16 * max_lanes;
    job.window = std::min(job.h.dst * row_dst, 2 * held + 2 * job.chunk)
            + 2 * max_lanes;
    job.line_pitch = job.h.identity ? 0 : job.batch * row_dst + max_lanes;
    job.group_size = job.line_pitch * job.lines;
    job.ring_rows = job.d.identity ? 0 : job.lines;
    job.ring_pitch = job.chunk + 2 * max_lanes;
    job.stage_size = stage_bytes / element_bytes
            + job.lines * job.h_block * row_src + max_lanes;
    job.pointers = std::max(job.d.max_count, job.h.max_count);
}

/// Columns of diff_src in a strip: as many as keep what a line is made of in
/// cache, but so many that what neighbouring strips both read stays small.
int64_t choose_strip(const separable_job &job, int64_t element_bytes,
        int64_t accumulator_bytes) {
    if (!takes_strips(job)) return job.w.src;
    const int64_t columns = std::max(job.w.dst, job.w.src);
    int64_t most = 0;
    if (looks_up(job.lanes) || job.lanes == tap_lanes::phases) {
        // Where rows are not summed, short strips let what is fetched ahead
        // arrive while taps are taken.
        const bool sums_rows = !job.h.identity || !job.d.identity;
        most = (sums_rows ? 4096 : 4096 / element_bytes) / job.row_channels;
        // Rows that are read as they are have no line that is to stay in cache: only
        // the scratch is limited.
        if (looks_up(job.lanes) && job.direct) most = 1 << 16;
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

void spread_planes(separable_job &job, int threads) {
    if (threads == 1) return;
    while (job.units() < 4 * threads && job.h_block > job.batch)
        job.h_block = round_up((job.h_block + 1) / 2, job.batch);
}

void cut_columns(separable_job &job) {
    if (job.lanes == tap_lanes::lines) {
        job.block = column_block(job);
    } else if (job.lanes == tap_lanes::channels && !job.w.identity) {
        // Full vectors of elements, except at a strip's end.
        const int64_t least = job.computed
                ? max_lanes // places come by vectors
                : max_lanes / std::gcd(max_lanes, job.row_channels);
        job.block = least
                * std::max<int64_t>(1,
                        std::min(1024 / (least * job.row_channels),
                                8192 / (least * job.w.max_count)));
    } else {
        return;
    }
    job.block = std::min(job.strip_src, job.block);
    if (job.computed) return;
    for (int64_t begin = 0; begin < job.w.src; begin += job.strip_src)
        add_columns(job.columns, job.w, 1, begin,
                std::min(job.w.src, begin + job.strip_src), job.block,
                job.type);
}

/// Fills in the scratch arrays; separable_scratch lays them out in this order.
void size_scratch(
        separable_job &job, int64_t element_bytes, int64_t accumulator_bytes) {
    if (job.lanes != tap_lanes::slabs && job.lanes != tap_lanes::pieces)
        size_line_scratch(job, element_bytes);
    const auto bytes = [](int64_t count, int64_t each) {
        return static_cast<size_t>(round_up(count * each, 64));
    };
    const column_lists lists = lists_of(job);
    job.scratch_bytes = 2 * bytes(job.pointers, sizeof(void *))
            + bytes(job.group_size, accumulator_bytes)
            + bytes(job.ring_rows * job.ring_pitch, accumulator_bytes)
            + bytes(job.window * separable_lanes(job.type), accumulator_bytes)
            + bytes(job.results * separable_lanes(job.type), accumulator_bytes)
            + bytes(job.stage_size, element_bytes)
            + bytes(job.lines, sizeof(void *))
            + bytes(lists.columns, sizeof(column_taps::column))
            + bytes(lists.runs, sizeof(column_taps::run))
            + bytes(lists.weights, accumulator_bytes)
            + bytes(job.factors, accumulator_bytes);
    // Neighbouring threads' scratch is not to share pages.
    job.scratch_bytes = (job.scratch_bytes + 4095) / 4096 * 4096;
}

} // namespace gradnn::cpu
