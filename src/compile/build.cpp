#include "compile/build.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "base/counted_memory.hpp"
#include "base/text.hpp"
#include "compile/composed.hpp"
#include "compile/fused.hpp"
#include "compile/kernel_choice.hpp"
#include "compile/ports.hpp"
#include "compile/slices.hpp"
#include "kernel/argument_bytes.hpp"
#include "kernel/backend.hpp"
#include "kernel/plan_cache.hpp"
#include "op/shapes.hpp"
#include "tensor/layout.hpp"

namespace gradnn::detail {

namespace {

class builder {
public:
    builder(const compiled_impl &compiled,
            const std::vector<logical_tensor> &tensors, size_t input_count,
            const engine &e, const compile_options &options)
        : ops_(compiled.ops),
          tensors_(tensors),
          options_(options),
          program_(std::make_shared<executable>()) {
        program_->engine_kind = e.get_kind();
        program_->engine_index = e.get_index();
        program_->threads = options.threads;
        for (const logical_tensor &lt : compiled.ports) {
            executable_port port;
            port.lt = lt;
            port.output = program_->ports.size() >= input_count;
            port.extent = lt.get_mem_size();
            program_->ports.push_back(std::move(port));
        }
        program_->inner.resize(compiled.inner.size());
    }

    std::shared_ptr<const executable> build(
            std::vector<std::vector<lowered_step>> &steps) {
        for (size_t index = 0; index < ops_.size(); ++index) {
            describe_tensors(ops_[index]);
            if (steps[index].empty()) steps[index] = lower(ops_[index]);
        }
        std::vector<placed_step> placed = all_placed(ops_, std::move(steps));
        if (!take_composed(placed) && !take_fused(placed)) {
            const std::vector<checked_op> sliced = cut(placed);
            place_inner(sliced, placed);
            // Those of a form that was timed beside another are there.
            if (program_->steps.empty()) program_->steps = chosen(placed);
            for (executable_step &step : program_->steps)
                if (unfused_ && step.op == unfused_->op
                        && step.output == unfused_->output)
                    step.refusals.push_back({fused_form, unfused_->reason});
        }
        for (const executable_step &step : program_->steps) {
            // Steps run one after the other: they share their scratch.
            program_->workspace_bytes = std::max(
                    program_->workspace_bytes, step.plan->workspace_bytes());
            for (const size_t place : step.arguments)
                if (is_port(place)) program_->ports[place].used = true;
        }
        program_->workspace_bytes += program_->inner_bytes;
        return program_;
    }

private:
    /// The steps of ops, but for those that nobody needs.
    std::vector<placed_step> all_placed(const std::vector<checked_op> &ops,
            std::vector<std::vector<lowered_step>> steps) const {
        std::vector<placed_step> placed;
        for (size_t index = 0; index < ops.size(); ++index)
            place(placed, std::move(steps[index]), ops[index], index, tensors_);
        leave_out_unread(placed, program_->ports.size());
        return placed;
    }

    /// The ops of the first slice, whose steps take the place of the whole's.
    std::vector<checked_op> cut(std::vector<placed_step> &placed) {
        program_->slices
                = slicing_of(ops_, placed, program_->engine_kind, options_);
        if (program_->slices.count() == 1) return ops_;
        std::vector<checked_op> sliced;
        std::vector<std::vector<lowered_step>> steps;
        for (const checked_op &the_op : ops_) {
            sliced.push_back(first_slice(the_op, program_->slices));
            steps.push_back(lower(sliced.back()));
        }
        placed = all_placed(sliced, std::move(steps));
        return sliced;
    }

    bool is_port(size_t place) const { return place < program_->ports.size(); }

    /// What execute must know of an op's tensors: the values of a shape input, and
    /// where an elementwise op reads and writes alike, so that both may be one memory.
    void describe_tensors(const checked_op &the_op) {
        const size_t output = index_of(the_op.outputs.front(), tensors_);
        for (size_t index = 0; index < the_op.inputs.size(); ++index) {
            const logical_tensor &lt = the_op.inputs[index];
            if (lt.is_absent()) continue;
            const size_t place = index_of(lt, tensors_);
            if (the_op.row({false, index}).role == port_role::shape) {
                program_->ports[place].is_shape = true;
                program_->ports[place].expected = expected_shape_input(the_op);
            }
            // An op with such an output is the last one: no step reads on.
            if (is_port(place) && is_port(output) && may_replace(the_op, lt))
                program_->inplace.emplace_back(place, output);
        }
    }

    /// Whether an elementwise op's output may have the memory of an input.
    static bool may_replace(
            const checked_op &the_op, const logical_tensor &lt) {
        const logical_tensor &output = the_op.outputs.front();
        return the_op.schema().family == op_family::elementwise
                && same_dims(lt, output)
                && std::ranges::equal(strides_of(lt), strides_of(output));
    }

    void place_inner(const std::vector<checked_op> &ops,
            const std::vector<placed_step> &placed) {
        for (const checked_op &the_op : ops)
            for (const logical_tensor &lt : the_op.outputs)
                if (!lt.is_absent() && is_made_inside(placed, lt))
                    place_inner(lt, the_op);
    }

    /// Behind the inner tensors before it, or in the place of the one that its op
    /// is the only one to read.
    void place_inner(const logical_tensor &lt, const checked_op &the_op) {
        size_t &offset = inner(index_of(lt, tensors_));
        for (const logical_tensor &read : the_op.inputs) {
            if (read.is_absent()) continue;
            const size_t place = index_of(read, tensors_);
            if (is_port(place) || !may_replace(the_op, read)) continue;
            offset = inner(place);
            return;
        }
        offset = room_for(lt);
    }

    /// The offset of room in front of the scratch.
    size_t room_for(const logical_tensor &lt) {
        const size_t offset = program_->inner_bytes;
        program_->inner_bytes += (lt.get_mem_size() + workspace_alignment - 1)
                / workspace_alignment * workspace_alignment;
        return offset;
    }

    bool is_made_inside(const std::vector<placed_step> &placed,
            const logical_tensor &lt) const {
        const size_t place = index_of(lt, tensors_);
        return !is_port(place)
                && std::ranges::any_of(placed, [&](const placed_step &step) {
                       return std::ranges::count(step.places, place) > 0;
                   });
    }

    /// The offset of an inner tensor.
    size_t &inner(size_t place) {
        return program_->inner[place - program_->ports.size()];
    }

    /// Takes the other form of the partition where it has one that is faster.
    bool take_composed(const std::vector<placed_step> &placed) {
        auto other = composed(ops_, placed, tensors_.size());
        if (!other) return false;
        const auto forces = [&](const char *name) {
            return lists_name(options_.kernels, name);
        };
        const bool forced = forces(composed_form);
        if (!forced && !options_.kernels.empty()) return false;
        std::vector<executable_step> steps;
        const auto faster = is_measured_faster(
                composed_form, placed, {}, [&](const plan_timer &timer) {
                    steps = chosen(other->steps);
                    return time_of(other->steps, steps, {}, timer);
                });
        if (!faster.value_or(forced || is_estimated_faster(*other, placed)))
            return false;
        if (steps.empty()) steps = chosen(other->steps);
        program_->steps = std::move(steps);
        program_->composed = true;
        program_->made = std::move(other->made);
        for (const logical_tensor &lt : program_->made)
            program_->inner.push_back(room_for(lt));
        return true;
    }

    /// Takes one kernel for all ops, but for a convolution's other gradients, where
    /// there is one: it saves that the tensors between them are written and read.
    bool take_fused(const std::vector<placed_step> &placed) {
        if (lists_name(options_.kernels, form_of_ops)) return false;
        const auto all = fused(placed, tensors_, program_->ports.size());
        if (!all) return false;
        if (kept_form(placed) == form_of_ops) return false;
        const int64_t before = counted_bytes();
        std::string reason;
        auto step = choose_fused_kernel(*all, program_->engine_kind, options_,
                ops_[all->placed.op].identity(), reason);
        if (!step) {
            if (!reason.empty())
                unfused_ = {all->placed.op, all->placed.lowered.output, reason};
            return false;
        }
        complete(*step, all->placed, before);
        // ReLU's gradient in the bias's moves less memory, and is not measured.
        const auto faster = all->comes_first()
                ? std::nullopt
                : is_measured_faster(fused_form, placed, all->beside,
                        [&](const plan_timer &timer) {
                            return time_of(*step, all->problem, timer);
                        });
        if (!faster.value_or(true)) return false;
        place_inner(ops_, all->steps());
        auto &steps = program_->steps = chosen(all->beside);
        steps.insert(all->comes_first() ? steps.begin() : steps.end(),
                std::move(*step));
        program_->fused = true;
        // Some convolutions write an element twice, the second time from its terms.
        if (std::holds_alternative<fused_convolution>(all->problem))
            program_->inplace.clear();
        return true;
    }

    bool is_estimated_faster(const composition &other,
            const std::vector<placed_step> &placed) const {
        // Estimates are rough: a form that is hardly faster may be slower.
        constexpr double gain = 0.9;
        const engine::kind kind = program_->engine_kind;
        return estimated_time(other.steps, kind, options_)
                <= gain * estimated_time(placed, kind, options_);
    }

    /// What the form of the partition is kept under, where forms are measured or were.
    std::optional<std::string> key_of_form(
            const std::vector<placed_step> &placed) const {
        if (!options_.kernels.empty()
                || backend_of(program_->engine_kind).kernels().timer == nullptr
                || !(options_.autotune
                        || may_find_in_plan_cache(options_.plan_cache)))
            return std::nullopt;
        return key_of_forms(placed, program_->engine_kind, options_);
    }
    std::optional<std::string> kept_form(
            const std::vector<placed_step> &placed) const {
        const auto key = key_of_form(placed);
        return key ? find_in_plan_cache(*key, options_.plan_cache)
                   : std::nullopt;
    }

    /// Whether a form, whose time the function gives, is faster than the ops one by one,
    /// as measured now or earlier, but for steps that both have; what is measured is kept.
    /// Where it is slower now, the program has the steps of the ops. Nothing where nothing
    /// is measured.
    std::optional<bool> is_measured_faster(const char *form,
            const std::vector<placed_step> &placed,
            const std::vector<placed_step> &of_both, const auto &time_of_form) {
        const auto key = key_of_form(placed);
        if (const auto kept = kept_form(placed)) return *kept == form;
        if (!key || !options_.autotune) return std::nullopt;
        const plan_timer &timer
                = *backend_of(program_->engine_kind).kernels().timer;
        size_t its_bytes = program_->table_bytes;
        try {
            const double its_time = time_of_form(timer);
            its_bytes = std::exchange(program_->table_bytes, 0);
            std::vector<executable_step> of_ops = chosen(placed);
            const double time = time_of(placed, of_ops, of_both, timer);
            const bool faster = its_time < time;
            // Where the time was up nothing was measured.
            if (std::isfinite(its_time) && std::isfinite(time))
                keep_in_plan_cache(
                        *key, faster ? form : form_of_ops, options_.plan_cache);
            if (faster)
                program_->table_bytes = its_bytes;
            else
                program_->steps = std::move(of_ops);
            return faster;
        } catch (const error &failure) {
            if (failure.status != status::out_of_memory) throw;
            program_->table_bytes = its_bytes;
            return std::nullopt;
        }
    }

    /// Microseconds, without the steps of some.
    double time_of(const std::vector<placed_step> &placed,
            const std::vector<executable_step> &steps,
            const std::vector<placed_step> &without,
            const plan_timer &timer) const {
        const auto is_left_out = [&](const placed_step &step) {
            return std::ranges::any_of(without, [&](const placed_step &each) {
                return each.op == step.op
                        && each.lowered.output == step.lowered.output;
            });
        };
        double time = 0;
        for (size_t index = 0; index < steps.size(); ++index)
            if (!is_left_out(placed[index]))
                time += time_of(
                        steps[index], placed[index].lowered.problem, timer);
        return time;
    }
    /// 0 of a bias, which is not measured.
    double time_of(const executable_step &step, const auto &problem,
            const plan_timer &timer) const {
        const plan *const timed = step.plan.get();
        return std::visit(
                [&](const auto &each) -> double {
                    if constexpr (requires { argument_bytes(each); })
                        return timer.time(
                                {&timed, 1}, argument_bytes(each), options_)[0];
                    return 0;
                },
                problem);
    }

    /// The steps with their kernels.
    std::vector<executable_step> chosen(
            const std::vector<placed_step> &placed) {
        std::vector<executable_step> steps;
        for (const placed_step &each : placed) {
            const int64_t before = counted_bytes();
            executable_step step = choose_kernel(each.lowered,
                    program_->engine_kind, options_, ops_[each.op].identity());
            complete(step, each, before);
            if (!steps.empty()) share_copies(step, steps.back());
            steps.push_back(std::move(step));
        }
        return steps;
    }

    /// A step whose kernel is chosen; before that so many bytes were counted.
    void complete(executable_step &step, const placed_step &from,
            int64_t bytes_before) {
        program_->table_bytes += static_cast<size_t>(
                std::max<int64_t>(0, counted_bytes() - bytes_before));
        step.op = from.op;
        step.output = from.lowered.output;
        step.makes = from.makes;
        step.arguments = from.places;
        // Inner tensors have room for one slice, which each has in turn.
        for (size_t index = 0; index < from.places.size(); ++index) {
            const size_t place = from.places[index];
            step.strides.push_back(program_->slices.count() > 1
                                    && is_port(place)
                                    && is_cut(ops_[from.op],
                                            from.lowered.arguments[index])
                            ? stride_of_slices(
                                    tensors_[place], program_->slices)
                            : slice_stride {});
        }
    }

    /// Two gradients of one op may both copy a tensor that they read. (Those that are
    /// composed are of two ops.)
    static void share_copies(
            executable_step &step, const executable_step &earlier) {
        if (earlier.op != step.op && step.makes == nullptr) return;
        for (size_t index = 0; index
                < std::min(earlier.arguments.size(), step.arguments.size());
                ++index)
            if (earlier.arguments[index] == step.arguments[index])
                step.plan->share_copy(*earlier.plan, index);
    }

    const std::vector<checked_op> &ops_;
    const std::vector<logical_tensor> &tensors_;
    const compile_options &options_;
    /// The step that might have computed the ops around it, and why it does not.
    struct unfused_step {
        size_t op, output;
        std::string reason;
    };
    std::optional<unfused_step> unfused_;
    std::shared_ptr<executable> program_;
};

} // namespace

std::shared_ptr<const executable> build(const compiled_impl &compiled,
        const std::vector<logical_tensor> &tensors, size_t input_count,
        const engine &e, const compile_options &options,
        std::vector<std::vector<lowered_step>> &steps) {
    return builder(compiled, tensors, input_count, e, options).build(steps);
}

} // namespace gradnn::detail
