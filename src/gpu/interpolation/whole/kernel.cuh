// InterpolateBackward of whole volumes or images in shared memory, one axis after the
// other: README.md has the formula and a picture.
//
// Every sum runs over ascending positions of its axis, one fma for each product, in one
// thread, from +0: the same bits for every cut and alignment. A tap of weight 0 is never
// taken.
#pragma once

#include <cstdint>
#include <type_traits>

#include "gpu/device/async_copy.cuh"
#include "gpu/device/dtype.cuh"
#include "gpu/device/early_start.cuh"
#include "gpu/interpolation/walk.cuh"
#include "gpu/interpolation/whole/cut.hpp"

namespace gradnn::gpu::interpolation::whole {

template <typename Sum>
struct kernel_tables {
    const position_taps *positions = nullptr;
    const Sum *weights = nullptr;
};

/// One word, or three elements, the last two of which may lie beyond a row.
template <int width, typename Sum, typename From>
__device__ __forceinline__ void load_cell(
        Sum (&values)[width], const From *from) {
    if constexpr (width != 3) {
        pack<From, width>::load(from).unpack(values);
    } else {
#pragma unroll
        for (int e = 0; e < width; ++e) {
            Sum one[1];
            pack<From, 1>::load(from + e).unpack(one);
            values[e] = one[0];
        }
    }
}

/// sums[i] += sum over k < count of by[k] * from[k * pitch + i]; `most` taps at most.
template <int most, int width, typename Sum, typename From>
__device__ __forceinline__ void add_taps(Sum (&sums)[width],
        const Sum (&by)[most], const From *from, int count, int pitch) {
#pragma unroll
    for (int k = 0; k < most; ++k)
        if (k < count) {
            Sum values[width];
            load_cell(values, from + k * pitch);
            add_products(sums, sums, by[k], values);
        }
}

/// The taps of one position and its weights, in registers where there are few.
template <int most, typename Sum>
struct taps_of {
    position_taps at;
    const Sum *weights;
    Sum by[most == 0 ? 1 : most];

    __device__ __forceinline__ taps_of(
            const position_taps &position, const Sum *all_weights)
        : at(position), weights(all_weights + position.weights) {
        if constexpr (most != 0) load_weights(by, weights);
    }
    template <int width, typename From>
    __device__ __forceinline__ void add(
            Sum (&sums)[width], const From *from, int pitch) const {
        if constexpr (most != 0) {
            add_taps(sums, by, from, at.count, pitch);
        } else {
            constexpr int at_once = static_cast<int>(weights_at_once);
#pragma unroll 1
            for (int k = 0; k < at.count; k += at_once) {
                Sum some[at_once];
                load_weights(some, weights + k);
                add_taps(sums, some, from + k * pitch, at.count - k, pitch);
            }
        }
    }
};

/// One pass over `groups` groups; calls put(element, sums, count) for each cell, of whose
/// sums the first `count` are in it.
template <int most, int width, typename Sum, typename From, typename Put>
__device__ __forceinline__ void resample(const axis_pass &pass, int groups,
        const From *from, const position_taps *positions, const Sum *weights,
        const Put &put) {
    const auto thread = static_cast<int>(threadIdx.x);
    const auto threads = static_cast<int>(blockDim.x);
    const int lines = groups * pass.outer;
    if (width == 1 && pass.inner == 1) {
        // A thread keeps its positions.
        const int lanes = min(pass.taken, threads);
        const int step = threads / lanes;
        const int line = thread / lanes;
        if (line >= step) return;
#pragma unroll 1
        for (int j = thread - line * lanes; j < pass.taken; j += lanes) {
            const taps_of<most, Sum> taps(positions[j], weights);
            const From *place = from + line * pass.given + taps.at.start;
            const int next = step * pass.given;
            int at = line * pass.taken + j;
            int y = line;
#pragma unroll 1
            for (; y + step < lines; y += 2 * step) {
                Sum one[width] = {};
                Sum two[width] = {};
                taps.add(one, place, 1);
                taps.add(two, place + next, 1);
                put(at, one, width);
                put(at + step * pass.taken, two, width);
                place += 2 * next;
                at += 2 * step * pass.taken;
            }
            if (y < lines) {
                Sum sums[width] = {};
                taps.add(sums, place, 1);
                put(at, sums, width);
            }
        }
        return;
    }
    const auto cells = static_cast<int>(pass.cells.by);
    const int total = lines * pass.taken * cells;
    const auto sum_cell = [&](int cell, Sum(&sums)[width], int &count) {
        const auto row = static_cast<int>(
                pass.cells.quotient(static_cast<uint32_t>(cell)));
        const int x = (cell - row * cells) * width;
        const auto line = static_cast<int>(
                pass.positions.quotient(static_cast<uint32_t>(row)));
        const taps_of<most, Sum> taps(
                positions[row - line * pass.taken], weights);
        taps.add(sums,
                from + line * (pass.given * pass.inner) + taps.at.start + x,
                pass.inner);
        count = min(width, pass.inner - x);
        return row * pass.inner + x;
    };
    int count = 0;
    int next_count = 0;
    int cell = thread;
    // Two at a time, so that what they read is on its way at once.
#pragma unroll 1
    for (; cell + threads < total; cell += 2 * threads) {
        Sum one[width] = {};
        Sum two[width] = {};
        const int at = sum_cell(cell, one, count);
        const int next = sum_cell(cell + threads, two, next_count);
        put(at, one, count);
        put(next, two, next_count);
    }
    if (cell < total) {
        Sum sums[width] = {};
        const int at = sum_cell(cell, sums, count);
        put(at, sums, count);
    }
}

/// Calls body.operator()<taps, width>() with what serves a pass; `threes`: it may have
/// cells of three.
template <typename Sum, bool threes, typename Body>
__device__ __forceinline__ void with_kind(
        const axis_pass &pass, const Body &body) {
    constexpr int wide = 16 / static_cast<int>(sizeof(Sum));
    const auto with_width = [&]<int width>() {
        if (pass.most_taps <= 2)
            body.template operator()<2, width>();
        else if (pass.most_taps <= 4)
            body.template operator()<4, width>();
        else if (pass.most_taps <= 8)
            body.template operator()<8, width>();
        else
            body.template operator()<0, width>();
    };
    if (pass.width == wide) return with_width.template operator()<wide>();
    if constexpr (threes)
        if (pass.width == 3) return with_width.template operator()<3>();
    if constexpr (wide == 4)
        if (pass.width == 2) return with_width.template operator()<2>();
    with_width.template operator()<1>();
}

template <bool threes, typename Sum, typename From, typename Put>
__device__ __forceinline__ void run_pass(const axis_pass &pass, int groups,
        const From *from, const position_taps *positions, const Sum *weights,
        const Put &put) {
    with_kind<Sum, threes>(pass, [&]<int most, int width>() {
        resample<most, width>(pass, groups, from, positions + pass.positions_at,
                weights, put);
    });
}

template <typename Type>
__global__ void __launch_bounds__(most_threads, resident_threads / most_threads)
        whole_kernel(const Type *diff_dst, Type *diff_src,
                const __grid_constant__ work_shape shape,
                const __grid_constant__ kernel_tables<sum_of<Type>> tables,
                int aligned) {
    using sum = sum_of<Type>;
    extern __shared__ uint4 whole_shared[];
    auto *const bytes = reinterpret_cast<unsigned char *>(whole_shared);
    auto *const stage = reinterpret_cast<Type *>(bytes);
    auto *const first = reinterpret_cast<sum *>(bytes + shape.first_at);
    auto *const second = reinterpret_cast<sum *>(bytes + shape.second_at);
    auto *const weights = reinterpret_cast<sum *>(bytes + shape.weights_at);
    auto *const positions
            = reinterpret_cast<position_taps *>(bytes + shape.positions_at);
    const auto thread = static_cast<int>(threadIdx.x);
    const auto threads = static_cast<int>(blockDim.x);
    constexpr int piece = 16 / static_cast<int>(sizeof(Type));
    const int64_t group_elements = shape.dst_elements;

    const auto groups_of = [&](int chunk) {
        const int64_t before = int64_t {chunk} * shape.chunk_groups;
        return static_cast<int>(
                min(int64_t {shape.chunk_groups}, shape.groups - before));
    };
    // Elements ahead of the chunk in its first piece.
    const auto ahead_of = [&](int chunk) {
        if (aligned == 0) return 0;
        return static_cast<int>(
                (int64_t {chunk} * shape.chunk_groups * group_elements)
                % piece);
    };
    const auto load = [&](int chunk) {
        if (chunk >= shape.chunks) return;
        const int64_t begin
                = int64_t {chunk} * shape.chunk_groups * group_elements;
        const int ahead = ahead_of(chunk);
        const Type *from = diff_dst + begin - ahead;
        const auto elements
                = static_cast<int>(groups_of(chunk) * group_elements) + ahead;
        // Whole pieces within the tensor; what is beyond them goes by elements.
        const int64_t within = shape.groups * group_elements - begin + ahead;
        int pieces = 0;
        if (aligned != 0)
            pieces = static_cast<int>(min(
                    int64_t {(elements + piece - 1) / piece}, within / piece));
#pragma unroll 4
        for (int at = thread; at < pieces; at += threads)
            copy_async_past_l1(stage + at * piece, from + at * piece);
        for (int at = pieces * piece + thread; at < elements; at += threads)
            stage[at] = from[at];
    };

    for (int i = thread; i < shape.weight_count; i += threads)
        weights[i] = tables.weights[i];
    for (int i = thread; i < shape.position_count; i += threads)
        positions[i] = tables.positions[i];

    wait_and_let_later_work_start();
    auto chunk = static_cast<int>(blockIdx.x);
    load(chunk);
    commit_copies();
#pragma unroll 1
    for (; chunk < shape.chunks; chunk += static_cast<int>(gridDim.x)) {
        const int groups = groups_of(chunk);
        const Type *const from = stage + ahead_of(chunk);
        Type *const to = diff_src
                + int64_t {chunk} * shape.chunk_groups * shape.src_elements;
        const auto to_memory = [&](int at, const auto &sums, int) {
            constexpr int width = sizeof(sums) / sizeof(sum);
            if (width == 1 || aligned != 0) {
                pack<Type, width>::of(sums).stream(to + at);
            } else {
#pragma unroll
                for (int e = 0; e < width; ++e) {
                    const sum one[1] = {sums[e]};
                    pack<Type, 1>::of(one).stream(to + at + e);
                }
            }
        };
        const auto to_line = [](sum *line) {
            return [line](int at, const auto &sums, int count) {
                constexpr int width = sizeof(sums) / sizeof(sum);
                if constexpr (width != 3) {
                    pack<sum, width>::of(sums).store(line + at);
                } else {
#pragma unroll
                    for (int e = 0; e < width; ++e)
                        if (e < count) line[at + e] = sums[e];
                }
            };
        };
        wait_for_copies<0>();
        __syncthreads();
        const int last = shape.passes - 1;
        const axis_pass *const pass = shape.pass;
        if (last == 0)
            run_pass<false>(
                    pass[0], groups, from, positions, weights, to_memory);
        else
            run_pass<true>(
                    pass[0], groups, from, positions, weights, to_line(first));
        // The stage is free: the first pass alone reads it.
        __syncthreads();
        load(chunk + static_cast<int>(gridDim.x));
        commit_copies();
        if (last == 2) {
            run_pass<true>(pass[1], groups, first, positions, weights,
                    to_line(second));
            __syncthreads();
        }
        if (last > 0)
            run_pass<false>(pass[last], groups, last == 2 ? second : first,
                    positions, weights, to_memory);
    }
    wait_for_copies<0>();
}

} // namespace gradnn::gpu::interpolation::whole
