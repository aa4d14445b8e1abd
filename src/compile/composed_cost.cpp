// What the two forms of an upsampling and a convolution cost.
//
// A step takes as long as its products or its bytes do, whichever is longer, and its
// launch. The rates are those of kernels where they do well: they are for comparing a
// form with the other, whose convolutions are served by the same kernels.
#include <algorithm>

#include "compile/composed.hpp"

namespace gradnn::detail {

namespace {

/// In a second; of the CPU by one thread.
struct rates {
    double products;
    double bytes;
    double sums; ///< elements of composed weights, or of their gradients
    double launch; ///< seconds
    /// Channels of a group below which products are slower.
    double channels;
};

rates rates_of(engine::kind kind, data_type type, fpmath_mode fpmath) {
    const int64_t bytes = size_of(type);
    // One core of an EPYC Zen 4, measured; an H100, from times of PyTorch's
    // convolutions there and what its memory and launches take.
    if (kind == engine::kind::cpu)
        return {bytes == 8           ? 2e10
                        : bytes == 4 ? 5e10
                                     : 1e11,
                6e9, bytes == 8 ? 1.5e8 : 3e8, 4e-6, 16};
    const double strict = fpmath == fpmath_mode::strict ? 3e13 : 1.2e14;
    return {bytes == 8           ? 1.5e13
                    : bytes == 4 ? strict
                                 : 2e14,
            2e12, 1e11, 4e-6, 64};
}

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
    const rates &of;
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
        const rates of = rates_of(kind, type, options.fpmath);
        const double threads = kind == engine::kind::cpu ? options.threads : 1;
        time += std::visit(estimate {of, threads}, step.lowered.problem);
    }
    return time;
}

} // namespace gradnn::detail
