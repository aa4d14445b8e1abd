#include "cpu/convolution/gather.hpp"

#include <algorithm>

#include "base/whole_numbers.hpp"

namespace gradnn::cpu {

using detail::ceil_divide;
using detail::convolution_direction;

namespace {

/// Where j * step + offset lies in [0, size).
void find_inside(gather_tap &tap, int64_t step, int64_t size, int64_t count) {
    tap.begin = std::clamp<int64_t>(ceil_divide(-tap.offset, step), 0, count);
    tap.end = std::clamp<int64_t>(
            ceil_divide(size - tap.offset, step), tap.begin, count);
}

} // namespace

std::vector<gather_axis> gather_phases(
        const detail::convolution_problem &problem, int axis) {
    const auto a = static_cast<size_t>(axis);
    const int64_t stride = problem.strides[a];
    const int64_t dilation = problem.dilations[a];
    const int64_t pad = problem.pads_begin[a];
    const int64_t src = problem.src.dims[a + 2];
    const int64_t dst = problem.dst.dims[a + 2];
    const int64_t kernel = problem.weights.dims[a + 3];
    const bool to_src
            = problem.direction == convolution_direction::backward_data;

    std::vector<gather_axis> phases(
            static_cast<size_t>(to_src ? std::min(stride, src) : 1));
    for (size_t number = 0; number < phases.size(); ++number) {
        gather_axis &phase = phases[number];
        phase.first = static_cast<int64_t>(number);
        phase.pitch = to_src ? stride : 1;
        phase.step = to_src ? 1 : stride;
        phase.count = to_src ? ceil_divide(src - phase.first, stride) : dst;
        phase.whole = true;
    }
    for (int64_t k = 0; k < kernel; ++k) {
        gather_tap tap;
        tap.index = k;
        tap.offset = k * dilation - pad;
        int64_t number = 0;
        if (to_src) {
            // x = y * stride + (k * dilation - pad), solved for y: the phase
            // is what remains.
            const int64_t first = tap.offset;
            number = (first % stride + stride) % stride;
            if (number >= static_cast<int64_t>(phases.size())) continue;
            tap.offset = (number - first) / stride;
        }
        gather_axis &phase = phases[static_cast<size_t>(number)];
        find_inside(tap, phase.step, to_src ? dst : src, phase.count);
        if (tap.begin == tap.end
                && problem.direction != convolution_direction::backward_weights)
            continue;
        phase.whole = phase.whole && tap.begin == 0 && tap.end == phase.count;
        phase.taps.push_back(tap);
    }
    return phases;
}

gather_phase_list::gather_phase_list(
        const detail::convolution_problem &problem) {
    for (size_t a = 0; a < 3; ++a)
        axes_[a] = gather_phases(problem, static_cast<int>(a));
    for (const gather_axis &d : axes_[0])
        for (const gather_axis &h : axes_[1])
            for (const gather_axis &w : axes_[2]) {
                const auto taps = static_cast<int64_t>(
                        d.taps.size() * h.taps.size() * w.taps.size());
                phases_.push_back({{&d, &h, &w}, taps, taps_});
                taps_ += taps;
            }
}

std::array<int64_t, 3> gather_phase_list::positions() const {
    return {axes_[0][0].count, axes_[1][0].count, axes_[2][0].count};
}

int64_t gather_phase_list::count(const detail::convolution_problem &problem) {
    int64_t count = 1;
    if (problem.direction == convolution_direction::backward_data)
        for (size_t a = 0; a < 3; ++a)
            count *= std::min(problem.strides[a], problem.src.dims[a + 2]);
    return count;
}

position_tiling::position_tiling(const std::array<int64_t, 3> &tile,
        const std::array<int64_t, 3> &positions)
    : size(tile) {
    for (size_t a = 0; a < 3; ++a)
        pieces[a] = ceil_divide(positions[a], size[a]);
}

tile_range position_tiling::range_of(
        int64_t number, const gather_phase &phase) const {
    tile_range range;
    for (size_t a = 3; a-- > 0;) {
        range.first[a] = number % pieces[a] * size[a];
        range.count[a]
                = std::min(size[a], phase.axes[a]->count - range.first[a]);
        number /= pieces[a];
    }
    return range;
}

gather_grid::gather_grid(const std::array<const gather_axis *, 3> &axes,
        const detail::tensor_view &read, const detail::tensor_view &written,
        const detail::weights_view &weights)
    : axes_(axes) {
    count_[0] = read.dims[0];
    read_strides_[0] = read.strides[0];
    written_strides_[0] = written.strides[0];
    whole_[0] = true;
    for (size_t a = 0; a < 3; ++a) {
        const gather_axis &axis = *axes[a];
        tap_read_strides_[a] = read.strides[a + 2];
        tap_weights_strides_[a] = weights.strides[a + 3];
        taps_ *= static_cast<int64_t>(axis.taps.size());
        count_[a + 1] = axis.count;
        read_strides_[a + 1] = read.strides[a + 2] * axis.step;
        written_strides_[a + 1] = written.strides[a + 2] * axis.pitch;
        written_base_ += written.strides[a + 2] * axis.first;
        whole_[a + 1] = axis.whole;
    }
    for (size_t a = 3; a-- > 0 && whole_[3];) {
        if (!whole_[a]) break;
        if (count_[a] == 1) continue;
        if (count_[3] == 1) {
            read_strides_[3] = read_strides_[a];
            written_strides_[3] = written_strides_[a];
        } else if (read_strides_[a] != count_[3] * read_strides_[3]
                || written_strides_[a] != count_[3] * written_strides_[3]) {
            break;
        }
        count_[3] *= count_[a];
        count_[a] = 1;
    }
}

gather_grid::tap gather_grid::tap_at(int64_t number) const {
    tap result;
    result.end[0] = count_[0];
    for (size_t a = 3; a-- > 0;) {
        const auto &taps = axes_[a]->taps;
        const auto size = static_cast<int64_t>(taps.size());
        const gather_tap &part = taps[static_cast<size_t>(number % size)];
        number /= size;
        result.read_offset += part.offset * tap_read_strides_[a];
        result.weights_offset += part.index * tap_weights_strides_[a];
        // A merged axis is whole: its tap is inside at all positions.
        result.begin[a + 1] = whole_[a + 1] ? 0 : part.begin;
        result.end[a + 1] = whole_[a + 1] ? count_[a + 1] : part.end;
    }
    return result;
}

int64_t gather_grid::written_offset(
        const std::array<int64_t, 4> &position) const {
    int64_t offset = written_base_;
    for (size_t a = 0; a < 4; ++a)
        offset += position[a] * written_strides_[a];
    return offset;
}

} // namespace gradnn::cpu
