// The problems that ops are lowered to: all that a kernel may know.
//
// Plain structs. Spatial rank is padded to 3 with leading axes of size 1,
// every layout is reduced to dims and strides, and no dim is 0 (empty tensors
// are dealt with before lowering). Dims are elements; strides are elements,
// never negative, 0 only on inputs (or where the dim is 1).
#pragma once

#include <array>
#include <cstdint>

#include <gradnn/tensor.hpp>

namespace gradnn::detail {

using data_type = logical_tensor::data_type;

/// N, C, D, H, W.
struct tensor_view {
    data_type type = data_type::undef;
    std::array<int64_t, 5> dims {};
    std::array<int64_t, 5> strides {};
};

/// Groups, output channels and input channels of one group, D, H, W: an OIX
/// tensor of O = groups * dims[1] by I/groups = dims[2], and so on.
struct weights_view {
    data_type type = data_type::undef;
    std::array<int64_t, 6> dims {};
    std::array<int64_t, 6> strides {};
};

/// Of box every weight is 1, and what is read descends as what is written ascends:
/// element i, written, sums the elements o that are read with 0 <= i + o - (k - 1) < r,
/// k the smaller size and r - 1 what the sizes differ by (compile/composed.hpp). No op
/// has it.
enum class interpolation_mode { nearest, linear, cubic, box };
enum class coordinate_mode { half_pixel, align_corners, asymmetric };

/// How an output's coordinate is computed before it is floored: exactly, or as
/// a forward computed it (nearest alone; not for align_corners).
enum class coordinate_arithmetic {
    exact,
    float32, ///< every operation rounded to f32
    float32_fma, ///< half_pixel: fma(ratio, o + 0.5, -0.5) + 0.5
    float64, ///< in f64; the result rounded to f32
};

/// One spatial axis of a forward interpolation src -> dst. All that the axis
/// map (axis_map.hpp) needs. Of box its sizes alone.
struct interpolation_axis {
    int64_t src = 1;
    int64_t dst = 1;
    /// Coordinates come from `scale` (scale_rule given) and not from dst/src.
    /// Without effect for align_corners.
    bool scale_given = false;
    float scale = 1.0F;
    /// Coordinates come from `ratio`, src elements per output (scale_rule
    /// ratios), and neither from dst/src nor from `scale`. From 2^-60 to 2^60.
    /// Without effect for align_corners.
    bool ratio_given = false;
    double ratio = 1.0;
    /// Not exact: nearest, scale_given false, no align_corners.
    coordinate_arithmetic arithmetic = coordinate_arithmetic::exact;
    /// Of cubic: the slope of the filter at distance 1.
    float cubic_coeff_a = -0.75F;
    /// Linear and cubic: where src is larger, the filter is as many times wider.
    bool antialias = false;
    /// Cubic and antialias: inputs outside have no weight, where else the ones at
    /// the ends have theirs too.
    bool exclude_outside = false;
    /// The interpolation itself is computed: dst is what is read and src what is
    /// written, and the interpolation goes from dst to src.
    bool forward = false;
};

/// diff_src[n,c,i] = sum over o of map(o -> i) * diff_dst[n,c,o]. Of a forward
/// interpolation diff_src stands for what is written and diff_dst for what is read.
/// Both views have one type; N and C agree; axes[a].src and .dst are the
/// spatial dims of diff_src and diff_dst.
struct interpolation_problem {
    static constexpr const char *name = "interpolation";
    interpolation_mode mode = interpolation_mode::linear;
    coordinate_mode coordinates = coordinate_mode::half_pixel;
    std::array<interpolation_axis, 3> axes {};
    tensor_view diff_dst;
    tensor_view diff_src;
    // Arguments of the plan: 0 diff_dst (read), 1 diff_src (written).
};

/// Which of the three tensors of a convolution is computed from the others.
enum class convolution_direction { forward, backward_data, backward_weights };

/// dst[n,o,y] = sum over i,k of src[n,i,y*stride - pad_begin + k*dilation]
/// * weights[o,i,k] within each group, elements outside src being 0; or the
/// gradient of it with respect to src or weights.
///
/// The inputs have one type T; the output has type T, or f32 for weights when
/// T is bf16 or f16. pads_begin may be negative or exceed the kernel; what it
/// says is the position of the window, the far side follows from the dims of
/// dst. A src element that no window reaches has gradient 0.
struct convolution_problem {
    static constexpr const char *name = "convolution";
    convolution_direction direction = convolution_direction::forward;
    tensor_view src;
    weights_view weights;
    tensor_view dst;
    std::array<int64_t, 3> strides {1, 1, 1};
    std::array<int64_t, 3> dilations {1, 1, 1};
    std::array<int64_t, 3> pads_begin {0, 0, 0};
    // Arguments of the plan: 0 src, 1 weights, 2 dst.
};

/// diff_bias[c] = sum over n and space of diff_dst[n,c,...]. diff_bias has the
/// type of diff_dst, or f32 where that is bf16 or f16.
struct bias_problem {
    static constexpr const char *name = "bias";
    tensor_view diff_dst;
    data_type diff_bias_type = data_type::undef;
    int64_t diff_bias_stride = 1;
    // Arguments of the plan: 0 diff_dst (read), 1 diff_bias (written).
};

enum class elementwise_kind {
    relu_backward, ///< out = a > 0 ? b : 0 (a is src or dst; NaN gives 0)
    add, ///< out = a + b
    zero_fill, ///< out = 0, for sums over nothing
};

/// Element by element over up to three operands of one type. Dims are ordered
/// by descending stride of `out`, and merged where all operands allow it, so
/// that a dense problem has rank 1.
struct elementwise_problem {
    static constexpr const char *name = "elementwise";
    static constexpr int max_rank = logical_tensor::max_ndims;
    elementwise_kind kind = elementwise_kind::add;
    data_type type = data_type::undef;
    int rank = 0; ///< at least 1
    std::array<int64_t, max_rank> dims {};
    std::array<int64_t, max_rank> a_strides {};
    std::array<int64_t, max_rank> b_strides {};
    std::array<int64_t, max_rank> out_strides {};
    // Arguments of the plan: 0 a, 1 b, 2 out; for zero_fill: 0 out.
};

/// Bytes of one element; of s4 and u4, of which a byte has two, of both.
constexpr int64_t size_of(data_type type) {
    switch (type) {
        case data_type::f64:
        case data_type::s64: return 8;
        case data_type::f32:
        case data_type::s32: return 4;
        case data_type::bf16:
        case data_type::f16: return 2;
        case data_type::s8:
        case data_type::u8:
        case data_type::boolean:
        case data_type::f8_e5m2:
        case data_type::f8_e4m3:
        case data_type::s4:
        case data_type::u4: return 1;
        case data_type::undef: break;
    }
    return 0;
}

} // namespace gradnn::detail
