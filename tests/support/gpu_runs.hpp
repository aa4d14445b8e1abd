// Ops of every kind on a GPU, and how tests run them together.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "support/gpu.hpp"
#include "support/op_builders.hpp"

namespace gradnn::test {

using bytes = std::vector<std::byte>;

/// Ops of every kind of problem, with workspace and without.
inline std::vector<op> some_ops(data_type type) {
    const convolution_case dense {"dense", 4, 1, 24, 32, {28, 30}, {3, 3},
            {1, 1}, {1, 1}, {1, 1}, {1, 1}};
    const convolution_case uneven {"uneven", 2, 2, 12, 16, {17, 20}, {3, 3},
            {2, 2}, {1, 1}, {0, 1}, {1, 0}};
    std::vector<op> ops;
    for (const layout &l : {layouts()[0], layouts()[1]}) {
        ops.push_back(interpolation_op(
                {"up", 4, 19, {23, 29}, {46, 58}}, {}, l, type));
        ops.push_back(interpolation_op({"down", 4, 19, {46, 58}, {17, 19}},
                {"nearest", "half_pixel"}, l, type));
        ops.push_back(convolution_op(op::kind::ConvBackward, dense, l, type));
        ops.push_back(convolution_op(
                op::kind::ConvTransposeBackward, uneven, l, type));
        ops.push_back(plane_op(op::kind::BiasAddBackward,
                {"bias", {16, 33, 29, 31}}, l, type));
        ops.push_back(plane_op(
                op::kind::ReLUBackward, {"relu", {16, 33, 29, 31}}, l, type));
        ops.push_back(
                plane_op(op::kind::Add, {"add", {16, 33, 29, 31}}, l, type));
    }
    return ops;
}

inline std::vector<std::unique_ptr<op_run>> runs_of(
        const std::vector<op> &ops, const engine &e, uint64_t seed) {
    std::vector<std::unique_ptr<op_run>> runs;
    for (const op &the_op : ops)
        runs.push_back(std::make_unique<op_run>(
                the_op, e, random_inputs(the_op, seed)));
    return runs;
}

/// Puts everything on the stream and does not wait.
inline void submit(
        const std::vector<std::unique_ptr<op_run>> &runs, stream &s) {
    for (const auto &run : runs)
        run->compiled().execute(s, run->input_tensors(), run->output_tensors());
}

inline bytes outputs_of(const std::vector<std::unique_ptr<op_run>> &runs) {
    bytes all;
    for (const auto &run : runs) {
        const bytes own = run->all_output_bytes();
        all.insert(all.end(), own.begin(), own.end());
    }
    return all;
}

inline void poison(const std::vector<std::unique_ptr<op_run>> &runs) {
    for (const auto &run : runs)
        for (size_t index = 0; index < run->completed_op().get_outputs().size();
                ++index)
            if (!run->completed_op().get_outputs()[index].is_absent())
                run->output_tensor(index).poison();
}

class gpu_engine : public gpu_fixture {
protected:
    static engine gpu() { return shared_engine(engine::kind::gpu); }
};

} // namespace gradnn::test
