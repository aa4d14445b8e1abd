"""gradnn.torch.upsample_conv1d to 3d and their modules: values, gradients,
compiled and under autocast."""

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

import gradnn.torch  # noqa: E402
from gradnn.torch import _upsample_conv  # noqa: E402
from torch_compiling import fresh  # noqa: E402, F401
from torch_status import ran  # noqa: E402

CONVS = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
OURS = {
    axes: getattr(gradnn.torch, f"upsample_conv{axes}d") for axes in (1, 2, 3)
}
OP = "upsample_conv_backward"


def pair(x, w, b, scale=2, padding="same", groups=1):
    large = F.interpolate(x, scale_factor=scale, mode="nearest")
    return CONVS[x.ndim - 2](large, w, b, padding=padding, groups=groups)


def tensors(axes, dtype=torch.float64, channels=6, outputs=4, groups=1, kernel=3,
            side=5):  # fmt: skip
    generator = torch.Generator().manual_seed(axes)

    def made(*shape):
        return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)

    x = made(2, channels, *[side, side + 1, side - 1][:axes])
    w = made(outputs, channels // groups, *[kernel] * axes)
    return [each.requires_grad_() for each in (x, w, made(outputs))]


def gradients(y, given):
    weight = torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view(y.shape)
    return torch.autograd.grad(y, given, weight)


@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize(
    "options",
    [
        dict(),
        dict(scale=3, padding=0),
        dict(padding=2),
        dict(groups=2),
        dict(kernel=4),
        dict(kernel=1, scale=2.0),
        dict(scale=[2, 1, 3]),
    ],
    ids=str,
)
def test_values_and_gradients(enabled, axes, options):
    if enabled:
        gradnn.torch.enable()
    options = dict(options)
    given = tensors(
        axes, kernel=options.pop("kernel", 3), groups=options.get("groups", 1)
    )
    scale = options.pop("scale", 2)
    scale = scale[:axes] if isinstance(scale, list) else scale
    want = pair(*given, scale=scale, **options)
    got = OURS[axes](*given, scale_factor=scale, **options)
    torch.testing.assert_close(got, want)
    for a, b in zip(gradients(got, given), gradients(want, given)):
        torch.testing.assert_close(a, b)
    assert ran(OP) == enabled


@pytest.mark.parametrize("wanted", range(1, 8))
def test_each_set_of_gradients(wanted):
    gradnn.torch.enable()
    given = tensors(2)
    for index, each in enumerate(given):
        each.requires_grad_(bool(wanted >> index & 1))
    chosen = [each for index, each in enumerate(given) if wanted >> index & 1]
    want = gradients(pair(*given), chosen)
    got = gradients(gradnn.torch.upsample_conv2d(*given), chosen)
    for a, b in zip(got, want):
        torch.testing.assert_close(a, b)
    assert ran(OP) == (wanted != 4)  # PyTorch's sum where the bias' alone is wanted


DEVICES = ["cpu"] + ["cuda"] * torch.cuda.is_available()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("composed", ["partition.composed", "partition.ops"])
@pytest.mark.parametrize(
    "dtype, error",
    [(torch.float32, 2e-6), (torch.bfloat16, 5e-3), (torch.float16, 6e-4)],
)
@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_accuracy_of_both_forms(
    device, composed, dtype, error, memory_format, monkeypatch
):
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    x, w, b = (
        each.detach().to(device) for each in tensors(2, dtype, 16, 16, side=9)
    )
    x, w = x.to(memory_format=memory_format), w.to(memory_format=memory_format)
    rest = [2, 2], [1, 1], [1, 1], 1
    exact = [each.double().requires_grad_() for each in (x, w, b)]
    y = pair(*exact)
    for forward in (_upsample_conv.convolve, _upsample_conv.convolve_composed):
        given = forward(x, w, b, *rest)
        assert (given.double() - y).norm() <= error * y.norm()
        assert given.is_contiguous(memory_format=memory_format)
    grad = torch.randn(y.shape, generator=torch.Generator().manual_seed(5))
    grad = grad.to(device, dtype)
    plan = _upsample_conv._build(grad, x, w, *rest, [True] * 3, kernels=composed)
    assert ("composed" in plan.kernels) == (composed == "partition.composed")
    want = torch.autograd.grad(y, exact, grad.double())
    got = plan(grad, x, w)
    for a, b in zip(got, want):
        assert (a.double() - b).norm() <= error * b.norm()
    for each in got[:2]:
        assert each.is_contiguous(memory_format=memory_format)


def test_the_forward_as_a_transposed_convolution():
    for axes, groups in ((1, 2), (2, 1), (3, 2)):
        x, w, b = tensors(axes, groups=groups)
        for scale, pad in ((2, 1), (3, 0), (4, 2)):
            rest = [scale] * axes, [pad] * axes, [pad] * axes, groups
            torch.testing.assert_close(
                _upsample_conv.convolve_composed(x, w, b, *rest),
                _upsample_conv.convolve(x, w, b, *rest),
            )


def test_indexes_are_exact_for_whole_factors():
    for scale in range(1, 17):
        x = torch.arange(700.0).view(1, 1, -1)
        y = _upsample_conv._upsampled(x, [scale])
        assert torch.equal(y, x.repeat_interleave(scale, dim=2))


def test_gradcheck_and_double_backward():
    gradnn.torch.enable()
    given = tensors(2, channels=2, outputs=2, side=3)
    torch.autograd.gradcheck(gradnn.torch.upsample_conv2d, given)
    torch.autograd.gradgradcheck(gradnn.torch.upsample_conv2d, given)


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("enabled", [True, False])
def test_opcheck(axes, enabled):
    if enabled:
        gradnn.torch.enable()
    given = tensors(axes, torch.float32)
    rest = ([2] * axes, [1] * axes, [1] * axes, 1)
    torch.library.opcheck(torch.ops.gradnn.upsample_conv.default, (*given, *rest))
    x, w, b = (each.detach() for each in given)
    grad = torch.ones_like(OURS[axes](x, w, b))
    for mask in ([True] * 3, [True, False, False], [False, True, True]):
        torch.library.opcheck(
            torch.ops.gradnn.upsample_conv_backward.default,
            (grad, x, w, *rest, mask),
            test_utils=("test_schema", "test_faketensor"),
        )


def test_transforms_are_pytorchs():
    gradnn.torch.enable()
    x, w, b = (each.detach() for each in tensors(2))

    def total(function):
        return lambda w: function(x, w, b).square().sum()

    want = torch.func.grad(total(pair))(w)
    torch.testing.assert_close(
        torch.func.grad(total(gradnn.torch.upsample_conv2d))(w), want
    )
    assert ran(OP) == 0


@pytest.mark.parametrize("dynamic", [False, True])
def test_compile(dynamic):
    gradnn.torch.enable()
    given = tensors(2, torch.float32)

    def network(x, w, b):
        return gradnn.torch.upsample_conv2d(x, w, b).relu()

    want = gradients(network(*given), given)
    gradnn.torch.reset_status()
    compiled = torch.compile(
        network, backend="aot_eager", fullgraph=True, dynamic=dynamic
    )
    for a, b in zip(gradients(compiled(*given), given), want):
        torch.testing.assert_close(a, b)
    # 2.11 says of every program that it compiles that it exports it: PyTorch's ops.
    assert ran(OP) == (0 if torch.__version__.startswith("2.11.") else 1)


def test_autocast_and_checkpointing():
    gradnn.torch.enable()
    layer = gradnn.torch.UpsampleConv2d(6, 4, 3)
    x = torch.randn(2, 6, 5, 5, requires_grad=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = layer(x)
        again = torch.utils.checkpoint.checkpoint(layer, x, use_reentrant=False)
    assert y.dtype is torch.bfloat16
    chosen = [x, layer.weight, layer.bias]
    for a, b in zip(gradients(y, chosen), gradients(again, chosen)):
        assert a.dtype is torch.float32
        assert torch.equal(a, b)
    assert ran(OP) == 2


@pytest.mark.parametrize(
    "change, words",
    [
        (dict(scale_factor=1.5), ["scale_factor is 1.5", "at least 1"]),
        (dict(scale_factor=[2, 2, 2]), ["scale_factor", "2 of them"]),
        (dict(scale_factor=0), ["scale_factor is 0"]),
        (dict(padding=-1), ["padding is -1", "at least 0"]),
        (dict(padding="reflect"), ["padding is 'reflect'"]),
        (dict(groups=0), ["groups is 0"]),
        (dict(groups=4), ["weight has the shape", "groups is 4"]),
        (dict(bias=torch.zeros(3)), ["bias has the shape [3]", "[4]"]),
        (dict(input=torch.zeros(6, 5, 5)), ["input has 3 dimensions", "4"]),
    ],
    ids=str,
)
def test_errors_name_the_argument(change, words):
    given = dict(input=torch.zeros(1, 6, 5, 5), weight=torch.zeros(4, 6, 3, 3))
    with pytest.raises(ValueError) as failure:
        gradnn.torch.upsample_conv2d(**{**given, **change})
    for word in ("upsample_conv2d", *words):
        assert word in str(failure.value)


def test_modules_have_the_state_of_their_convolution():
    for axes, conv in ((1, nn.Conv1d), (2, nn.Conv2d), (3, nn.Conv3d)):
        kind = getattr(gradnn.torch, f"UpsampleConv{axes}d")
        plain = conv(4, 3, 3, padding=1)
        made = kind(4, 3, 3)
        made.load_state_dict(plain.state_dict())
        x = torch.randn(1, 4, *[5] * axes)
        torch.testing.assert_close(made(x), plain(nn.Upsample(scale_factor=2)(x)))
        shared = kind.from_conv(plain)
        assert shared.weight is plain.weight and shared.bias is plain.bias
        assert "scale_factor=2" in repr(made)
        with pytest.raises(ValueError, match="stride"):
            kind.from_conv(conv(4, 3, 3, stride=2))


def test_gradients_that_differentiate_where_tensors_depend_on_each_other():
    gradnn.torch.enable()
    layer = gradnn.torch.UpsampleConv2d(3, 3, 3)
    x = torch.randn(1, 3, 4, 4)
    loss = layer(layer(x)).square().sum()
    (plain,) = torch.autograd.grad(loss, [layer.weight], retain_graph=True)
    (again,) = torch.autograd.grad(loss, [layer.weight], create_graph=True)
    torch.testing.assert_close(again.detach(), plain)


def test_meta_tensors_and_float64_under_autocast():
    made = gradnn.torch.UpsampleConv2d(4, 2, 3, device="meta")
    assert made(torch.empty(1, 4, 3, 5, device="meta")).shape == (1, 2, 6, 10)
    layer = gradnn.torch.UpsampleConv2d(4, 2, 3, dtype=torch.float64)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert layer(torch.randn(1, 4, 3, 3).double()).dtype is torch.float64


def test_layout_is_channels_last_where_the_weight_is():
    x, w = torch.randn(2, 4, 5, 5), torch.randn(3, 4, 3, 3)
    w = w.contiguous(memory_format=torch.channels_last)
    want = F.conv2d(F.interpolate(x, scale_factor=2), w, padding=1)
    made = gradnn.torch.upsample_conv2d(x, w)
    assert made.stride() == want.stride()
    torch.testing.assert_close(made, want)
