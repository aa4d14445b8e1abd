// Runs one op through the public API and compares it with the reference.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gradnn/graph.hpp>

#include "reference/reference.hpp"
#include "test_tensor.hpp"

namespace gradnn::test {

using data_type = logical_tensor::data_type;
using layout_type = logical_tensor::layout_type;
using values_list = std::vector<std::vector<double>>;

/// Sets GRADNN_KERNEL while it lives; an empty name leaves the choice to the
/// library.
class forced_kernel {
public:
    explicit forced_kernel(const std::string &name);
    forced_kernel(const forced_kernel &) = delete;
    forced_kernel &operator=(const forced_kernel &) = delete;
    ~forced_kernel();

private:
    std::optional<std::string> before_;
};

/// The one partition of a graph that holds one op.
partition partition_of(const op &the_op, engine::kind kind,
        fpmath_mode mode = fpmath_mode::strict, bool deterministic = true);

/// The ports of a partition without the absent ones, as compile takes them.
std::vector<logical_tensor> present(const std::vector<logical_tensor> &ports);

compiled_partition compile(const op &the_op, const engine &e);

/// True for the ports `sizes`, `dst_shape` and `weights_shape`.
bool is_shape_input(const op &the_op, size_t index);

/// Values for every input, in port order, absent ones empty: random in
/// [-0.75, 1.25), or what is right for a shape input.
values_list random_inputs(const op &the_op, uint64_t seed);

/// What the reference makes of an op's inputs, as they were rounded.
struct expectation {
    std::vector<detail::reference_tensor> exact;
    /// Of the sums of every element: S of doc/numerics.md.
    std::vector<detail::reference_tensor> magnitudes;
    /// Under which it is compared.
    fpmath_mode mode = fpmath_mode::strict;
};

/// An op compiled and its tensors, filled and ready.
class op_run {
public:
    struct options {
        /// Bytes by which the tensors' addresses miss a multiple of 64.
        size_t offset = 0;
    };

    op_run(const op &the_op, const engine &e, const values_list &inputs,
            options how);
    op_run(const op &the_op, const engine &e, const values_list &inputs)
        : op_run(the_op, e, inputs, options {}) {}
    /// With a partition that was compiled from the same op before.
    op_run(const op &the_op, const compiled_partition &compiled,
            const engine &e, const values_list &inputs, options how);

    /// Poisons the outputs and executes on a stream of its own, or on `s`.
    void execute();
    void execute(stream &s);

    const compiled_partition &compiled() const { return compiled_; }
    const op &completed_op() const { return op_; }
    std::vector<tensor> input_tensors() const;
    std::vector<tensor> output_tensors() const;

    /// Dense values of an output (by port; empty where absent).
    std::vector<double> output(size_t index) const;
    std::vector<std::byte> output_bytes(size_t index) const;
    /// The bits of all outputs, one after the other.
    std::vector<std::byte> all_output_bytes() const;
    test_tensor &output_tensor(size_t index) { return *outputs_[index]; }
    test_tensor &input_tensor(size_t index) { return *inputs_[index]; }

    /// What the reference makes of the inputs as they were rounded.
    std::vector<detail::reference_tensor> reference() const;
    /// The same, with the magnitudes, for several runs of the same inputs.
    expectation expected(fpmath_mode mode = fpmath_mode::strict) const;
    /// Compares with the reference as doc/numerics.md promises for terms of
    /// random sign, and calls expect_sums_right.
    void expect_right() const { expect_right(expected()); }
    void expect_right(const expectation &wanted) const;
    /// Compares element by element, as doc/numerics.md promises for any inputs,
    /// and looks for writes outside the elements; adds a failure to the test
    /// where something is wrong.
    void expect_sums_right() const { expect_sums_right(expected()); }
    void expect_sums_right(const expectation &wanted) const;

private:
    std::vector<detail::reference_tensor> input_values() const;
    void expect_near(const expectation &wanted, bool norm) const;
    void prepare(const values_list &inputs, options how);

    op op_;
    engine engine_;
    compiled_partition compiled_;
    std::vector<std::shared_ptr<test_tensor>> inputs_;
    std::vector<std::shared_ptr<test_tensor>> outputs_;
};

/// Names of the kernels that a compiled partition runs.
std::vector<std::string> kernels_of(const compiled_partition &compiled);

/// Compiles and runs with a kernel forced by name, checks that it ran (where
/// the op has a problem of its kind) and that the results are right. False
/// where the kernel refuses, having checked status and message of the refusal.
bool run_forced(const op &the_op, const engine &e, const std::string &kernel,
        uint64_t seed);

/// Whether a kernel, forced by name, takes the op (any kernel for an empty
/// name).
bool accepts(const op &the_op, const engine &e, const std::string &kernel);

/// doc/numerics.md: the tolerance of ||out - ref|| / ||ref||.
double tolerance_of(data_type type);

/// Compares the outputs of one port by their norm; empty if they agree.
std::string compare(double tolerance, const std::vector<double> &out,
        const std::vector<double> &expected);
/// Interpolation besides: within 1 ulp of the correctly rounded sum for f16
/// and bf16 (and of what an f32 sum of such magnitudes can resolve).
std::string compare_elements(data_type type, const std::vector<double> &out,
        const std::vector<double> &expected,
        const std::vector<double> &magnitudes);

} // namespace gradnn::test
