// gradnn check: executes a graph and compares every output with the float64
// reference, and with answers of other systems where they are given.
#include <algorithm>
#include <cmath>
#include <iostream>
#include <optional>

#include "base/text.hpp"
#include "commands.hpp"
#include "comparison.hpp"
#include "evaluation.hpp"
#include "files/npy.hpp"
#include "files/tensor_data.hpp"
#include "kernel_steps.hpp"
#include "op/graph_json.hpp"
#include "op/op_schema.hpp"
#include "progress.hpp"
#include "reference/accuracy.hpp"
#include "reference/reference.hpp"
#include "session.hpp"
#include "table.hpp"

namespace gradnn::driver {

using detail::reference_tensor;
using detail::text;

namespace {

using data_type = logical_tensor::data_type;

// Another system's answer has an error of its own, of about the same size, and
// ours carries that of the ops before it.
constexpr double expected_slack = 5;

/// What the reference of an op holds beside the tensors: its inputs and
/// outputs, each about twice while it rearranges them, and both once more with
/// their signs. What is inside a partition stays, with its errors.
int64_t reference_bytes(const loaded_graph &graph) {
    int64_t most = 0;
    for (const graph_step &step : graph.steps) {
        int64_t elements = 0;
        for (const auto *ids : {&step.inputs, &step.outputs})
            for (const size_t id : *ids)
                elements += detail::element_count(graph.tensors.at(id).lt);
        for (const logical_tensor &lt : step.compiled.get_info().inner)
            elements += 2 * detail::element_count(lt);
        most = std::max(most, elements * 3 * int64_t {sizeof(double)});
    }
    return most;
}

class checker {
public:
    explicit checker(const check_options &options)
        : expected_(parse_file_options("--expect", options.expected)),
          work_(options.session, expected_, reference_bytes),
          details_(options.details),
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
        std::vector<std::string> names = {"op", "output", "type", "kernel"};
        if (details_) names.emplace_back("backend");
        names.insert(names.end(), {"time", "error"});
        if (details_) names.insert(names.end(), {"allowed", "u*S", "allowed"});
        if (!expected_.empty()) names.emplace_back("vs expected");
        if (!expected_.empty() && details_) names.emplace_back("allowed");
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
        same_bits_ = same_bits_ && same;
        const bool repeats = same || !step.compiled.get_info().deterministic;
        partition_reference reference(step.compiled, work_.graph().file.fpmath);
        for (const size_t index : step.ops) {
            const op the_op = work_.graph().known_op(index);
            const evaluation exact = reference.evaluate(
                    the_op, [&](const auto &lt) { return input_of(lt); });
            for (size_t port = 0; port < the_op.get_outputs().size(); ++port) {
                const logical_tensor &lt = the_op.get_outputs()[port];
                if (!lt.is_absent() && work_.has_values(lt.get_id()))
                    compare(step, the_op, port, exact, milliseconds, repeats);
            }
        }
    }

    reference_tensor input_of(const logical_tensor &lt) const {
        if (lt.is_absent()) return {};
        if (work_.has_values(lt.get_id()))
            return {lt.get_dims(), work_.values_of(lt.get_id())};
        // No formula reads it, only its shape counts.
        return {lt.get_dims(),
                std::vector<double>(
                        static_cast<size_t>(detail::element_count(lt)))};
    }

    /// Kernel and backend of one output.
    std::pair<std::string, std::string> computed_by(
            const graph_step &step, size_t id) const {
        for (const kernel_step &each : kernel_steps(step))
            if (each.output == id)
                return {each.kernel, without_parentheses(each.backend)};
        return {"none", "none"}; // it has no elements
    }

    void compare(const graph_step &step, const op &the_op, size_t port,
            const evaluation &exact, double milliseconds, bool repeats) {
        const logical_tensor &lt = the_op.get_outputs()[port];
        const data_type type = lt.get_data_type();
        const detail::promise &held = exact.held[port].promise;
        relaxed_ = relaxed_ || held.relaxed;
        const std::vector<double> given = work_.values_of(lt.get_id());
        const auto wanted = detail::exact_beside_padding(
                the_op, port, exact.inputs, given, exact.outputs[port].values);
        const auto &magnitudes = exact.held[port].magnitudes;
        const auto normal = detail::exact_in_normal_range(type, given, wanted);
        const double error = relative_error(given, normal, normal);
        std::string complaint;
        if (!keeps_norm(the_op, port, held, exact.inputs, given, normal))
            complaint = "WRONG";
        // One element at a time.
        const double of_sums
                = detail::largest_sum_error(type, given, wanted, magnitudes);
        if (!(of_sums <= held.chain))
            complaint = "WRONG: an element is off by more than allowed";
        // An interpolation may be off by one ulp beside its inputs' errors.
        const bool small = type == data_type::f16 || type == data_type::bf16;
        if (small
                && detail::find_schema(the_op.get_kind())->family
                        == detail::op_family::interpolation) {
            const int64_t ulps = largest_ulps(type, given, wanted, magnitudes);
            if (ulps > exact.held[port].ulps)
                complaint = text("WRONG: ", ulps, " ulps off");
        }
        if (!repeats) complaint = "DIFFERS between runs";
        std::string op_name = to_string(the_op.get_kind());
        if (!the_op.get_name().empty())
            op_name += " '" + the_op.get_name() + "'";
        // Of an op's second output and the next ones only what is their own.
        std::string time = time_text(milliseconds);
        if (!details_ && last_op_ == the_op.get_id()) {
            op_name.clear();
            time.clear();
        }
        last_op_ = the_op.get_id();
        const auto [kernel, backend] = computed_by(step, lt.get_id());
        std::vector<std::string> row = {op_name,
                text(detail::find_schema(the_op.get_kind())->outputs[port].name,
                        " (", lt.get_id(), ")"),
                to_string(type), kernel};
        if (details_) row.push_back(backend);
        row.insert(row.end(), {time, format("%.1e", error)});
        if (details_)
            row.insert(row.end(),
                    {format("%.0e", held.norm), format("%.2g", of_sums),
                            format("%.0f", held.chain)});
        if (!expected_.empty())
            add_expected(row, lt, given, held.norm, complaint);
        row.push_back(complaint.empty() ? "ok" : complaint);
        ++outputs_;
        if (!complaint.empty()) ++failures_;
        results_.add(std::move(row));
    }

    void add_expected(std::vector<std::string> &row, const logical_tensor &lt,
            const std::vector<double> &given, double norm,
            std::string &complaint) const {
        const auto found = std::find_if(expected_.begin(), expected_.end(),
                [&](const auto &each) { return each.id == lt.get_id(); });
        if (found == expected_.end()) {
            row.emplace_back();
            if (details_) row.emplace_back();
            return;
        }
        const double allowed = expected_slack * norm;
        const auto theirs = detail::read_npy(found->file);
        const double error = relative_error(given, theirs, theirs);
        row.push_back(format("%.1e", error));
        if (details_) row.push_back(format("%.0e", allowed));
        if (!(error <= allowed)) complaint = "NOT AS EXPECTED";
    }

    void write() const {
        std::cout << work_.graph().file.file << " on "
                  << work_.graph().device_name();
        const char *const mode = detail::name_of(work_.graph().file.fpmath);
        if (work_.graph().file.fpmath != fpmath_mode::strict)
            std::cout << ", fpmath_mode " << mode;
        std::cout << '\n';
        results_.write(std::cout);
        if (details_)
            explain(mode);
        else
            std::cout << "error: of the whole output, relative to a float64 "
                         "reference; --details shows more.\n";
        std::cout << outputs_ - failures_ << " of " << outputs_
                  << " outputs are ok"
                  << (same_bits_ ? ", with the same bits in several runs" : "")
                  << ".\n";
    }

    /// The columns of the details.
    void explain(const char *mode) const {
        std::cout
                << "error: ||output - reference|| / ||reference||. u*S: the "
                   "largest error of an element beyond half\nan ulp, in units "
                   "of the sums' roundoff u times S, the sum of the magnitudes "
                   "of the element's terms.\nThe float64 reference of an op "
                   "takes the inputs that the op received, so errors of "
                   "earlier "
                   "ops do\nnot count; those of ops in its partition are "
                   "allowed too. error may be past what is allowed where "
                   "terms cancel more than by chance (it is held\nto the root "
                   "of the sums of their squares then) and where inputs are of "
                   "at most 16 values\nor repeat their values; u*S "
                   "never.\ntime is of all outputs of "
                   "a partition together, the median of several runs.\n";
        if (relaxed_)
            std::cout << "Under fpmath_mode " << mode
                      << " more is allowed where convolutions in f32 have "
                         "products: S is an element's\nand a quarter of the "
                         "output's largest one.\n";
    }

    std::vector<file_option> expected_;
    session work_;
    bool details_;
    table results_;
    progress line_;
    std::optional<size_t> last_op_;
    int outputs_ = 0;
    int failures_ = 0;
    bool same_bits_ = true; ///< each op gave its bits again
    bool relaxed_ = false; ///< an output was held to less
};

} // namespace

int check(const check_options &options) {
    return checker(options).check();
}

} // namespace gradnn::driver
