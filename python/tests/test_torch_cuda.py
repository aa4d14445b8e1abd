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
    before = torch.backends.cudnn.allow_tf32
    try:
        torch.backends.cudnn.allow_tf32 = False
        exact = gradients(x.detach().double().requires_grad_(), w.detach().double().requires_grad_())
        strict = gradients(x, w)
        torch.backends.cudnn.allow_tf32 = True
        gradients(x, w)
    finally:
        torch.backends.cudnn.allow_tf32 = before
    for a, b in zip(strict, exact):
        assert ((a - b).abs().max() / b.abs().max()).item() < 2e-6
