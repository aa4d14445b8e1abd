// gradnn check: executes a graph and compares every output with the float64
// reference, and with answers of other systems where they are given.
#include <algorithm>
#include <cmath>
#include <iostream>
#include <map>
#include <memory>
#include <optional>

#include <CLI/CLI.hpp>

#include "commands.hpp"
#include "comparison.hpp"
#include "npy.hpp"
#include "op_schema.hpp"
#include "progress.hpp"
#include "reference.hpp"
#include "session.hpp"
#include "table.hpp"
#include "tensor_data.hpp"
#include "text.hpp"

namespace gradnn::driver {

using detail::reference_tensor;
using detail::text;

namespace {

using data_type = logical_tensor::data_type;

// Another system's answer has an error of its own, of about the same size, and
// ours carries that of the ops before it.
constexpr double expected_slack = 5;

struct check_options {
    session_options session;
    std::vector<std::string> expected;
};

/// What the reference of an op holds beside the tensors: its inputs and
/// outputs, each about twice while it rearranges them.
int64_t reference_bytes(const loaded_graph &graph) {
    int64_t most = 0;
    for (const graph_step &step : graph.steps) {
        int64_t elements = 0;
        for (const auto *ids : {&step.inputs, &step.outputs})
            for (const size_t id : *ids)
                elements += detail::element_count(graph.tensors.at(id).lt);
        most = std::max(most, elements * 2 * int64_t {sizeof(double)});
    }
    return most;
}

class checker {
public:
    explicit checker(const check_options &options)
        : work_(options.session, reference_bytes),
          expected_(parse_file_options("--expect", options.expected)),
          results_(header()) {
        for (const file_option &each : expected_)
            work_.check_shape("--expect", each);
    }

    int check() {
        const auto &steps = work_.graph().steps;
        for (size_t index = 0; index < steps.size(); ++index) {
            line_.show(text("gradnn check: ", work_.graph().file.file,
                    ": partition ", index + 1, " of ", steps.size(), ", ",
                    work_.graph().op_kinds(steps[index])));
            check_step(steps[index]);
        }
        work_.write_outputs();
        write();
        return failures_ == 0 ? 0 : 1;
    }

private:
    std::vector<std::string> header() const {
        std::vector<std::string> names = {"op", "output", "type", "kernel",
                "backend", "time ms", "error", "allowed"};
        if (!expected_.empty()) {
            names.emplace_back("vs expected");
            names.emplace_back("allowed");
        }
        names.emplace_back("result");
        return names;
    }

    void check_step(const graph_step &step) {
        // Several executions, for the time and to see that the bits stay.
        std::vector<double> times;
        bool same = true;
        const step_result first = work_.execute(step);
        double spent = first.milliseconds;
        do {
            const step_result again = work_.execute(step);
            times.push_back(again.milliseconds);
            same = same && again.checksum == first.checksum;
            spent += again.milliseconds;
        } while (times.size() < 7 && spent < 200);
        std::sort(times.begin(), times.end());
        const double milliseconds = times[times.size() / 2];
        const bool repeats = same || !step.compiled.get_info().deterministic;
        // Tensors inside a partition have no memory: the reference's serve.
        std::map<size_t, reference_tensor> inner;
        for (const size_t index : step.ops) {
            const op the_op = work_.graph().known_op(index);
            std::vector<reference_tensor> inputs;
            for (const logical_tensor &lt : the_op.get_inputs())
                inputs.push_back(input_of(lt, inner));
            auto outputs = detail::reference(the_op, inputs);
            for (size_t port = 0; port < the_op.get_outputs().size(); ++port) {
                const logical_tensor &lt = the_op.get_outputs()[port];
                if (lt.is_absent()) continue;
                if (work_.has_values(lt.get_id()))
                    compare(step, the_op, port, inputs, outputs[port].values,
                            milliseconds, repeats);
                inner[lt.get_id()] = std::move(outputs[port]);
            }
        }
    }

    reference_tensor input_of(const logical_tensor &lt,
            const std::map<size_t, reference_tensor> &inner) const {
        if (lt.is_absent()) return {};
        if (work_.has_values(lt.get_id()))
            return {lt.get_dims(), work_.values_of(lt.get_id())};
        if (inner.contains(lt.get_id())) return inner.at(lt.get_id());
        // No formula reads it, only its shape counts.
        return {lt.get_dims(),
                std::vector<double>(
                        static_cast<size_t>(detail::element_count(lt)))};
    }

    /// Of an interpolation's sums: all its weights are positive.
    static std::vector<double> magnitudes(
            const op &the_op, std::vector<reference_tensor> inputs) {
        for (reference_tensor &input : inputs)
            for (double &value : input.values)
                value = std::fabs(value);
        return detail::reference(the_op, inputs).front().values;
    }

    void compare(const graph_step &step, const op &the_op, size_t port,
            const std::vector<reference_tensor> &inputs,
            const std::vector<double> &wanted, double milliseconds,
            bool repeats) {
        const logical_tensor &lt = the_op.get_outputs()[port];
        const data_type type = lt.get_data_type();
        const std::vector<double> given = work_.values_of(lt.get_id());
        const double error = relative_error(given, wanted);
        std::string complaint;
        if (!(error <= tolerance_of(type))) complaint = "WRONG";
        if (!repeats) complaint = "DIFFERS between runs";
        // One element at a time: an interpolation may be off by one ulp.
        const bool small = type == data_type::f16 || type == data_type::bf16;
        if (small && the_op.get_kind() == op::kind::InterpolateBackward) {
            const int64_t ulps = largest_ulps(
                    type, given, wanted, magnitudes(the_op, inputs));
            if (ulps > 1) complaint = text("WRONG: ", ulps, " ulps off");
        }
        std::string op_name = to_string(the_op.get_kind());
        if (!the_op.get_name().empty())
            op_name += " '" + the_op.get_name() + "'";
        std::vector<std::string> row = {op_name,
                text(detail::find_schema(the_op.get_kind())->outputs[port].name,
                        " (", lt.get_id(), ")"),
                to_string(type), step.kernels(), step.short_backends(),
                format("%.3f", milliseconds), format("%.1e", error),
                format("%.0e", tolerance_of(type))};
        if (!expected_.empty()) add_expected(row, lt, given, complaint);
        row.push_back(complaint.empty() ? "ok" : complaint);
        ++outputs_;
        if (!complaint.empty()) ++failures_;
        results_.add(std::move(row));
    }

    void add_expected(std::vector<std::string> &row, const logical_tensor &lt,
            const std::vector<double> &given, std::string &complaint) const {
        const auto found = std::find_if(expected_.begin(), expected_.end(),
                [&](const auto &each) { return each.id == lt.get_id(); });
        if (found == expected_.end()) {
            row.insert(row.end(), {"", ""});
            return;
        }
        const double allowed
                = expected_slack * tolerance_of(lt.get_data_type());
        const double error
                = relative_error(given, detail::read_npy(found->file));
        row.push_back(format("%.1e", error));
        row.push_back(format("%.0e", allowed));
        if (!(error <= allowed)) complaint = "NOT AS EXPECTED";
    }

    void write() const {
        std::cout << work_.graph().file.file << " on "
                  << work_.graph().device_name() << '\n';
        results_.write(std::cout);
        std::cout
                << "error: ||output - reference|| / ||reference||; the float64 "
                   "reference of an op takes the inputs\nthat the op received, "
                   "so errors of earlier ops do not count. kernel and time are "
                   "of an op's (or\nfused ops') outputs together; all ran "
                   "several times"
                << (failures_ == 0 ? ", with the same bits" : "") << ".\n"
                << outputs_ - failures_ << " of " << outputs_
                << " outputs are ok.\n";
    }

    session work_;
    std::vector<file_option> expected_;
    table results_;
    progress line_;
    int outputs_ = 0;
    int failures_ = 0;
};

} // namespace

action add_check(CLI::App &program) {
    auto options = std::make_shared<check_options>();
    CLI::App *command = program.add_subcommand("check",
            "Execute a graph and compare every output with the float64 "
            "reference");
    add_session_options(*command, options->session);
    command->add_option("--expect", options->expected,
                   "compare a computed tensor with somebody else's answer too")
            ->type_name("ID=FILE.npy")
            ->allow_extra_args(false);
    command->footer("Exit status 1 where an error is past what is allowed.\n");
    return [options] { return checker(*options).check(); };
}

} // namespace gradnn::driver
