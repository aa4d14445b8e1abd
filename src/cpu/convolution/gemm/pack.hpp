// Panels and tiles of the matrix product (gemm.cpp): operands packed into panels,
// tiles written to the result, and the scratch that holds both.
//
// Included once for each of Highway's targets, like simd.hpp.
#include <cstring>

#include "cpu/convolution/gemm/gemm.hpp"
#include "cpu/convolution/gemm/multiply.hpp"
#include "cpu/copies/copy_rectangle.hpp"
#include "cpu/simd/simd.hpp"

#if defined(GRADNN_CPU_GEMM_PACK_TOGGLE) == defined(HWY_TARGET_TOGGLE)
#ifdef GRADNN_CPU_GEMM_PACK_TOGGLE
#undef GRADNN_CPU_GEMM_PACK_TOGGLE
#else
#define GRADNN_CPU_GEMM_PACK_TOGGLE
#endif

HWY_BEFORE_NAMESPACE();
namespace gradnn::cpu::HWY_NAMESPACE {

/// Packs rows [row, row + rows) of a chunk as panels [panel][step][row], in
/// the accumulator's type; or, as_mask, 1 for each element that is inside.
/// outside[panel] says whether a panel has any that is not; null: none has.
template <gemm_side which, typename T>
void pack(const gemm_mapping &mapping, const T *base, int64_t row, int64_t rows,
        int64_t chunk, int64_t steps, accumulator_of<T> *panels, bool *outside,
        bool as_mask = false) {
    using accumulator = accumulator_of<T>;
    constexpr int64_t full
            = which == gemm_side::vector ? p_panel<accumulator> : q_panel;
    const int64_t last = (rows - 1) / full * full;
    const int64_t last_width = which == gemm_side::vector
            ? p_width<accumulator>(rows - last)
            : q_width(rows - last);
    if (last_width != rows - last)
        std::memset(panels + last * steps, 0,
                static_cast<size_t>(last_width * steps) * sizeof(accumulator));
    for (int64_t panel = 0; outside != nullptr && panel <= last / full; ++panel)
        outside[panel] = false;
    const auto take = [&](const operand_rectangle &from) HWY_ATTR {
        for (int64_t done = 0; done < from.rows;) {
            const int64_t at = from.row - row + done;
            const int64_t in_panel = at % full;
            const int64_t start = at - in_panel;
            const int64_t width = start == last ? last_width : full;
            const int64_t some = from.rows - done < full - in_panel
                    ? from.rows - done
                    : full - in_panel;
            accumulator *to
                    = panels + start * steps + from.step * width + in_panel;
            const int64_t line = from.step_pitch * width;
#if HWY_TARGET != HWY_SCALAR
            if constexpr (which == gemm_side::broadcast
                    && lanes_of<accumulator> == 2 * q_panel) {
                if (from.step_stride == 1 && !from.outside && !as_mask
                        && in_panel == 0 && start + full < last
                        && from.rows - done >= 2 * full) {
                    transpose_halves(
                            base + from.offset + done * from.row_stride,
                            from.row_stride, to, to + full * steps, line,
                            from.steps);
                    done += 2 * full;
                    continue;
                }
            }
#endif
            if (from.outside) outside[at / full] = true;
            if (from.outside || as_mask) {
                const accumulator value = from.outside ? 0 : 1;
                for (int64_t k = 0; k < from.steps; ++k)
                    for (int64_t i = 0; i < some; ++i)
                        to[k * line + i] = value;
            } else {
                copy_rectangle(base + from.offset + done * from.row_stride,
                        from.row_stride, from.step_stride, to, 1, line, some,
                        from.steps);
            }
            done += some;
        }
    };
    const sink<const operand_rectangle &> out(take);
    if constexpr (which == gemm_side::vector)
        mapping.vector_side(row, rows, chunk, out);
    else
        mapping.broadcast_side(row, rows, chunk, out);
}

template <typename T>
int64_t padded_rows(gemm_side which, int64_t rows) {
    const int64_t full = which == gemm_side::vector ? p_panel<T> : q_panel;
    const int64_t last = (rows - 1) / full * full;
    return last
            + (which == gemm_side::vector ? p_width<T>(rows - last)
                                          : q_width(rows - last));
}

/// pack() of all rows to their place among the chunks.
template <typename T>
void pack_whole(const gemm_mapping &mapping, gemm_side which, const void *base,
        int64_t rows, int64_t chunk, std::byte *packed) {
    using accumulator = accumulator_of<T>;
    const int64_t steps = mapping.steps(chunk);
    auto *to = reinterpret_cast<accumulator *>(packed)
            + mapping.first_step(chunk) * padded_rows<accumulator>(which, rows);
    const auto *from = static_cast<const T *>(base);
    if (which == gemm_side::vector)
        pack<gemm_side::vector>(
                mapping, from, 0, rows, chunk, steps, to, nullptr);
    else
        pack<gemm_side::broadcast>(
                mapping, from, 0, rows, chunk, steps, to, nullptr);
}

/// Writes a tile to the result.
template <typename T, typename Result>
void unpack(const gemm_mapping &mapping, const T *tile, int64_t width,
        int64_t p, int64_t ps, int64_t q, int64_t qs, Result *base) {
    const auto take = [&](const result_rectangle &to) HWY_ATTR {
        copy_rectangle(tile + (to.q - q) * width + to.p - p, 1, width,
                base + to.offset, to.p_stride, to.q_stride, to.ps, to.qs);
    };
    mapping.result(p, ps, q, qs, sink<const result_rectangle &>(take));
}

/// The tiles of a block, in the order in which they are stored.
template <typename T, typename Body>
HWY_INLINE void for_each_tile(const gemm_block &block, T *tiles, Body body) {
    for (int64_t p = 0; p < block.ps; p += p_panel<T>)
        for (int64_t q = 0; q < block.qs; q += q_panel) {
            body(p, block.ps - p < p_panel<T> ? block.ps - p : p_panel<T>, q,
                    block.qs - q < q_panel ? block.qs - q : q_panel, tiles);
            tiles += p_panel<T> * q_panel;
        }
}

template <typename T>
int64_t tile_elements(const gemm_block &block) {
    return (block.ps + p_panel<T> - 1)
            / p_panel<
                    T> * p_panel<T> * ((block.qs + q_panel - 1) / q_panel * q_panel);
}

/// scratch + a multiple of 64 bytes.
template <typename T>
T *take_scratch(std::byte *&scratch, int64_t elements) {
    T *taken = reinterpret_cast<T *>(scratch);
    scratch += (elements * static_cast<int64_t>(sizeof(T)) + 63) / 64 * 64;
    return taken;
}

/// What a block's work needs beside its operands.
template <typename T>
struct block_scratch {
    /// Sums go to `partial` where that is given.
    block_scratch(const gemm_block &block, std::byte *scratch, int64_t q_panels,
            bool rounds, std::byte *partial) {
        constexpr int64_t widest
                = p_panel < T >> q_panel ? p_panel<T> : q_panel;
        q = take_scratch<T>(scratch, q_panels * q_panel * gemm_max_steps);
        p = take_scratch<T>(scratch, p_panel<T> * gemm_max_steps);
        mask = take_scratch<T>(scratch, widest * gemm_max_steps);
        q_outside = take_scratch<bool>(scratch, q_panels);
        q_non_finite = take_scratch<bool>(scratch, q_panels);
        const int64_t elements = tile_elements<T>(block);
        totals = partial != nullptr ? reinterpret_cast<T *>(partial)
                                    : take_scratch<T>(scratch, elements);
        sums = rounds ? take_scratch<T>(scratch, elements) : totals;
        lows = rounds ? take_scratch<T>(scratch, elements) : nullptr;
    }

    T *q, *p, *mask; ///< packed operands
    bool *q_outside, *q_non_finite; ///< of each panel
    T *totals, *sums, *lows;
};

} // namespace gradnn::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
