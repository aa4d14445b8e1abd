// A strided copy as its kernels take it: the axes in the order of dst, and tiles.
// Plain host arithmetic.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "gpu/device/rounding.hpp"
#include "gpu/runtime/copy.hpp"

namespace gradnn::gpu::copies {

constexpr int threads = 256;
constexpr int max_rank = 6;
/// What a thread of a tile has under way.
constexpr int unroll = 8;
/// What it has in the order of dst, `width` neighbours at a time.
__host__ __device__ constexpr int elements_of_thread(int width) {
    return width == 1 ? unroll : unroll / 2 * width;
}

/// Dims and strides, innermost axis of dst first, merged; axes of 1 gone.
struct shape {
    int rank = 0;
    int64_t count = 1; ///< elements that are written
    int64_t dims[max_rank] = {};
    int64_t src_strides[max_rank] = {};
    int64_t dst_strides[max_rank] = {};
    /// Elements along axis 0 that are written: zeros after those of dims[0].
    int64_t written = 1;
    detail::data_type src_type = detail::data_type::undef;
    detail::data_type dst_type = detail::data_type::undef;

    bool operator==(const shape &) const = default;

    /// What is written along an axis.
    __host__ __device__ int64_t extent(int axis) const {
        return axis == 0 ? written : dims[axis];
    }
};

shape arrange(const strided_copy &problem);

/// Zeros between what is copied, so that `elements` from the first of dst on are
/// written; false where they are not all between the rows of axis 0.
bool fill_gaps(shape &of, int64_t elements);

/// Zeros in all that would be written, and nothing of src.
shape zeros_in_place_of(shape copied);

/// Lines of a tile, which are numbered along axis 0 (rows) or 1 (columns), then along
/// axis 2, shared out among the threads of a block: neighbouring threads have neighbouring
/// words, of one element or two, of a line, and a thread has the same word of every
/// `lines`th line.
struct line_steps {
    exact_divider words; ///< by the words of a line, or the threads
    int lines = 1; ///< to a thread's next one
    exact_divider dim; ///< by the lines along the first of the axes
    int along = 0; ///< steps along it, which may lead beyond its end once,
    int next = 0; ///< and along axis 2

    line_steps() = default;
    line_steps(int line_words, int dim_lines)
        : words(std::min(line_words, threads)),
          lines(threads / static_cast<int>(words.by)),
          dim(dim_lines),
          along(lines % dim_lines),
          next(lines / dim_lines) {}
};

/// The word and the line that a thread has first; the word is beyond any line where it has
/// none.
struct word_of_thread {
    int word, line;

    __host__ __device__ word_of_thread(const line_steps &steps, unsigned thread)
        : line(static_cast<int>(steps.words.quotient(thread))) {
        constexpr int beyond = 1 << 28;
        const auto before = static_cast<unsigned>(line) * steps.words.by;
        word = line < steps.lines ? static_cast<int>(thread - before) : beyond;
    }
};

/// Tiles of the first three axes of a transposed copy, in shared memory a row of
/// axis 1 for each element of axis 0.
struct tiling {
    int dims[3] = {1, 1, 1};
    int pitch = 1; ///< elements between rows in shared memory
    int64_t count = 1; ///< tiles, of all axes
    exact_divider along[max_rank]; ///< by the tiles along each axis
    line_steps rows; ///< which are loaded
    line_steps columns; ///< which are stored

    size_t shared_bytes(size_t element_bytes) const {
        return static_cast<size_t>(dims[0]) * static_cast<size_t>(dims[2])
                * static_cast<size_t>(pitch) * element_bytes;
    }
};

/// Elements that a thread loads at a time (of tiles along axis 1), and stores. One, where
/// numbers are not small, in the order of dst.
struct unit_widths {
    int load = 1;
    int store = 1;

    bool operator==(const unit_widths &) const = default;
};

/// Bytes, powers of two, of which the addresses of src and dst are multiples.
struct alignments {
    int src = 1;
    int dst = 1;
};
alignments alignments_of(const void *src, const void *dst);

/// How a copy runs.
struct copy_cut {
    shape of; ///< with the axis along which src is contiguous in place 1 (tiles)
    bool is_small = true; ///< all numbers and distances are below 2^31
    /// By tiles: src is contiguous along another axis than dst. Else in the order of dst.
    bool by_tiles = false;
    unit_widths widths;
    tiling tiles;
};

/// Tiles have about 4096 elements of 16 bits or 2048 of others, whatever the axes are:
/// all of the short ones, even parts of the long ones.
copy_cut cut_of(
        const shape &of, size_t element_bytes, const alignments &aligned);

} // namespace gradnn::gpu::copies
