// Where the map of an axis repeats.
#pragma once

#include <algorithm>
#include <cstdint>

#include "gpu/interpolation/resample/specification.hpp"
#include "kernel/axis_map.hpp"

namespace gradnn::gpu::resample {

using detail::axis_map;

/// In the type of the sums.
inline double rounded(double weight, element type) {
    return type == element::f64 ? weight : static_cast<float>(weight);
}

/// Of a position, its places and weights as those of one in the middle, `periods` away.
class repetition {
public:
    repetition(const axis_map &map, element type) : map_(map), type_(type) {}

    pattern find() const { return find(false); }
    /// Also where places alone repeat, as those of align_corners by 2: then all positions count
    /// as odd.
    pattern find_places() const {
        const pattern both = find();
        return both.written > 0 ? both : find(true);
    }

private:
    pattern find(bool places_alone) const {
        for (int written = 1; written <= most_period; ++written) {
            if (map_.src < 3 * written) break;
            const int64_t middle = map_.src / 2 / written * written;
            const int64_t step
                    = map_.first(middle) - map_.first(middle - written);
            if (step < 1 || step > 1 << 10) continue;
            pattern made {};
            made.written = written;
            made.read = static_cast<int>(step);
            if (fill(made, middle) && holds(made, places_alone)) return made;
        }
        return {};
    }
    bool fill(pattern &made, int64_t middle) const {
        for (int k = 0; k < made.written; ++k) {
            const int64_t at = middle + k;
            if (at >= map_.src) return false;
            made.first[k] = static_cast<int>(
                    map_.first(at) - middle / made.written * made.read);
            made.taps[k] = static_cast<int>(map_.count(at));
            if (map_.count(at) < 1 || map_.count(at) > most_taps) return false;
            for (int t = 0; t < made.taps[k]; ++t)
                made.weight[k][t]
                        = rounded(map_.weight(map_.offset(at) + t), type_);
        }
        return true;
    }
    bool holds(pattern &made, bool places_alone) const {
        constexpr int most_odd = 8;
        int last_odd = -1; ///< of those at the begin
        made.odd_last = 0;
        for (int64_t i = 0; i < map_.src; ++i) {
            const auto k = static_cast<int>(i % made.written);
            const int64_t window = i / made.written * made.read + made.first[k];
            const int64_t first = std::max<int64_t>(0, window);
            const int64_t end = std::min(map_.dst, window + made.taps[k]);
            if (map_.first(i) != first || map_.first(i) + map_.count(i) != end)
                return false;
            bool same = true;
            for (int64_t o = first; o < end; ++o)
                same = same
                        && rounded(map_.weight(map_.offset(i) + o - first),
                                   type_)
                                == made.weight[k][o - window];
            if (same) continue;
            if (i < most_odd || places_alone)
                last_odd = static_cast<int>(i);
            else if (i >= map_.src - most_odd)
                made.odd_last = std::max(
                        made.odd_last, static_cast<int>(map_.src - i));
            else
                return false;
        }
        made.odd_first = last_odd + 1;
        return true;
    }

    const axis_map &map_;
    element type_;
};

} // namespace gradnn::gpu::resample
