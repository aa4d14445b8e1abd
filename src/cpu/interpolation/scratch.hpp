// A share's scratch of the separable interpolation kernel.
//
// Included once for each of Highway's targets, like simd.hpp.
#include <type_traits>

#include "cpu/interpolation/separable.hpp"
#include "cpu/interpolation/stage.hpp"
#include "cpu/simd/simd.hpp"

#if defined(GRADNN_CPU_INTERPOLATION_SCRATCH_TOGGLE) \
        == defined(HWY_TARGET_TOGGLE)
#ifdef GRADNN_CPU_INTERPOLATION_SCRATCH_TOGGLE
#undef GRADNN_CPU_INTERPOLATION_SCRATCH_TOGGLE
#else
#define GRADNN_CPU_INTERPOLATION_SCRATCH_TOGGLE
#endif

HWY_BEFORE_NAMESPACE();
namespace gradnn::cpu::HWY_NAMESPACE {

/// Arrays of the sizes that the job names, in the order of size_scratch.
template <typename T>
struct separable_scratch {
    using acc = accumulator_of<T>;

    separable_scratch(const separable_job &job, std::byte *memory)
        : line_pitch(job.line_pitch) {
        const auto take = [&](auto *&array, int64_t count) {
            using element = std::remove_reference_t<decltype(*array)>;
            array = reinterpret_cast<element *>(memory);
            const size_t bytes = static_cast<size_t>(count) * sizeof(element);
            memory += (bytes + 63) / 64 * 64;
        };
        T *memory_of_stage = nullptr;
        T **targets = nullptr;
        take(rows, job.pointers);
        take(sums, job.pointers);
        take(group, job.group_size);
        take(ring, job.ring_rows * job.ring_pitch);
        take(window, job.window * static_cast<int64_t>(lanes_of<acc>));
        take(results, job.results * static_cast<int64_t>(lanes_of<acc>));
        take(memory_of_stage, job.stage_size);
        take(targets, job.lines);
        const column_lists lists = lists_of(job);
        take(columns, lists.columns);
        take(runs, lists.runs);
        take(weights, lists.weights);
        take(factors, job.factors);
        stage = result_stage<T>(job.stream, memory_of_stage, targets);
    }

    /// Element 0 of a line of the group where it is sorted by phase.
    acc *phase_origin(int64_t line) const {
        return group + max_lanes + line * line_pitch;
    }

    const T **rows = nullptr; ///< of diff_dst
    const acc **sums = nullptr; ///< rows that are sums already
    acc *group = nullptr; ///< lines
    acc *ring = nullptr;
    acc *window = nullptr; ///< elements of lines or slabs, transposed
    acc *results = nullptr; ///< of lines or slabs, transposed
    // Of columns that are computed: column_lists.
    column_taps::column *columns = nullptr;
    column_taps::run *runs = nullptr;
    acc *weights = nullptr;
    acc *factors = nullptr; ///< of outputs' weights
    result_stage<T> stage;
    int64_t line_pitch = 0; ///< separable_job::line_pitch
};

} // namespace gradnn::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
