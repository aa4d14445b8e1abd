// The ops of a partition in float64, and what their outputs are held to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <vector>

#include <gradnn/graph.hpp>

#include "reference/accuracy.hpp"

namespace gradnn::driver {

/// What an output is held to, with what errors of the op's inputs add to it.
struct held_output {
    detail::promise promise;
    std::vector<double> magnitudes; ///< S of the promise by element
    int64_t ulps = 1; ///< of interpolations in f16 and bf16
};

/// An op in float64.
struct evaluation {
    std::vector<detail::reference_tensor> inputs;
    std::vector<detail::reference_tensor> outputs;
    std::vector<held_output> held;
};

/// Evaluates a partition's ops in their order. Tensors inside it have no memory: the
/// reference's values serve, and the partition's own may differ from them by what is
/// promised of the op that made them.
class partition_reference {
public:
    partition_reference(const compiled_partition &compiled, fpmath_mode mode);

    /// `values` gives those of tensors outside.
    evaluation evaluate(const op &the_op,
            const std::function<detail::reference_tensor(
                    const logical_tensor &)> &values);

private:
    struct inner_tensor {
        detail::reference_tensor exact;
        std::vector<double> errors; ///< most, by element
        std::vector<double> sums; ///< S, through all ops before
        double norm;
        int64_t ulps;
    };

    void allow_for_composing(const op &the_op, size_t port,
            const std::vector<double> &sums, held_output &held) const;

    std::set<size_t> inner_ids_;
    bool composed_ = false;
    std::map<size_t, inner_tensor> inner_;
    fpmath_mode mode_;
};

} // namespace gradnn::driver
