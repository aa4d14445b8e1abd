#include "cases.hpp"

#include <algorithm>
#include <stdexcept>

namespace gradnn::test {

namespace {

int64_t reach(const convolution_case &c, size_t axis) {
    return (c.kernel[axis] - 1) * c.dilations[axis] + 1;
}

int64_t padding(const convolution_case &c, size_t axis) {
    return c.auto_pad == "none" ? c.pads_begin[axis] + c.pads_end[axis] : 0;
}

bool same(const convolution_case &c) {
    return c.auto_pad == "same_upper" || c.auto_pad == "same_lower";
}

template <typename Case>
const Case &named(const std::vector<Case> &cases, const std::string &name) {
    for (const Case &c : cases)
        if (c.name == name) return c;
    throw std::out_of_range("no case is named " + name);
}

} // namespace

sizes convolution_case::small() const {
    sizes result;
    for (size_t axis = 0; axis < large.size(); ++axis) {
        const int64_t room
                = large[axis] + padding(*this, axis) - reach(*this, axis);
        result.push_back(same(*this)
                        ? (large[axis] + strides[axis] - 1) / strides[axis]
                        : room / strides[axis] + 1);
    }
    return result;
}

sizes convolution_case::output_padding() const {
    sizes result(large.size(), 0);
    if (same(*this)) return result;
    for (size_t axis = 0; axis < large.size(); ++axis)
        result[axis] = (large[axis] + padding(*this, axis) - reach(*this, axis))
                % strides[axis];
    return result;
}

const std::vector<convolution_case> &convolution_cases() {
    using c = convolution_case;
    static const std::vector<convolution_case> cases {
            c {"plain_1d", 2, 1, 3, 4, {9}, {3}, {1}, {1}, {0}, {0}, "none",
                    true},
            c {"strided_1d", 2, 1, 3, 4, {10}, {3}, {2}, {1}, {1}, {1}},
            c {"grouped_dilated_1d", 1, 2, 4, 6, {11}, {2}, {1}, {3}, {0}, {2}},
            c {"point_1d", 3, 1, 5, 7, {1}, {1}, {1}, {1}, {0}, {0}},
            c {"depthwise_1d", 2, 6, 6, 6, {17}, {5}, {1}, {1}, {2}, {2}},
            c {"stride_above_kernel_1d", 1, 1, 3, 2, {20}, {2}, {5}, {1}, {0},
                    {0}},
            // oneDNN 3.2 gets these wrong on CPUs with AMX or products of f16.
            c {"kernel_beyond_src", 2, 3, 15, 9, {1}, {4}, {2}, {1}, {3}, {3}},
            c {"stride_beyond_src", 2, 1, 2, 4, {2}, {2}, {4}, {1}, {1}, {0}},
            c {"dilated_strided", 1, 1, 4, 5, {8, 11}, {3, 3}, {2, 4}, {3, 1},
                    {1, 2}, {3, 0}},
            c {"dilated_strided_1d", 2, 1, 2, 2, {11}, {3}, {4}, {3}, {3},
                    {-1}},
            // oneDNN 3.2 gets these wrong, or ends the process, with AVX-512.
            c {"window_beyond_depth", 1, 1, 3, 16, {5, 8, 9}, {7, 7, 7},
                    {2, 2, 2}, {1, 1, 1}, {3, 3, 3}, {3, 3, 3}},
            c {"window_beyond_depth_wide", 1, 1, 32, 2, {3, 7, 7}, {5, 3, 3},
                    {2, 1, 1}, {1, 1, 1}, {3, 1, 1}, {3, 1, 1}},
            c {"window_of_depth", 1, 1, 16, 4, {5, 4, 6}, {5, 3, 3}, {2, 1, 1},
                    {1, 1, 1}, {3, 1, 1}, {3, 1, 1}},
            c {"dilated_groups_of_four", 1, 8, 32, 32, {7, 30}, {3, 3}, {1, 1},
                    {2, 2}, {2, 2}, {2, 2}},
            c {"dilated_partial_vector", 1, 1, 20, 8, {7, 34}, {3, 3}, {1, 1},
                    {2, 2}, {2, 2}, {2, 2}},
            c {"plain_2d", 2, 1, 5, 3, {7, 6}, {3, 3}, {1, 1}, {1, 1}, {1, 1},
                    {1, 1}, "none", true},
            c {"sixteen_channels", 2, 1, 16, 32, {8, 9}, {3, 3}, {1, 1}, {1, 1},
                    {1, 1}, {1, 1}, "none", true},
            c {"pointwise", 2, 1, 19, 13, {7, 5}, {1, 1}, {1, 1}, {1, 1},
                    {0, 0}, {0, 0}},
            c {"pointwise_wide", 3, 1, 21, 150, {9, 23}, {1, 1}, {1, 1}, {1, 1},
                    {0, 0}, {0, 0}},
            c {"pointwise_3d", 2, 1, 64, 8, {3, 8, 8}, {1, 1, 1}, {1, 1, 1},
                    {1, 1, 1}, {0, 0, 0}, {0, 0, 0}},
            c {"pointwise_strided", 2, 1, 4, 4, {6, 7}, {1, 1}, {2, 2}, {1, 1},
                    {0, 0}, {0, 0}},
            c {"strided_2d", 1, 1, 4, 8, {9, 8}, {3, 3}, {2, 2}, {1, 1}, {1, 1},
                    {1, 1}},
            c {"uneven_2d", 1, 4, 4, 8, {9, 8}, {3, 2}, {2, 3}, {2, 1}, {0, 1},
                    {2, 1}, "none", true},
            c {"depthwise_2d", 2, 6, 6, 6, {5, 6}, {3, 3}, {1, 1}, {1, 1},
                    {1, 1}, {1, 1}, "none", true},
            c {"depthwise_strided", 1, 16, 16, 16, {11, 9}, {3, 3}, {2, 2},
                    {1, 1}, {1, 1}, {1, 1}},
            c {"depthwise_multiplied", 1, 3, 3, 6, {7, 7}, {3, 3}, {1, 1},
                    {1, 1}, {1, 1}, {1, 1}},
            c {"grouped_2d", 2, 3, 6, 9, {6, 6}, {3, 3}, {1, 1}, {1, 1}, {1, 1},
                    {1, 1}, "none", true},
            c {"dilated_2d", 1, 1, 3, 5, {11, 12}, {3, 3}, {1, 1}, {3, 2},
                    {3, 2}, {3, 2}},
            c {"asymmetric_pads", 1, 1, 3, 4, {8, 7}, {3, 4}, {1, 1}, {1, 1},
                    {0, 3}, {2, 0}},
            c {"negative_pads", 1, 1, 3, 4, {12, 11}, {3, 3}, {1, 1}, {1, 1},
                    {-2, -1}, {-1, -3}},
            c {"first_layer", 2, 1, 3, 10, {19, 45}, {7, 7}, {2, 2}, {1, 1},
                    {3, 3}, {3, 3}},
            c {"first_layer_wide", 1, 1, 1, 5, {3, 530}, {3, 5}, {1, 1}, {1, 1},
                    {1, 2}, {1, 2}},
            c {"first_layer_3d", 1, 1, 2, 6, {5, 6, 41}, {3, 2, 4}, {2, 1, 2},
                    {1, 1, 1}, {1, 0, 1}, {1, 1, 1}},
            c {"first_layer_audio", 2, 1, 1, 6, {1403}, {10}, {5}, {1}, {0},
                    {2}},
            // Pieces with nothing to be left out, and several warps to each.
            c {"first_layer_audio_ways", 2, 1, 1, 70, {1920}, {10}, {5}, {1},
                    {0}, {0}},
            c {"first_layer_audio_odd", 1, 1, 3, 21, {811}, {7}, {1}, {1}, {-2},
                    {5}},
            c {"first_layer_audio_dense", 1, 1, 3, 33, {1024}, {6}, {1}, {1},
                    {3}, {2}},
            c {"first_layer_audio_stride_2", 1, 1, 4, 34, {1501}, {8}, {2}, {1},
                    {3}, {3}},
            c {"first_layer_strided_long", 1, 1, 4, 40, {1536}, {11}, {4}, {1},
                    {0}, {3}},
            c {"first_layer_audio_stride_8", 1, 1, 1, 130, {3072}, {16}, {8},
                    {1}, {0}, {0}},
            c {"first_layer_audio_short", 3, 1, 2, 9, {13}, {5}, {2}, {1}, {4},
                    {2}},
            c {"patches", 2, 1, 3, 37, {12, 20}, {4, 5}, {4, 5}, {1, 1}, {0, 0},
                    {0, 0}, "none", true},
            c {"patches_with_rest", 1, 1, 5, 8, {10, 13}, {4, 4}, {4, 4},
                    {1, 1}, {0, 0}, {0, 0}},
            c {"patches_1d", 2, 1, 2, 9, {35}, {7}, {7}, {1}, {0}, {0}},
            c {"strided_3d_wide", 1, 1, 16, 24, {9, 8, 10}, {3, 3, 3},
                    {2, 2, 2}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}},
            c {"two_wide_groups", 2, 2, 48, 64, {9, 10}, {3, 3}, {1, 1}, {1, 1},
                    {1, 1}, {1, 1}},
            c {"first_layer_stride_4", 1, 1, 3, 5, {13, 75}, {5, 11}, {2, 4},
                    {1, 1}, {2, 2}, {1, 2}},
            c {"first_layer_stride_8", 1, 1, 1, 6, {5, 275}, {2, 15}, {1, 8},
                    {1, 1}, {1, 3}, {0, 4}},
            c {"negative_and_positive_pads", 1, 1, 2, 3, {9, 10}, {3, 3},
                    {2, 1}, {1, 1}, {-1, 2}, {2, -2}},
            c {"pads_beyond_kernel", 1, 1, 2, 3, {4, 5}, {2, 2}, {1, 1}, {1, 1},
                    {3, 4}, {5, 2}},
            c {"same_upper", 2, 1, 3, 4, {7, 8}, {3, 4}, {2, 3}, {1, 1}, {0, 0},
                    {0, 0}, "same_upper"},
            c {"same_lower", 2, 1, 3, 4, {7, 8}, {4, 3}, {1, 2}, {1, 2}, {0, 0},
                    {0, 0}, "same_lower"},
            c {"valid", 1, 1, 3, 4, {7, 8}, {3, 4}, {2, 1}, {1, 1}, {5, 5},
                    {5, 5}, "valid"},
            c {"stride_above_kernel", 1, 1, 3, 2, {13, 14}, {2, 2}, {3, 4},
                    {1, 1}, {0, 0}, {0, 0}},
            c {"kernel_as_large_as_src", 2, 1, 3, 4, {5, 6}, {5, 6}, {1, 1},
                    {1, 1}, {0, 0}, {0, 0}},
            c {"even_kernel_upsampler", 1, 1, 4, 4, {10, 12}, {4, 4}, {2, 2},
                    {1, 1}, {1, 1}, {1, 1}},
            c {"one_wide", 2, 1, 3, 4, {1, 9}, {1, 3}, {1, 2}, {1, 1}, {0, 1},
                    {0, 1}},
            c {"depthwise_wide", 2, 67, 67, 67, {9, 10}, {3, 3}, {1, 1}, {1, 1},
                    {1, 1}, {1, 1}, "none", true},
            c {"depthwise_wide_1d", 2, 35, 35, 35, {19}, {4}, {1}, {1}, {1},
                    {2}},
            c {"depthwise_wide_3d", 1, 32, 32, 32, {4, 5, 4}, {3, 3, 3},
                    {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}},
            c {"depthwise_3d_uneven", 2, 35, 35, 35, {5, 70, 11}, {3, 3, 3},
                    {1, 1, 1}, {1, 1, 1}, {0, 2, 1}, {2, 1, 0}},
            c {"depthwise_3d_tiles", 1, 70, 70, 70, {3, 9, 14}, {3, 3, 3},
                    {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}},
            c {"depthwise_3d_one_slice", 2, 6, 6, 6, {1, 9, 12}, {3, 3, 3},
                    {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}},
            c {"depthwise_3d_one_column", 1, 34, 34, 34, {7, 5, 1}, {3, 3, 3},
                    {1, 1, 1}, {1, 1, 1}, {1, 0, 1}, {1, 0, 1}},
            c {"depthwise_wide_strided", 1, 40, 40, 40, {11, 9}, {3, 3}, {2, 2},
                    {1, 1}, {1, 1}, {1, 1}},
            // Parts of the output that meet parts of the window, and none of it.
            c {"parts_dilated", 1, 1, 80, 96, {9, 10}, {3, 3}, {1, 1}, {7, 7},
                    {7, 7}, {7, 7}},
            c {"parts_uneven", 2, 1, 64, 64, {8, 11}, {3, 4}, {1, 1}, {9, 5},
                    {8, 6}, {11, 9}},
            c {"parts_strided", 1, 1, 96, 96, {13, 4}, {3, 3}, {2, 1}, {9, 5},
                    {9, 5}, {9, 5}},
            c {"parts_of_points", 3, 1, 72, 80, {1, 2, 1}, {3, 3, 3}, {1, 1, 1},
                    {1, 1, 1}, {1, 1, 1}, {1, 1, 1}},
            c {"parts_of_groups", 1, 2, 96, 96, {6, 7}, {3, 3}, {1, 1}, {5, 6},
                    {5, 6}, {5, 6}},
            // Windows of one point.
            c {"points_strided", 2, 2, 24, 18, {13, 10}, {1, 1}, {3, 2}, {1, 1},
                    {0, 0}, {0, 0}},
            c {"depthwise_points_3d", 2, 20, 20, 20, {5, 6, 7}, {1, 1, 1},
                    {1, 1, 1}, {1, 1, 1}, {0, 0, 0}, {0, 0, 0}},
            // Sums of more than 12,288 products.
            c {"parts_of_sums", 1, 1, 8, 260, {7, 9}, {7, 7}, {1, 1}, {1, 1},
                    {3, 3}, {3, 3}},
            c {"depthwise_wide_dilated", 1, 33, 33, 33, {12, 13}, {3, 3},
                    {1, 1}, {2, 3}, {2, 3}, {2, 3}},
            c {"depthwise_wide_negative_pads", 1, 48, 48, 48, {12, 11}, {3, 5},
                    {1, 2}, {1, 1}, {-2, 1}, {1, -3}},
            c {"depthwise_large_plane", 1, 3, 3, 3, {131, 120}, {5, 5}, {1, 1},
                    {1, 1}, {2, 2}, {2, 2}},
            c {"depthwise_high", 1, 36, 36, 36, {131, 29}, {3, 3}, {1, 1},
                    {1, 1}, {0, 2}, {2, 1}},
            c {"depthwise_flat_3d", 2, 34, 34, 34, {3, 9, 11}, {1, 3, 3},
                    {1, 1, 1}, {1, 1, 1}, {0, 1, 1}, {0, 1, 1}},
            c {"depthwise_5x5", 2, 34, 34, 34, {23, 21}, {5, 5}, {1, 1}, {1, 1},
                    {2, 2}, {2, 2}},
            c {"depthwise_5x5_strided", 2, 32, 32, 32, {13, 16}, {5, 5}, {2, 2},
                    {1, 1}, {2, 2}, {2, 2}},
            c {"depthwise_7x7", 1, 32, 32, 32, {18, 16}, {7, 7}, {1, 1}, {1, 1},
                    {3, 3}, {3, 3}},
            c {"depthwise_5x5_even", 7, 10, 10, 10, {17, 22}, {5, 5}, {1, 1},
                    {1, 1}, {2, 2}, {2, 2}},
            c {"depthwise_5x5_long_rows", 2, 3, 3, 3, {13, 41}, {5, 5}, {1, 1},
                    {1, 1}, {2, 1}, {2, 3}},
            c {"depthwise_7x7_odd", 3, 6, 6, 6, {15, 19}, {7, 7}, {1, 1},
                    {1, 1}, {3, 2}, {2, 3}},
            c {"depthwise_7x7_valid", 2, 5, 5, 5, {25, 30}, {7, 7}, {1, 1},
                    {1, 1}, {0, 6}, {6, 0}},
            c {"depthwise_7x7_bands", 2, 2, 2, 2, {209, 88}, {7, 7}, {1, 1},
                    {1, 1}, {4, 3}, {2, 3}},
            // Rows that lie apart in shared memory, of src alone in the second.
            c {"depthwise_7x7_bands_apart", 1, 2, 2, 2, {93, 96}, {7, 7},
                    {1, 1}, {1, 1}, {4, 3}, {2, 3}},
            c {"depthwise_5x5_bands_apart", 1, 2, 2, 2, {81, 96}, {5, 5},
                    {1, 1}, {1, 1}, {0, 0}, {4, 2}},
            c {"depthwise_rows_of_vectors", 3, 5, 5, 5, {35, 64}, {3, 3},
                    {1, 1}, {1, 1}, {1, 1}, {1, 1}},
            c {"depthwise_7x7_strided", 2, 9, 9, 9, {19, 16}, {7, 7}, {2, 2},
                    {1, 1}, {2, 3}, {3, 2}},
            c {"depthwise_many_planes", 16, 150, 150, 150, {7, 7}, {3, 3},
                    {1, 1}, {1, 1}, {1, 1}, {1, 1}},
            c {"depthwise_bands", 1, 2, 2, 2, {203, 117}, {5, 5}, {1, 1},
                    {1, 1}, {1, 3}, {2, 0}},
            c {"depthwise_bands_strided", 2, 3, 3, 3, {255, 149}, {3, 3},
                    {2, 2}, {1, 1}, {0, 1}, {1, 1}},
            c {"depthwise_unread_columns", 2, 5, 5, 5, {14, 23}, {3, 3}, {2, 2},
                    {1, 1}, {2, 1}, {-3, -4}},
            c {"depthwise_31x31", 1, 8, 8, 8, {12, 24}, {31, 31}, {1, 1},
                    {1, 1}, {15, 15}, {15, 15}},
            c {"depthwise_one_row", 2, 6, 6, 6, {9, 40}, {1, 17}, {1, 1},
                    {1, 1}, {0, 8}, {0, 8}},
            c {"depthwise_two_rows", 1, 5, 5, 5, {11, 31}, {2, 9}, {1, 1},
                    {1, 1}, {1, 4}, {0, 4}},
            c {"depthwise_63_1d", 2, 5, 5, 5, {300}, {63}, {1}, {1}, {31},
                    {31}},
            // Windows along the rows alone.
            c {"depthwise_lines_31", 3, 5, 5, 5, {1031}, {31}, {1}, {1}, {15},
                    {15}},
            c {"depthwise_lines_31_even", 2, 6, 6, 6, {1000}, {31}, {1}, {1},
                    {15}, {15}},
            c {"depthwise_lines_15", 2, 6, 6, 6, {200}, {15}, {1}, {1}, {7},
                    {7}},
            c {"depthwise_lines_32_uneven", 2, 4, 4, 4, {514}, {32}, {1}, {1},
                    {15}, {16}},
            c {"depthwise_lines_5_valid", 7, 3, 3, 3, {519}, {5}, {1}, {1}, {0},
                    {0}},
            c {"depthwise_lines_63_full", 1, 3, 3, 3, {129}, {63}, {1}, {1},
                    {62}, {62}},
            c {"depthwise_lines_17", 1, 2, 2, 2, {508}, {17}, {1}, {1}, {8},
                    {8}},
            c {"depthwise_lines_7_rows", 2, 3, 3, 3, {5, 70}, {1, 7}, {1, 1},
                    {1, 1}, {0, 3}, {0, 2}},
            c {"depthwise_lines_48_many", 19, 3, 3, 3, {200}, {48}, {1}, {1},
                    {20}, {27}},
            // Channels in vectors of eight.
            c {"depthwise_eights_3x3_many", 5, 136, 136, 136, {7, 7}, {3, 3},
                    {1, 1}, {1, 1}, {1, 1}, {1, 1}},
            c {"depthwise_eights_3x3_few_rows", 1, 8, 8, 8, {5, 130}, {3, 3},
                    {1, 1}, {1, 1}, {0, 0}, {0, 0}},
            c {"depthwise_eights_3x3_full", 1, 40, 40, 40, {13, 9}, {3, 3},
                    {1, 1}, {1, 1}, {2, 2}, {2, 2}},
            c {"depthwise_eights_3x3_one_row", 1, 16, 16, 16, {1, 37}, {3, 3},
                    {1, 1}, {1, 1}, {1, 0}, {1, 2}},
            c {"depthwise_eights_5x5", 2, 24, 24, 24, {14, 14}, {5, 5}, {1, 1},
                    {1, 1}, {2, 2}, {2, 2}, "none", true},
            c {"depthwise_eights_5x5_uneven", 1, 72, 72, 72, {13, 9}, {5, 5},
                    {1, 1}, {1, 1}, {4, 0}, {1, 4}},
            c {"depthwise_eights_5x5_valid", 5, 8, 8, 8, {33, 20}, {5, 5},
                    {1, 1}, {1, 1}, {0, 0}, {0, 0}},
            c {"depthwise_eights_5x5_full", 1, 16, 16, 16, {15, 57}, {5, 5},
                    {1, 1}, {1, 1}, {4, 4}, {4, 4}},
            c {"depthwise_eights_5x5_one_column", 3, 40, 40, 40, {23, 1},
                    {5, 5}, {1, 1}, {1, 1}, {2, 2}, {2, 2}},
            c {"depthwise_eights_7x7", 5, 16, 16, 16, {7, 7}, {7, 7}, {1, 1},
                    {1, 1}, {3, 3}, {3, 3}},
            c {"depthwise_eights_7x7_many", 1, 136, 136, 136, {14, 14}, {7, 7},
                    {1, 1}, {1, 1}, {3, 3}, {3, 3}},
            c {"depthwise_eights_7x7_valid", 2, 40, 40, 40, {13, 9}, {7, 7},
                    {1, 1}, {1, 1}, {0, 0}, {0, 0}},
            c {"depthwise_eights_7x7_full", 1, 24, 24, 24, {33, 20}, {7, 7},
                    {1, 1}, {1, 1}, {6, 6}, {6, 6}},
            c {"depthwise_eights_7x7_uneven", 1, 8, 8, 8, {15, 57}, {7, 7},
                    {1, 1}, {1, 1}, {0, 6}, {6, 0}},
            c {"depthwise_eights_7x7_few_rows", 1, 8, 8, 8, {5, 130}, {7, 7},
                    {1, 1}, {1, 1}, {2, 4}, {4, 2}},
            c {"depthwise_eights_7x7_one_row", 2, 72, 72, 72, {1, 20}, {7, 7},
                    {1, 1}, {1, 1}, {3, 3}, {3, 3}},
            c {"depthwise_eights_7x7_one_point", 5, 8, 8, 8, {7, 7}, {7, 7},
                    {1, 1}, {1, 1}, {0, 0}, {0, 0}},
            c {"large_plane", 1, 1, 3, 5, {97, 101}, {3, 3}, {1, 1}, {1, 1},
                    {1, 1}, {1, 1}},
            c {"many_channels", 1, 1, 72, 80, {6, 5}, {3, 3}, {1, 1}, {1, 1},
                    {1, 1}, {1, 1}},
            c {"grouped_wide", 2, 4, 64, 32, {7, 7}, {3, 3}, {1, 1}, {1, 1},
                    {1, 1}, {1, 1}},
            c {"narrow_groups", 2, 3, 12, 12, {9, 10}, {3, 3}, {1, 1}, {1, 1},
                    {1, 1}, {1, 1}, "none", true},
            c {"narrow_groups_8", 2, 5, 40, 40, {12, 11}, {3, 3}, {1, 1},
                    {1, 1}, {1, 1}, {1, 1}},
            c {"narrow_groups_4_to_8", 1, 3, 12, 24, {17, 19}, {3, 3}, {2, 2},
                    {1, 1}, {1, 1}, {1, 1}},
            c {"narrow_groups_8_to_4", 1, 2, 16, 8, {16, 13}, {5, 4}, {1, 2},
                    {1, 1}, {2, 1}, {1, 2}},
            c {"narrow_groups_many", 1, 36, 144, 144, {19, 20}, {3, 3}, {1, 1},
                    {1, 1}, {1, 1}, {1, 1}},
            c {"narrow_groups_dilated", 1, 4, 16, 16, {13, 22}, {3, 3}, {1, 1},
                    {2, 3}, {2, 3}, {2, 3}},
            c {"narrow_groups_dilated_strided", 2, 2, 8, 16, {18, 15}, {4, 3},
                    {2, 3}, {3, 2}, {1, 2}, {3, 0}},
            c {"narrow_groups_negative_pads", 1, 3, 24, 12, {21, 11}, {3, 2},
                    {1, 1}, {1, 1}, {-2, 3}, {-1, -3}},
            c {"narrow_groups_stride_above_kernel", 1, 2, 8, 8, {23, 24},
                    {2, 2}, {3, 5}, {1, 1}, {0, 0}, {0, 0}},
            c {"narrow_groups_1d", 2, 6, 24, 48, {77}, {5}, {1}, {1}, {2}, {2}},
            c {"narrow_groups_strided_1d", 2, 3, 24, 12, {90}, {3}, {2}, {1},
                    {1}, {0}},
            c {"narrow_groups_3d", 1, 3, 12, 12, {5, 9, 6}, {3, 3, 3},
                    {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}},
            c {"narrow_groups_uneven_3d", 2, 2, 16, 8, {6, 11, 7}, {2, 3, 2},
                    {1, 2, 2}, {2, 1, 1}, {1, 2, 1}, {0, 1, 1}},
            c {"groups_of_12", 2, 4, 48, 48, {11, 13}, {3, 3}, {1, 1}, {1, 1},
                    {1, 1}, {1, 1}},
            c {"groups_of_3_to_32", 1, 3, 9, 96, {13, 12}, {2, 2}, {1, 1},
                    {1, 1}, {0, 0}, {0, 0}},
            c {"groups_of_odd_channels_3d", 2, 2, 10, 14, {4, 12, 9}, {3, 3, 3},
                    {2, 1, 2}, {1, 2, 1}, {1, 2, 1}, {1, 2, 1}},
            c {"dilated_strided_wide", 1, 1, 40, 48, {15, 16}, {3, 3}, {2, 3},
                    {3, 2}, {3, 2}, {3, 2}},
            c {"dilated_strided_with_zeros", 1, 1, 24, 16, {13, 12}, {3, 3},
                    {2, 2}, {2, 4}, {2, 4}, {2, 4}},
            c {"prime_channels", 1, 1, 31, 37, {5, 5}, {3, 3}, {1, 1}, {1, 1},
                    {1, 1}, {1, 1}},
            c {"one_channel", 3, 1, 1, 1, {9, 9}, {3, 3}, {1, 1}, {1, 1},
                    {1, 1}, {1, 1}},
            c {"plain_3d", 1, 1, 3, 4, {4, 5, 6}, {3, 2, 3}, {1, 1, 1},
                    {1, 1, 1}, {1, 0, 1}, {1, 1, 1}, "none", true},
            c {"uneven_3d", 1, 2, 4, 6, {5, 6, 7}, {2, 3, 2}, {1, 2, 2},
                    {1, 2, 1}, {1, 2, 1}, {0, 1, 1}},
            // cuDNN 9.14 divides by zero as it looks for engines for these.
            c {"strided_dilated_3d", 2, 1, 3, 1, {6, 3, 5}, {2, 2, 3},
                    {3, 3, 4}, {2, 3, 2}, {0, 3, 0}, {0, 3, 0}},
            c {"twice_strided_dilated_3d", 1, 1, 8, 4, {9, 9, 9}, {3, 3, 3},
                    {4, 4, 4}, {2, 2, 2}, {0, 0, 0}, {0, 0, 0}},
            c {"depthwise_3d", 1, 4, 4, 4, {4, 5, 4}, {3, 3, 3}, {1, 1, 1},
                    {1, 1, 1}, {1, 1, 1}, {1, 1, 1}},
    };
    return cases;
}

const std::vector<plane_case> &plane_cases() {
    static const std::vector<plane_case> cases {
            {"one", {1, 1, 1}},
            {"row", {2, 3, 17}},
            {"tall", {64, 5, 3}},
            {"image", {2, 7, 9, 11}},
            {"many_channels", {2, 67, 4, 5}},
            {"one_channel", {3, 1, 13, 7}},
            {"large_plane", {1, 2, 127, 129}},
            {"volume", {2, 3, 4, 5, 6}},
    };
    return cases;
}

const interpolation_case &interpolation_named(const std::string &name) {
    return named(interpolation_cases(), name);
}

const convolution_case &convolution_named(const std::string &name) {
    return named(convolution_cases(), name);
}

} // namespace gradnn::test
