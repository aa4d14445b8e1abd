// How tiles of planes are staged, so that a tap is a distance.
//
// Of one phase (convolution/gather.hpp), positions j0 <= j < j0 + count of an
// axis read elements (j0 + q) * step + low + r: q counts steps from the tile's
// first position, r is what remains. The staged plane of a channel holds one
// small volume [q_d][q_h][q_w] for each combination of remainders that a tap
// has, elements outside the tensor as 0. Position (d, h, w) of the tile is at
// f = (d * Q_h + h) * Q_w + w, and what tap t adds to it is at f + offset[t]:
// all positions are one run, and the few that stand between the lines cost
// less than lines that do not fill a vector.
//
// Where lines are short and there are many planes one behind the other, elements
// are copied from plane to plane: a few long copies in place of many short ones.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "cpu/convolution/gather.hpp"

namespace gradnn::cpu {

/// One axis of one phase.
struct staged_axis {
    explicit staged_axis(const gather_axis &axis);

    int64_t step = 1;
    int64_t low = 0; ///< the smallest offset of a tap
    bool is_point = false; ///< position j reads element j, all being inside
    int64_t reach = 0; ///< the largest q of a tap at j0
    std::vector<int64_t> remainders; ///< those that taps have, each once
    struct staged_tap {
        int64_t volume = 0; ///< index in remainders
        int64_t q = 0;
    };
    std::vector<staged_tap> taps;
};

/// Elements that are copied together: element i is at + i * step of the staged
/// plane, and offset + i * stride of a channel of the tensor.
struct staged_run {
    int64_t at = 0;
    int64_t step = 1;
    int64_t length = 0;
    int64_t offset = 0;
    int64_t stride = 0;
    bool inside = true;
};

/// A tile of one phase.
class staged_tile {
public:
    staged_tile(const std::array<const staged_axis *, 3> &axes,
            const tile_range &range);

    /// Elements of a staged plane that taps may read; a tile of more than
    /// most_elements has that many here, and must not be staged.
    static constexpr int64_t most_elements = int64_t {1} << 40;
    int64_t plane_elements() const { return elements_; }
    /// The same with what a vector may read past the end.
    int64_t plane_pitch(int64_t lanes) const {
        return odd_vectors(plane_elements() + lanes, lanes);
    }
    /// Of planes with a place for each position.
    int64_t out_pitch(int64_t lanes) const {
        return odd_vectors(positions(), lanes);
    }
    /// Positions f of the tile, those between lines included.
    int64_t positions() const {
        if (elements_ == most_elements) return most_elements;
        return ((range_.count[0] - 1) * sizes_[1] + range_.count[1] - 1)
                * sizes_[2]
                + range_.count[2];
    }
    int64_t taps() const {
        return static_cast<int64_t>(axes_[0]->taps.size()
                * axes_[1]->taps.size() * axes_[2]->taps.size());
    }
    /// f of the first position of line (d, h) of the tile.
    int64_t line(int64_t d, int64_t h) const {
        return (d * sizes_[1] + h) * sizes_[2];
    }
    const tile_range &range() const { return range_; }

    /// offsets[c * taps() + t], for `channels` planes `pitch` apart.
    void find_offsets(int64_t channels, int64_t pitch, int64_t *offsets) const;

    /// Calls body(run) for runs that make up a staged plane of the tensor `read`,
    /// of which so many channels are copied at a time.
    template <typename Body>
    void for_each_read(const detail::tensor_view &read, int64_t channels,
            const Body &body) const;
    /// The same for the tile's positions in a tensor whose position (0, 0, 0) of
    /// the tile is at `first`, and whose axes have these strides.
    template <typename Body>
    void for_each_position(int64_t first, const std::array<int64_t, 3> &strides,
            int64_t channels, const Body &body) const;

    /// Whether any staged element lies outside the tensor.
    bool leaves(const detail::tensor_view &read) const;

private:
    /// An odd number of vectors, so that planes that are read or written in turn
    /// are not all in the same lines of the first-level cache.
    static int64_t odd_vectors(int64_t elements, int64_t lanes) {
        return ((elements + lanes - 1) / lanes | 1) * lanes;
    }
    /// Whether runs go from plane to plane: a call takes as long as some 40
    /// elements that are copied one by one, and a channel's line as long as 4.
    bool is_deep(int64_t channels) const {
        return axes_[0]->is_point && sizes_[2] < sizes_[0]
                && (sizes_[2] - 4) * channels < 40;
    }
    int64_t volume_elements() const {
        return sizes_[0] * sizes_[1] * sizes_[2];
    }
    /// Index of the element in the tensor, inside or not.
    int64_t element(size_t axis, int64_t volume, int64_t q) const {
        return (range_.first[axis] + q) * axes_[axis]->step + axes_[axis]->low
                + axes_[axis]->remainders[static_cast<size_t>(volume)];
    }
    int64_t remainders(size_t axis) const {
        return static_cast<int64_t>(axes_[axis]->remainders.size());
    }

    std::array<const staged_axis *, 3> axes_;
    tile_range range_;
    std::array<int64_t, 3> sizes_ {}; ///< Q_d, Q_h, Q_w
    int64_t elements_ = 1; ///< of all volumes
};

template <typename Body>
void staged_tile::for_each_read(const detail::tensor_view &read,
        int64_t channels, const Body &body) const {
    const auto inside = [&](size_t axis, int64_t at) {
        return at >= 0 && at < read.dims[axis + 2];
    };
    staged_run run;
    if (is_deep(channels)) {
        run.step = sizes_[1] * sizes_[2];
        run.length = sizes_[0];
        run.stride = read.strides[2];
        for (int64_t vh = 0; vh < remainders(1); ++vh)
            for (int64_t vw = 0; vw < remainders(2); ++vw) {
                const int64_t start
                        = (vh * remainders(2) + vw) * volume_elements();
                for (int64_t qh = 0; qh < sizes_[1]; ++qh)
                    for (int64_t qw = 0; qw < sizes_[2]; ++qw) {
                        const int64_t h = element(1, vh, qh);
                        const int64_t w = element(2, vw, qw);
                        run.at = start + line(0, qh) + qw;
                        run.inside = inside(1, h) && inside(2, w);
                        run.offset = range_.first[0] * read.strides[2]
                                + h * read.strides[3] + w * read.strides[4];
                        body(static_cast<const staged_run &>(run));
                    }
            }
        return;
    }
    const int64_t step = axes_[2]->step;
    run.stride = step * read.strides[4];
    const auto piece
            = [&](int64_t at, int64_t length, bool is_inside, int64_t offset) {
                  if (length == 0) return;
                  run.at = at;
                  run.length = length;
                  run.inside = is_inside;
                  run.offset = offset;
                  body(static_cast<const staged_run &>(run));
              };
    int64_t at = 0;
    for (int64_t vd = 0; vd < remainders(0); ++vd)
        for (int64_t vh = 0; vh < remainders(1); ++vh)
            for (int64_t vw = 0; vw < remainders(2); ++vw) {
                // The q whose element lies in [0, size).
                const int64_t start = element(2, vw, 0);
                const int64_t size = read.dims[4];
                const auto first_at_least = [&](int64_t value) {
                    const int64_t q = value <= start
                            ? 0
                            : (value - start + step - 1) / step;
                    return q < sizes_[2] ? q : sizes_[2];
                };
                const int64_t begin = first_at_least(0);
                const int64_t end = first_at_least(size);
                const int64_t first = (start + begin * step) * read.strides[4];
                for (int64_t qd = 0; qd < sizes_[0]; ++qd)
                    for (int64_t qh = 0; qh < sizes_[1];
                            ++qh, at += sizes_[2]) {
                        const int64_t d = element(0, vd, qd);
                        const int64_t h = element(1, vh, qh);
                        if (begin >= end || !inside(0, d) || !inside(1, h)) {
                            piece(at, sizes_[2], false, 0);
                            continue;
                        }
                        piece(at, begin, false, 0);
                        piece(at + begin, end - begin, true,
                                first + d * read.strides[2]
                                        + h * read.strides[3]);
                        piece(at + end, sizes_[2] - end, false, 0);
                    }
            }
}

template <typename Body>
void staged_tile::for_each_position(int64_t first,
        const std::array<int64_t, 3> &strides, int64_t channels,
        const Body &body) const {
    const auto &count = range_.count;
    staged_run run;
    if (is_deep(channels)) {
        run.step = sizes_[1] * sizes_[2];
        run.length = count[0];
        run.stride = strides[0];
        for (int64_t h = 0; h < count[1]; ++h)
            for (int64_t w = 0; w < count[2]; ++w) {
                run.at = line(0, h) + w;
                run.offset = first + h * strides[1] + w * strides[2];
                body(static_cast<const staged_run &>(run));
            }
        return;
    }
    run.length = count[2];
    run.stride = strides[2];
    for (int64_t d = 0; d < count[0]; ++d)
        for (int64_t h = 0; h < count[1]; ++h) {
            run.at = line(d, h);
            run.offset = first + d * strides[0] + h * strides[1];
            body(static_cast<const staged_run &>(run));
        }
}

} // namespace gradnn::cpu
