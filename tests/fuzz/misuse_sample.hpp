// What mistakes are made with.
#pragma once

#include <memory>
#include <vector>

#include "buffer.hpp"
#include "support/op_runner.hpp"
#include "tensors.hpp"

namespace gradnn::fuzz {

/// The right problem that is to be misused: one op whose tensors all have
/// elements, without shape inputs, no tensor at two ports.
problem problem_to_misuse(random_source &numbers, engine::kind kind);

/// A right problem of one op, compiled, with memory for its tensors.
class sample {
public:
    sample(random_source &numbers, const engine &e);

    std::vector<logical_tensor> input_tensors() const {
        return test::present(the_op.get_inputs());
    }
    std::vector<logical_tensor> output_tensors() const {
        return test::present(the_op.get_outputs());
    }

    void execute();

    /// Every byte of the outputs is 0xff still.
    bool outputs_untouched() const;

    engine device;
    op the_op;
    partition the_partition;
    compiled_partition compiled;
    std::vector<tensor> inputs;
    std::vector<tensor> outputs;
    std::vector<std::unique_ptr<buffer>> memory;
    size_t first_output = 0;
};

} // namespace gradnn::fuzz
