// Runs a problem on an engine and holds the outcome to what gradnn promises.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "buffer.hpp"
#include "fuzz_problem.hpp"

namespace gradnn::fuzz {

/// A problem under way. The three stages are called in order, once each;
/// prepare and verify use the host alone and may run on another thread.
class run {
public:
    explicit run(problem what) : problem_(std::move(what)) {}

    /// Draws the inputs' values.
    void prepare();
    /// Compiles and executes everything twice; on a GPU then once more with
    /// compile_settings::specialise off. Sets GRADNN_KERNEL.
    void execute(const engine &e);
    /// Compares with the float64 reference, and what the GPU's two tiers of kernels gave.
    void verify();

    const problem &what() const { return problem_; }
    /// Empty where all is well.
    const std::string &finding() const { return finding_; }
    /// A forced kernel does not take it, or it is beyond the limits.
    bool refused() const { return refused_; }
    const std::vector<std::string> &kernels() const { return kernels_; }

private:
    /// A tensor of the graph.
    struct entry {
        explicit entry(const logical_tensor &of) : lt(of) {}

        logical_tensor lt;
        bool computed = false;
        std::vector<std::byte> image;
        std::shared_ptr<buffer> memory;
    };

    void note_tensors();
    void execute_tier(const engine &e);
    void execute_checked(const engine &e);
    compiled_partition compile(const partition &each, const engine &e);
    /// What was executed; nothing where it is refused or something is wrong.
    compiled_partition execute_step(const partition &each, const engine &e);
    void execute_group(const partition &each, const engine &e);
    void verify_group(
            const partition &each, const compiled_partition &compiled);
    void check_inputs();
    bool verify_op(const op &declared);
    void verify_ahead_of_time();
    op known(const op &declared) const;
    void fail(const std::string &what);
    void check_refusal(const error &failure);

    problem problem_;
    std::map<size_t, entry> tensors_;
    std::vector<std::string> kernels_;
    std::string finding_;
    bool refused_ = false;
    bool specialise_ = true; ///< as the environment says
    /// The same problem with `specialise` off; null on the CPU.
    std::shared_ptr<run> ahead_of_time_;
};

/// All three stages. The finding, or an empty text.
std::string run_all(const problem &what, const engine &e);

} // namespace gradnn::fuzz
