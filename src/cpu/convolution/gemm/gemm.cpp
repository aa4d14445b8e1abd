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
#include "cpu/convolution/gemm/pack.hpp"
#include "cpu/simd/simd.hpp"

HWY_BEFORE_NAMESPACE();
namespace gradnn::cpu::HWY_NAMESPACE {

/// The sums of no products.
template <typename T, typename Result>
void write_zeros(const gemm_mapping &mapping, const gemm_block &block,
        T *totals, Result *result) {
    std::memset(totals, 0,
            static_cast<size_t>(tile_elements<T>(block)) * sizeof(T));
    if (result == nullptr) return;
    for_each_tile(block, totals,
            [&](int64_t p, int64_t ps, int64_t q, int64_t qs, const T *tile)
                    HWY_ATTR {
                        unpack(mapping, tile, p_width<T>(ps), block.p + p, ps,
                                block.q + q, qs, result);
                    });
}

/// The operands of a block, packed by the caller or to be packed here.
template <typename T>
struct block_operands {
    using accumulator = accumulator_of<T>;

    block_operands(const gemm_mapping &the_mapping, const gemm_block &the_block,
            const gemm_pointers &pointers)
        : mapping(the_mapping),
          block(the_block),
          p_base(static_cast<const T *>(pointers.vector_side)),
          q_base(static_cast<const T *>(pointers.broadcast_side)),
          p_whole(reinterpret_cast<const accumulator *>(
                  pointers.packed_vector_side)),
          q_whole(reinterpret_cast<const accumulator *>(
                  pointers.packed_broadcast_side)),
          p_padded(padded_rows<accumulator>(
                  gemm_side::vector, pointers.packed_rows)),
          q_padded(padded_rows<accumulator>(
                  gemm_side::broadcast, pointers.packed_rows)),
          q_panels((the_block.qs + q_panel - 1) / q_panel) {}

    const gemm_mapping &mapping;
    const gemm_block &block;
    const T *p_base, *q_base;
    const accumulator *p_whole, *q_whole; ///< packed by the caller, or null
    int64_t p_padded, q_padded; ///< rows of those
    int64_t q_panels;
};

/// A part of k.
struct gemm_chunk {
    int64_t number; ///< in the mapping
    int64_t steps;
};

/// A packed panel of the vector side. Whether it has Inf or NaN is found out when
/// it first matters.
template <typename T>
struct vector_panel {
    int64_t begin, rows, width;
    const T *packed;
    bool outside = false; ///< has elements outside the operand
    bool checked = false; ///< non_finite is known
    bool non_finite = false;
    bool masked = false; ///< its mask is in the scratch
};

template <typename T, typename Scratch>
const accumulator_of<T> *packed_broadcast_side(
        const block_operands<T> &from, gemm_chunk chunk, const Scratch &to) {
    if (from.q_whole != nullptr) {
        for (int64_t panel = 0; panel < from.q_panels; ++panel)
            to.q_outside[panel] = false;
        return from.q_whole
                + from.mapping.first_step(chunk.number) * from.q_padded
                + from.block.q * chunk.steps;
    }
    pack<gemm_side::broadcast>(from.mapping, from.q_base, from.block.q,
            from.block.qs, chunk.number, chunk.steps, to.q, to.q_outside);
    return to.q;
}

template <typename T, typename Scratch>
vector_panel<accumulator_of<T>> packed_vector_panel(
        const block_operands<T> &from, gemm_chunk chunk, int64_t p,
        const Scratch &to) {
    using accumulator = accumulator_of<T>;
    const int64_t left = from.block.ps - p;
    const int64_t rows
            = left < p_panel<accumulator> ? left : p_panel<accumulator>;
    vector_panel<accumulator> made {p, rows, p_width<accumulator>(rows), to.p};
    if (from.p_whole != nullptr)
        made.packed = from.p_whole
                + from.mapping.first_step(chunk.number) * from.p_padded
                + (from.block.p + p) * chunk.steps;
    else
        pack<gemm_side::vector>(from.mapping, from.p_base, from.block.p + p,
                rows, chunk.number, chunk.steps, to.p, &made.outside);
    return made;
}

/// The products of two panels in a chunk, which go to `tile` or are added to it.
template <typename T, typename Scratch>
void multiply_panels(const block_operands<T> &from, gemm_chunk chunk,
        vector_panel<accumulator_of<T>> &rows, int64_t panel,
        const accumulator_of<T> *q_packed, const Scratch &scratch,
        accumulator_of<T> *tile, bool add) {
    using accumulator = accumulator_of<T>;
    constexpr auto lanes = static_cast<int64_t>(lanes_of<accumulator>);
    const int64_t q = panel * q_panel;
    const int64_t left = from.block.qs - q;
    const int64_t qs = left < q_panel ? left : q_panel;
    const int64_t vectors = rows.width / lanes;
    const int64_t columns = q_width(qs);
    const bool q_outside = scratch.q_outside[panel];
    if (q_outside && !rows.checked) {
        rows.checked = true;
        rows.non_finite = has_non_finite(rows.packed, rows.width * chunk.steps);
    }
    if (rows.outside && scratch.q_non_finite[panel]) {
        if (!rows.masked)
            pack<gemm_side::vector>(from.mapping, from.p_base,
                    from.block.p + rows.begin, rows.rows, chunk.number,
                    chunk.steps, scratch.mask, &rows.masked, true);
        multiply_masked<accumulator>(chunk.steps, vectors, columns, rows.packed,
                q_packed, scratch.mask, nullptr, tile, add);
    } else if (q_outside && rows.non_finite) {
        bool masked = false;
        pack<gemm_side::broadcast>(from.mapping, from.q_base, from.block.q + q,
                qs, chunk.number, chunk.steps, scratch.mask, &masked, true);
        rows.masked = false;
        multiply_masked<accumulator>(chunk.steps, vectors, columns, rows.packed,
                q_packed, nullptr, scratch.mask, tile, add);
    } else {
        multiply_of<accumulator>(vectors, columns)(
                chunk.steps, rows.packed, q_packed, tile, add);
    }
}

template <typename T, typename Result>
void run(const gemm_mapping &mapping, const gemm_block &block,
        const gemm_pointers &pointers) {
    using accumulator = accumulator_of<T>;
    constexpr int64_t tile_size = p_panel<accumulator> * q_panel;
    const block_operands<T> operands(mapping, block, pointers);
    auto *result = static_cast<Result *>(pointers.result);
    const int64_t q_panels = operands.q_panels;
    const int64_t chunks = block.chunk_end - block.chunk_begin;
    const bool rounds = chunks > gemm_round_chunks;
    const block_scratch<accumulator> scratch(block, pointers.scratch, q_panels,
            rounds, result == nullptr ? pointers.partial : nullptr);
    if (chunks == 0)
        return write_zeros<accumulator>(mapping, block, scratch.totals, result);

    for (int64_t number = 0; number < chunks; ++number) {
        const int64_t index = block.chunk_begin + number;
        const gemm_chunk chunk {index, mapping.steps(index)};
        const bool add = number % gemm_round_chunks != 0;
        const bool last = number + 1 == chunks;
        const bool round_ends
                = rounds && (last || (number + 1) % gemm_round_chunks == 0);
        const accumulator *q_block
                = packed_broadcast_side(operands, chunk, scratch);
        bool q_checked = false;
        for (int64_t p = 0; p < block.ps; p += p_panel<accumulator>) {
            auto rows = packed_vector_panel(operands, chunk, p, scratch);
            if (rows.outside && !q_checked) {
                q_checked = true;
                for (int64_t panel = 0; panel < q_panels; ++panel)
                    scratch.q_non_finite[panel] = has_non_finite(
                            q_block + panel * q_panel * chunk.steps,
                            q_width(block.qs - panel * q_panel) * chunk.steps);
            }
            for (int64_t panel = 0; panel < q_panels; ++panel) {
                const int64_t q = panel * q_panel;
                const int64_t qs
                        = block.qs - q < q_panel ? block.qs - q : q_panel;
                const int64_t offset
                        = (p / p_panel<accumulator> * q_panels + panel)
                        * tile_size;
                accumulator *tile = scratch.sums + offset;
                multiply_panels(operands, chunk, rows, panel,
                        q_block + q * chunk.steps, scratch, tile, add);
                accumulator *total = scratch.totals + offset;
                if (round_ends)
                    add_round(tile, total, scratch.lows + offset,
                            rows.width * q_width(qs),
                            number < gemm_round_chunks, last);
                if (last && result != nullptr)
                    unpack(mapping, total, rows.width, block.p + p, rows.rows,
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
