#include "cpu/convolution/planes/geometry.hpp"

#include <algorithm>

namespace gradnn::cpu {

staged_axis::staged_axis(const gather_axis &axis) : step(axis.step) {
    if (axis.taps.empty()) return;
    low = axis.taps[0].offset;
    for (const gather_tap &tap : axis.taps)
        low = std::min(low, tap.offset);
    for (const gather_tap &tap : axis.taps) {
        const int64_t remainder = (tap.offset - low) % step;
        const auto found
                = std::find(remainders.begin(), remainders.end(), remainder);
        staged_tap staged;
        staged.volume = found - remainders.begin();
        staged.q = (tap.offset - low) / step;
        if (found == remainders.end()) remainders.push_back(remainder);
        reach = std::max(reach, staged.q);
        taps.push_back(staged);
    }
    is_point = axis.whole && taps.size() == 1 && step == 1 && low == 0;
}

staged_tile::staged_tile(
        const std::array<const staged_axis *, 3> &axes, const tile_range &range)
    : axes_(axes), range_(range) {
    for (size_t axis = 0; axis < 3; ++axis) {
        sizes_[axis] = range.count[axis] + axes[axis]->reach;
        for (const int64_t factor : {sizes_[axis], remainders(axis)}) {
            // A phase without taps has no elements.
            const bool too_many
                    = elements_ != 0 && factor > most_elements / elements_;
            elements_ = too_many ? most_elements : elements_ * factor;
        }
    }
}

void staged_tile::find_offsets(
        int64_t channels, int64_t pitch, int64_t *offsets) const {
    int64_t *next = offsets;
    for (const auto &d : axes_[0]->taps)
        for (const auto &h : axes_[1]->taps)
            for (const auto &w : axes_[2]->taps) {
                const int64_t volume
                        = (d.volume * remainders(1) + h.volume) * remainders(2)
                        + w.volume;
                *next++ = volume * volume_elements() + line(d.q, h.q) + w.q;
            }
    for (int64_t i = taps(); i < channels * taps(); ++i)
        offsets[i] = offsets[i - taps()] + pitch;
}

bool staged_tile::leaves(const detail::tensor_view &read) const {
    for (size_t axis = 0; axis < 3; ++axis)
        for (int64_t volume = 0; volume < remainders(axis); ++volume)
            if (element(axis, volume, 0) < 0
                    || element(axis, volume, sizes_[axis] - 1)
                            >= read.dims[axis + 2])
                return true;
    return false;
}

} // namespace gradnn::cpu
