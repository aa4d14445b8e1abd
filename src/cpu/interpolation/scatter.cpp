// interpolation.scatter: each element of diff_src takes at most one of diff_dst, as it
// is; the rest are zeros. A chunk of diff_src is put together in the first-level cache
// and written from there in whole cache lines.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/interpolation/scatter.cpp"
#include "cpu/simd/simd_target.hpp"

#include <hwy/foreach_target.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "base/parallel.hpp"
#include "cpu/interpolation/scatter.hpp"
#include "cpu/interpolation/shares.hpp"
#include "cpu/kernels.hpp"
#include "cpu/simd/simd.hpp"
#include "kernel/problem_text.hpp"

HWY_BEFORE_NAMESPACE();
namespace gradnn::cpu::HWY_NAMESPACE {

/// Places of the first axis around the units, of all others, and what they take.
struct unit_place {
    int64_t from; ///< unit of diff_dst, counted in patterns; -1: none
    int64_t patterns; ///< of the unit
    int64_t first; ///< pattern of diff_src
};

inline unit_place find_unit(const scatter_job &job, int64_t unit) {
    if (job.axes.empty()) return {0, 1, 0};
    const scatter_axis &inner = job.axes[0];
    const int64_t parts = (inner.size + job.part - 1) / job.part;
    int64_t rest = unit / parts;
    const int64_t begin = (unit - rest * parts) * job.part;
    unit_place place {
            inner.from.empty() ? begin : inner.from[static_cast<size_t>(begin)],
            std::min(job.part, inner.size - begin), rest * inner.size + begin};
    int64_t pitch = inner.dst;
    for (size_t i = 1; i < job.axes.size(); ++i) {
        const scatter_axis &axis = job.axes[i];
        const int64_t next = rest / axis.size;
        const int64_t at = rest - next * axis.size;
        rest = next;
        const int64_t from
                = axis.from.empty() ? at : axis.from[static_cast<size_t>(at)];
        if (from < 0) place.from = -1;
        if (place.from >= 0) place.from += from * pitch;
        pitch *= axis.dst;
    }
    return place;
}

template <typename Word>
void run_scatter(const scatter_job &job, const void *diff_dst, void *diff_src,
        int64_t share) {
    HWY_ALIGN Word
            stage[static_cast<size_t>(scatter_job::chunk_bytes) / sizeof(Word)];
    const int64_t pattern = job.unit / job.part;
    const int64_t pattern_inputs = job.unit_inputs / job.part;
    const int64_t end = job.units * (share + 1) / job.shares;
    for (int64_t u = job.units * share / job.shares; u < end; ++u) {
        const unit_place place = find_unit(job, u);
        const int64_t elements = place.patterns * pattern;
        auto *const to = static_cast<Word *>(diff_src) + place.first * pattern;
        if (place.from < 0) {
            const auto bytes = static_cast<size_t>(elements) * sizeof(Word);
            if (job.stream)
                stream_zeros(to, bytes);
            else
                std::memset(to, 0, bytes);
            continue;
        }
        const auto *const from = static_cast<const Word *>(diff_dst)
                + place.from * pattern_inputs;
        const int64_t inputs = place.patterns * pattern_inputs;
        for (int64_t begin = 0, c = 0; begin < elements;
                begin += job.chunk(), ++c) {
            const int64_t count = std::min(job.chunk(), elements - begin);
            const auto bytes = static_cast<size_t>(count) * sizeof(Word);
            Word *const made = job.stream ? stage : to + begin;
            std::memset(made, 0, bytes);
            const auto at = static_cast<size_t>(c);
            const int64_t last = std::min(inputs, job.chunk_inputs[at + 1]);
            int64_t i = job.chunk_inputs[at];
            // Several loads ahead of the stores, which may be where they load from for
            // all that the CPU knows.
            constexpr int64_t together = 8;
            for (; i + together <= last; i += together) {
                uint16_t places[together];
                Word words[together];
                std::memcpy(places, job.places.data() + i, sizeof places);
                std::memcpy(words, from + i, sizeof words);
                for (size_t k = 0; k < together; ++k)
                    made[places[k]] = words[k];
            }
            for (; i < last; ++i)
                made[job.places[static_cast<size_t>(i)]] = from[i];
            if (job.stream) stream_copy(stage, to + begin, bytes);
        }
    }
    if (job.stream) hwy::FlushStream();
}

using scatter_share
        = void (*)(const scatter_job &, const void *, void *, int64_t);

scatter_share scatter_of(int64_t element_bytes) {
    return element_bytes == 8    ? run_scatter<uint64_t>
            : element_bytes == 4 ? run_scatter<uint32_t>
                                 : run_scatter<uint16_t>;
}

} // namespace gradnn::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gradnn::cpu {

namespace {

HWY_EXPORT(scatter_of);

class scatter_plan final : public detail::plan {
public:
    explicit scatter_plan(scatter_job job)
        : job_(std::move(job)),
          run_(HWY_DYNAMIC_DISPATCH(scatter_of)(job_.element_bytes)),
          target_(simd_target()) {}

    void execute(std::span<void *const> args, std::byte *,
            detail::stream_impl &) const override {
        detail::parallel_for(job_.shares, 1, [&](int64_t begin, int64_t end) {
            for (int64_t share = begin; share < end; ++share)
                run_(job_, args[0], args[1], share);
        });
    }
    std::string backend() const override { return "Highway " + target_; }

private:
    const scatter_job job_;
    void (*const run_)(const scatter_job &, const void *, void *, int64_t);
    const std::string target_;
};

} // namespace

plan_or_refusal make_interpolation_scatter(
        const interpolation_problem &problem, const compile_options &options) {
    const detail::tensor_view &src = problem.diff_src;
    // Longer columns, and fewer zeros, are as fast in vectors (interpolation.separable).
    constexpr int64_t most_column_bytes = 64;
    const bool channels_within = src.dims[1] > 1 && src.strides[1] == 1;
    const bool short_columns = !channels_within
            || src.dims[1] * detail::size_of(src.type) < most_column_bytes;
    auto job = short_columns
                    && 5 * bytes_of(problem.diff_dst) <= 3 * bytes_of(src)
            ? find_scatter(problem)
            : std::nullopt;
    if (!job)
        return detail::refuse("tensors without gaps where at most three fifths "
                              "of diff_src take an element of diff_dst, one "
                              "as it is, and columns of less than 64 bytes",
                problem);
    const int64_t bytes = bytes_of(problem);
    job->stream = writes_past_caches(bytes);
    job->shares = std::min(job->units, threads_for(bytes, options.threads));
    return plan_or_refusal(std::make_unique<scatter_plan>(std::move(*job)));
}

} // namespace gradnn::cpu
#endif
