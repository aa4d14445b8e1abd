"""What is particular to CUDA devices. Skipped without one."""

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402

import gradnn.torch  # noqa: E402
from torch_status import ran  # noqa: E402

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="PyTorch sees no CUDA device"
)


@pytest.fixture(autouse=True)
def enabled():
    gradnn.torch.reset_status()
    gradnn.torch.enable()


def inputs(device="cuda", dtype=torch.float32):
    generator = torch.Generator().manual_seed(5)
    x = torch.randn(2, 8, 12, 14, generator=generator).to(device, dtype)
    w = torch.randn(16, 8, 3, 3, generator=generator).to(device, dtype)
    return x.requires_grad_(), w.requires_grad_()


def gradients(x, w, mode="bilinear"):
    y = F.interpolate(F.conv2d(x, w, padding=1), size=(25, 30), mode=mode)
    return torch.autograd.grad(y, (x, w), torch.ones_like(y))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_capture_on_a_fresh_stream(dtype):
    x, w = inputs(dtype=dtype)
    want = gradients(x, w)  # on the default stream
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=torch.cuda.Stream()):
        got = gradients(x, w)
    for each in got:
        each.zero_()
    graph.replay()
    torch.cuda.synchronize()
    for a, b in zip(got, want):
        assert torch.equal(a, b)
    assert ran("convolution_backward", "pytorch") == 0, gradnn.torch.status()


def test_streams():
    x, w = inputs()
    want = gradients(x, w)
    torch.cuda.synchronize()
    for _ in range(8):
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            got = gradients(x, w)
        stream.synchronize()
        for a, b in zip(got, want):
            assert torch.equal(a, b)


def test_every_device():
    want = None
    for index in range(torch.cuda.device_count()):
        current = torch.cuda.current_device()
        got = [each.cpu() for each in gradients(*inputs(f"cuda:{index}"))]
        assert torch.cuda.current_device() == current
        want = want or got
        for a, b in zip(got, want):
            assert torch.equal(a, b)


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear"])
def test_deterministic_algorithms_do_not_raise(mode):
    torch.use_deterministic_algorithms(True)
    try:
        gradients(*inputs(), mode)
    finally:
        torch.use_deterministic_algorithms(False)
    assert not [e for e in gradnn.torch.status() if e["ran"] == "pytorch"]


def test_misaligned_tensors():
    x, w = inputs(dtype=torch.bfloat16)
    odd = torch.empty(x.numel() + 1, dtype=x.dtype, device="cuda")[1:].view(x.shape)
    odd.data.copy_(x.detach())
    want = gradients(x, w)
    for a, b in zip(gradients(odd.requires_grad_(), w), want):
        torch.testing.assert_close(a, b, rtol=1e-2, atol=1e-1)


def test_tf32_is_a_switch():
    x, w = inputs()
    # The property cannot be set once torch.testing._internal is imported.
    before = torch.backends.cudnn.allow_tf32
    try:
        torch._C._set_cudnn_allow_tf32(False)
        exact = gradients(x.detach().double().requires_grad_(), w.detach().double().requires_grad_())
        strict = gradients(x, w)
        torch._C._set_cudnn_allow_tf32(True)
        gradients(x, w)
    finally:
        torch._C._set_cudnn_allow_tf32(before)
    for a, b in zip(strict, exact):
        assert ((a - b).abs().max() / b.abs().max()).item() < 2e-6


def test_a_gradient_of_another_device_after_those_of_one():
    x, w = torch.randn(2, 4, 9, 9), torch.randn(6, 4, 3, 3)
    g = torch.randn(2, 6, 7, 7)
    rest = ([6], [1, 1], [0, 0], [1, 1], False, [0, 0], 1, [True] * 3)

    def outcome(*tensors):
        try:
            return type(torch.ops.aten.convolution_backward(*tensors, *rest))
        except Exception as failure:  # noqa: BLE001
            return type(failure)

    with gradnn.torch.disabled():
        native = outcome(g, x.cuda(), w.cuda())
    # Plans for these shapes on either device.
    assert outcome(g, x, w) is outcome(g.cuda(), x.cuda(), w.cuda()) is tuple
    assert outcome(g, x.cuda(), w.cuda()) is native


def test_strides_follow_the_switch_of_cudnn():
    from torch._subclasses.fake_tensor import FakeTensorMode

    x = torch.randn(2, 4, 9, 9).contiguous(memory_format=torch.channels_last)
    tensors = [torch.randn(2, 6, 7, 7), x, torch.randn(6, 4, 3, 3)]
    tensors = [tensor.cuda() for tensor in tensors]
    rest = ([6], [1, 1], [0, 0], [1, 1], False, [0, 0], 1, [True] * 3)
    call = torch.ops.aten.convolution_backward
    for enabled in (True, False, True):
        with torch.backends.cudnn.flags(enabled=enabled):
            mode = FakeTensorMode()
            fake = [mode.from_tensor(tensor) for tensor in tensors]
            with mode:
                want = [each.stride() for each in call(*fake, *rest)]
            assert [each.stride() for each in call(*tensors, *rest)] == want
    assert ran("convolution_backward") == 3
