"""That gradients are the transposes of the installed PyTorch's forwards where no
rule is plain: sizes that stay, on some or all axes, with scales given; gradients
of another layout than the forward's."""

import itertools

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402

import gradnn.torch  # noqa: E402
from test_torch_gradients import (  # noqa: E402
    DEVICES,
    DTYPES,
    MODES,
    expect_close,
    transposed_forward,
)

# By spatial axes; 40 is where 1.02 tells a copy from nearest-exact, and two
# planes are large enough for the other of the CPU's kernels.
SIZES = {
    1: [(9,), (40,)],
    2: [(9, 40), (40, 9), (90, 49)],
    3: [(4, 5, 6), (40, 3, 9)],
}
# Sizes stay with the first four, and change with the last two.
SCALES = (1.0, 1.01, 1.02, 1 + 1 / 128, 2.02, 0.7)


def cases(axes):
    """(size, scales), most of which keep a size on an axis at least."""
    for size in SIZES[axes]:
        for scale in SCALES:
            yield size, (scale,) * axes
        for scales in itertools.permutations((1.02, 2.02, 1.0)[:axes]):
            yield size, scales


def layouts(axes):
    last = {2: torch.channels_last, 3: torch.channels_last_3d}
    return [torch.contiguous_format] + ([last[axes]] if axes > 1 else [])


def gradients_of(y, grad, axes):
    """In each layout, and expanded, as that of a sum is."""
    for layout in layouts(axes):
        yield grad.contiguous(memory_format=layout)
    yield torch.ones((), dtype=y.dtype, device=y.device).expand(y.shape)


def expect_transposed(x, arguments, axes):
    with gradnn.torch.enabled():
        y = F.interpolate(x, **arguments)
        generator = torch.Generator().manual_seed(3)
        grad = torch.randn(y.shape, generator=generator).to(x.device, x.dtype)
        for each in gradients_of(y, grad, axes):
            want = transposed_forward(x, each, arguments)
            (got,) = torch.autograd.grad(y, x, each, retain_graph=True)
            what = f"{tuple(x.shape)} {x.stride()} {arguments} {each.stride()}"
            if "nearest" not in arguments["mode"] and x.dtype is torch.float32:
                # Steps by float32(1 / scale), as the forward does.
                torch.testing.assert_close(got.double(), want, rtol=1e-4, atol=1e-4)
            else:
                expect_close(got, want, x.dtype, what)


@pytest.mark.parametrize("channels", [2, 5])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("device", DEVICES)
def test_sizes_that_stay(device, axes, dtype, channels):
    generator = torch.Generator().manual_seed(0)
    for (size, scales), mode in itertools.product(cases(axes), MODES[axes]):
        for layout in layouts(axes):
            x = torch.randn(1, channels, *size, generator=generator)
            x = x.to(device, dtype).contiguous(memory_format=layout).requires_grad_()
            expect_transposed(x, dict(scale_factor=scales, mode=mode), axes)


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("device", DEVICES)
def test_gradients_in_another_layout(device, dtype, mode):
    # Sizes at which the CPU's kernels for the two layouts read other elements.
    for src, dst in ((4, 166), (4, 194), (4, 214), (12, 330), (28, 46)):
        for size, out in (((src, 2), (dst, 2)), ((src, 2, 2), (dst, 2, 3))):
            for layout in layouts(len(size)):
                x = torch.zeros(1, 8, *size, dtype=dtype, device=device)
                x = x.contiguous(memory_format=layout).requires_grad_()
                expect_transposed(x, dict(size=out, mode=mode), len(size))


def test_the_layout_is_followed_in_compiled_and_transformed_code():
    x = torch.zeros(1, 8, 4, 2).contiguous(memory_format=torch.channels_last)
    arguments = dict(size=(166, 2), mode="nearest-exact")
    ones = torch.ones(1, 8, 166, 2)
    want = transposed_forward(x.requires_grad_(), ones, arguments)

    def loss(x):
        return F.interpolate(x, **arguments).sum()

    torch._dynamo.reset()
    with gradnn.torch.enabled():
        compiled = torch.compile(loss, backend="aot_eager", fullgraph=True)
        (got,) = torch.autograd.grad(compiled(x), x)
        expect_close(got, want, torch.float32, "compiled")
        got = torch.func.grad(loss)(x.detach())
        expect_close(got, want, torch.float32, "torch.func.grad")
        y = gradnn.torch.interpolate(x, **arguments)
        (got,) = torch.autograd.grad(y.sum(), x)
        expect_close(got, want, torch.float32, "gradnn.torch.interpolate")


def test_the_way_back_from_a_layout():
    """A forward that ran while gradnn was enabled, a backward while it is not."""
    x = torch.zeros(1, 8, 4, 2).contiguous(memory_format=torch.channels_last)
    x.requires_grad_()
    arguments = dict(size=(166, 2), mode="nearest-exact")
    with gradnn.torch.enabled():
        y = F.interpolate(x, **arguments)
    (got,) = torch.autograd.grad(y.sum(), x)
    (want,) = torch.autograd.grad(F.interpolate(x, **arguments).sum(), x)
    assert torch.equal(got, want) and got.stride() == want.stride()
