// One arrangement of a convolution by cuDNN's kernels, on the GPU.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "gpu/convolution/cudnn/arrangement.hpp"
#include "gpu/convolution/cudnn/plan.hpp"
#include "gpu/runtime/device.hpp"
#include "gpu_reference.hpp"
#include "reference/accuracy.hpp"

namespace gradnn::sweep {

/// What one kernel gave.
struct trial_result {
    double error = 0; ///< by element, in u * S beyond half an ulp
    double norm = 0; ///< ||result - exact|| / ||exact||
    uint64_t not_finite = 0; ///< elements that are NaN, infinite or not written
    uint64_t changed = 0; ///< elements that a second run gave differently
    uint64_t strays = 0; ///< bytes written outside of output and workspace
    std::string failure; ///< why it could not be run

    /// Whether it keeps the promise; that in norm only for values of any sign.
    bool is_right(const detail::promise &of, sign signs) const;
};

/// Terms of the longest sum.
int64_t terms_of(const gpu::cudnn::problem_arrangement &arrangement);

/// The arrangement's tensors: inputs of random values that the caller's type
/// holds, the exact output, and memory for results. All memory around is 0xFF,
/// NaN in every type, and so are output and workspace before the first run.
class arrangement_trial {
public:
    /// `inputs` is the caller's type.
    arrangement_trial(const gpu::cudnn::problem_arrangement &arrangement,
            detail::data_type inputs, const detail::promise &held_to,
            uint64_t seed, sign signs);

    /// Runs the plan twice. Throws gradnn::error where CUDA can go on no longer.
    trial_result run(const gpu::cudnn::built_plan &plan,
            gpu::cudnn::library_handle handle);

private:
    /// Memory between two guards, of at least so many bytes.
    class guarded {
    public:
        guarded() = default;
        explicit guarded(size_t bytes);
        void *data() const;
        size_t size_bytes() const { return bytes_; }
        /// Fills it, guards included.
        void fill(int byte) const;
        uint64_t strays() const;

    private:
        size_t bytes_ = 0;
        gpu::device_buffer memory_;
    };

    void run_once(const gpu::cudnn::built_plan &plan,
            gpu::cudnn::library_handle handle, const guarded &workspace,
            int filling) const;

    const gpu::cudnn::problem_arrangement &arrangement_;
    const detail::promise held_to_;
    std::array<guarded, 3> tensors_;
    std::array<gpu::device_buffer, 3> wide_; ///< the same in f64
    gpu::device_buffer magnitudes_;
    gpu::device_buffer first_; ///< what the first run gave
    reference_totals totals_;
};

} // namespace gradnn::sweep
