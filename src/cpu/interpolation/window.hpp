// Lines in lanes: a group of lines, as many as a vector has lanes, transposed
// piece by piece.
//
// Included once for each of Highway's targets, like simd.hpp.
#include <cstring>

#include "cpu/simd/simd.hpp"

#if defined(GRADNN_CPU_INTERPOLATION_WINDOW_TOGGLE) \
        == defined(HWY_TARGET_TOGGLE)
#ifdef GRADNN_CPU_INTERPOLATION_WINDOW_TOGGLE
#undef GRADNN_CPU_INTERPOLATION_WINDOW_TOGGLE
#else
#define GRADNN_CPU_INTERPOLATION_WINDOW_TOGGLE
#endif

HWY_BEFORE_NAMESPACE();
namespace gradnn::cpu::HWY_NAMESPACE {

/// Element x of all lines is a vector at origin() + x * lanes, while it is in the
/// window.
template <typename Acc>
class line_window {
    static constexpr hn::ScalableTag<Acc> tag {};
    using vector = hn::VFromD<hn::ScalableTag<Acc>>;
    static constexpr auto lanes = static_cast<int64_t>(lanes_of<Acc>);

public:
    /// Lines `pitch` apart, a window of `size` elements of each in `memory`.
    line_window(const Acc *lines, int64_t pitch, Acc *memory, int64_t size)
        : lines_(lines), pitch_(pitch), memory_(memory), size_(size) {}

    int64_t end() const { return end_; }
    /// Where element 0 is, or would be.
    const Acc *origin() const { return memory_ - begin_ * lanes; }

    /// Transposes lines so that the window holds [first, last).
    HWY_NOINLINE void fill(int64_t first, int64_t last) {
        int64_t end = end_;
        if (first >= end) { // nothing of it is wanted any more
            begin_ = end = first / lanes * lanes;
        } else if (last - begin_ + lanes > size_) {
            std::memmove(memory_, memory_ + (first - begin_) * lanes,
                    static_cast<size_t>((end - first) * lanes) * sizeof(Acc));
            begin_ = first;
        }
        Acc *out = memory_ + (end - begin_) * lanes;
        for (; end < last; end += lanes, out += lanes * lanes) {
            vector square[static_cast<size_t>(lanes)];
            for (int64_t l = 0; l < lanes; ++l)
                square[l] = hn::LoadU(tag, lines_ + l * pitch_ + end);
            transpose<Acc>(square);
            for (int64_t l = 0; l < lanes; ++l)
                hn::StoreU(square[l], tag, out + l * lanes);
        }
        end_ = end;
    }

private:
    const Acc *const lines_;
    const int64_t pitch_;
    Acc *const memory_;
    const int64_t size_;
    // Elements [begin_, end_) of the lines are in the window.
    int64_t begin_ = 0;
    int64_t end_ = 0;
};

/// Puts elements of `rows` rows that are `row` apart at `out`: results[e] holds
/// element e of all of them, for e < count.
template <typename T>
HWY_NOINLINE void store_transposed(const accumulator_of<T> *results,
        int64_t count, int64_t rows, int64_t row, T *out) {
    using Acc = accumulator_of<T>;
    const hn::ScalableTag<Acc> tag;
    constexpr auto lanes = static_cast<int64_t>(lanes_of<Acc>);
    hn::VFromD<hn::ScalableTag<Acc>> square[static_cast<size_t>(lanes)];
    for (int64_t l = 0; l < lanes; ++l)
        square[l] = hn::Load(tag, results + l * lanes);
    transpose<Acc>(square);
    for (int64_t l = 0; l < rows; ++l, out += row) {
        if (count == lanes)
            store(tag, square[l], out);
        else
            store_first(tag, square[l], out, static_cast<size_t>(count));
    }
}

} // namespace gradnn::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
