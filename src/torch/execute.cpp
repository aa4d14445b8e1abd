#include "torch/execute.hpp"

#include <array>
#include <cstdlib>
#include <memory>

namespace gradnn::torch_kernels {

namespace {

/// A thread's workspace on the CPU, which saves an allocation by PyTorch.
class thread_workspace {
public:
    static constexpr int64_t limit = 1 << 20; ///< bytes

    /// At least that many bytes, at most the limit; null where there are none.
    void *get(int64_t size) {
        if (size > size_) {
            // A multiple of the alignment, and few steps up to the limit.
            const int64_t rounded = (size * 2 + 63) / 64 * 64;
            block_.reset(std::aligned_alloc(64, static_cast<size_t>(rounded)));
            size_ = block_ ? rounded : 0;
        }
        return block_.get();
    }

private:
    struct deleter {
        void operator()(void *block) const { std::free(block); }
    };
    std::unique_ptr<void, deleter> block_;
    int64_t size_ = 0;
};

thread_local thread_workspace cpu_workspace;

} // namespace

bool execute(const plan &how, const arguments &given, results &made) {
    std::array<const void *, max_tensors> inputs {};
    std::array<void *, max_tensors> outputs {};
    const bool convolution = given.op().is_convolution();
    const size_t tensors = convolution ? 3 : 1;
    // InterpolateBackward has another input before, which it does not read.
    const size_t before = convolution ? 0 : 1;
    for (size_t index = 0; index < tensors; ++index)
        if (torch.get_const_data(
                    given.tensor_at(index), &inputs[before + index])
                != 0)
            return false;
    const bool cuda = given.device() == gradnn_torch_cuda;
    const int32_t kind = cuda ? torch.cuda : torch.cpu;
    const int32_t device = given.device_index();
    for (size_t index = 0; index < how.outputs.size(); ++index) {
        const output &wanted = how.outputs[index];
        if (!wanted.present) {
            if (torch.new_undefined_tensor(made[index].put()) != 0)
                return false;
            continue;
        }
        if (torch.empty_strided(wanted.rank, wanted.sizes.data(),
                    wanted.strides.data(), wanted.type, kind, device,
                    made[index].put())
                        != 0
                || torch.get_mutable_data(made[index].get(), &outputs[index])
                        != 0)
            return false;
    }
    // On a GPU of PyTorch's allocator, which does not give it to another before
    // the stream is done.
    tensor workspace;
    void *scratch = nullptr;
    if (!cuda && how.workspace <= thread_workspace::limit) {
        if (how.workspace != 0) scratch = cpu_workspace.get(how.workspace);
    } else if (how.workspace != 0) {
        const int64_t step = 1;
        if (torch.empty_strided(1, &how.workspace, &step, torch.u8, kind,
                    device, workspace.put())
                        != 0
                || torch.get_mutable_data(workspace.get(), &scratch) != 0)
            return false;
    }
    void *stream = nullptr;
    if (cuda && torch.cuda_stream(device, &stream) != 0) return false;
    return gradnn_execute(how.compiled.get(), stream, inputs.data(),
                   before + tensors, outputs.data(), how.outputs.size(),
                   scratch)
            == gradnn_success;
}

} // namespace gradnn::torch_kernels
