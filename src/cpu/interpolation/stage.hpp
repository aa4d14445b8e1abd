// Where the separable interpolation kernel puts its results: straight where
// they belong, or on a small stage from which they go there in whole cache
// lines.
//
// Included once for each of Highway's targets, like simd.hpp.
#include <algorithm>
#include <cstring>

#include "cpu/interpolation/separable.hpp"
#include "cpu/simd/pairs.hpp"
#include "cpu/simd/simd.hpp"

#if defined(GRADNN_CPU_INTERPOLATION_STAGE_TOGGLE) == defined(HWY_TARGET_TOGGLE)
#ifdef GRADNN_CPU_INTERPOLATION_STAGE_TOGGLE
#undef GRADNN_CPU_INTERPOLATION_STAGE_TOGGLE
#else
#define GRADNN_CPU_INTERPOLATION_STAGE_TOGGLE
#endif

HWY_BEFORE_NAMESPACE();
namespace gradnn::cpu::HWY_NAMESPACE {

/// The results of one group of rows after the other. A group: add_row for each,
/// open, its elements in order (by put and step, or by where rows begin on the
/// stage and advance), close.
template <typename T>
class result_stage {
    using acc = accumulator_of<T>;
    static constexpr hn::ScalableTag<acc> tag {};
    using vector = hn::VFromD<hn::ScalableTag<acc>>;
    /// Elements on the stage that are worth moving on.
    static constexpr int64_t chunk = stage_bytes / sizeof(T);

public:
    result_stage() = default;
    result_stage(bool past_caches, T *stage, T **targets)
        : past_caches_(past_caches), stage_(stage), targets_(targets) {}

    /// The stage itself, for other uses.
    T *memory() const { return stage_; }

    /// Elements of the rows to come.
    void set_row(int64_t elements) { row_ = elements; }

    void add_row(T *target) {
        gapless_ = rows_ == 0
                || (gapless_ && target == targets_[rows_ - 1] + row_);
        targets_[rows_++] = target;
    }
    /// Rows that follow one another, all of a group.
    void add_rows(T *first, int64_t count) {
        gapless_ = true;
        targets_[0] = first;
        rows_ = count;
    }
    int64_t rows() const { return rows_; }

    /// `whole`: results come as full vectors, as far as a row's end allows.
    void open(bool whole) {
        if (!gapless_ || targets_[0] != run_ + staged_) {
            pass_on(staged_);
            run_ = targets_[0];
        }
        direct_ = whole && may_write_directly();
        out_ = direct_ ? run_ : stage_ + staged_;
    }

    T *out() const { return out_; }
    /// What comes next is put at `out`.
    void set_out(T *out) { out_ = out; }

    /// A vector of results. On the stage it may run over the end of its row.
    HWY_INLINE void put(vector v, T *out) const {
        if (direct_)
            stream(tag, v, out);
        else
            store(tag, v, out);
    }

    /// Two vectors of results that follow one another.
    HWY_INLINE void put_two(vector a, vector b, T *out) const {
        if (direct_)
            store_two<true>(tag, a, b, out);
        else
            store_two<false>(tag, a, b, out);
    }

    /// The same, elements of even and of odd places.
    HWY_INLINE void put_halves(vector even, vector odd, T *out) const {
        const auto pairs = join_pairs<T>(tag, even, odd);
        if (direct_)
            store_pairs<true>(tag, pairs, out);
        else
            store_pairs<false>(tag, pairs, out);
    }

    /// `count` results, full vectors where they go past the caches.
    HWY_NOINLINE void put_all(const acc *from, int64_t count, T *out) const {
        constexpr auto lanes = static_cast<int64_t>(lanes_of<acc>);
        int64_t x = 0;
        for (; x + 2 * lanes <= count; x += 2 * lanes)
            put_two(hn::LoadU(tag, from + x), hn::LoadU(tag, from + x + lanes),
                    out + x);
        for (; x < count; x += lanes)
            put(hn::LoadU(tag, from + x), out + x);
    }
    /// `count` results as they are in memory, past the caches: as many as fill
    /// vectors.
    static void stream_all(const T *from, int64_t count, T *out) {
        const hn::Rebind<storage_of<T>, hn::ScalableTag<acc>> stored;
        const auto *in = reinterpret_cast<const storage_of<T> *>(from);
        auto *to = reinterpret_cast<storage_of<T> *>(out);
        constexpr auto lanes = static_cast<int64_t>(lanes_of<acc>);
        for (int64_t x = 0; x < count; x += lanes)
            hn::Stream(hn::LoadU(stored, in + x), stored, to + x);
    }
    /// Whether results go straight to memory, past the caches.
    bool direct() const { return direct_; }

    /// Steps over `count` results that have been put at `out`. What is on the
    /// stage leaves it little by little, so that reading goes on meanwhile.
    HWY_INLINE T *step(T *out, int64_t count) {
        out += count;
        if (!direct_ && gapless_ && out - stage_ >= chunk) {
            staged_ = out - stage_;
            pass_on_lines();
            out = stage_ + staged_;
        }
        return out;
    }

    void close() {
        if (direct_) {
            run_ += rows_ * row_;
        } else if (gapless_) {
            staged_ = out_ - stage_;
            if (staged_ >= chunk) pass_on_lines();
        } else {
            const T *row = stage_;
            for (int64_t l = 0; l < rows_; ++l, row += row_)
                copy_out(row, targets_[l], row_);
        }
        rows_ = 0;
    }

    /// Zeros to `to`, not by the stage.
    void clear(T *to, int64_t count) const {
        const auto bytes = static_cast<size_t>(count) * sizeof(T);
        if (past_caches_)
            stream_zeros(to, bytes);
        else
            std::memset(to, 0, bytes);
    }

    /// Nothing stays behind.
    void finish() {
        pass_on(staged_);
        if (past_caches_) hwy::FlushStream();
    }

private:
    /// Whether the group's rows are whole cache lines, one after another, that
    /// may go past the caches.
    bool may_write_directly() const {
        return past_caches_ && staged_ == 0 && gapless_
                && rows_ * row_ * static_cast<int64_t>(sizeof(T)) % 64 == 0
                && reinterpret_cast<uintptr_t>(run_) % 64 == 0;
    }

    void copy_out(const T *from, T *to, int64_t count) const {
        const auto bytes = static_cast<size_t>(count) * sizeof(T);
        if (past_caches_)
            stream_copy(from, to, bytes);
        else
            std::memcpy(to, from, bytes);
    }

    /// Moves the first `count` elements off the stage.
    HWY_NOINLINE void pass_on(int64_t count) {
        if (count <= 0) return;
        copy_out(stage_, run_, count);
        run_ += count;
        staged_ -= count;
        std::memmove(stage_, stage_ + count,
                static_cast<size_t>(staged_) * sizeof(T));
    }

    /// All but the last cache line, unless it is whole.
    void pass_on_lines() {
        const auto end = reinterpret_cast<uintptr_t>(run_ + staged_);
        pass_on(staged_ - static_cast<int64_t>(end % 64 / sizeof(T)));
    }

    bool past_caches_ = false;
    T *stage_ = nullptr;
    T **targets_ = nullptr; ///< where the rows of the group go
    int64_t row_ = 0;
    int64_t rows_ = 0; ///< in the group so far
    bool gapless_ = true; ///< they follow one another in memory
    // Where results are being put: on the stage or where they belong.
    T *out_ = nullptr;
    bool direct_ = false;
    // Elements on the stage, and where they go.
    int64_t staged_ = 0;
    T *run_ = nullptr;
};

} // namespace gradnn::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
