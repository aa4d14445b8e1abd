// Random convolution problems, in a text that can be read back.
#pragma once

#include <string>

#include "problem.hpp"
#include "support/random.hpp"

namespace gradnn::sweep {

/// What the problems are to be drawn from.
struct choice {
    detail::data_type type = detail::data_type::undef; ///< undef: all
    int direction = -1; ///< -1: all, else a convolution_direction
};

/// A small problem with an edge more often than not: windows, dilations, strides
/// and pads of any relation to the size of src, channels that fill no vector.
detail::convolution_problem random_problem(
        test::random_source &random, const choice &from);

/// "weights bf16 f32 nxc g8 n2 i32 o32 src22x30 k3x3 s1x1 d2x2 p2x2 dst22x30":
/// the direction; the types of the inputs and of the output; the order of src
/// and dst; groups, batch, all channels of src and dst.
std::string to_text(const detail::convolution_problem &problem);

/// Throws std::invalid_argument where the text is not such a problem.
detail::convolution_problem from_text(const std::string &text);

} // namespace gradnn::sweep
