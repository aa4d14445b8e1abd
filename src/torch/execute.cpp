#include "torch/execute.hpp"

#include <array>

#include "c_api/fence.hpp"
#include "c_api/objects.hpp"
#include "torch/workspace.hpp"

namespace gradnn::torch_kernels {

namespace {

/// Workspace on a GPU, of PyTorch's allocator, which does not give it to another
/// before the stream is done.
class gpu_workspace {
public:
    gpu_workspace() = default;
    gpu_workspace(const gpu_workspace &) = delete;
    gpu_workspace &operator=(const gpu_workspace &) = delete;
    ~gpu_workspace() {
        if (memory_) torch.cuda_free(memory_);
    }

    /// False without memory. On the current device without a tensor, which
    /// takes PyTorch as long as the memory.
    bool take(int64_t bytes, int32_t device) {
        int32_t current = -1;
        if (torch.cuda_allocate && torch.current_device(&current) == 0
                && current == device)
            return torch.cuda_allocate(static_cast<uint64_t>(bytes), &memory_)
                    == 0;
        const int64_t step = 1;
        return torch.empty_strided(1, &bytes, &step, torch.u8, torch.cuda,
                       device, tensor_.put())
                == 0
                && torch.get_mutable_data(tensor_.get(), &data_) == 0;
    }
    void *get() const { return memory_ ? memory_ : data_; }

private:
    void *memory_ = nullptr;
    tensor tensor_;
    void *data_ = nullptr; ///< the tensor's
};

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
    gpu_workspace on_gpu;
    const workspace on_cpu(cuda ? 0 : static_cast<size_t>(how.workspace));
    void *scratch = on_cpu.get();
    if (how.workspace != 0) {
        if (cuda && on_gpu.take(how.workspace, device)) scratch = on_gpu.get();
        if (!scratch) return false;
    }
    void *stream = nullptr;
    if (cuda && torch.cuda_stream(device, &stream) != 0) return false;
    return c_api::fenced([&] {
        // The tensors' device is of the key.
        c_api::execute(*how.compiled, stream, inputs.data(), outputs.data(),
                scratch, detail::addresses::known);
    }) == gradnn_success;
}

} // namespace gradnn::torch_kernels
