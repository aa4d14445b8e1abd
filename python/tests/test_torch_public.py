"""Public reports of faults, by their names, that C++'s tests (tests/public) cannot
hold: they are about PyTorch's ops, its compiler and its strides."""

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402

import gradnn.torch  # noqa: E402
from torch_compiling import fresh  # noqa: E402, F401
from torch_status import ran  # noqa: E402


def expect_gradients_of_pytorch(loss, *tensors, compiled=False, **tolerance):
    """Those of `loss` by gradnn, beside PyTorch's own, with their strides."""
    want = torch.autograd.grad(loss(*tensors), tensors)
    with gradnn.torch.enabled():
        by = torch.compile(loss, fullgraph=True) if compiled else loss
        got = torch.autograd.grad(by(*tensors), tensors)
    for a, b in zip(got, want):
        torch.testing.assert_close(a, b, **tolerance)
        assert a.stride() == b.stride() or compiled


def random(*shape, dtype=torch.float32):
    generator = torch.Generator().manual_seed(7)
    return torch.randn(*shape, generator=generator).to(dtype).requires_grad_()


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
def test_pytorch_100794_a_resize_after_a_convolution(mode):
    def loss(x, w):
        y = F.interpolate(F.conv2d(x, w), size=(9, 11), mode=mode)
        return (y * y).sum()

    x, w = random(1, 3, 8, 8), random(4, 3, 3, 3)
    expect_gradients_of_pytorch(loss, x, w, compiled=True, rtol=1e-4, atol=1e-3)
    assert ran("convolution_backward")


@pytest.mark.parametrize("scale", [-1.0, 0.0])
@pytest.mark.parametrize("name", ["_upsample_nearest_exact3d", "upsample_nearest3d"])
def test_flaggems_5664_scales_that_are_none(name, scale):
    backward = getattr(torch.ops.aten, name + "_backward")
    # Not dense: every second column of a wider gradient.
    g = random(1, 2, 11, 6, 26).detach()[..., ::2]
    arguments = ([11, 6, 13], [1, 2, 5, 7, 9], scale, scale, scale)
    want = backward(g, *arguments)
    with gradnn.torch.enabled():
        got = backward(g, *arguments)
    torch.testing.assert_close(got, want)
    assert ran(name + "_backward")


def test_pytorch_197517_strides_of_transposed_weights():
    def loss(x, w):
        y = F.conv_transpose2d(x, w, stride=2, padding=1, output_padding=1)
        return y.square().sum()

    x, w = random(1, 1, 4, 3), random(1, 2, 3, 4)
    last = x.detach().contiguous(memory_format=torch.channels_last).requires_grad_()
    for each in (x, last):
        expect_gradients_of_pytorch(loss, each, w, compiled=True, rtol=1e-4, atol=1e-4)
    assert ran("convolution_backward")


def test_pytorch_136812_gradients_of_reshaped_f16():
    x = random(2, 32, 2, 32, dtype=torch.float16).detach()
    x = x.permute(0, 2, 1, 3).reshape(2, 64, 32)
    w = random(2, 1, 4, dtype=torch.float16).detach().repeat_interleave(32, dim=0)
    y = F.conv1d(x.float(), w.float(), padding=3, groups=64)
    g = torch.ones(y.shape, dtype=torch.float16).transpose(1, 2).contiguous()
    g = g.transpose(1, 2)
    rest = dict(padding=3, groups=64)
    want = (
        torch.nn.grad.conv1d_input(x.shape, w.float(), g.float(), **rest),
        torch.nn.grad.conv1d_weight(x.float(), w.shape, g.float(), **rest),
    )
    with gradnn.torch.enabled():
        got = (
            torch.nn.grad.conv1d_input(x.shape, w, g, **rest),
            torch.nn.grad.conv1d_weight(x, w.shape, g, **rest),
        )
    for a, b in zip(got, want):
        torch.testing.assert_close(a.float(), b, rtol=2e-3, atol=2e-3)
    assert ran("convolution_backward") == 2


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_pytorch_82397_antialiased_halves(dtype):
    g = random(2, 3, 16, 16, dtype=dtype).detach()
    arguments = ([16, 16], [2, 3, 32, 32], False, None, None)
    backward = torch.ops.aten._upsample_bilinear2d_aa_backward
    want = backward(g.double(), *arguments)
    with gradnn.torch.enabled():
        got = backward(g, *arguments)
    assert got.dtype is dtype
    rounding = torch.finfo(dtype).eps
    torch.testing.assert_close(got.double(), want, rtol=rounding, atol=rounding)
    assert ran("_upsample_bilinear2d_aa_backward")
