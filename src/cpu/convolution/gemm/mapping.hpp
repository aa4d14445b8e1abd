// The three directions of a convolution as products of virtual matrices, for
// one group and one phase (convolution/gather.hpp).
//
// forward and backward_data: written[m, pixel] = sum over channels c and taps t
// of weights[m, c, t] * read[c, pixel + t]; chunks are blocks of channels times
// blocks of taps. backward_weights: diff_weights[o, (t, i)] = sum over pixels
// of dst[o, pixel] * src[i, pixel + t]; chunks are runs of pixels.
#pragma once

#include <algorithm>

#include "cpu/convolution/gather.hpp"
#include "cpu/convolution/gemm/gemm.hpp"

namespace gradnn::cpu {

/// How many pieces of at most `most` a count falls into, and their even size.
struct even_split {
    int64_t pieces = 0;
    int64_t size = 0;
    even_split(int64_t count, int64_t most)
        : pieces((count + most - 1) / most),
          size(pieces == 0 ? 0 : (count + pieces - 1) / pieces) {}
};

/// The side of the weights' channels, m for output and c for input of a
/// forward or backward_data product.
struct product_channels {
    int64_t m = 0;
    int64_t c = 0;
    int64_t weights_m_stride = 0;
    int64_t weights_c_stride = 0;
    int64_t read_stride = 0;
    int64_t written_stride = 0;
};

class data_mapping final : public gemm_mapping {
public:
    /// pixels_in_lanes: p is the pixels and q the channels m, else the
    /// other way round.
    data_mapping(const gather_grid &grid, const product_channels &channels,
            bool taps_inner, bool pixels_in_lanes)
        : grid_(grid),
          channels_(channels),
          taps_inner_(taps_inner),
          pixels_in_lanes_(pixels_in_lanes),
          c_split_(channels.c, most_channels(channels.c, grid.taps())),
          t_split_(grid.taps(), gemm_max_steps / c_split_.size) {}

    int64_t chunks() const { return c_split_.pieces * t_split_.pieces; }

    /// The same, of any grid with so many taps.
    static int64_t chunks(int64_t channels, int64_t taps) {
        const even_split c(channels, most_channels(channels, taps));
        return c.pieces * even_split(taps, gemm_max_steps / c.size).pieces;
    }

    int64_t steps(int64_t chunk) const override {
        const range now = range_of(chunk);
        return now.channels * now.taps;
    }
    int64_t first_step(int64_t chunk) const override {
        const range now = range_of(chunk);
        return now.channel * grid_.taps() + now.channels * now.tap;
    }
    void vector_side(int64_t row, int64_t rows, int64_t chunk,
            const sink<const operand_rectangle &> &out) const override {
        if (pixels_in_lanes_)
            pixels(row, rows, chunk, out);
        else
            weights(row, rows, chunk, out);
    }
    void broadcast_side(int64_t row, int64_t rows, int64_t chunk,
            const sink<const operand_rectangle &> &out) const override {
        if (pixels_in_lanes_)
            weights(row, rows, chunk, out);
        else
            pixels(row, rows, chunk, out);
    }
    void result(int64_t p, int64_t ps, int64_t q, int64_t qs,
            const sink<const result_rectangle &> &out) const override;

private:
    struct range {
        int64_t channel = 0;
        int64_t channels = 0;
        int64_t tap = 0;
        int64_t taps = 0;
    };

    /// All taps of a few channels where that fits into a chunk; else at least
    /// 8 channels, so that channels-last tensors are read in runs.
    static int64_t most_channels(int64_t channels, int64_t taps) {
        const int64_t fitting = gemm_max_steps / std::max<int64_t>(1, taps);
        return std::min(channels, std::max<int64_t>(8, fitting));
    }

    range range_of(int64_t chunk) const {
        range now;
        now.channel = chunk / t_split_.pieces * c_split_.size;
        now.channels = std::min(c_split_.size, channels_.c - now.channel);
        now.tap = chunk % t_split_.pieces * t_split_.size;
        now.taps = std::min(t_split_.size, grid_.taps() - now.tap);
        return now;
    }

    void pixels(int64_t row, int64_t rows, int64_t chunk,
            const sink<const operand_rectangle &> &out) const;
    void weights(int64_t row, int64_t rows, int64_t chunk,
            const sink<const operand_rectangle &> &out) const;

    const gather_grid &grid_;
    const product_channels &channels_;
    bool taps_inner_;
    bool pixels_in_lanes_;
    even_split c_split_;
    even_split t_split_;
};

/// Of diff_weights = the channels o by the rows (t, i), t outer.
struct weights_product {
    int64_t i = 0;
    int64_t o = 0;
    int64_t src_stride = 0;
    int64_t dst_stride = 0;
    int64_t weights_i_stride = 0;
    int64_t weights_o_stride = 0;
};

class weights_mapping final : public gemm_mapping {
public:
    /// src_in_lanes: p is the rows (t, i) and q the channels o, else the
    /// other way round.
    weights_mapping(const gather_grid &grid, const weights_product &product,
            bool src_in_lanes)
        : grid_(grid),
          product_(product),
          src_in_lanes_(src_in_lanes),
          split_(grid.pixels(), gemm_max_steps) {}

    int64_t chunks() const { return split_.pieces; }

    int64_t steps(int64_t chunk) const override {
        return std::min(split_.size, grid_.pixels() - chunk * split_.size);
    }
    int64_t first_step(int64_t chunk) const override {
        return chunk * split_.size;
    }
    void vector_side(int64_t row, int64_t rows, int64_t chunk,
            const sink<const operand_rectangle &> &out) const override {
        if (src_in_lanes_)
            src(row, rows, chunk, out);
        else
            dst(row, rows, chunk, out);
    }
    void broadcast_side(int64_t row, int64_t rows, int64_t chunk,
            const sink<const operand_rectangle &> &out) const override {
        if (src_in_lanes_)
            dst(row, rows, chunk, out);
        else
            src(row, rows, chunk, out);
    }
    void result(int64_t p, int64_t ps, int64_t q, int64_t qs,
            const sink<const result_rectangle &> &out) const override;

private:
    void src(int64_t row, int64_t rows, int64_t chunk,
            const sink<const operand_rectangle &> &out) const;
    void dst(int64_t row, int64_t rows, int64_t chunk,
            const sink<const operand_rectangle &> &out) const;

    const gather_grid &grid_;
    const weights_product &product_;
    bool src_in_lanes_;
    even_split split_;
};

} // namespace gradnn::cpu
