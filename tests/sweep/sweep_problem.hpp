// Random convolution problems, in a text that can be read back.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "kernel/problem.hpp"
#include "support/random.hpp"

namespace gradnn::sweep {

/// How large a problem may be. What is said here suits a CPU.
struct limits {
    int64_t elements = 60000; ///< of each tensor
    int64_t products = 3000000;
    int64_t images = 3;
    std::array<int64_t, 3> axis {60, 36, 12}; ///< of src, in 1-D, 2-D, 3-D
    /// Of a group, where they are not to be few.
    std::vector<int64_t> channels {1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 16, 17,
            20, 24, 31, 32, 32, 33, 40, 48, 64, 65};
};

/// What the problems are to be drawn from.
struct choice {
    detail::data_type type = detail::data_type::undef; ///< undef: of `types`
    int direction = -1; ///< -1: all, else a convolution_direction
    std::vector<detail::data_type> types {detail::data_type::f32,
            detail::data_type::bf16, detail::data_type::f16};
    limits most;
    bool grouped = false; ///< of several groups always
};

/// "bf16", and back. Throw std::invalid_argument for others.
const char *name_of(detail::data_type type);
detail::data_type type_named(const std::string &text);
/// The convolution_direction that is called "forward", "data" or "weights".
int direction_named(const std::string &text);

/// A problem with an edge more often than not: windows, dilations, strides
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
