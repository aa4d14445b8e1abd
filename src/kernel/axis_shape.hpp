// What the taps of an axis have in common, for kernels that are compiled for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kernel/axis_map.hpp"

namespace gradnn::detail {

bool is_of_ones(const axis_map &); ///< all weights

/// Whether one input has the sum of all outputs.
bool has_all(const axis_map &);

struct axis_shape {
    int least_taps, most_taps; ///< of an input; the most are 1 at least
    bool two = false; ///< an output has up to two taps
};
axis_shape shape_of(const axis_map &);

/// The outputs that neighbouring inputs touch.
class axis_spans {
public:
    explicit axis_spans(const axis_map &);
    /// Of every input, the first and the end; of those without any too in order.
    const std::vector<std::pair<int, int>> &taps() const { return taps_; }
    /// From the first to the last of so many inputs, wherever these are, at most, and at least 1.
    int of(int inputs);

private:
    std::vector<std::pair<int, int>> taps_;
    std::unordered_map<int, int> known_; ///< by how many inputs
};

/// Where a map repeats: input `inputs` * u + k touches the outputs from `outputs` * u +
/// positions[k].first on, as many as that has weights, but for those that there are not.
struct axis_repetition {
    struct position {
        int first = 0;
        std::vector<double> weights;
    };
    int inputs = 0, outputs = 0; ///< of a period; 0 where it does not repeat
    /// The weights are those of all inputs but so many first and last ones.
    int odd_first = 0, odd_last = 0;
    std::vector<position> positions = {};
};
/// By periods of up to `most_inputs`, of up to `most_taps` each, the weights rounded to float or
/// not; else of the places alone, as those of align_corners by 2, where all inputs count as odd.
axis_repetition repetition_of(
        const axis_map &, int most_inputs, size_t most_taps, bool in_float);

} // namespace gradnn::detail
