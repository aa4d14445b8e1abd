// Strided copy with conversion: dst[i] = src[i] for all i below dims.
//
// Axes are ordered by the dst strides and merged where both tensors allow it.
// Where the innermost axis of dst is src's too, a thread copies elements that
// neighbour each other in dst (rows_kernel). Where src is contiguous along
// another axis, a block moves a tile of 64 x 32 elements through shared memory,
// so that both sides are read and written along their own contiguous axis
// (tile_kernel; pairs of 16-bit elements, 64 x 64: pair_kernel). Each element
// is read once, written once by one thread.
//
// Copies of one type move bits; a conversion goes through f64, which holds
// every value of every type exactly, and is rounded once.
#include "gpu/runtime/copy.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <type_traits>

#include "gpu/device/dtype.cuh"
#include "gpu/device/early_start.cuh"
#include "gpu/runtime/launch.hpp"

namespace gradnn::gpu {

namespace {

using detail::data_type;

constexpr int threads = 256;
constexpr int max_rank = 6;

/// Dims and strides, innermost axis of dst first.
struct shape {
    int rank = 0;
    int64_t count = 1;
    int64_t dims[max_rank] = {};
    int64_t src_strides[max_rank] = {};
    int64_t dst_strides[max_rank] = {};
    data_type src_type = data_type::undef;
    data_type dst_type = data_type::undef;
};

/// Moves elements whose bits are a Word.
template <typename Word>
struct same_type {
    using value = Word;
    __device__ static value load(const shape &, const void *src, int64_t at) {
        return static_cast<const Word *>(src)[at];
    }
    __device__ static void store(
            const shape &, void *dst, int64_t at, value moved) {
        static_cast<Word *>(dst)[at] = moved;
    }
};

struct conversion {
    using value = double;
    __device__ static value load(const shape &of, const void *src, int64_t at) {
        switch (of.src_type) {
            case data_type::f64: return static_cast<const double *>(src)[at];
            case data_type::f16:
                return widen(static_cast<const __half *>(src)[at]);
            case data_type::bf16:
                return widen(static_cast<const __nv_bfloat16 *>(src)[at]);
            default: return static_cast<const float *>(src)[at];
        }
    }
    __device__ static void store(
            const shape &of, void *dst, int64_t at, value moved) {
        switch (of.dst_type) {
            case data_type::f64: static_cast<double *>(dst)[at] = moved; break;
            case data_type::f16:
                static_cast<__half *>(dst)[at] = narrow<__half>(moved);
                break;
            case data_type::bf16:
                static_cast<__nv_bfloat16 *>(dst)[at]
                        = narrow<__nv_bfloat16>(moved);
                break;
            default:
                static_cast<float *>(dst)[at] = narrow<float>(moved);
                break;
        }
    }
};

template <typename Mover, typename Index>
__global__ void __launch_bounds__(threads) rows_kernel(
        const void *src, void *dst, const __grid_constant__ shape of) {
    wait_and_let_later_work_start();
    const auto step = static_cast<int64_t>(gridDim.x) * threads;
    for (int64_t number = blockIdx.x * int64_t(threads) + threadIdx.x;
            number < of.count; number += step) {
        auto rest = static_cast<Index>(number);
        int64_t src_at = 0;
        int64_t dst_at = 0;
        for (int axis = 0; axis < of.rank; ++axis) {
            const auto dim = static_cast<Index>(of.dims[axis]);
            const auto position = static_cast<int64_t>(rest % dim);
            rest /= dim;
            src_at += position * of.src_strides[axis];
            dst_at += position * of.dst_strides[axis];
        }
        Mover::store(of, dst, dst_at, Mover::load(of, src, src_at));
    }
}

constexpr int tile = 32;
constexpr int tile_rows = 64; ///< along the contiguous axis of dst
constexpr int tile_passes = threads / tile;

/// Axis 0 is dst's contiguous one, axis 1 src's; blocks walk over tiles of
/// these two and over the other axes.
struct tiling {
    int64_t along_0 = 1;
    int64_t along_1 = 1;
    int64_t count = 1;
};

struct tile_place {
    int64_t src = 0;
    int64_t dst = 0;
    int rows = 0;
    int columns = 0;
};

template <typename Index, int tile_0, int tile_1>
__device__ tile_place find_tile(
        const shape &of, const tiling &tiles, int64_t tile_number) {
    const auto number = static_cast<Index>(tile_number);
    const auto along_0 = static_cast<Index>(tiles.along_0);
    const auto along_1 = static_cast<Index>(tiles.along_1);
    Index rest = number / along_0;
    const int64_t at_0 = static_cast<int64_t>(number - rest * along_0) * tile_0;
    const Index next = rest / along_1;
    const int64_t at_1 = static_cast<int64_t>(rest - next * along_1) * tile_1;
    rest = next;
    tile_place place;
    place.src = at_0 * of.src_strides[0] + at_1 * of.src_strides[1];
    place.dst = at_0 * of.dst_strides[0] + at_1 * of.dst_strides[1];
    for (int axis = 2; axis < of.rank; ++axis) {
        const auto dim = static_cast<Index>(of.dims[axis]);
        const auto position = static_cast<int64_t>(rest % dim);
        rest /= dim;
        place.src += position * of.src_strides[axis];
        place.dst += position * of.dst_strides[axis];
    }
    place.rows = static_cast<int>(min(of.dims[0] - at_0, int64_t {tile_0}));
    place.columns = static_cast<int>(min(of.dims[1] - at_1, int64_t {tile_1}));
    return place;
}

template <typename Mover, typename Index>
__global__ void __launch_bounds__(threads) tile_kernel(const void *src,
        void *dst, const __grid_constant__ shape of,
        const __grid_constant__ tiling tiles) {
    __shared__ typename Mover::value staged[tile_rows][tile + 1];
    wait_and_let_later_work_start();
    const int x = static_cast<int>(threadIdx.x) % tile;
    const int y = static_cast<int>(threadIdx.x) / tile;
    for (int64_t number = blockIdx.x; number < tiles.count;
            number += gridDim.x) {
        const tile_place place
                = find_tile<Index, tile_rows, tile>(of, tiles, number);
#pragma unroll
        for (int pass = 0; pass < tile_rows / tile_passes; ++pass) {
            const int row = pass * tile_passes + y;
            if (row < place.rows && x < place.columns)
                staged[row][x] = Mover::load(of, src,
                        place.src + row * of.src_strides[0]
                                + x * of.src_strides[1]);
        }
        __syncthreads();
#pragma unroll
        for (int pass = 0; pass < tile_rows / tile_passes; ++pass) {
            const int row = pass % 2 * tile + x;
            const int column = pass / 2 * tile_passes + y;
            if (row < place.rows && column < place.columns)
                Mover::store(of, dst,
                        place.dst + row * of.dst_strides[0]
                                + column * of.dst_strides[1],
                        staged[row][column]);
        }
        __syncthreads();
    }
}

/// The same for elements of 16 bits with even dims and strides: both sides move
/// pairs of them, over tiles of 64 x 64.
constexpr int pair_tile = 64;

template <typename Index>
__global__ void __launch_bounds__(threads) pair_kernel(const uint16_t *src,
        uint16_t *dst, const __grid_constant__ shape of,
        const __grid_constant__ tiling tiles) {
    constexpr int pairs = pair_tile / 2;
    constexpr int passes = pair_tile * pairs / threads;
    __shared__ uint32_t staged[pair_tile][pairs + 1];
    wait_and_let_later_work_start();
    const int x = static_cast<int>(threadIdx.x) % pairs;
    const int y = static_cast<int>(threadIdx.x) / pairs;
    for (int64_t number = blockIdx.x; number < tiles.count;
            number += gridDim.x) {
        const tile_place place
                = find_tile<Index, pair_tile, pair_tile>(of, tiles, number);
        const uint16_t *const from = src + place.src + 2 * x;
#pragma unroll
        for (int pass = 0; pass < passes; ++pass) {
            const int row = pass * (threads / pairs) + y;
            if (row < place.rows && 2 * x < place.columns)
                staged[row][x] = *reinterpret_cast<const uint32_t *>(
                        from + row * of.src_strides[0]);
        }
        __syncthreads();
        uint16_t *const to = dst + place.dst + 2 * x;
#pragma unroll
        for (int pass = 0; pass < passes / 2; ++pass) {
            const int pair = pass * (threads / pairs) + y;
            if (2 * x < place.rows && 2 * pair < place.columns) {
                const uint32_t even = staged[2 * x][pair];
                const uint32_t odd = staged[2 * x + 1][pair];
                uint16_t *const column = to + 2 * pair * of.dst_strides[1];
                *reinterpret_cast<uint32_t *>(column)
                        = __byte_perm(even, odd, 0x5410);
                *reinterpret_cast<uint32_t *>(column + of.dst_strides[1])
                        = __byte_perm(even, odd, 0x7632);
            }
        }
        __syncthreads();
    }
}

/// Whether a transposed copy of 16 bits may move pairs.
bool takes_pairs(const shape &of, const void *src, const void *dst) {
    const auto even = [](int64_t value) { return value % 2 == 0; };
    if (of.src_strides[1] != 1 || of.dst_strides[0] != 1 || !even(of.dims[0])
            || !even(of.dims[1])
            || (reinterpret_cast<uintptr_t>(src)
                       | reinterpret_cast<uintptr_t>(dst))
                            % 4
                    != 0)
        return false;
    for (int axis = 0; axis < of.rank; ++axis)
        if ((axis != 1 && !even(of.src_strides[axis]))
                || (axis != 0 && !even(of.dst_strides[axis])))
            return false;
    return true;
}

tiling cut_tiles(const shape &of, int64_t tile_0, int64_t tile_1) {
    tiling tiles;
    tiles.along_0 = ceil_div(of.dims[0], tile_0);
    tiles.along_1 = ceil_div(of.dims[1], tile_1);
    tiles.count = tiles.along_0 * tiles.along_1;
    for (int axis = 2; axis < of.rank; ++axis)
        tiles.count *= of.dims[axis];
    return tiles;
}

/// Dst's innermost axis first, merged; axes of 1 gone.
shape arrange(const strided_copy &problem) {
    struct axis {
        int64_t dim;
        int64_t src_stride;
        int64_t dst_stride;
    };
    std::array<axis, max_rank> axes {};
    size_t rank = 0;
    for (size_t i = 0; i < static_cast<size_t>(problem.rank); ++i)
        if (problem.dims[i] != 1)
            axes[rank++] = {problem.dims[i], problem.src_strides[i],
                    problem.dst_strides[i]};
    std::stable_sort(axes.begin(), axes.begin() + static_cast<ptrdiff_t>(rank),
            [](const axis &a, const axis &b) {
                return a.dst_stride < b.dst_stride;
            });
    shape arranged;
    arranged.src_type = problem.src_type;
    arranged.dst_type = problem.dst_type;
    for (size_t i = 0; i < rank; ++i) {
        const axis &next = axes[i];
        arranged.count *= next.dim;
        const int last = arranged.rank - 1;
        if (last >= 0
                && next.src_stride
                        == arranged.src_strides[last] * arranged.dims[last]
                && next.dst_stride
                        == arranged.dst_strides[last] * arranged.dims[last]) {
            arranged.dims[last] *= next.dim;
            continue;
        }
        arranged.dims[arranged.rank] = next.dim;
        arranged.src_strides[arranged.rank] = next.src_stride;
        arranged.dst_strides[arranged.rank] = next.dst_stride;
        ++arranged.rank;
    }
    if (arranged.rank == 0) {
        arranged.rank = 1;
        arranged.dims[0] = 1;
        arranged.src_strides[0] = arranged.dst_strides[0] = 1;
    }
    return arranged;
}

/// Brings the axis along which src is contiguous to place 1; false where that
/// is the axis of dst too, or too short for tiles to gain anything.
bool make_transposed(shape &of) {
    int contiguous = 0;
    for (int axis = 1; axis < of.rank; ++axis)
        if (of.src_strides[axis] == 1) contiguous = axis;
    if (contiguous == 0 || of.src_strides[0] == 1 || of.dims[0] < 8
            || of.dims[contiguous] < 4)
        return false;
    std::swap(of.dims[1], of.dims[contiguous]);
    std::swap(of.src_strides[1], of.src_strides[contiguous]);
    std::swap(of.dst_strides[1], of.dst_strides[contiguous]);
    return true;
}

template <typename Mover>
void run(shape of, const void *src, void *dst, const launch_stream &stream) {
    const bool small = of.count < std::numeric_limits<int32_t>::max();
    if (make_transposed(of)) {
        const bool pairs
                = std::is_same_v<Mover,
                          same_type<uint16_t>> && takes_pairs(of, src, dst);
        const tiling tiles = pairs ? cut_tiles(of, pair_tile, pair_tile)
                                   : cut_tiles(of, tile_rows, tile);
        const int64_t blocks = blocks_for(tiles.count, 1);
        if (pairs)
            launch_early("copy (transposed)",
                    small ? pair_kernel<uint32_t> : pair_kernel<uint64_t>,
                    blocks, threads, 0, stream,
                    static_cast<const uint16_t *>(src),
                    static_cast<uint16_t *>(dst), of, tiles);
        else
            launch_early("copy (transposed)",
                    small ? tile_kernel<Mover, uint32_t>
                          : tile_kernel<Mover, uint64_t>,
                    blocks, threads, 0, stream, src, dst, of, tiles);
        return;
    }
    launch_early("copy",
            small ? rows_kernel<Mover, uint32_t> : rows_kernel<Mover, uint64_t>,
            blocks_for(of.count, threads), threads, 0, stream, src, dst, of);
}

} // namespace

void copy(const strided_copy &problem, const void *src, void *dst,
        const launch_stream &stream) {
    const shape of = arrange(problem);
    const int64_t bytes = detail::size_of(problem.src_type);
    if (problem.src_type != problem.dst_type)
        run<conversion>(of, src, dst, stream);
    else if (of.rank == 1 && of.src_strides[0] == 1 && of.dst_strides[0] == 1)
        check(cudaMemcpyAsync(dst, src, static_cast<size_t>(of.count * bytes),
                      cudaMemcpyDeviceToDevice, stream),
                "cudaMemcpyAsync");
    else if (bytes == 8)
        run<same_type<uint64_t>>(of, src, dst, stream);
    else if (bytes == 4)
        run<same_type<uint32_t>>(of, src, dst, stream);
    else
        run<same_type<uint16_t>>(of, src, dst, stream);
}

} // namespace gradnn::gpu
