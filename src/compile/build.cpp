#include "compile/build.hpp"

#include <algorithm>

#include "base/counted_memory.hpp"
#include "compile/kernel_choice.hpp"
#include "compile/ports.hpp"
#include "compile/slices.hpp"
#include "kernel/backend.hpp"
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
        program_->slices = slicing_of(ops_,
                backend_of(e.get_kind()).cached_bytes
                        * static_cast<size_t>(options.threads));
    }

    std::shared_ptr<const executable> build(
            std::vector<std::vector<lowered_step>> &steps) {
        const bool sliced = program_->slices.count() > 1;
        for (size_t index = 0; index < ops_.size(); ++index) {
            const checked_op the_op = sliced
                    ? first_slice(ops_[index], program_->slices)
                    : ops_[index];
            describe_tensors(the_op);
            if (sliced || steps[index].empty()) steps[index] = lower(the_op);
            for (const lowered_step &step : steps[index])
                add_step(step, index);
        }
        program_->workspace_bytes = program_->inner_bytes + scratch_bytes_;
        return program_;
    }

private:
    bool is_port(size_t place) const { return place < program_->ports.size(); }

    /// What execute must know of an op's tensors: the values of a shape input, where
    /// an elementwise op reads and writes alike, so that both may be one memory, and
    /// where inner tensors lie.
    void describe_tensors(const checked_op &the_op) {
        for (const logical_tensor &lt : the_op.outputs)
            if (!lt.is_absent() && !is_port(index_of(lt, tensors_)))
                place_inner(lt, the_op);
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
        offset = program_->inner_bytes;
        program_->inner_bytes += (lt.get_mem_size() + workspace_alignment - 1)
                / workspace_alignment * workspace_alignment;
    }

    /// The offset of an inner tensor.
    size_t &inner(size_t place) {
        return program_->inner[place - program_->ports.size()];
    }

    /// A step with its kernel, after those that the program has.
    void add_step(const lowered_step &lowered, size_t op_index) {
        const checked_op &the_op = ops_[op_index];
        const int64_t before = counted_bytes();
        executable_step step = choose_kernel(
                lowered, program_->engine_kind, options_, the_op.identity());
        program_->table_bytes += static_cast<size_t>(
                std::max<int64_t>(0, counted_bytes() - before));
        step.op = op_index;
        step.output = lowered.output;
        for (const port_reference port : lowered.arguments) {
            const size_t place = index_of(the_op.port(port), tensors_);
            step.arguments.push_back(place);
            // Inner tensors have room for one slice, which each has in turn.
            step.strides.push_back(
                    is_port(place) && program_->slices.count() > 1
                            ? stride_of_slices(
                                    tensors_[place], program_->slices)
                            : slice_stride {});
            if (is_port(place)) program_->ports[place].used = true;
        }
        share_copies(step);
        // Steps run one after the other: they share their scratch.
        scratch_bytes_ = std::max(scratch_bytes_, step.plan->workspace_bytes());
        program_->steps.push_back(std::move(step));
    }

    /// Two gradients of one op may both copy a tensor that they read.
    void share_copies(executable_step &step) {
        if (program_->steps.empty()) return;
        const executable_step &earlier = program_->steps.back();
        if (earlier.op != step.op) return;
        for (size_t index = 0; index
                < std::min(earlier.arguments.size(), step.arguments.size());
                ++index)
            if (earlier.arguments[index] == step.arguments[index])
                step.plan->share_copy(*earlier.plan, index);
    }

    const std::vector<checked_op> &ops_;
    const std::vector<logical_tensor> &tensors_;
    const compile_options &options_;
    std::shared_ptr<executable> program_;
    size_t scratch_bytes_ = 0;
};

} // namespace

std::shared_ptr<const executable> build(const compiled_impl &compiled,
        const std::vector<logical_tensor> &tensors, size_t input_count,
        const engine &e, const compile_options &options,
        std::vector<std::vector<lowered_step>> &steps) {
    return builder(compiled, tensors, input_count, e, options).build(steps);
}

} // namespace gradnn::detail
