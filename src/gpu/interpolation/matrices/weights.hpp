// The matrices of weights of interpolation.gpu_matrices, as the lanes of a warp
// hold them.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "axis_map.hpp"
#include "gpu/interpolation/matrices/cut.hpp"
#include "problem.hpp"

namespace gradnn::gpu::interpolation::matrices {

/// Matrices of a plan at most, times up to 3 terms of 512 bytes.
constexpr int64_t most_matrices = 1 << 14;

/// Weights as sums of 16-bit terms. One where all weights are exact in it (ratios
/// that are powers of two), else as many as keep 22 bits and more. f16 weights are
/// `scale` times as large, so that the last term is no subnormal number.
struct weight_maker {
    detail::data_type type = detail::data_type::bf16;
    int terms = 1;
    float scale = 1.0F;

    /// A weight's terms, largest first: bits, and what they leave over.
    float split(float weight, int count, uint16_t *bits) const {
        float rest = weight * scale;
        for (int term = 0; term < count; ++term) {
            if (type == detail::data_type::bf16) {
                const __nv_bfloat16 part = __float2bfloat16_rn(rest);
                rest -= __bfloat162float(part);
                std::memcpy(bits + term, &part, sizeof part);
            } else {
                const __half part = __float2half_rn(rest);
                rest -= __half2float(part);
                std::memcpy(bits + term, &part, sizeof part);
            }
        }
        return rest;
    }

    /// [matrix][term][lane], four words each: rows g and g + 8, columns 2t and
    /// 2t + 1; then the same 8 columns further on.
    std::vector<uint4> matrices(const std::vector<row_tile> &tiles,
            const detail::axis_map &rows, bool equal) const {
        std::vector<uint4> made;
        const auto weight_at = [&](const row_tile &tile, int row, int column) {
            if (equal) return row == column ? 1.0F : 0.0F;
            const int32_t p = tile.span.first + column;
            if (row >= tile.rows || p >= tile.span.end) return 0.0F;
            const auto i = static_cast<size_t>(tile.first_row + row);
            if (p < rows.first[i] || p >= rows.first[i] + rows.count[i])
                return 0.0F;
            return static_cast<float>(rows.weights[static_cast<size_t>(
                    rows.offset[i] + p - rows.first[i])]);
        };
        for (const row_tile &tile : tiles) {
            for (int matrix = 0; matrix < tile.matrices; ++matrix) {
                const size_t at = made.size();
                made.resize(at + static_cast<size_t>(terms) * 32);
                for (int lane = 0; lane < 32; ++lane)
                    for (int word = 0; word < 4; ++word) {
                        uint16_t bits[2][3];
                        for (int half = 0; half < 2; ++half)
                            split(weight_at(tile, lane / 4 + word % 2 * 8,
                                          matrix * matrix_side + lane % 4 * 2
                                                  + word / 2 * 8 + half),
                                    terms, bits[half]);
                        for (int term = 0; term < terms; ++term)
                            reinterpret_cast<uint32_t *>(&made[at
                                    + static_cast<size_t>(
                                            term * 32 + lane)])[word]
                                    = bits[0][term]
                                    | static_cast<uint32_t>(bits[1][term])
                                            << 16;
                    }
            }
            if (equal) break;
        }
        // Not empty, even where there are no taps.
        if (made.empty()) made.resize(32);
        return made;
    }
};

inline weight_maker make_weights(
        detail::data_type type, const detail::axis_map &rows, bool equal) {
    weight_maker made;
    made.type = type;
    if (type == detail::data_type::f16) made.scale = 4096.0F;
    if (equal) return made;
    for (const double weight : rows.weights) {
        uint16_t bits[1];
        if (made.split(static_cast<float>(weight), 1, bits) != 0) {
            made.terms = type == detail::data_type::bf16 ? 3 : 2;
            break;
        }
    }
    return made;
}

} // namespace gradnn::gpu::interpolation::matrices
