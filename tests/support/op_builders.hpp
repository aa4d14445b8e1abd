// Ops made from cases, in any layout.
#pragma once

#include <string>
#include <vector>

#include <gradnn/op.hpp>

#include "cases.hpp"
#include "op_runner.hpp"

namespace gradnn::test {

/// How the elements of a tensor lie in memory.
enum class arrangement {
    dense, ///< row-major in the order of its dims
    /// The dims of NCX in the memory order of NXC and the other way round
    /// ("acdb", "acb"; weights: OIX as XIO).
    other_order,
    swapped, ///< the first two axes exchanged in memory ("bacd")
    padded, ///< a slice of a larger tensor: gaps after every row, plane, ...
    spaced, ///< such a slice whose gaps are of whole vectors
    broadcast, ///< inputs have strides of 0 along N; outputs are dense
    any, ///< outputs leave the layout to the library; inputs are dense
};

struct layout {
    std::string name;
    std::string data_format; ///< NCX or NXC
    std::string weights_format; ///< OIX or XIO; transposed: IOX or XOI
    arrangement how = arrangement::dense;
};

/// The layouts of the suite; the first two are dense NCX and NXC.
const std::vector<layout> &layouts();

/// A data tensor of these dims, given in N, C, spatial order.
logical_tensor data_tensor(size_t id, data_type type, const sizes &ncx,
        const layout &l, bool output);
/// A weights tensor, given as [first channels, second channels, kernel]: OIX
/// or IOX order.
logical_tensor weights_tensor(size_t id, data_type type, const sizes &oix,
        const layout &l, bool output);

/// Where an interpolation's op says how large its dst is.
enum class size_source { sizes_attribute, scales_attribute, sizes_input };

struct interpolation_choice {
    std::string mode = "linear";
    std::string coordinates = "half_pixel";
    size_source source = size_source::sizes_attribute;
    float cubic_coeff_a = -0.75F;
    bool antialias = false;
    bool exclude_outside = false;
    bool forward = false;
};

/// InterpolateBackward, or Interpolate where the choice says forward.
op interpolation_op(const interpolation_case &c,
        const interpolation_choice &choice, const layout &l, data_type type);

/// Which outputs ConvBackward and ConvTransposeBackward have.
struct wanted_outputs {
    bool diff_src = true;
    bool diff_weights = true;
    bool diff_bias = true;
    /// f32 diff_weights and diff_bias, whatever the inputs.
    bool f32_gradients = false;
};

/// What a test asks of a kernel that it names: all outputs, but of
/// convolution.gpu_wide_weights what that can compute, in f32 of bf16 and in f16 of f16.
wanted_outputs outputs_of(const std::string &kernel, data_type type);

/// Any of the six convolution kinds.
op convolution_op(op::kind kind, const convolution_case &c, const layout &l,
        data_type type, const wanted_outputs &wanted = {});

/// All six.
const std::vector<op::kind> &convolution_kinds();

/// BiasAddBackward, ReLUBackward or Add.
op plane_op(op::kind kind, const plane_case &c, const layout &l, data_type type,
        bool f32_gradients = false);

/// f32, bf16, f16, f64.
const std::vector<data_type> &float_types();

/// Whether a case is left out for a type: where tests are to be few, each has one type in
/// turn.
bool thinned_out(ptrdiff_t index, data_type type);

} // namespace gradnn::test
