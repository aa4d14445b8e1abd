// Device code of interpolation.gpu_axes that brings a tile of a layer of diff_dst to
// shared memory, as it is: pieces of 16 bytes from multiples of 16 to multiples of
// 16, whatever the alignment of the rows. cut.hpp has the distances.
#pragma once

#include "gpu/device/async_copy.cuh"
#include "gpu/device/dtype.cuh"
#include "gpu/interpolation/axes/cut.hpp"

namespace gradnn::gpu::interpolation::axes {

/// The pieces that this thread copies of each layer of a tile, at most so many.
template <typename Type, int most_pieces>
class layer_copies {
public:
    /// `rows`: of diff_dst that the tile has.
    __device__ layer_copies(
            const work_shape &shape, const Type *diff_dst, int rows)
        : begin_(reinterpret_cast<const unsigned char *>(diff_dst)),
          end_(begin_ + shape.dst_elements * sizeof(Type)),
          reach_(shape.stage.reach),
          count_(shape.stage.thread_pieces) {
        const stage_layout &stage = shape.stage;
        const auto threads = static_cast<int>(blockDim.x);
#pragma unroll
        for (int m = 0; m < most_pieces; ++m) {
            const int number = static_cast<int>(threadIdx.x) + m * threads;
            const int segment = number / stage.segment_pieces;
            const uint32_t at
                    = (number - segment * stage.segment_pieces) * piece;
            const int group = segment / stage.rows;
            const int row = segment - group * stage.rows;
            from_[m] = at
                    + static_cast<uint32_t>(sizeof(Type)
                            * (group * shape.dst_group_pitch
                                    + row * shape.dst_row_pitch));
            to_[m] = at + group * stage.group_bytes + row * stage.row_bytes;
            if (group >= shape.tile_groups || (stage.rows > 1 && row >= rows))
                to_[m] = no_piece;
        }
    }

    /// Whether layers whose first elements lie from `first` to `last` can be copied
    /// with all their pieces within the tensor.
    __device__ bool lie_within(
            const unsigned char *first, const unsigned char *last) const {
        return first >= begin_ + piece && last + reach_ + 2 * piece <= end_;
    }

    /// A layer whose first element is at `layer`; what lies before or behind the
    /// tensor is not read.
    __device__ __forceinline__ void copy(const unsigned char *layer,
            unsigned char *stage, bool within) const {
        const auto shift = static_cast<uint32_t>(
                reinterpret_cast<uintptr_t>(layer) % piece);
        const unsigned char *const first = layer - shift;
        if (within) {
#pragma unroll
            for (int m = 0; m < most_pieces; ++m) {
                if (m >= count_) break;
                copy_async_past_l1_if(to_[m] != no_piece,
                        stage + (shift + to_[m]) / piece * piece,
                        first + (shift + from_[m]) / piece * piece);
            }
            return;
        }
#pragma unroll
        for (int m = 0; m < most_pieces; ++m) {
            if (to_[m] == no_piece) continue;
            const unsigned char *const source
                    = first + (shift + from_[m]) / piece * piece;
            unsigned char *const to = stage + (shift + to_[m]) / piece * piece;
            if (source >= begin_ && source + piece <= end_) {
                copy_async_past_l1(to, source);
                continue;
            }
            // Single elements at the ends of the tensor.
#pragma unroll 1
            for (int i = 0; i < static_cast<int>(piece); i += sizeof(Type))
                if (source + i >= begin_ && source + i < end_)
                    *reinterpret_cast<Type *>(to + i)
                            = *reinterpret_cast<const Type *>(source + i);
        }
    }

private:
    static constexpr uint32_t piece = piece_bytes;
    static constexpr uint32_t no_piece = ~0U;
    const unsigned char *begin_;
    const unsigned char *end_;
    uint32_t reach_;
    int count_;
    uint32_t from_[most_pieces]; ///< bytes behind a layer's first element
    uint32_t to_[most_pieces]; ///< in the stage
};

} // namespace gradnn::gpu::interpolation::axes
