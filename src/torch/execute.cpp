#include "torch/execute.hpp"

#include <array>

#include "torch/workspace.hpp"

namespace gradnn::torch_kernels {

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
    tensor on_gpu;
    const workspace on_cpu(cuda ? 0 : static_cast<size_t>(how.workspace));
    void *scratch = on_cpu.get();
    if (how.workspace != 0 && !cuda) {
        if (!scratch) return false;
    } else if (how.workspace != 0) {
        const int64_t step = 1;
        if (torch.empty_strided(1, &how.workspace, &step, torch.u8, kind,
                    device, on_gpu.put())
                        != 0
                || torch.get_mutable_data(on_gpu.get(), &scratch) != 0)
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
