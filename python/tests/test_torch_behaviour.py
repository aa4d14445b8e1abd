"""That enabled code behaves as PyTorch's own does: strides, errors, autograd,
and the way back."""

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402

import gradnn  # noqa: E402
import gradnn.torch  # noqa: E402
from torch_status import ran  # noqa: E402
from torch_steps import run_python, same_bits, step  # noqa: E402


@pytest.fixture(autouse=True)
def fresh_status():
    gradnn.torch.reset_status()


def test_the_way_back():
    before = step()
    gradnn.torch.enable()
    gradnn.torch.enable()  # twice is once
    assert gradnn.torch.is_enabled()
    ours = step()
    assert ran("convolution_backward") and ran("upsample_bilinear2d_backward")
    gradnn.torch.disable()
    gradnn.torch.disable()
    gradnn.torch.reset_status()
    assert same_bits(before, step())
    assert gradnn.torch.status() == []
    gradnn.torch.enable()
    assert same_bits(ours, step())
    with gradnn.torch.disabled():
        assert same_bits(before, step())
    assert gradnn.torch.is_enabled()


def test_the_same_bits_every_time():
    with gradnn.torch.enabled():
        first = step()
        for _ in range(5):
            assert same_bits(first, step())


def test_the_environment_variable():
    code = (
        "import gradnn.torch as g; g.enable(); print(g.is_enabled()); "
        "import torch; print(torch.cuda.is_initialized())"
    )
    assert run_python(code, GRADNN_TORCH="0").stdout.split() == ["False", "False"]
    assert run_python(code).stdout.split() == ["True", "False"]


def test_no_warning():
    result = run_python(
        "import warnings; warnings.simplefilter('error');"
        "import gradnn.torch as g; g.enable(); g.disable(); g.enable()"
    )
    assert result.returncode == 0, result.stderr
    assert "Overriding" not in result.stderr, result.stderr


def test_which_onednn_runs():
    gradnn.torch.enable()
    step()
    version = gradnn.onednn_version()
    kernels = " ".join(entry["how"] for entry in gradnn.torch.status())
    if version == "none":  # a build without it, as on a machine with a GPU
        assert "convolution." in kernels and "onednn" not in kernels
    else:
        assert version.startswith("3.2")


# Tensors of every kind.


def expect_as_native(run, rtol=1e-4, atol=1e-5):
    native = run()
    with gradnn.torch.enabled():
        ours = run()
    for got, want in zip(ours, native):
        if want is None:
            assert got is None
            continue
        torch.testing.assert_close(got, want, rtol=rtol, atol=atol)
        assert got.stride() == want.stride()
    return ours


def conv_backward(g, x, w, mask=(True, True, True)):
    axes = x.ndim - 2
    return torch.ops.aten.convolution_backward(
        g, x, w, [w.shape[0]], [1] * axes, [1] * axes, [1] * axes, False,
        [0] * axes, 1, list(mask),
    )  # fmt: skip


def odd_gradients():
    plain = torch.randn(2, 6, 8, 8)
    yield "expanded", torch.randn(()).expand(2, 6, 8, 8)
    yield "expanded_in_part", torch.randn(2, 6, 1, 1).expand(2, 6, 8, 8)
    yield "sliced", torch.randn(2, 6, 8, 16)[..., ::2]
    yield "cropped", torch.randn(3, 8, 10, 10)[1:, 1:7, 1:9, 1:9]
    yield "transposed", plain.transpose(2, 3)
    yield "permuted", torch.randn(8, 6, 8, 2).permute(3, 1, 0, 2)
    yield "misaligned", torch.randn(2 * 6 * 64 + 1)[1:].view(2, 6, 8, 8)
    yield "channels_last", plain.to(memory_format=torch.channels_last)


@pytest.mark.parametrize("name, g", list(odd_gradients()), ids=lambda v: v if isinstance(v, str) else "")
def test_odd_gradients(name, g):
    x, w = torch.randn(2, 4, 8, 8), torch.randn(6, 4, 3, 3)
    native = conv_backward(g, x, w)
    with gradnn.torch.enabled():
        ours = conv_backward(g, x, w)
        for got, want in zip(ours, native):
            torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)
        args = ([8, 8], [2, 6, 3, 5], False, None, None)
        got = torch.ops.aten.upsample_bilinear2d_backward(g, *args)
    want = torch.ops.aten.upsample_bilinear2d_backward(g, *args)
    torch.testing.assert_close(got, want)
    assert ran("convolution_backward") == 1
    assert ran("upsample_bilinear2d_backward") == 1


def formats():
    for c in (1, 4):
        for size in ((8, 8), (1, 1), (1, 8)):
            for x_last in (False, True):
                for w_last in (False, True):
                    yield c, size, x_last, w_last


@pytest.mark.parametrize("c, size, x_last, w_last", list(formats()))
def test_strides_are_those_that_fake_tensors_have(c, size, x_last, w_last):
    from torch._subclasses.fake_tensor import FakeTensorMode

    last = torch.channels_last
    x, w = torch.randn(2, c, *size), torch.randn(6, c, 3, 3)
    g = torch.randn(2, 6, *size)
    x = x.to(memory_format=last) if x_last else x
    w = w.to(memory_format=last) if w_last else w
    mode = FakeTensorMode()
    fake = [mode.from_tensor(t) for t in (g, x, w)]
    with mode:
        want = conv_backward(*fake)
        up_fake = torch.ops.aten.upsample_nearest2d_backward(
            fake[0], list(size), [2, 6, 3, 3], None, None
        )
    with gradnn.torch.enabled():
        ours = conv_backward(g, x, w)
        up = torch.ops.aten.upsample_nearest2d_backward(
            g, list(size), [2, 6, 3, 3], None, None
        )
    for got, expected in zip((*ours, up), (*want, up_fake)):
        assert got.shape == expected.shape
        # The strides of one element mean nothing, and compiled code ignores them.
        for extent, a, b in zip(got.shape, got.stride(), expected.stride()):
            assert extent == 1 or a == b
    assert ran("convolution_backward") == 1


def test_weights_of_1x1_have_the_parameters_strides():
    w = torch.randn(8, 4, 1, 1)
    x = torch.randn(2, 4, 6, 6).to(memory_format=torch.channels_last)
    g = torch.randn(2, 8, 6, 6)
    with gradnn.torch.enabled():
        _, dw, _ = torch.ops.aten.convolution_backward(
            g, x, w, [8], [1, 1], [0, 0], [1, 1], False, [0, 0], 1, [True] * 3
        )
    assert dw.stride() == w.stride()


# What gradnn leaves to PyTorch.


def test_what_is_left_to_pytorch_is_counted():
    x = torch.randn(1, 2, 6, 6, requires_grad=True)
    gradnn.torch.enable()
    F.interpolate(x, scale_factor=2, mode="area").sum().backward()
    assert gradnn.torch.status() == []  # never asked
    z = torch.randn(1, 2, 5, 5, dtype=torch.complex64, requires_grad=True)
    w = torch.randn(2, 2, 3, 3, dtype=torch.complex64, requires_grad=True)
    F.conv2d(z, w).abs().sum().backward()
    empty = torch.randn(0, 2, 5, 5, requires_grad=True)
    F.conv2d(empty, w.real).sum().backward()
    F.interpolate(empty, scale_factor=2).sum().backward()
    assert empty.grad.shape == empty.shape
    for entry in gradnn.torch.status():
        # PyTorch makes a complex convolution of real ones.
        if entry["ran"] == "pytorch":
            assert "empty" in entry["how"] or "complex" in entry["how"], entry
    assert ran("convolution_backward", "pytorch") >= 1
    assert ran("upsample_nearest2d_backward", "pytorch") == 1
    assert str(gradnn.torch.status()[-1]["how"])


def bad_calls():
    g, x, w = torch.randn(2, 6, 8, 8), torch.randn(2, 4, 8, 8), torch.randn(6, 4, 3, 3)
    conv = torch.ops.aten.convolution_backward
    up = torch.ops.aten.upsample_bilinear2d_backward
    rest = ([6], [1, 1], [1, 1], [1, 1], False, [0, 0], 1, [True] * 3)
    yield lambda: conv(g, x[:, :3], w, *rest)
    yield lambda: conv(g[0], x, w, *rest)
    yield lambda: conv(g, x, w.double(), *rest)
    yield lambda: conv(g, x, w, [6], [0, 1], *rest[2:])
    yield lambda: conv(g, x, w, [6], [1, 1], [-1, 1], *rest[3:])
    yield lambda: up(g, [8, 8], [2, 6, 3], False, None, None)
    yield lambda: up(g, [8, 7], [2, 6, 3, 3], False, None, None)
    yield lambda: up(g, [8, 8], [2, 6, 0, 3], False, None, None)
    yield lambda: up(g, [8, 8], [2, 5, 3, 3], False, None, None)
    yield lambda: up(g.int(), [8, 8], [2, 6, 3, 3], False, None, None)
    yield lambda: up(None, [8, 8], [2, 6, 3, 3], False, None, None)
    yield lambda: F.conv2d(x, w[:, :3])
    yield lambda: F.interpolate(x, size=(4, 4, 4))


@pytest.mark.parametrize("number", range(13))
def test_bad_calls_raise_what_pytorch_raises(number):
    def outcome():
        try:
            return type(list(bad_calls())[number]())
        except Exception as failure:  # noqa: BLE001
            return type(failure)

    native = outcome()
    gradnn.torch.enable()
    assert outcome() is native


# Autograd.


def double_inputs(*shapes):
    return [torch.randn(*s, dtype=torch.float64, requires_grad=True) for s in shapes]


def test_gradcheck():
    gradnn.torch.enable()
    check, again = torch.autograd.gradcheck, torch.autograd.gradgradcheck
    for f, inputs in [
        (lambda x, w, b: F.conv2d(x, w, b, 2, 1), double_inputs((1, 2, 5, 5), (3, 2, 3, 3), (3,))),
        (lambda x, w: F.conv1d(x, w, dilation=2), double_inputs((1, 2, 7), (3, 2, 2))),
        (lambda x, w: F.conv_transpose2d(x, w, None, 2, 1, 1), double_inputs((1, 2, 3, 3), (2, 3, 3, 3))),
        (lambda x: F.interpolate(x, (5, 7), mode="bilinear"), double_inputs((1, 2, 3, 4))),
        (lambda x: F.interpolate(x, scale_factor=1.7, mode="linear"), double_inputs((1, 2, 5))),
        (lambda x: F.interpolate(x, (46, 3), mode="nearest"), double_inputs((1, 1, 14, 2))),
        (lambda x: F.interpolate(x, (3, 4, 5), mode="trilinear", align_corners=True), double_inputs((1, 1, 2, 2, 3))),
        (lambda x: gradnn.torch.interpolate(x, (5, 7), mode="bilinear"), double_inputs((1, 2, 3, 4))),
    ]:  # fmt: skip
        assert check(f, inputs)
        assert again(f, inputs)
    assert ran("convolution_backward") and ran("upsample_nearest2d_backward")
    assert ran("convolution_backward", "pytorch") == 0


def test_vmap():
    x, w = torch.randn(3, 2, 4, 8, 8), torch.randn(5, 4, 3, 3)

    def loss(x, w):
        y = F.conv2d(x, w, padding=1)
        y = F.interpolate(y, size=(11, 9), mode="bilinear")
        return gradnn.torch.interpolate(y, size=(12, 18)).square().sum()

    per_sample = torch.vmap(torch.func.grad(loss, argnums=(0, 1)), in_dims=(0, None))
    want = per_sample(x, w)
    with gradnn.torch.enabled():
        got = per_sample(x, w)
    for a, b in zip(got, want):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-3)
    assert ran("convolution_backward") and ran("upsample_bilinear2d_backward")


def test_autocast():
    x = torch.randn(2, 4, 8, 8, dtype=torch.bfloat16, requires_grad=True)
    gradnn.torch.enable()
    with torch.autocast("cpu", torch.bfloat16):
        y = F.interpolate(x, size=(16, 16), mode="bilinear")
        ours = gradnn.torch.interpolate(x, size=(16, 16), mode="bilinear")
    assert ours.dtype == torch.bfloat16
    torch.testing.assert_close(ours.float(), y.float(), rtol=1e-2, atol=1e-2)
    ours.sum().backward()
    assert x.grad.dtype == torch.bfloat16
    assert ran("upsample_bilinear2d_backward") == 1


def test_interpolate_is_pytorchs():
    gradnn.torch.enable()
    for shape, arguments in [
        ((2, 3, 8), dict(size=5, mode="linear")),
        ((2, 3, 8), dict(scale_factor=1.7, mode="nearest")),
        ((2, 3, 8), dict(scale_factor=1.7, mode="linear", recompute_scale_factor=True)),
        ((2, 3, 5, 6), dict(size=(7, 4), mode="bilinear", align_corners=True)),
        ((2, 3, 5, 6), dict(scale_factor=(2.5, 1.2), mode="nearest-exact")),
        ((2, 3, 5, 6), dict(scale_factor=2, mode="bicubic")),
        ((2, 3, 5, 6), dict(size=(3, 3), mode="bilinear", antialias=True)),
        ((1, 2, 3, 4, 5), dict(scale_factor=1.5, mode="trilinear")),
    ]:
        x = torch.randn(shape)
        assert torch.equal(
            gradnn.torch.interpolate(x, **arguments), F.interpolate(x, **arguments)
        )
    x = torch.randn(1, 2, 4, 4)
    for arguments in [
        dict(),
        dict(size=4, scale_factor=2),
        dict(size=(4, 4, 4)),
        dict(size=4, mode="linear"),
        dict(size=4, mode="nearest", align_corners=True),
        dict(size=4, mode="wrong"),
        dict(size=4, recompute_scale_factor=True),
        dict(scale_factor=(2, 2, 2)),
    ]:
        with pytest.raises((ValueError, NotImplementedError)) as ours:
            gradnn.torch.interpolate(x, **arguments)
        with pytest.raises(ours.type):
            F.interpolate(x, **arguments)


def test_opcheck():
    x = torch.randn(2, 3, 5, 6, requires_grad=True)
    g = torch.randn(2, 3, 8, 9, requires_grad=True)
    torch.library.opcheck(
        torch.ops.gradnn.upsample.default, (x, "bilinear", [8, 9], False, [0.0, 0.0])
    )
    torch.library.opcheck(
        torch.ops.gradnn.upsample_backward.default,
        (g, "nearest", [8, 9], [2, 3, 5, 6], False, [1.7, 0.0]),
    )
