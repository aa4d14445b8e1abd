// Memory's part of a group's work: while one group is summed, the elements of the
// next are fetched and the results of the one before are written, a few cache lines
// at a time, so that memory does not wait for sums nor sums for memory.
//
// Included once for each of Highway's targets, like simd.hpp.
#include <algorithm>
#include <cstring>

#include "cpu/interpolation/sums.hpp"
#include "cpu/simd/simd.hpp"

#if defined(GRADNN_CPU_INTERPOLATION_TRAFFIC_TOGGLE) \
        == defined(HWY_TARGET_TOGGLE)
#ifdef GRADNN_CPU_INTERPOLATION_TRAFFIC_TOGGLE
#undef GRADNN_CPU_INTERPOLATION_TRAFFIC_TOGGLE
#else
#define GRADNN_CPU_INTERPOLATION_TRAFFIC_TOGGLE
#endif

HWY_BEFORE_NAMESPACE();
namespace gradnn::cpu::HWY_NAMESPACE {

constexpr int64_t line_bytes = 64;

/// Writes whole cache lines past the caches, a few at a time.
class gradual_write {
public:
    gradual_write() = default;
    /// `to` is aligned to cache lines.
    gradual_write(
            const std::byte *from, std::byte *to, int64_t lines, int64_t steps)
        : from_(from),
          to_(to),
          end_(to + lines * line_bytes),
          step_((lines + steps - 1) / steps * line_bytes) {}

    HWY_INLINE void step() { write(std::min(step_, end_ - to_)); }
    void rest() { write(end_ - to_); }

private:
    HWY_INLINE void write(std::ptrdiff_t bytes) {
        const hn::ScalableTag<float> d;
        constexpr size_t vector = lanes_of<float> * sizeof(float);
        for (const std::byte *const until = to_ + bytes; to_ < until;
                to_ += line_bytes, from_ += line_bytes)
            for (size_t part = 0; part < line_bytes; part += vector)
                hn::Stream(
                        hn::LoadU(d,
                                reinterpret_cast<const float *>(from_ + part)),
                        d, reinterpret_cast<float *>(to_ + part));
    }

    const std::byte *from_ = nullptr;
    std::byte *to_ = nullptr;
    std::byte *end_ = nullptr;
    std::ptrdiff_t step_ = 0;
};

/// What is fetched and what is written meanwhile.
struct gradual_traffic {
    HWY_INLINE void step() {
        fetch.step();
        write.step();
    }
    void rest() {
        fetch.rest();
        write.rest();
    }

    gradual_fetch fetch {nullptr, nullptr, 1};
    gradual_write write;
};

/// Two buffers for results that follow one another in memory: one is filled while
/// the other is written. Results lie in a buffer as they lie in cache lines. Groups
/// but the last are a cache line or more.
template <typename T>
class result_buffers {
public:
    result_buffers() = default;
    result_buffers(T *memory, int64_t elements)
        : memory_ {reinterpret_cast<std::byte *>(memory),
                reinterpret_cast<std::byte *>(memory + elements)} {}

    /// Where the results that come next are put, of which the first one's place is
    /// `target`. What is written must have been written.
    T *open(T *target) {
        const auto begin = reinterpret_cast<uintptr_t>(target) % line_bytes;
        auto *const next = memory_[1 - filled_];
        // Of a line that two groups share, the first part comes along.
        if (end_ != nullptr) std::memcpy(next, end_, begin);
        first_ = end_ == nullptr ? begin : 0;
        filled_ = 1 - filled_;
        to_ = reinterpret_cast<std::byte *>(target) - begin;
        return reinterpret_cast<T *>(next + begin);
    }

    /// The lines of `count` results, to be written in so many steps.
    gradual_write close(int64_t count, int64_t steps, const T *from) {
        const std::byte *begin = memory_[filled_];
        const auto *const end
                = reinterpret_cast<const std::byte *>(from + count);
        auto lines = (end - begin) / line_bytes;
        end_ = begin + lines * line_bytes;
        left_ = static_cast<size_t>(end - end_);
        end_to_ = to_ + lines * line_bytes;
        if (first_ != 0) { // a part of a line that others own
            const auto bytes = std::min<std::ptrdiff_t>(line_bytes, end - begin)
                    - static_cast<std::ptrdiff_t>(first_);
            std::memcpy(
                    to_ + first_, begin + first_, static_cast<size_t>(bytes));
            if (lines == 0) left_ = 0;
            begin += line_bytes;
            to_ += line_bytes;
            lines = std::max<std::ptrdiff_t>(0, lines - 1);
        }
        return gradual_write(begin, to_, lines, steps);
    }

    /// Writes the part of a line that is left.
    void finish() {
        if (end_ != nullptr) std::memcpy(end_to_, end_, left_);
        end_ = nullptr;
        hwy::FlushStream();
    }

private:
    std::byte *memory_[2] = {};
    size_t filled_ = 0;
    std::byte *to_ = nullptr; ///< of the buffer's first line
    size_t first_ = 0; ///< bytes of it that are not this share's
    // A line that is not whole: in its buffer, in memory, and its bytes.
    const std::byte *end_ = nullptr;
    std::byte *end_to_ = nullptr;
    size_t left_ = 0;
};

} // namespace gradnn::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
