// result[p, q] = sum over k of vector_side[p, k] * broadcast_side[q, k].
//
// One call computes one block of the result on one thread: for each chunk of
// k, the block's part of the broadcast side is packed (and widened to the
// accumulator's type) into panels that stay in L2; the vector side is packed
// one panel at a time, into L1, and multiplied with all of them by a
// micro-kernel that holds a tile of the result in registers. Tiles live in
// scratch from chunk to chunk and go to the result's memory, converted, while
// the last chunk's are in L1. Reads the operands, writes the result's block
// and scratch. Deterministic: every element is summed by one thread in the
// order of k.
//
// Elements outside an operand are packed as 0. Where such a panel meets Inf or
// NaN, which times 0 would give NaN, a slower micro-kernel with masks leaves
// those terms out, as if the loop had never come there.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/convolution/gemm/gemm.cpp"
#include "cpu/simd/simd_target.hpp"

#include <hwy/foreach_target.h>

#include <hwy/highway.h>

#include "cpu/convolution/gemm/gemm.hpp"
#include "cpu/convolution/gemm/multiply.hpp"
#include "cpu/copies/copy_rectangle.hpp"
#include "cpu/simd/simd.hpp"

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

template <typename T, typename Result>
void run(const gemm_mapping &mapping, const gemm_block &block,
        const gemm_pointers &pointers) {
    using accumulator = accumulator_of<T>;
    constexpr auto lanes = static_cast<int64_t>(lanes_of<accumulator>);
    constexpr int64_t tile_size = p_panel<accumulator> * q_panel;
    const auto *p_base = static_cast<const T *>(pointers.vector_side);
    const auto *q_base = static_cast<const T *>(pointers.broadcast_side);
    auto *result = static_cast<Result *>(pointers.result);
    const auto *p_whole = reinterpret_cast<const accumulator *>(
            pointers.packed_vector_side);
    const auto *q_whole = reinterpret_cast<const accumulator *>(
            pointers.packed_broadcast_side);
    const int64_t p_padded
            = padded_rows<accumulator>(gemm_side::vector, pointers.packed_rows);
    const int64_t q_padded = padded_rows<accumulator>(
            gemm_side::broadcast, pointers.packed_rows);

    const int64_t q_panels = (block.qs + q_panel - 1) / q_panel;
    const int64_t chunks = block.chunk_end - block.chunk_begin;
    const bool rounds = chunks > gemm_round_chunks;
    std::byte *scratch = pointers.scratch;
    auto *q_scratch = take_scratch<accumulator>(
            scratch, q_panels * q_panel * gemm_max_steps);
    auto *p_scratch = take_scratch<accumulator>(
            scratch, p_panel<accumulator> * gemm_max_steps);
    auto *mask = take_scratch<accumulator>(scratch,
            (p_panel<accumulator> > q_panel ? p_panel<accumulator> : q_panel)
                    * gemm_max_steps);
    auto *q_outside = take_scratch<bool>(scratch, q_panels);
    auto *q_non_finite = take_scratch<bool>(scratch, q_panels);
    auto *totals = result == nullptr
            ? reinterpret_cast<accumulator *>(pointers.partial)
            : take_scratch<accumulator>(
                    scratch, tile_elements<accumulator>(block));
    auto *sums = rounds ? take_scratch<accumulator>(
                         scratch, tile_elements<accumulator>(block))
                        : totals;
    auto *lows = rounds ? take_scratch<accumulator>(
                         scratch, tile_elements<accumulator>(block))
                        : nullptr;

    if (chunks == 0) {
        std::memset(totals, 0,
                static_cast<size_t>(tile_elements<accumulator>(block))
                        * sizeof(accumulator));
        if (result != nullptr)
            for_each_tile(block, totals,
                    [&](int64_t p, int64_t ps, int64_t q, int64_t qs,
                            const accumulator *tile) HWY_ATTR {
                        unpack(mapping, tile, p_width<accumulator>(ps),
                                block.p + p, ps, block.q + q, qs, result);
                    });
        return;
    }

    for (int64_t number = 0; number < chunks; ++number) {
        const int64_t chunk = block.chunk_begin + number;
        const int64_t steps = mapping.steps(chunk);
        const bool add = number % gemm_round_chunks != 0;
        const bool last = number + 1 == chunks;
        const bool round_ends
                = rounds && (last || (number + 1) % gemm_round_chunks == 0);
        const accumulator *q_block = q_scratch;
        if (q_whole != nullptr) {
            q_block = q_whole + mapping.first_step(chunk) * q_padded
                    + block.q * steps;
            for (int64_t panel = 0; panel < q_panels; ++panel)
                q_outside[panel] = false;
        } else {
            pack<gemm_side::broadcast>(mapping, q_base, block.q, block.qs,
                    chunk, steps, q_scratch, q_outside);
        }
        bool q_checked = false;
        for (int64_t p = 0; p < block.ps; p += p_panel<accumulator>) {
            const int64_t ps = block.ps - p < p_panel<accumulator>
                    ? block.ps - p
                    : p_panel<accumulator>;
            const int64_t width = p_width<accumulator>(ps);
            bool p_outside = false;
            const accumulator *p_packed = p_scratch;
            if (p_whole != nullptr)
                p_packed = p_whole + mapping.first_step(chunk) * p_padded
                        + (block.p + p) * steps;
            else
                pack<gemm_side::vector>(mapping, p_base, block.p + p, ps, chunk,
                        steps, p_scratch, &p_outside);
            if (p_outside && !q_checked) {
                q_checked = true;
                for (int64_t panel = 0; panel < q_panels; ++panel)
                    q_non_finite[panel] = has_non_finite(
                            q_block + panel * q_panel * steps,
                            q_width(block.qs - panel * q_panel) * steps);
            }
            bool p_checked = false;
            bool p_non_finite = false;
            bool p_masked = false;
            for (int64_t panel = 0; panel < q_panels; ++panel) {
                const int64_t q = panel * q_panel;
                const int64_t qs
                        = block.qs - q < q_panel ? block.qs - q : q_panel;
                const int64_t columns = q_width(qs);
                const int64_t offset
                        = (p / p_panel<accumulator> * q_panels + panel)
                        * tile_size;
                accumulator *tile = sums + offset;
                const accumulator *q_packed = q_block + q * steps;
                if (q_outside[panel] && !p_checked) {
                    p_checked = true;
                    p_non_finite = has_non_finite(p_packed, width * steps);
                }
                if (p_outside && q_non_finite[panel]) {
                    if (!p_masked)
                        pack<gemm_side::vector>(mapping, p_base, block.p + p,
                                ps, chunk, steps, mask, &p_masked, true);
                    multiply_masked<accumulator>(steps, width / lanes, columns,
                            p_packed, q_packed, mask, nullptr, tile, add);
                } else if (q_outside[panel] && p_non_finite) {
                    bool masked = false;
                    pack<gemm_side::broadcast>(mapping, q_base, block.q + q, qs,
                            chunk, steps, mask, &masked, true);
                    p_masked = false;
                    multiply_masked<accumulator>(steps, width / lanes, columns,
                            p_packed, q_packed, nullptr, mask, tile, add);
                } else {
                    multiply_of<accumulator>(width / lanes, columns)(
                            steps, p_packed, q_packed, tile, add);
                }
                if (round_ends)
                    add_round(tile, totals + offset, lows + offset,
                            width * columns, number < gemm_round_chunks, last);
                if (last && result != nullptr)
                    unpack(mapping, totals + offset, width, block.p + p, ps,
                            block.q + q, qs, result);
            }
        }
    }
}

template <typename T, typename Result>
void sum_partials(const gemm_mapping &mapping, const gemm_block &block,
        std::byte *partials, int64_t count, int64_t pitch, void *result) {
    using accumulator = accumulator_of<T>;
    auto *totals = reinterpret_cast<accumulator *>(partials);
    for_each_tile(block, totals,
            [&](int64_t p, int64_t ps, int64_t q, int64_t qs,
                    accumulator *tile) HWY_ATTR {
                const int64_t width = p_width<accumulator>(ps);
                for (int64_t i = 1; i < count; ++i)
                    accumulate(reinterpret_cast<accumulator *>(
                                       reinterpret_cast<std::byte *>(tile)
                                       + i * pitch),
                            tile, width * q_width(qs), true);
                unpack(mapping, tile, width, block.p + p, ps, block.q + q, qs,
                        static_cast<Result *>(result));
            });
}

template <typename T, typename Result>
gemm_kernels kernels_of() {
    using accumulator = accumulator_of<T>;
    gemm_kernels kernels;
    kernels.target = hwy::TargetName(HWY_TARGET);
    kernels.lanes = static_cast<int64_t>(lanes_of<accumulator>);
    kernels.p_panel = p_panel<accumulator>;
    kernels.q_panel = q_panel;
    kernels.accumulator_bytes = sizeof(accumulator);
    kernels.padded_rows = padded_rows<accumulator>;
    kernels.pack = pack_whole<T>;
    kernels.run = run<T, Result>;
    kernels.sum_partials = sum_partials<T, Result>;
    return kernels;
}

gemm_kernels kernels_for(
        detail::data_type type, detail::data_type result_type) {
    using detail::data_type;
    switch (type) {
        case data_type::f64: return kernels_of<double, double>();
        case data_type::bf16:
            return result_type == data_type::f32 ? kernels_of<bf16, float>()
                                                 : kernels_of<bf16, bf16>();
        case data_type::f16:
            return result_type == data_type::f32 ? kernels_of<f16, float>()
                                                 : kernels_of<f16, f16>();
        default: return kernels_of<float, float>();
    }
}

} // namespace gradnn::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gradnn::cpu {

HWY_EXPORT(kernels_for);

gemm_kernels gemm_kernels_for(
        detail::data_type type, detail::data_type result_type) {
    return HWY_DYNAMIC_DISPATCH(kernels_for)(type, result_type);
}

namespace {
constexpr int64_t round_up(int64_t value, int64_t multiple) {
    return (value + multiple - 1) / multiple * multiple;
}
} // namespace

int64_t gemm_kernels::packed_bytes(
        gemm_side side, int64_t rows, int64_t steps) const {
    return round_up(padded_rows(side, rows) * steps * accumulator_bytes, 64);
}

int64_t gemm_kernels::partial_bytes(int64_t ps, int64_t qs) const {
    return round_up(
            round_up(ps, p_panel) * round_up(qs, q_panel) * accumulator_bytes,
            64);
}

int64_t gemm_kernels::scratch_bytes(
        int64_t ps, int64_t qs, int64_t chunks) const {
    const auto packed = [&](int64_t rows) {
        return round_up(rows * gemm_max_steps * accumulator_bytes, 64);
    };
    const int64_t tiles = chunks > gemm_round_chunks ? 3 : 1;
    return packed(round_up(qs, q_panel)) + packed(p_panel)
            + packed(p_panel > q_panel ? p_panel : q_panel)
            + 2 * round_up((qs + q_panel - 1) / q_panel, 64)
            + tiles * partial_bytes(ps, qs);
}

} // namespace gradnn::cpu
#endif
