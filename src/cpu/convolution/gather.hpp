// Convolutions as gathers: which elements a pixel reads, for all directions.
//
// Each axis of the written tensor falls into phases (one; the data gradient of
// a strided convolution has one for each remainder by the stride). Position j
// of a phase is element first + j * pitch, and tap t of it reads element
// j * step + offset[t] of the other tensor. So a strided data gradient is as
// many convolutions of stride 1 as it has phases, each with the taps that reach
// it, and no product with a structural zero is formed.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "kernel/problem.hpp"

namespace gradnn::cpu {

struct gather_tap {
    int64_t index = 0; ///< in the weights
    int64_t offset = 0;
    /// The positions whose element lies inside: begin <= j < end.
    int64_t begin = 0;
    int64_t end = 0;
};

/// One phase of one axis.
struct gather_axis {
    int64_t count = 0; ///< positions
    int64_t first = 0;
    int64_t pitch = 1;
    int64_t step = 1;
    std::vector<gather_tap> taps;
    bool whole = false; ///< no tap leaves the tensor at any position
};

/// The phases of spatial axis `axis`, 0 to 2. The written tensor is dst, or
/// src for backward_data; for backward_weights, dst is walked as if it were
/// written, and taps that are outside everywhere are kept.
std::vector<gather_axis> gather_phases(
        const detail::convolution_problem &problem, int axis);

/// One phase of all axes.
struct gather_phase {
    std::array<const gather_axis *, 3> axes {};
    int64_t taps = 0;
    int64_t first_tap = 0; ///< taps of the phases before
};

/// All phases of a problem.
class gather_phase_list {
public:
    explicit gather_phase_list(const detail::convolution_problem &problem);
    gather_phase_list(const gather_phase_list &) = delete;
    gather_phase_list &operator=(const gather_phase_list &) = delete;

    const std::vector<gather_phase> &all() const { return phases_; }
    const std::vector<gather_axis> &axis(size_t number) const {
        return axes_[number];
    }
    int64_t taps() const { return taps_; }
    /// Positions of the first phase, which has the most.
    std::array<int64_t, 3> positions() const;

    /// How many there would be.
    static int64_t count(const detail::convolution_problem &problem);

private:
    std::array<std::vector<gather_axis>, 3> axes_;
    std::vector<gather_phase> phases_;
    int64_t taps_ = 0;
};

/// Positions of one tile of a phase.
struct tile_range {
    std::array<int64_t, 3> first {};
    std::array<int64_t, 3> count {};
    bool empty() const {
        return count[0] <= 0 || count[1] <= 0 || count[2] <= 0;
    }
};

/// The tiles, of one size, of the positions of all phases.
struct position_tiling {
    std::array<int64_t, 3> size {};
    std::array<int64_t, 3> pieces {};
    position_tiling() = default;
    position_tiling(const std::array<int64_t, 3> &tile,
            const std::array<int64_t, 3> &positions);
    int64_t count() const { return pieces[0] * pieces[1] * pieces[2]; }
    /// May be empty in a phase that has fewer positions than the first.
    tile_range range_of(int64_t number, const gather_phase &phase) const;
};

/// Pixels (n, d, h, w) of one phase in both tensors.
class gather_grid {
public:
    /// The element that a tap adds, and the box of pixels that have it.
    struct tap {
        int64_t read_offset = 0;
        int64_t weights_offset = 0;
        std::array<int64_t, 4> begin {};
        std::array<int64_t, 4> end {};
    };

    /// A run of pixels along the innermost axis. `at` counts from the first
    /// pixel asked for.
    struct line {
        int64_t at = 0;
        int64_t length = 0;
        std::array<int64_t, 4> position {};
    };

    gather_grid(const std::array<const gather_axis *, 3> &axes,
            const detail::tensor_view &read, const detail::tensor_view &written,
            const detail::weights_view &weights);

    int64_t pixels() const {
        return count_[0] * count_[1] * count_[2] * count_[3];
    }
    int64_t taps() const { return taps_; }
    tap tap_at(int64_t number) const;

    /// Between neighbours in a line.
    int64_t read_stride() const { return read_strides_[3]; }
    int64_t written_stride() const { return written_strides_[3]; }
    int64_t written_offset(const std::array<int64_t, 4> &position) const;

    /// Calls body(line) for all lines of pixels [first, first + count).
    template <typename Body>
    void for_each_line(int64_t first, int64_t count, const Body &body) const;

    /// Calls body(at, length, inside, offset) for all pieces of lines on which
    /// the tap is inside or is not, offset being that of the first element.
    template <typename Body>
    void for_each_piece(int64_t first, int64_t count, const tap &reading,
            const Body &body) const;

private:
    std::array<const gather_axis *, 3> axes_;
    std::array<int64_t, 3> tap_read_strides_ {};
    std::array<int64_t, 3> tap_weights_strides_ {};
    int64_t taps_ = 1;
    int64_t written_base_ = 0;
    /// Axes that no tap leaves are merged into their inner neighbour where
    /// both tensors allow it; what is merged has count 1.
    std::array<int64_t, 4> count_ {};
    std::array<int64_t, 4> read_strides_ {};
    std::array<int64_t, 4> written_strides_ {};
    std::array<bool, 4> whole_ {};
};

template <typename Body>
void gather_grid::for_each_line(
        int64_t first, int64_t count, const Body &body) const {
    line now;
    int64_t rest = first;
    for (size_t axis = 4; axis-- > 0;) {
        now.position[axis] = rest % count_[axis];
        rest /= count_[axis];
    }
    while (count > 0) {
        const int64_t left = count_[3] - now.position[3];
        now.length = count < left ? count : left;
        body(static_cast<const line &>(now));
        now.at += now.length;
        count -= now.length;
        now.position[3] = 0;
        for (size_t axis = 3; axis-- > 0;) {
            if (++now.position[axis] < count_[axis]) break;
            now.position[axis] = 0;
        }
    }
}

template <typename Body>
void gather_grid::for_each_piece(int64_t first, int64_t count,
        const tap &reading, const Body &body) const {
    for_each_line(first, count, [&](const line &now) {
        int64_t begin = 0;
        int64_t end = 0;
        int64_t offset = reading.read_offset;
        bool inside = true;
        for (size_t axis = 0; axis < 3; ++axis) {
            const int64_t at = now.position[axis];
            inside = inside && at >= reading.begin[axis]
                    && at < reading.end[axis];
            offset += at * read_strides_[axis];
        }
        if (inside) {
            const int64_t x = now.position[3];
            const auto clamp = [&](int64_t value) {
                return value < x                 ? 0
                        : value > x + now.length ? now.length
                                                 : value - x;
            };
            begin = clamp(reading.begin[3]);
            end = clamp(reading.end[3]);
            if (end < begin) end = begin;
            offset += (x + begin) * read_strides_[3];
        }
        if (begin > 0) body(now.at, begin, false, 0);
        if (end > begin) body(now.at + begin, end - begin, true, offset);
        if (end < now.length) body(now.at + end, now.length - end, false, 0);
    });
}

} // namespace gradnn::cpu
