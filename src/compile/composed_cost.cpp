// What the two forms of an upsampling and a convolution cost.
//
// A step takes as long as its products or its bytes do, whichever is longer, and its
// launch, at the rates of the engine. They are those of kernels where they do well: the
// convolutions of both forms are served by the same kernels.
#include <algorithm>

#include "compile/composed.hpp"
#include "kernel/backend.hpp"

namespace gradnn::detail {

namespace {

double elements(const auto &view) {
    double count = 1;
    for (const int64_t dim : view.dims)
        count *= static_cast<double>(dim);
    return count;
}

double bytes_of(const auto &view) {
    return elements(view) * static_cast<double>(size_of(view.type));
}

struct estimate {
    const kernel_rates &of;
    double threads;

    double operator()(const convolution_problem &p) const {
        const auto &weights = p.weights.dims;
        const double window = static_cast<double>(weights[3])
                * static_cast<double>(weights[4])
                * static_cast<double>(weights[5]);
        const auto width
                = static_cast<double>(std::min(weights[1], weights[2]));
        const double products
                = elements(p.dst) * window * static_cast<double>(weights[2]);
        const double narrow = std::min(1.0, width / of.channels);
        // Windows that stride are taken to be somewhat slower.
        constexpr double strided = 1.15;
        const bool strides = p.strides[0] * p.strides[1] * p.strides[2] > 1;
        const double bytes
                = bytes_of(p.src) + bytes_of(p.dst) + bytes_of(p.weights);
        return of.launch
                + std::max(products / narrow / of.products
                                  * (strides ? strided : 1),
                          bytes / of.bytes)
                / threads;
    }
    double operator()(const interpolation_problem &p) const {
        const double bytes = bytes_of(p.diff_dst) + bytes_of(p.diff_src);
        return of.launch
                + (p.mode == interpolation_mode::box
                                  ? std::max(elements(p.diff_src),
                                            elements(p.diff_dst))
                                          / of.sums
                                  : bytes / of.bytes)
                / threads;
    }
    double operator()(const auto &) const { return 0; } // alike in both
};

} // namespace

double estimated_time(const std::vector<placed_step> &steps, engine::kind kind,
        const compile_options &options) {
    double time = 0;
    for (const placed_step &step : steps) {
        const auto type = std::visit(
                [](const auto &problem) {
                    if constexpr (requires { problem.src.type; })
                        return problem.src.type;
                    else if constexpr (requires { problem.diff_dst.type; })
                        return problem.diff_dst.type;
                    else
                        return problem.type;
                },
                step.lowered.problem);
        const kernel_rates of = backend_of(kind).rates(type, options.fpmath);
        time += std::visit(estimate {of, static_cast<double>(options.threads)},
                step.lowered.problem);
    }
    return time;
}

} // namespace gradnn::detail
