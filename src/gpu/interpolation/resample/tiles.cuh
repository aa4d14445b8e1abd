// Blocks walk through tiles of shared memory, of which some are on their way by bulk copies.
#pragma once

#include "gpu/interpolation/resample/walk.cuh"

namespace gradnn::gpu::resample {

/// To a position of the outer axes.
template <problem_specification p, typename Type>
__device__ __forceinline__ void move_to_outer(
        unsigned outer, const Type *&read, Type *&written) {
#pragma unroll
    for (int i = 0; i < most_outer; ++i) {
        if (p.outer[i] == 1) continue;
        const unsigned at = outer % p.outer[i];
        outer /= p.outer[i];
        read += at * p.outer_read[i];
        written += at * p.outer_write[i];
    }
}

template <specification_of_kernel s>
struct tile_of_block {
    static constexpr problem_specification p = s.of;
    static constexpr cut c = s.cut_by;
    static constexpr geometry g = geometry_of(s);
    static constexpr bool walks = p.walk.is_there();
    static constexpr axis first_axis = walks ? p.walk : p.column;
    using type = storage<p.type>;
    using sum_type = sum<p.type>;
    static constexpr int in_16_bytes = 16 / static_cast<int>(sizeof(type));

    int outer; ///< the first outer position
    int strip, middle; ///< which parts of the first axis and of the middle one
    int from, end; ///< positions of the first axis that it reads
    int from_middle, end_middle;
    const type *read; ///< of the first outer position
    type *written;

    /// Strips of one outer position lie behind one another where they share rows; else the
    /// outer positions of one strip do, whose columns threads keep.
    __device__ __forceinline__ void find(int number,
            const tables<sum_type> &map, const type *read_from,
            type *written_to) {
        constexpr int outers = ceil_div(g.outers, c.planes);
        strip = walks ? number % g.tile_strips : number / outers;
        outer = walks ? number / g.tile_strips : number % outers;
        middle = g.boxes ? outer % g.middle_strips : 0;
        if constexpr (g.boxes) outer /= g.middle_strips;
        outer *= c.planes;
        read = read_from;
        written = written_to;
        move_to_outer<p>(static_cast<unsigned>(outer), read, written);
        if constexpr (g.tile_strips == 1) {
            from = 0;
            end = first_axis.read;
        } else {
            const place *const places
                    = walks ? map.walk.places : map.column.places;
            const place last = places[least((strip + 1) * g.tile_written,
                                              first_axis.written)
                    - 1];
            from = places[strip * g.tile_written].first;
            end = most(from, last.first + last.count);
        }
        from_middle = 0;
        end_middle = p.middle.read;
        if constexpr (g.boxes) {
            const place last
                    = map.middle.places[least((middle + 1) * c.middle_part,
                                                p.middle.written)
                            - 1];
            from_middle = map.middle.places[middle * c.middle_part].first;
            end_middle = most(from_middle, last.first + last.count);
            if (end_middle == from_middle) end = from;
        }
    }
    __device__ __forceinline__ const type *begin_of_copy() const {
        return read + from * first_axis.read_pitch
                + from_middle * p.middle.read_pitch;
    }
    /// Of a copy.
    __device__ __forceinline__ int elements_of_copy() const {
        const long long row = row_extent(p, end_middle - from_middle);
        if constexpr (g.boxes) return static_cast<int>(row);
        const int planes
                = c.planes == 1 ? 1 : least(c.planes, g.outers - outer);
        return static_cast<int>((planes - 1) * p.outer_read[0]
                + (end - from - 1) * first_axis.read_pitch + row);
    }
    __device__ __forceinline__ static int place_in_16_bytes(const type *at) {
        return static_cast<int>(
                reinterpret_cast<uintptr_t>(at) % 16 / sizeof(type));
    }
    __device__ __forceinline__ static type *stage(int slot) {
        return reinterpret_cast<type *>(jit::dynamic_shared() + barrier_bytes
                + g.table_bytes + g.line_bytes + g.gathered_bytes
                + slot * g.stage_bytes + stage_margin);
    }
    /// The columns' sums of all rows of a tile.
    __device__ __forceinline__ static sum_type *lines() {
        return reinterpret_cast<sum_type *>(
                jit::dynamic_shared() + barrier_bytes + g.table_bytes);
    }
    /// Where what is written gathers, at its places in 16 bytes of memory.
    __device__ __forceinline__ static type *gathered() {
        return reinterpret_cast<type *>(jit::dynamic_shared() + barrier_bytes
                + g.table_bytes + g.line_bytes);
    }
    __device__ __forceinline__ static jit::copy_barrier *barrier(int slot) {
        return reinterpret_cast<jit::copy_barrier *>(jit::dynamic_shared())
                + slot;
    }

    /// Of copy `i` the whole 16 bytes that it takes and where they begin; `rest` elements at
    /// the tensor's end are beyond them.
    struct range {
        const type *begin;
        type *to;
        int whole, rest;
    };
    __device__ __forceinline__ range range_of(
            int i, int slot, const type *tensor) const {
        const type *const first = begin_of_copy();
        const type *const begin = first + i * first_axis.read_pitch;
        const int past = place_in_16_bytes(begin);
        const int count = past + elements_of_copy();
        const long long left = tensor + tensor_extent(p) - (begin - past);
        int whole = ceil_div(count, in_16_bytes) * in_16_bytes;
        if (whole > left) whole -= in_16_bytes;
        return {begin - past,
                stage(slot) + place_in_16_bytes(first) + i * g.stage_row - past,
                whole, most(0, count - whole)};
    }

    /// The first element that is written.
    __device__ __forceinline__ type *begin_of_written() const {
        return written
                + strip * g.tile_written
                * static_cast<long long>(first_axis.write_pitch);
    }
    /// Where threads write the first outer position: there or to what gathers.
    __device__ __forceinline__ type *destination() const {
        if constexpr (!c.gathers) return written;
        type *const begin = begin_of_written();
        return gathered() + place_in_16_bytes(begin) - (begin - written);
    }
    /// By all threads, from what gathered.
    __device__ __forceinline__ void flush() const {
        type *const begin = begin_of_written();
        const int planes = least(c.planes, g.outers - outer);
        const int positions = least(
                g.tile_written, first_axis.written - strip * g.tile_written);
        const int past = place_in_16_bytes(begin);
        const int count = static_cast<int>(dense_step(p)) * positions * planes;
        const int thread = static_cast<int>(threadIdx.x);
        for (int i = thread * in_16_bytes; i < past + count;
                i += c.threads * in_16_bytes) {
            const type *const from_here = gathered() + i;
            type *const to = begin + (i - past);
            if (i >= past && i + in_16_bytes <= past + count) {
                __stcs(reinterpret_cast<uint4 *>(to),
                        *reinterpret_cast<const uint4 *>(from_here));
                continue;
            }
            for (int j = 0; j < in_16_bytes; ++j)
                if (i + j >= past && i + j < past + count) to[j] = from_here[j];
        }
    }

    /// Threads that submit bulk copies.
    static constexpr int copiers = g.boxes ? 32 : 1;

    /// By all threads: the tile's elements to a stage, which keeps their places in 16 bytes.
    /// Says whether threads have copied themselves.
    __device__ __forceinline__ bool copy(int slot, const type *tensor) const {
        const int copies = end == from ? 0 : g.boxes ? end - from : 1;
        const int thread = static_cast<int>(threadIdx.x);
        bool by_threads = !p.bulk_copies;
        if (copies > 0) {
            const range last = range_of(copies - 1, slot, tensor);
            by_threads = by_threads || last.rest > 0;
            if (thread < last.rest)
                last.to[last.whole + thread] = last.begin[last.whole + thread];
        }
        if constexpr (p.bulk_copies) {
            if (thread >= copiers) return by_threads;
            uint32_t bytes = 0;
            for (int i = thread; i < copies; i += copiers)
                bytes += range_of(i, slot, tensor).whole * sizeof(type);
            jit::expect_copies(barrier(slot), bytes);
            for (int i = thread; i < copies; i += copiers) {
                const range one = range_of(i, slot, tensor);
                if (one.whole > 0)
                    jit::copy_bulk(one.to, one.begin, one.whole * sizeof(type),
                            barrier(slot));
            }
        } else {
            for (int i = 0; i < copies; ++i) {
                const range one = range_of(i, slot, tensor);
                for (int j = thread * in_16_bytes; j < one.whole;
                        j += c.threads * in_16_bytes)
                    *reinterpret_cast<uint4 *>(one.to + j)
                            = *reinterpret_cast<const uint4 *>(one.begin + j);
            }
        }
        return by_threads;
    }
};

/// Of so many items of a tile, those of different planes are neighbours: threads side by side
/// do the same then. Where they write to memory those of a plane are, which leaves fewer
/// places that are written in part.
template <cut c>
__device__ __forceinline__ constexpr int plane_of(int item, int items) {
    return c.gathers ? item % c.planes : item / (items / c.planes);
}
template <cut c>
__device__ __forceinline__ constexpr int rest_of(int item, int items) {
    return c.gathers ? item / c.planes : item % (items / c.planes);
}

/// The lanes of a thread, whose columns it keeps from tile to tile.
template <specification_of_kernel s>
struct lanes_of_thread {
    using tile = tile_of_block<s>;
    static constexpr problem_specification p = s.of;
    static constexpr cut c = s.cut_by;
    static constexpr geometry g = geometry_of(s);
    using type = storage<p.type>;
    using sum_type = sum<p.type>;
    using walk_of_lane = walk<staged(s)>;

    walk_of_lane of[g.sets];
    bool active[g.sets];
    int strip; ///< that the columns are of

    __device__ __forceinline__ static int lane(int set) {
        const int thread = static_cast<int>(threadIdx.x);
        return g.sets > 1 ? thread + set * c.threads : thread % g.lanes;
    }
    __device__ __forceinline__ static int first_item() {
        return g.sets > 1 ? 0 : static_cast<int>(threadIdx.x) / g.lanes;
    }

    __device__ __forceinline__ void find(
            int of_strip, const axis_table<sum_type> &table) {
        strip = of_strip;
#pragma unroll
        for (int set = 0; set < g.sets; ++set) {
            const int columns = lane(set) / g.vectors
                    + (tile::walks ? 0 : strip * c.strip);
            active[set] = columns < g.tiles && lane(set) < g.lanes
                    && first_item() < g.groups;
            if (active[set]) of[set].along.find(columns, table);
        }
    }

    __device__ __forceinline__ static const type *begin_of(
            const tile &at, int slot) {
        return tile::stage(slot) + tile::place_in_16_bytes(at.begin_of_copy());
    }

    __device__ __forceinline__ void compute(
            const tile &at, int slot, const tables<sum_type> &map) {
        const type *here = begin_of(at, slot);
        type *const to = at.destination();
        if constexpr (!tile::walks) here -= at.from * p.column.read_pitch;
        here -= at.from_middle * p.middle.read_pitch;
        const int planes = least(c.planes, g.outers - at.outer);
#pragma unroll
        for (int set = 0; set < g.sets; ++set) {
            if (!active[set]) continue;
            const int inner = lane(set) % g.vectors * c.vector;
#pragma unroll 2
            for (int number = first_item(); number < g.lane_items;
                    number += g.groups) {
                const int plane = plane_of<c>(number, g.lane_items);
                int rest = rest_of<c>(number, g.lane_items);
                if (plane >= planes) continue;
                typename walk_of_lane::item item {0, 0, 0};
                if constexpr (tile::walks) {
                    item.middle = at.middle * g.middle_items
                            + rest % g.middle_items;
                    rest /= g.middle_items;
                    if (g.boxes && item.middle >= g.middles) continue;
                    item.begin = at.strip * g.tile_written + rest * c.strip;
                    item.end = least(item.begin + c.strip, p.walk.written);
                    if (item.begin >= p.walk.written) continue;
                }
                of[set].run(item, map, here + plane * p.outer_read[0] + inner,
                        at.from, to + plane * p.outer_write[0] + inner);
            }
        }
    }

    /// The first pass: the columns' sums of all rows.
    __device__ __forceinline__ void fill_lines(const tile &at, int slot) {
        const type *const here = begin_of(at, slot);
        const int planes = least(c.planes, g.outers - at.outer);
        constexpr int length = p.column.written * p.inner;
#pragma unroll
        for (int set = 0; set < g.sets; ++set) {
            if (!active[set]) continue;
            const int inner = lane(set) % g.vectors;
#pragma unroll 2
            for (int number = first_item(); number < g.lane_items;
                    number += g.groups) {
                const int middle = number % c.middle_read;
                const int row = number / c.middle_read % c.tile_read;
                const int plane = number / c.middle_read / c.tile_read;
                if (row >= at.end - at.from || plane >= planes
                        || middle >= at.end_middle - at.from_middle)
                    continue;
                typename walk_of_lane::row_sums sums;
                of[set].add_up_row(sums,
                        here + plane * p.outer_read[0] + row * g.stage_row
                                + middle * p.middle.read_pitch + inner,
                        true);
                of[set].along.keep(
                        tile::lines() + number * length + inner, sums);
            }
        }
    }
};

/// The second pass: the sums of the other axes, from those of the columns.
template <specification_of_kernel s>
__device__ __forceinline__ void add_up_lines(
        const tile_of_block<s> &at, const tables<sum<s.of.type>> &map) {
    static constexpr problem_specification p = s.of;
    static constexpr cut c = s.cut_by;
    static constexpr specification_of_kernel second = second_pass_of(s);
    using tile = tile_of_block<s>;
    constexpr int lanes = second.of.inner / c.line_vector;
    constexpr int items = c.planes * c.parts * c.middle_part;
    storage<p.type> *const to = at.destination();
    const int planes = least(c.planes, geometry_of(s).outers - at.outer);
    for (int number = static_cast<int>(threadIdx.x); number < lanes * items;
            number += c.threads) {
        const int inner = number % lanes * c.line_vector;
        const int plane = plane_of<c>(number / lanes, items);
        const int rest = rest_of<c>(number / lanes, items);
        if (plane >= planes) continue;
        typename walk<second>::item item {
                at.middle * c.middle_part + rest % c.middle_part, 0, 0};
        item.begin = at.strip * geometry_of(s).tile_written
                + rest / c.middle_part * c.strip;
        item.end = least(item.begin + c.strip, p.walk.written);
        if (item.begin >= p.walk.written || item.middle >= p.middle.written)
            continue;
        walk<second> of;
        of.along.find(0, map.column);
        of.run(item, map,
                tile::lines() + plane * second.of.outer_read[0] + inner
                        - at.from_middle * second.of.middle.read_pitch,
                at.from, to + plane * p.outer_write[0] + inner);
    }
}

/// By all threads, `count` values to shared memory at `to`, where `values` points then.
template <int threads, typename Value>
__device__ __forceinline__ void keep(
        const Value *&values, int count, char *&to) {
    Value *const kept = reinterpret_cast<Value *>(to);
    for (int i = static_cast<int>(threadIdx.x); i < count; i += threads)
        kept[i] = values[i];
    values = kept;
    to += (count * sizeof(Value) + 15) / 16 * 16;
}

/// The maps of walk and middle in shared memory; a __syncthreads is to follow.
template <specification_of_kernel s>
__device__ __forceinline__ tables<sum<s.of.type>> tables_of_block(
        const tables<sum<s.of.type>> &map) {
    static constexpr problem_specification p = s.of;
    tables<sum<p.type>> near = map;
    if constexpr (geometry_of(s).table_bytes > 0) {
        char *to = jit::dynamic_shared() + barrier_bytes;
        constexpr int threads = s.cut_by.threads;
        if constexpr (p.walk.is_there()) {
            keep<threads>(near.steps, p.walk.read, to);
            keep<threads>(near.walk.places, p.walk.written, to);
        }
        if constexpr (p.middle.is_there()) {
            keep<threads>(near.middle.places, p.middle.written, to);
            if constexpr (s.cut_by.middles == 1 || s.cut_by.line_vector > 0)
                keep<threads>(near.middle.weights,
                        p.middle.written * p.middle.most_taps, to);
            else
                keep<threads>(near.middle_steps, p.middle.read, to);
        }
    }
    return near;
}

template <specification_of_kernel s>
__device__ void resample_of_tiles(const storage<s.of.type> *read,
        storage<s.of.type> *written, const tables<sum<s.of.type>> &map) {
    static constexpr cut c = s.cut_by;
    static constexpr geometry g = geometry_of(s);
    using tile = tile_of_block<s>;
    // Every block has neighbouring tiles.
    const auto first_of = [](unsigned block) {
        return static_cast<int>(
                static_cast<long long>(g.all_tiles) * block / gridDim.x);
    };
    int number = first_of(blockIdx.x);
    const int end = first_of(blockIdx.x + 1);
    if constexpr (s.of.bulk_copies) {
        if (threadIdx.x == 0)
            for (int slot = 0; slot < c.stages; ++slot)
                jit::begin_barrier(tile::barrier(slot), tile::copiers);
        __syncthreads();
    }
    tile at[c.stages];
    bool threads_copied[c.stages];
#pragma unroll
    for (int slot = 0; slot < c.stages; ++slot)
        if (number + slot < end) {
            at[slot].find(number + slot, map, read, written);
            threads_copied[slot] = at[slot].copy(slot, read);
        }
    const auto near = tables_of_block<s>(map);
    lanes_of_thread<s> lanes;
    lanes.find(at[0].strip, map.column);
    __syncthreads();
    for (int parity = 0; number < end; parity ^= 1) {
#pragma unroll
        for (int slot = 0; slot < c.stages; ++slot, ++number) {
            if (number >= end) break;
            if (threads_copied[slot]) __syncthreads();
            if constexpr (s.of.bulk_copies)
                jit::wait_for_copies(tile::barrier(slot), parity);
            if (!tile::walks && at[slot].strip != lanes.strip)
                lanes.find(at[slot].strip, map.column);
            const tile now = at[slot];
            if constexpr (c.line_vector > 0)
                lanes.fill_lines(now, slot);
            else
                lanes.compute(now, slot, near);
            __syncthreads();
            if (number + c.stages < end) {
                at[slot].find(number + c.stages, near, read, written);
                threads_copied[slot] = at[slot].copy(slot, read);
            }
            if constexpr (c.line_vector > 0) {
                add_up_lines<s>(now, near);
                __syncthreads();
            }
            if constexpr (c.gathers) {
                now.flush();
                if (c.line_vector == 0) __syncthreads();
            }
        }
    }
}

} // namespace gradnn::gpu::resample
