// The rate at which a device multiplies and adds: the limit that convolutions
// are compared with.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <gradnn/engine.hpp>
#include <gradnn/tensor.hpp>

namespace gradnn::driver {

/// Measured for the factors' type and the precision that the graph allows:
///
/// On the CPU, on all threads, the fastest of a loop of fused multiplications
/// and additions in registers (in f32, or f64 for f64) and, where oneDNN says
/// that the CPU multiplies f16 or bf16 itself, a product of two matrices of
/// that type by oneDNN.
///
/// On a GPU the fastest of such a loop, of one on tensor cores (for strict f32
/// a third of the rate of TF32, since a product takes three there), and, for
/// f16, bf16 and TF32, of a large product by this library itself: cuDNN uses
/// instructions of tensor cores that the loop does not.
class compute_limit {
public:
    /// Measures every candidate and keeps the fastest.
    compute_limit(
            const engine &e, logical_tensor::data_type type, fpmath_mode mode);

    /// What is measured: "f32 FMA loop (AVX2), 2 threads".
    const std::string &name() const { return best_.name; }
    /// The median when it was chosen.
    double tflop_per_s() const { return rate_; }
    /// Measures it once more, for a few milliseconds.
    double measure() const { return best_.measure(); }

private:
    struct candidate {
        std::string name;
        std::function<double()> measure; ///< returns TFLOP/s
    };
    static std::vector<candidate> cpu_candidates(
            logical_tensor::data_type type, fpmath_mode mode);
    static std::vector<candidate> gpu_candidates(
            const engine &e, logical_tensor::data_type type, fpmath_mode mode);

    candidate best_;
    double rate_ = 0;
};

} // namespace gradnn::driver
