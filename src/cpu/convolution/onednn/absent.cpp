// Stands in for the convolution_onednn*.cpp files in a build without oneDNN.
#include "cpu/convolution/onednn/version.hpp"
#include "cpu/kernels.hpp"

namespace gradnn::cpu {

std::string onednn_version() {
    return "none";
}

plan_or_refusal make_convolution_onednn(
        const convolution_problem &, const compile_options &) {
    return plan_or_refusal::refuse("this build has no oneDNN");
}

} // namespace gradnn::cpu
