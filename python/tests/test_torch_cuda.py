"""What is particular to CUDA devices. Skipped without one."""

import subprocess
import sys

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
            FakeTensorMode.cache_clear()  # its key does not have the switch
            mode = FakeTensorMode()
            fake = [mode.from_tensor(tensor) for tensor in tensors]
            with mode:
                want = [each.stride() for each in call(*fake, *rest)]
            assert [each.stride() for each in call(*tensors, *rest)] == want
    assert ran("convolution_backward") == 3


@pytest.mark.parametrize("mode, size", [("nearest", 46), ("linear", 9)])
def test_gradients_are_those_of_the_forward(mode, size):
    """By finite differences. PyTorch's own gradient of 14 to 46 is not: output 23
    is read from input 6, and its gradient goes to 7."""
    x = torch.randn(1, 1, 14, dtype=torch.float64, device="cuda", requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: F.interpolate(x, size, mode=mode), x)
    assert torch.autograd.gradgradcheck(lambda x: F.interpolate(x, size, mode=mode), x)
    assert ran(f"upsample_{mode}1d_backward")


def test_gradcheck_of_convolutions():
    def inputs(*shapes):
        made = [torch.randn(*s, dtype=torch.float64, device="cuda") for s in shapes]
        return [each.requires_grad_() for each in made]

    for function, given in [
        (lambda x, w, b: F.conv2d(x, w, b, 2, 1), inputs((1, 2, 5, 5), (3, 2, 3, 3), (3,))),
        (lambda x, w: F.conv_transpose1d(x, w), inputs((1, 2, 4), (2, 3, 3))),
        (lambda x, w: F.conv2d(x, w, groups=4), inputs((1, 4, 4, 4), (4, 1, 3, 3))),
    ]:  # fmt: skip
        # cuDNN's forward direction may add atomically.
        checked = dict(nondet_tol=1e-8)
        assert torch.autograd.gradcheck(function, given, **checked)
        assert torch.autograd.gradgradcheck(function, given, **checked)
    assert ran("convolution_backward")
    assert ran("convolution_backward", "pytorch") == 0, gradnn.torch.status()


@pytest.mark.parametrize("last", [False, True], ids=["contiguous", "channels_last"])
@pytest.mark.parametrize("c, window, groups", [(8, 3, 1), (8, 1, 1), (8, 3, 8), (1, 3, 1)])
def test_strides_are_those_of_fake_tensors(c, window, groups, last):
    from torch._subclasses.fake_tensor import FakeTensorMode

    size = 11 - window
    tensors = [torch.randn(2, 8, size, size), torch.randn(2, c, 10, 10)]
    if last:
        tensors = [t.contiguous(memory_format=torch.channels_last) for t in tensors]
    tensors.append(torch.randn(8, c // groups, window, window))
    tensors = [each.cuda() for each in tensors]
    rest = ([8], [1, 1], [0, 0], [1, 1], False, [0, 0], groups, [True] * 3)
    mode = FakeTensorMode()
    fake = [mode.from_tensor(each) for each in tensors]
    call = torch.ops.aten.convolution_backward
    with mode:
        want = call(*fake, *rest)
    for got, expected in zip(call(*tensors, *rest), want):
        assert got.shape == expected.shape
        for extent, a, b in zip(got.shape, got.stride(), expected.stride()):
            assert extent == 1 or a == b
    assert ran("convolution_backward") == 1


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("last", [False, True], ids=["contiguous", "channels_last"])
def test_compile(backend, last):
    torch._dynamo.reset()
    x, w = inputs()
    if last:
        x = x.detach().contiguous(memory_format=torch.channels_last).requires_grad_()
    want = gradients(x, w)
    gradnn.torch.reset_status()
    step = torch.compile(
        lambda x, w: F.interpolate(
            F.conv2d(x, w, padding=1), size=(25, 30), mode="bilinear"
        ),
        backend=backend,
        fullgraph=True,
    )
    y = step(x, w)
    got = torch.autograd.grad(y, (x, w), torch.ones_like(y))
    for a, b in zip(got, want):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-2)  # TF32
    assert ran("convolution_backward") == 1
    assert ran("upsample_bilinear2d_backward") == 1
    torch._dynamo.reset()


def test_autocast():
    x, w = inputs()
    with torch.autocast("cuda", torch.bfloat16):
        y = F.conv2d(x, w, padding=1)
        z = gradnn.torch.interpolate(y, size=(25, 30), mode="bilinear")
        theirs = F.interpolate(y, size=(25, 30), mode="bilinear")
    assert y.dtype == z.dtype == torch.bfloat16 and theirs.dtype == torch.float32
    (z.sum() + theirs.sum()).backward()
    assert x.grad.dtype == w.grad.dtype == torch.float32
    assert ran("upsample_bilinear2d_backward") == 2
    assert ran("convolution_backward") == 1


def test_vmap():
    x, w = torch.randn(3, 2, 4, 8, 8, device="cuda"), torch.randn(5, 4, 3, 3).cuda()

    def loss(x, w):
        y = F.interpolate(F.conv2d(x, w, padding=1), size=(11, 9), mode="bilinear")
        return y.square().sum()

    per_sample = torch.vmap(torch.func.grad(loss, argnums=(0, 1)), in_dims=(0, None))
    with gradnn.torch.disabled():
        want = per_sample(x, w)
    for a, b in zip(per_sample(x, w), want):
        torch.testing.assert_close(a, b, rtol=1e-2, atol=1e-1)  # TF32
    assert ran("convolution_backward") and ran("upsample_bilinear2d_backward")


def test_allocator_gets_its_memory_back():
    """Workspace and results are PyTorch's, and nothing keeps them."""
    x, w = inputs()
    gradients(x, w)
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    for _ in range(20):
        gradients(x, w)
    assert torch.cuda.memory_allocated() == before


def test_engine_threads_of_several_streams():
    """Backward steps on streams of their own, started from threads."""
    import threading

    x, w = inputs()
    want = gradients(x, w)
    torch.cuda.synchronize()
    failures = []

    def work():
        try:
            stream = torch.cuda.Stream()
            with torch.cuda.stream(stream):
                for _ in range(20):
                    got = gradients(x, w)
                stream.synchronize()
            failures.extend(1 for a, b in zip(got, want) if not torch.equal(a, b))
        except BaseException as failure:  # noqa: BLE001
            failures.append(failure)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures


@pytest.mark.parametrize("by_gradnn", [False, True])
def test_tracing_with_deterministic_algorithms(by_gradnn):
    alone = """
import torch
torch.use_deterministic_algorithms(True)
up = lambda x: torch.nn.functional.interpolate(x, scale_factor=2.0, mode="bilinear")
torch.jit.trace(up, torch.ones(1, 2, 5, 6, device="cuda"))
"""
    if subprocess.run([sys.executable, "-c", alone]).returncode != 0:
        pytest.skip("this PyTorch does not trace it without gradnn either")
    up = gradnn.torch.interpolate if by_gradnn else F.interpolate
    x = torch.randn(1, 2, 5, 6, device="cuda")
    torch.use_deterministic_algorithms(True)
    try:
        traced = torch.jit.trace(lambda x: up(x, scale_factor=2.0, mode="bilinear"), x)
        assert "gradnn::" not in str(traced.graph)
        torch.testing.assert_close(traced(x), up(x, scale_factor=2.0, mode="bilinear"))
    finally:
        torch.use_deterministic_algorithms(False)
