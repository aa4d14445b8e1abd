#include "cases.hpp"

namespace gradnn::test {

const std::vector<interpolation_case> &interpolation_cases() {
    static const std::vector<interpolation_case> cases {
            {"identity_1d", 2, 3, {7}, {7}},
            {"up_1d", 2, 3, {5}, {9}},
            {"down_1d", 1, 2, {9}, {4}},
            {"two_to_ten_1d", 2, 1, {2}, {10}},
            {"two_to_fortyone_1d", 1, 3, {2}, {41}},
            {"one_to_many_1d", 3, 2, {1}, {13}},
            {"many_to_one_1d", 2, 2, {13}, {1}},
            {"primes_1d", 1, 5, {31}, {101}},
            {"long_down_1d", 1, 1, {1021}, {7}},
            {"wide_1d", 2, 17, {64}, {128}},
            {"identity_2d", 2, 4, {5, 6}, {5, 6}, true},
            {"up_2x", 2, 16, {9, 13}, {18, 26}, true},
            {"up_4x", 1, 3, {7, 8}, {28, 32}},
            {"up_8x", 1, 2, {5, 4}, {40, 32}},
            {"up_16x", 1, 1, {4, 5}, {64, 80}},
            {"down_2x", 2, 8, {16, 18}, {8, 9}},
            {"down_3x", 1, 3, {15, 14}, {5, 5}},
            {"ragged_2d", 2, 5, {6, 7}, {13, 5}, true},
            {"primes_2d", 1, 7, {11, 13}, {29, 17}, true},
            {"one_row", 2, 3, {1, 9}, {1, 20}},
            {"one_column", 2, 3, {9, 1}, {20, 1}},
            {"one_to_many_2d", 2, 3, {1, 1}, {7, 5}},
            {"many_to_one_2d", 2, 3, {7, 5}, {1, 1}},
            {"one_axis_collapses", 1, 4, {6, 9}, {1, 18}},
            {"wide_channels", 1, 67, {3, 4}, {5, 9}, true},
            {"odd_channels_2x", 1, 257, {3, 11}, {6, 22}},
            {"odd_channels_4x", 2, 19, {5, 31}, {20, 124}},
            {"odd_channels_16x", 1, 21, {3, 13}, {33, 193}},
            {"one_channel", 3, 1, {10, 11}, {15, 16}},
            {"two_to_fortyone_2d", 1, 2, {2, 2}, {41, 41}},
            {"whole_ratio_1d", 1, 2, {1500}, {6000}},
            {"whole_ratio_strips", 1, 2, {5120}, {10240}},
            {"whole_ratio_2d", 2, 3, {5, 53}, {10, 106}},
            {"down_rows_up_columns", 2, 3, {20, 40}, {7, 80}},
            {"whole_ratio_3d", 1, 2, {3, 4, 35}, {6, 8, 140}},
            {"short_rows_up", 3, 7, {7, 7}, {14, 14}},
            {"short_rows_down", 2, 10, {13, 9}, {6, 5}},
            {"deep_up_3d", 1, 3, {3, 4, 5}, {6, 8, 10}, true},
            {"ragged_3d", 2, 2, {4, 3, 2}, {3, 7, 9}},
            {"thin_3d", 1, 5, {1, 4, 1}, {3, 5, 1}},
    };
    return cases;
}

} // namespace gradnn::test
