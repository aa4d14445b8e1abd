// What the folders here offer to the list of kernels: a maker each; columns/ has two.
#pragma once

#include "gpu/runtime/maker.hpp"

namespace gradnn::gpu {

namespace interpolation {
interpolation_maker make_copy;
interpolation_maker make_strided;
namespace bands {
/// `of_misaligned` makes what runs where pointers are not at multiples of 16 bytes.
plan_or_refusal make(const interpolation_problem &, const compile_options &,
        interpolation_maker &of_misaligned);
} // namespace bands
namespace columns {
interpolation_maker make_ncx;
interpolation_maker make_nxc;
} // namespace columns
namespace rows {
interpolation_maker make;
}
} // namespace interpolation
namespace resample {
interpolation_maker make;
maker<detail::fused_interpolation> make_fused;
} // namespace resample

} // namespace gradnn::gpu
