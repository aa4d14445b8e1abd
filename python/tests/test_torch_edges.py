"""What is rarely met: failures and what they keep, odd arguments, formats of
three axes, transforms around code that is compiled."""

import gc
import weakref

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402
from torch.autograd import forward_ad  # noqa: E402

import gradnn.torch  # noqa: E402
from gradnn import _core  # noqa: E402
from gradnn.torch import _plans, _upsample  # noqa: E402
from torch_status import ran  # noqa: E402

convolution_backward = torch.ops.aten.convolution_backward


@pytest.fixture(autouse=True)
def fresh_status():
    gradnn.torch.reset_status()


def fake_of(*tensors):
    from torch._subclasses.fake_tensor import FakeTensorMode

    mode = FakeTensorMode()
    return mode, [mode.from_tensor(tensor) for tensor in tensors]


def expect_strides(got, want):
    assert got.shape == want.shape
    for extent, a, b in zip(got.shape, got.stride(), want.stride()):
        assert extent == 1 or a == b


# Failures.


def calls_that_gradnn_refuses():
    g, x, w = torch.randn(2, 6, 7, 7), torch.randn(2, 4, 7, 7), torch.randn(6, 4, 3, 3)
    rest = ([6], [1, 1], [1, 1], [1, 1], False, [0, 0], 1, [True] * 3)
    yield (g, x, w.double()), lambda *t: convolution_backward(*t, *rest)
    yield (g, x[:, :3].clone(), w), lambda *t: convolution_backward(*t, *rest)
    up = torch.ops.aten.upsample_bilinear2d_backward
    yield (g,), lambda t: up(t, [7, 7], [2, 6, 3], False, None, None)


@pytest.mark.parametrize("number", range(3))
def test_a_refusal_keeps_no_tensor(number):
    gradnn.torch.enable()
    tensors, call = list(calls_that_gradnn_refuses())[number]
    alive = [weakref.ref(tensor) for tensor in tensors]
    with pytest.raises(RuntimeError):
        call(*tensors)
    assert [entry["ran"] for entry in gradnn.torch.status()] == ["pytorch"]
    del tensors, call
    gc.collect()
    assert [each() for each in alive] == [None] * len(alive)


def up_backward(g, size=5):
    return torch.ops.aten.upsample_nearest2d_backward(
        g, list(g.shape[2:]), [*g.shape[:2], size, size], None, None
    )


def test_a_failed_execution_keeps_no_tensor(monkeypatch):
    def fail(*_):
        raise _core.Error("runtime_error", "raised by a test")

    monkeypatch.setattr(_plans.Plan, "__call__", fail)
    gradnn.torch.enable()
    g = torch.randn(1, 2, 11, 13)
    want = g.sum()
    alive = weakref.ref(g)
    gc.disable()
    try:
        torch.testing.assert_close(up_backward(g).sum(), want)
        del g
        assert alive() is None
    finally:
        gc.enable()
    assert ran("upsample_nearest2d_backward", "pytorch") == 1
    monkeypatch.undo()
    up_backward(torch.randn(1, 2, 11, 13))
    assert ran("upsample_nearest2d_backward") == 1


@pytest.mark.parametrize(
    "failure",
    [
        _core.OutOfMemoryError("out_of_memory", "raised by a test"),
        _core.Error("runtime_error", "raised by a test"),
    ],
)
def test_a_failure_that_passes_is_not_kept(monkeypatch, failure):
    def fail(*_, **__):
        raise failure

    gradnn.torch.enable()
    g = torch.randn(1, 2, 12, len(type(failure).__name__))
    with monkeypatch.context() as patch:
        patch.setattr(_upsample, "Plan", fail)
        up_backward(g)
    assert ran("upsample_nearest2d_backward", "pytorch") == 1
    up_backward(g)
    assert ran("upsample_nearest2d_backward") == 1


# Arguments that PyTorch's forward never gives.


def test_output_padding_is_checked():
    conv = ([3], [2, 2], [1, 1], [1, 1], False, [1, 1], 1, [True] * 3)
    up = ([3], [2, 2], [1, 1], [1, 1], True, [1, 1], 1, [True] * 3)
    calls = [
        (torch.randn(2, 3, 4, 4), torch.randn(2, 3, 8, 8), conv),
        (torch.randn(2, 3, 7, 7), torch.randn(2, 3, 4, 4), up),  # of no padding
    ]
    gradnn.torch.enable()
    for g, x, rest in calls:
        try:
            convolution_backward(g, x, torch.randn(3, 3, 3, 3), *rest)
        except RuntimeError:
            pass  # as PyTorch sees fit
    assert ran("convolution_backward") == 0
    assert ran("convolution_backward", "pytorch") == 2
    g = torch.randn(2, 3, 8, 8)
    convolution_backward(g, calls[1][1], torch.randn(3, 3, 3, 3), *up)
    assert ran("convolution_backward") == 1


# Memory formats.


@pytest.mark.parametrize("which", _upsample.UPSAMPLINGS, ids=lambda each: each.forward)
def test_strides_of_upsampling_are_those_of_fake_tensors(which):
    axes = which.axes
    formats = {
        2: [torch.contiguous_format, torch.channels_last],
        3: [torch.contiguous_format, torch.channels_last_3d],
    }.get(axes, [torch.contiguous_format])
    small, large = [3, 4, 2][:axes], [5, 6, 7][:axes]
    rest = [False] * (not which.is_nearest) + [None] * axes
    aten = getattr(torch.ops.aten, which.backward)
    ours = torch.ops.gradnn.upsample_backward
    ours_rest = (False, [0.0] * axes)
    for memory_format in formats:
        g = torch.randn(2, 4, *large).contiguous(memory_format=memory_format)
        size = [2, 4, *small]
        mode, (fake,) = fake_of(g)
        with mode:
            want = aten(fake, large, size, *rest)
            want_ours = ours(fake, which.name, large, size, *ours_rest)
        for switch in (gradnn.torch.enabled, gradnn.torch.disabled):
            with switch():
                expect_strides(aten(g, large, size, *rest), want)
                got = ours(g, which.name, large, size, *ours_rest)
                expect_strides(got, want_ours)


# Transforms and forward-mode differentiation.


@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
def test_transforms_in_compiled_code(mode):
    def loss(x):
        return F.interpolate(x[None], scale_factor=2, mode=mode).square().sum()

    def gradients(x):
        return torch.func.vmap(torch.func.grad(loss))(x)

    gradnn.torch.enable()
    torch._dynamo.reset()
    x = torch.randn(2, 3, 9, 11)
    want = gradients(x)
    compiled = torch.compile(gradients, backend="aot_eager")
    torch.testing.assert_close(compiled(x), want)
    torch._dynamo.reset()


def test_forward_mode():
    gradnn.torch.enable()
    x, t = torch.randn(2, 3, 5, 6)
    for function in (gradnn.torch.interpolate, F.interpolate):
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(x[None], t[None])
            y = function(dual, size=(8, 7), mode="bilinear")
            tangent = forward_ad.unpack_dual(y).tangent
        want = F.interpolate(t[None], size=(8, 7), mode="bilinear")
        torch.testing.assert_close(tangent, want)


# gradnn.torch.interpolate.


def test_interpolate_exports_dims_that_are_not_known():
    class Up(torch.nn.Module):
        def forward(self, x):
            return gradnn.torch.interpolate(x, scale_factor=1.7, mode="bilinear")

    height = torch.export.Dim("height", min=2, max=64)
    program = torch.export.export(
        Up(), (torch.randn(1, 2, 9, 11),), dynamic_shapes=({2: height},)
    )
    assert not any("gradnn" in str(node.target) for node in program.graph.nodes)
    x = torch.randn(1, 2, 21, 11)
    torch.testing.assert_close(program.module()(x), Up()(x))


@pytest.mark.parametrize(
    "arguments",
    [
        dict(size=(4.0, 5.0)),
        dict(size=True),
        dict(size=(-1, 5)),
        dict(scale_factor="a"),
        dict(scale_factor=float("nan")),
        dict(scale_factor=float("inf")),
        dict(scale_factor=1e30),
        dict(scale_factor=-1.0),
    ],
)
def test_interpolate_raises_what_pytorch_raises(arguments):
    x = torch.randn(1, 2, 4, 4)
    with pytest.raises(Exception) as native:
        F.interpolate(x, **arguments)
    with pytest.raises(native.type):
        gradnn.torch.interpolate(x, **arguments)
