#include "compile/autotune.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <iomanip>
#include <utility>

#include <gradnn/version.hpp>

#include "base/text.hpp"

namespace gradnn::detail {

namespace {

/// The shortest text that is read as the same number.
template <typename Number>
std::string exact(Number value) {
    std::array<char, 32> digits {};
    const auto end = std::to_chars(
            digits.data(), digits.data() + digits.size(), value);
    return {digits.data(), end.ptr};
}

/// Of a tensor_view or a weights_view.
std::string dims_and_strides(const auto &tensor) {
    return text(text_of(std::span(tensor.dims)), ' ',
            text_of(std::span(tensor.strides)));
}

std::string head_of_key(const char *problem, const std::string &device) {
    const version_info library = version();
    return text(device, "; gradnn ", library.major, '.', library.minor, '.',
            library.patch, "; ", problem);
}

/// From the first element to the end of the last.
std::string microseconds(double time) {
    if (std::isinf(time)) return "not measured in the time there was";
    return text(std::fixed, std::setprecision(1), time, " us measured");
}

} // namespace

std::string measurement_key(const interpolation_problem &problem,
        const compile_options &, const std::string &device) {
    std::string key = text(head_of_key(problem.name, device), "; mode ",
            static_cast<int>(problem.mode), "; coordinates ",
            static_cast<int>(problem.coordinates), "; ",
            to_string(problem.diff_src.type), ' ',
            dims_and_strides(problem.diff_dst), " -> ",
            dims_and_strides(problem.diff_src));
    for (const interpolation_axis &axis : problem.axes) {
        key += text("; ", axis.src, ' ', axis.dst);
        if (axis.scale_given) key += " scale " + exact(axis.scale);
        if (axis.ratio_given) key += " ratio " + exact(axis.ratio);
        if (axis.arithmetic != coordinate_arithmetic::exact)
            key += text(" arithmetic ", static_cast<int>(axis.arithmetic));
        if (problem.mode == interpolation_mode::cubic)
            key += " a " + exact(axis.cubic_coeff_a);
        if (axis.antialias) key += " antialias";
        if (axis.exclude_outside) key += " exclude_outside";
        if (axis.forward) key += " forward";
    }
    return key;
}

std::string measurement_key(const convolution_problem &problem,
        const compile_options &options, const std::string &device) {
    std::string key = text(head_of_key(problem.name, device), "; direction ",
            static_cast<int>(problem.direction));
    const auto add = [&](const char *name, const auto &tensor) {
        key += text("; ", name, ' ', to_string(tensor.type), ' ',
                dims_and_strides(tensor));
    };
    add("src", problem.src);
    add("weights", problem.weights);
    add("dst", problem.dst);
    key += text("; strides ", text_of(std::span(problem.strides)),
            "; dilations ", text_of(std::span(problem.dilations)), "; pads ",
            text_of(std::span(problem.pads_begin)), "; fpmath ",
            static_cast<int>(options.fpmath), "; deterministic ",
            options.deterministic);
    if (options.convolution_workspace_limit)
        key += text("; workspace ", *options.convolution_workspace_limit);
    return key;
}

bool take_fastest(executable_step &step, std::vector<rival_kernel> rivals,
        const std::vector<size_t> &argument_bytes,
        const compile_options &options, const plan_timer &timer) {
    std::vector<const plan *> plans {step.plan.get()};
    for (const rival_kernel &rival : rivals)
        plans.push_back(rival.plan.get());
    std::vector<double> times;
    try {
        times = timer.time(plans, argument_bytes, options);
    } catch (const error &failure) {
        if (failure.status != status::out_of_memory) throw;
        step.timings.push_back(
                {step.kernel, text("not measured: ", failure.what())});
        return false;
    }
    step.timings.push_back({step.kernel, microseconds(times[0])});
    for (size_t index = 0; index < rivals.size(); ++index)
        step.timings.push_back(
                {rivals[index].kernel, microseconds(times[index + 1])});
    const auto least = std::min_element(times.begin(), times.end());
    if (std::isinf(*least)) return false;
    if (least != times.begin()) {
        rival_kernel &best
                = rivals[static_cast<size_t>(least - times.begin()) - 1];
        step.kernel = best.kernel;
        step.plan = std::move(best.plan);
    }
    return true;
}

} // namespace gradnn::detail
