#include "choice.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>
#include <regex>

#include <gradnn/engine.hpp>
#include <gradnn/status.hpp>

#include "base/text.hpp"
#include "compile/kernel_choice.hpp"
#include "compile/log_text.hpp"
#include "compile/lowering.hpp"
#include "fake_cuda/fake_cuda.hpp"
#include "gpu/kernels.hpp"
#include "kernel/engine_impl.hpp"
#include "op/op_check.hpp"
#include "op/shapes.hpp"
#include "support/op_runner.hpp"

namespace gradnn::test {

namespace {

using detail::text;

constexpr const char *cudnn_kernel = "convolution.cudnn";

std::string text_of(const fake_cuda::event &event, bool with_digest) {
    const auto product = [](const std::array<unsigned, 3> &of) {
        return text(of[0], 'x', of[1], 'x', of[2]);
    };
    switch (event.what) {
        case fake_cuda::event::kind::upload:
            return text("upload of ", event.bytes, " bytes",
                    with_digest ? text(" #", std::hex, event.digest)
                                : std::string());
        case fake_cuda::event::kind::copy:
            return text("copy of ", event.bytes, " bytes");
        case fake_cuda::event::kind::fill:
            return text("fill of ", event.bytes, " bytes");
        case fake_cuda::event::kind::launch: break;
    }
    return text(fake_cuda::readable_name(event.kernel), ' ',
            product(event.grid), ' ', product(event.block), ' ', event.bytes);
}

std::string taken_events(bool with_digests = false) {
    std::string all;
    for (const fake_cuda::event &event : fake_cuda::take_events())
        all += (all.empty() ? "" : "; ") + text_of(event, with_digests);
    return all;
}

/// Addresses as a GPU's would be, far from each other: nothing is there, and the
/// kernels that would look do not run.
std::string execute(const detail::plan &plan, size_t arguments, size_t offset,
        detail::stream_impl &stream) {
    std::vector<void *> data;
    for (size_t index = 0; index <= arguments; ++index)
        data.push_back(reinterpret_cast<void *>(
                (index + 1) << 44U | (index < arguments ? offset : 0)));
    auto *const workspace = static_cast<std::byte *>(data.back());
    data.pop_back();
    fake_cuda::take_events();
    plan.execute(data, workspace, stream);
    return taken_events();
}

data_type type_of(const op &the_op) {
    return the_op.get_inputs().front().get_data_type();
}

detail::stream_impl &fake_stream() {
    static const engine device(engine::kind::gpu, 0);
    static stream queue(device);
    return *detail::access::impl(queue);
}

/// Empty where cuDNN would be asked.
std::optional<detail::executable_step> choose(
        const detail::lowered_step &step, const choice_problem &problem) {
    try {
        return detail::choose_kernel(
                step, engine::kind::gpu, problem.options, problem.the_op);
    } catch (const error &failure) {
        const std::string message = failure.what();
        if (message.find(cudnn_kernel) == std::string::npos
                || message.find("cudnnCreate") == std::string::npos)
            throw;
        return std::nullopt;
    }
}

bool same_port(
        const detail::port_reference &a, const detail::port_reference &b) {
    return a.output == b.output && a.index == b.index;
}

/// An interpolation to the same size: a copy.
bool is_identity(const op &the_op) {
    const auto &inputs = the_op.get_inputs();
    return the_op.get_kind() == op::kind::InterpolateBackward
            && inputs[0].get_dims() == inputs[1].get_dims();
}

} // namespace

std::vector<kernel_choice> choices_of(
        const choice_problem &problem, bool with_launches) {
    detail::checked_op the_op = detail::checked(problem.the_op);
    the_op.outputs = detail::outputs_with_dims(the_op, true);
    std::vector<kernel_choice> choices;
    const auto steps = detail::lower(the_op);
    std::vector<std::optional<detail::executable_step>> chosen;
    for (size_t index = 0; index < steps.size(); ++index) {
        const auto &ports = steps[index].arguments;
        kernel_choice choice;
        for (const detail::port_reference port : ports)
            if (port.output)
                choice.output = detail::output_name(the_op, port.index);
        choice.channels_last = detail::writes_channels_last(
                steps[index], engine::kind::gpu, problem.options);
        fake_cuda::take_events();
        chosen.push_back(choose(steps[index], problem));
        auto &step = chosen.back();
        choice.kernel = step ? step->kernel : cudnn_kernel;
        if (step) {
            // Tables of f64 have gaps, of which the bytes may be anything.
            if (with_launches)
                choice.made = taken_events(
                        type_of(problem.the_op) != data_type::f64);
            // As compile does (compile.cpp).
            if (index > 0 && chosen[index - 1]) {
                const auto &before = steps[index - 1].arguments;
                for (size_t i = 0; i < std::min(ports.size(), before.size());
                        ++i)
                    if (same_port(ports[i], before[i]))
                        step->plan->share_copy(*chosen[index - 1]->plan, i);
            }
            choice.workspace_bytes = step->plan->workspace_bytes();
            choice.deterministic = step->plan->deterministic();
        }
        choices.push_back(std::move(choice));
    }
    const auto element_bytes
            = static_cast<size_t>(detail::size_of(type_of(problem.the_op)));
    // Once all copies are shared.
    for (size_t index = 0; index < steps.size(); ++index) {
        if (!chosen[index]) continue;
        const detail::plan &plan = *chosen[index]->plan;
        choices[index].backend = plan.backend();
        if (!with_launches) continue;
        const size_t count = steps[index].arguments.size();
        choices[index].executed = execute(plan, count, 0, fake_stream());
        choices[index].executed_unaligned
                = execute(plan, count, element_bytes, fake_stream());
    }
    return choices;
}

void use_fake_libraries() {
    setenv("GRADNN_CUDNN", FAKE_CUDNN, 1);
    setenv("GRADNN_NVRTC", FAKE_NVRTC, 1);
    setenv("GRADNN_KERNEL_CACHE", "", 1);
}

std::string why_not_comparable() {
    const auto unreadable = fake_cuda::unreadable_kernels();
    if (unreadable.empty()) return {};
    return text("of ", fake_cuda::kernel_count(), " kernels, the code of ",
            unreadable.size(), " cannot be read: ", unreadable.front());
}

std::string line_of(
        const choice_problem &problem, const kernel_choice &choice) {
    static const std::regex time(" in [0-9.e-]+ ms");
    return text(problem.name, '\t', to_string(type_of(problem.the_op)), '\t',
            choice.output, '\t', choice.kernel, '\t', choice.workspace_bytes,
            '\t', std::regex_replace(choice.backend, time, ""), '\t',
            choice.deterministic ? "deterministic" : "varies", '\t',
            choice.channels_last                  ? "channels last"
                    : is_identity(problem.the_op) ? "identity"
                                                  : "-",
            '\t', choice.made, '\t', choice.executed, '\t',
            choice.executed_unaligned == choice.executed
                    ? "the same"
                    : choice.executed_unaligned);
}

std::vector<std::string> summary_of(
        const std::vector<choice_problem> &problems) {
    struct entry {
        std::string output;
        std::vector<std::pair<std::string, std::string>> choices; // by types
    };
    std::vector<std::string> lines;
    for (size_t index = 0; index < problems.size();) {
        const std::string &name = problems[index].name;
        std::vector<entry> entries;
        for (; index < problems.size() && problems[index].name == name;
                ++index) {
            const std::string type = to_string(type_of(problems[index].the_op));
            for (const kernel_choice &choice :
                    choices_of(problems[index], false)) {
                auto of_output = std::find_if(
                        entries.begin(), entries.end(), [&](const entry &e) {
                            return e.output == choice.output;
                        });
                if (of_output == entries.end())
                    of_output = entries.insert(
                            entries.end(), {choice.output, {}});
                const std::string chosen = text(
                        choice.kernel.substr(choice.kernel.find('.') + 1), ' ',
                        choice.workspace_bytes);
                auto &choices = of_output->choices;
                if (!choices.empty() && choices.back().second == chosen)
                    choices.back().first += ' ' + type;
                else
                    choices.emplace_back(type, chosen);
            }
        }
        for (const entry &each : entries) {
            std::string line = text(name, ' ', each.output);
            for (const auto &[types, chosen] : each.choices)
                line += text(types == each.choices.front().first ? ": " : ", ",
                        types, ' ', chosen);
            lines.push_back(std::move(line));
        }
    }
    return lines;
}

} // namespace gradnn::test
