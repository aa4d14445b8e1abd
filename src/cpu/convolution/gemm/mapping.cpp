#include "cpu/convolution/gemm/mapping.hpp"

#include <array>

namespace gradnn::cpu {

void data_mapping::pixels(int64_t row, int64_t rows, int64_t chunk,
        const sink<const operand_rectangle &> &out) const {
    const range now = range_of(chunk);
    operand_rectangle piece;
    piece.steps = now.channels;
    piece.step_pitch = taps_inner_ ? now.taps : 1;
    piece.row_stride = grid_.read_stride();
    piece.step_stride = channels_.read_stride;
    for (int64_t t = 0; t < now.taps; ++t) {
        gather_grid::tap tap = grid_.tap_at(now.tap + t);
        tap.read_offset += now.channel * channels_.read_stride;
        piece.step = taps_inner_ ? t : t * now.channels;
        grid_.for_each_piece(row, rows, tap,
                [&](int64_t at, int64_t length, bool inside, int64_t offset) {
                    piece.row = row + at;
                    piece.rows = length;
                    piece.outside = !inside;
                    piece.offset = offset;
                    out(piece);
                });
    }
}

void data_mapping::weights(int64_t row, int64_t rows, int64_t chunk,
        const sink<const operand_rectangle &> &out) const {
    const range now = range_of(chunk);
    std::array<int64_t, gemm_max_steps> offsets;
    for (int64_t t = 0; t < now.taps; ++t)
        offsets[static_cast<size_t>(t)]
                = grid_.tap_at(now.tap + t).weights_offset;
    const int64_t tap_stride = now.taps > 1 ? offsets[1] - offsets[0] : 1;
    bool uniform = true;
    for (int64_t t = 1; t < now.taps; ++t)
        uniform = uniform
                && offsets[static_cast<size_t>(t)] - offsets[0]
                        == t * tap_stride;

    operand_rectangle piece;
    piece.row = row;
    piece.rows = rows;
    piece.row_stride = channels_.weights_m_stride;
    const int64_t c_stride = channels_.weights_c_stride;
    const int64_t first
            = row * channels_.weights_m_stride + now.channel * c_stride;
    if (taps_inner_ && uniform && tap_stride == 1) {
        // Runs of taps; of taps and channels where the weights are dense.
        const bool dense = c_stride == now.taps || now.channels == 1;
        piece.steps = dense ? now.taps * now.channels : now.taps;
        piece.step_stride = 1;
        for (int64_t c = 0; c < (dense ? 1 : now.channels); ++c) {
            piece.step = c * now.taps;
            piece.offset = first + offsets[0] + c * c_stride;
            out(piece);
        }
        return;
    }
    piece.steps = now.channels;
    piece.step_pitch = taps_inner_ ? now.taps : 1;
    piece.step_stride = c_stride;
    for (int64_t t = 0; t < now.taps; ++t) {
        piece.step = taps_inner_ ? t : t * now.channels;
        piece.offset = first + offsets[static_cast<size_t>(t)];
        out(piece);
    }
}

void data_mapping::result(int64_t p, int64_t ps, int64_t q, int64_t qs,
        const sink<const result_rectangle &> &out) const {
    const int64_t pixel = pixels_in_lanes_ ? p : q;
    const int64_t channel = pixels_in_lanes_ ? q : p;
    result_rectangle piece;
    piece.p = p;
    piece.ps = ps;
    piece.q = q;
    piece.qs = qs;
    piece.p_stride = pixels_in_lanes_ ? grid_.written_stride()
                                      : channels_.written_stride;
    piece.q_stride = pixels_in_lanes_ ? channels_.written_stride
                                      : grid_.written_stride();
    grid_.for_each_line(pixel, pixels_in_lanes_ ? ps : qs,
            [&](const gather_grid::line &line) {
                (pixels_in_lanes_ ? piece.p : piece.q) = pixel + line.at;
                (pixels_in_lanes_ ? piece.ps : piece.qs) = line.length;
                piece.offset = grid_.written_offset(line.position)
                        + channel * channels_.written_stride;
                out(piece);
            });
}

void weights_mapping::src(int64_t row, int64_t rows, int64_t chunk,
        const sink<const operand_rectangle &> &out) const {
    operand_rectangle piece;
    piece.row_stride = product_.src_stride;
    piece.step_stride = grid_.read_stride();
    for (int64_t done = 0; done < rows;) {
        const int64_t i = (row + done) % product_.i;
        gather_grid::tap tap = grid_.tap_at((row + done) / product_.i);
        tap.read_offset += i * product_.src_stride;
        piece.row = row + done;
        piece.rows = std::min(rows - done, product_.i - i);
        grid_.for_each_piece(chunk * split_.size, steps(chunk), tap,
                [&](int64_t at, int64_t length, bool inside, int64_t offset) {
                    piece.step = at;
                    piece.steps = length;
                    piece.outside = !inside;
                    piece.offset = offset;
                    out(piece);
                });
        done += piece.rows;
    }
}

void weights_mapping::dst(int64_t row, int64_t rows, int64_t chunk,
        const sink<const operand_rectangle &> &out) const {
    operand_rectangle piece;
    piece.row = row;
    piece.rows = rows;
    piece.row_stride = product_.dst_stride;
    piece.step_stride = grid_.written_stride();
    grid_.for_each_line(chunk * split_.size, steps(chunk),
            [&](const gather_grid::line &line) {
                piece.step = line.at;
                piece.steps = line.length;
                piece.offset = grid_.written_offset(line.position)
                        + row * product_.dst_stride;
                out(piece);
            });
}

void weights_mapping::result(int64_t p, int64_t ps, int64_t q, int64_t qs,
        const sink<const result_rectangle &> &out) const {
    const int64_t row = src_in_lanes_ ? p : q;
    const int64_t rows = src_in_lanes_ ? ps : qs;
    const int64_t o = src_in_lanes_ ? q : p;
    result_rectangle piece;
    piece.p = p;
    piece.ps = ps;
    piece.q = q;
    piece.qs = qs;
    piece.p_stride = src_in_lanes_ ? product_.weights_i_stride
                                   : product_.weights_o_stride;
    piece.q_stride = src_in_lanes_ ? product_.weights_o_stride
                                   : product_.weights_i_stride;
    for (int64_t done = 0; done < rows;) {
        const int64_t i = (row + done) % product_.i;
        const int64_t some = std::min(rows - done, product_.i - i);
        (src_in_lanes_ ? piece.p : piece.q) = row + done;
        (src_in_lanes_ ? piece.ps : piece.qs) = some;
        piece.offset = grid_.tap_at((row + done) / product_.i).weights_offset
                + i * product_.weights_i_stride + o * product_.weights_o_stride;
        out(piece);
        done += some;
    }
}

} // namespace gradnn::cpu
