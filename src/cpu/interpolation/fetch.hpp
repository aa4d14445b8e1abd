// What the interpolation kernels fetch from memory while they sum.
//
// Included once for each of Highway's targets, like simd.hpp.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "cpu/simd/simd.hpp"

#if defined(GRADNN_CPU_INTERPOLATION_FETCH_TOGGLE) == defined(HWY_TARGET_TOGGLE)
#ifdef GRADNN_CPU_INTERPOLATION_FETCH_TOGGLE
#undef GRADNN_CPU_INTERPOLATION_FETCH_TOGGLE
#else
#define GRADNN_CPU_INTERPOLATION_FETCH_TOGGLE
#endif

HWY_BEFORE_NAMESPACE();
namespace gradnn::cpu::HWY_NAMESPACE {

/// What sum_rows may do around the rows that it sums.
struct row_surroundings {
    /// The last `fresh` rows come from memory for the first time, and what
    /// follows is to be fetched now. (Short rows are too short for hardware to
    /// see them coming.)
    int64_t fresh = 0;
    /// Whether the fresh rows follow one another in memory and what comes next
    /// follows them: it is fetched in the order of memory, from `ahead` elements
    /// after where the first of them begins. (Several rows of a page read in
    /// turns hide that order from the hardware.)
    bool in_order = false;
    /// Otherwise from every row, `ahead` elements further on, and from element
    /// `turn` on another `jump` elements.
    int64_t ahead = 0;
    int64_t turn = 0;
    int64_t jump = 0;
    /// Whether that is fetched into the second-level cache.
    bool far = false;
    /// Elements after every row's end that may be read.
    int64_t slack = 0;
};

/// A cache line, into the second-level cache.
HWY_INLINE void fetch_far(const void *line) {
    __builtin_prefetch(line, 0, 2);
}

template <typename In>
HWY_INLINE void fetch_elements(const In *from, int64_t count, bool far) {
    if (far)
        for (int64_t i = 0; i < count; i += 64 / sizeof(In))
            fetch_far(from + i);
    else
        for (int64_t i = 0; i < count; i += 64 / sizeof(In))
            hwy::Prefetch(from + i);
}

/// Fetches what is between two addresses, a few cache lines at a time: more than a
/// few KB, and what is `far`, into the second-level cache. The first-level one would lose it before its
/// use, and has few lines under way at a time.
class gradual_fetch {
    static constexpr std::ptrdiff_t most_near = 8 << 10;

public:
    gradual_fetch(
            const void *begin, const void *end, int64_t steps, bool far = false)
        : at_(static_cast<const std::byte *>(begin)),
          end_(std::max(at_, static_cast<const std::byte *>(end))),
          step_((end_ - at_ + steps - 1) / steps),
          far_(far || end_ - at_ > most_near) {}

    HWY_INLINE void step(int64_t steps = 1) {
        fetch(std::min(steps * step_, end_ - at_));
    }
    void rest() { fetch(end_ - at_); }

private:
    HWY_INLINE void fetch(std::ptrdiff_t bytes) {
        const std::byte *const until = at_ + bytes;
        if (far_)
            for (; at_ < until; at_ += 64)
                fetch_far(at_);
        else
            for (; at_ < until; at_ += 64)
                hwy::Prefetch(at_);
    }

    const std::byte *at_;
    const std::byte *end_;
    std::ptrdiff_t step_;
    bool far_;
};

/// What follows elements [x, x + length) of the fresh rows before rows_end.
/// (Not a lambda: GCC 12 takes one that only fetches for one without effect.)
template <typename In>
HWY_INLINE void fetch(const In *const *rows_end, const row_surroundings &around,
        int64_t x, int64_t length) {
    if (around.in_order) {
        fetch_elements(
                rows_end[-around.fresh] + around.ahead + x * around.fresh,
                length * around.fresh, around.far);
        return;
    }
    const int64_t at = x + around.ahead + (x >= around.turn ? around.jump : 0);
    for (int64_t t = -around.fresh; t < 0; ++t)
        fetch_elements(rows_end[t] + at, length, around.far);
}

} // namespace gradnn::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
