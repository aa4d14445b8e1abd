"""Gradients of enabled code against PyTorch's own in float64."""

import itertools

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402

import gradnn.torch  # noqa: E402
from torch_status import ran  # noqa: E402

# Largest error as a share of the largest gradient: half an ulp of the type, and
# of float32 the sums.
TOLERANCE = {
    torch.float64: 1e-13,
    torch.float32: 2e-6,
    torch.bfloat16: 2.0**-8,
    torch.float16: 2.0**-11,
}
DTYPES = list(TOLERANCE)
DEVICES = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])


def expect_close(got, want, dtype, what=""):
    assert got.dtype == dtype
    assert got.shape == want.shape
    scale = want.abs().max().clamp_min(1e-30)
    error = ((got.double() - want).abs().max() / scale).item()
    assert error <= 1.01 * TOLERANCE[dtype], f"{what}: {error}"


@pytest.fixture(autouse=True)
def fresh_status():
    gradnn.torch.reset_status()
    # TF32 is PyTorch's default on GPUs, and held to no tolerance here.
    before = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = False
    yield
    torch.backends.cudnn.allow_tf32 = before
    assert not gradnn.torch.is_enabled()


CONVOLUTIONS = [
    # axes, N, C, O, size, window, stride, padding, dilation, groups
    (1, 2, 4, 6, 17, 3, 1, 1, 1, 1),
    (1, 3, 4, 8, 20, 5, 2, 0, 2, 4),
    (2, 2, 3, 8, 14, 3, 1, 1, 1, 1),
    (2, 2, 8, 8, 13, 3, 2, 1, 1, 1),
    (2, 1, 8, 16, 9, 1, 1, 0, 1, 1),
    (2, 2, 8, 8, 15, 3, 1, 2, 2, 8),
    (2, 2, 8, 4, 12, 5, 3, 4, 1, 2),
    (3, 1, 4, 4, 7, 3, 1, 1, 1, 1),
    (3, 2, 2, 6, 6, 2, 2, 0, 1, 2),
]


def run_convolution(device, case, dtype, transposed, channels_last, exact=False):
    """The leaves and their gradients; with `exact` in float64, of the same data."""
    axes, n, c, o, size, window, stride, padding, dilation, groups = case
    generator = torch.Generator().manual_seed(0)

    def make(*shape):
        made = torch.randn(*shape, generator=generator, dtype=torch.float64)
        made = made.to(dtype).to(device)
        return made.double() if exact else made

    x = make(n, c, *range(size, size + axes))
    first, second = (c, o // groups) if transposed else (o, c // groups)
    w = make(first, second, *[window] * axes)
    b = make(o)
    if channels_last and axes > 1:
        form = torch.channels_last if axes == 2 else torch.channels_last_3d
        x, w = x.to(memory_format=form), w.to(memory_format=form)
    leaves = [t.requires_grad_() for t in (x, w, b)]
    if transposed:
        op = getattr(F, f"conv_transpose{axes}d")
        extra = min(stride, dilation) - 1 if stride > 1 else 0
        y = op(x, w, b, stride, padding, max(extra, 0), groups, dilation)
    else:
        op = getattr(F, f"conv{axes}d")
        y = op(x, w, b, stride, padding, dilation, groups)
    return torch.autograd.grad(y, leaves, make(*y.shape))


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("device", DEVICES)
def test_convolutions(device, dtype, transposed, channels_last):
    for number, case in enumerate(CONVOLUTIONS):
        if transposed and (case[2] % case[-1] or case[3] % case[-1]):
            continue
        arguments = (device, case, dtype, transposed, channels_last)
        exact = run_convolution(*arguments, exact=True)
        with gradnn.torch.enabled():
            ours = run_convolution(*arguments)
        for name, got, want in zip("xwb", ours, exact):
            expect_close(got, want, dtype, f"case {number}, {name}")
    assert ran("convolution_backward") >= len(CONVOLUTIONS) - 2
    assert ran("convolution_backward", "pytorch") == 0, gradnn.torch.status()


@pytest.mark.parametrize("mask", list(itertools.product([False, True], repeat=3))[1:])
@pytest.mark.parametrize("device", DEVICES)
def test_masks(device, mask):
    g = torch.randn(2, 6, 8, 8, device=device)
    x = torch.randn(2, 4, 8, 8, device=device)
    w = torch.randn(6, 4, 3, 3, device=device)
    rest = ([6], [1, 1], [1, 1], [1, 1], False, [0, 0], 1, list(mask))
    native = torch.ops.aten.convolution_backward(g, x, w, *rest)
    # What is not needed is never read: expanded memory that holds NaN.
    nan = torch.full((), float("nan"), device=device)
    if not mask[0]:
        w = nan.expand(w.shape)
    if not mask[1]:
        x = nan.expand(x.shape)
    with gradnn.torch.enabled():
        ours = torch.ops.aten.convolution_backward(g, x, w, *rest)
    for wanted, got, want in zip(mask, ours, native):
        assert (got is not None) == wanted
        if wanted:
            torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)
    assert ran("convolution_backward") == 1


UPSAMPLINGS = [
    # axes, size, out or scale factors
    (1, (9,), (21,), None),
    (1, (9,), None, (2.0,)),
    (1, (16,), (7,), None),
    (2, (7, 9), (14, 18), None),
    (2, (7, 9), (20, 5), None),
    (2, (7, 9), (7, 31), None),
    (2, (6, 5), None, (1.7, 2.4)),
    (2, (1, 1), (6, 4), None),
    (2, (40, 40), (100, 90), None),
    (3, (3, 4, 5), (6, 8, 10), None),
    (3, (3, 4, 5), None, (1.5, 2.0, 0.7)),
]
MODES = {
    1: ["nearest", "nearest-exact", "linear"],
    2: ["nearest", "nearest-exact", "bilinear", "bicubic"],
    3: ["nearest", "nearest-exact", "trilinear"],
}


def upsampling_arguments():
    for axes, size, out, factors in UPSAMPLINGS:
        for mode in MODES[axes]:
            corners = [None] if "nearest" in mode else [False, True]
            for align_corners in corners:
                yield axes, size, dict(
                    size=out,
                    scale_factor=factors,
                    mode=mode,
                    align_corners=align_corners,
                )


@pytest.mark.parametrize("channels", [2, 8])
@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("device", DEVICES)
def test_upsamplings(device, dtype, channels_last, channels):
    count = 0
    for axes, size, arguments in upsampling_arguments():
        generator = torch.Generator().manual_seed(count)
        x = torch.randn(2, channels, *size, generator=generator).to(device, dtype)
        if channels_last and axes > 1:
            form = torch.channels_last if axes == 2 else torch.channels_last_3d
            x = x.to(memory_format=form)
        x.requires_grad_()
        y = F.interpolate(x, **arguments)
        grad = torch.randn(y.shape, generator=generator).to(device, dtype)
        # The transpose of the forward, column by column of a matrix.
        want = transposed_forward(x, grad, arguments)
        with gradnn.torch.enabled():
            (got,) = torch.autograd.grad(
                y, x, grad.contiguous(memory_format=memory_format_of(y))
            )
        expect_close(got, want, dtype, f"{size} {arguments}")
        want_like = x.detach()
        mode = arguments["mode"]
        if mode == "bicubic" or (axes == 3 and "nearest" in mode):
            want_like = torch.empty(x.shape)  # as PyTorch's own is
        assert got.stride() == torch.empty_like(want_like).stride()
        count += 1
    ran = {"gradnn": 0, "pytorch": 0}
    for entry in gradnn.torch.status():
        ran[entry["ran"]] += entry["calls"]
    assert ran == {"gradnn": count, "pytorch": 0}, gradnn.torch.status()


@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("device", DEVICES)
def test_antialiased_upsamplings(device, dtype, mode, align_corners):
    """In both layouts, up and down, with and without scales, to sizes of 1."""
    count = 0
    for size, out, factors in [
        ((9, 12), (5, 4), None),
        ((9, 12), (9, 31), None),
        ((13, 8), (3, 1), None),
        ((7, 6), (20, 7), None),
        ((1, 5), (4, 3), None),
        ((11, 10), None, (0.7, 1.5)),
        ((10, 11), None, (1.05, 0.31)),
    ]:
        arguments = dict(
            size=out, scale_factor=factors, mode=mode, antialias=True,
            align_corners=align_corners,
        )  # fmt: skip
        generator = torch.Generator().manual_seed(count)
        for layout in (torch.contiguous_format, torch.channels_last):
            x = torch.randn(2, 4, *size, generator=generator).to(device, dtype)
            x = x.contiguous(memory_format=layout).requires_grad_()
            y = F.interpolate(x, **arguments)
            grad = torch.randn(y.shape, generator=generator).to(device, dtype)
            want = transposed_of_one_hots(x, grad, arguments)
            with gradnn.torch.enabled():
                (got,) = torch.autograd.grad(y, x, grad)
            expect_close(got, want, dtype, f"{size} {arguments}")
            count += 1
    ran = [entry for entry in gradnn.torch.status() if entry["ran"] == "gradnn"]
    # With align_corners to a size of 1 there is no ratio: it is PyTorch's.
    expected = count - (2 if align_corners else 0)
    assert sum(entry["calls"] for entry in ran) == expected, gradnn.torch.status()


def memory_format_of(tensor):
    return torch._prims_common.suggest_memory_format(tensor)


def transposed_forward(x, grad, arguments):
    """From the forward's own map in x's type: one-hot planes tell which inputs an
    output of a nearest mode reads; linear modes are taken in float64."""
    n, c, *size = x.shape
    if arguments["mode"] == "bicubic":
        return transposed_of_one_hots(x, grad, arguments)
    if "nearest" not in arguments["mode"]:
        exact = x.detach().double().requires_grad_()
        y = F.interpolate(exact, **arguments)
        return torch.autograd.grad(y, exact, grad.double())[0]
    index = axis_indexes(x, arguments)
    result = torch.zeros(n, c, *size, dtype=torch.float64, device=x.device)
    flat = sum(
        each.reshape([-1 if axis == at else 1 for at in range(len(size))]) * stride
        for axis, (each, stride) in enumerate(
            zip(index, torch.empty(size).stride())
        )
    )
    flat = flat.reshape(1, 1, -1).expand(n, c, -1)
    result.flatten(2).scatter_add_(2, flat, grad.double().flatten(2))
    return result


def transposed_of_one_hots(x, grad, arguments):
    """By the matrix of the forward along each axis, in float64: PyTorch's bicubic
    backward copies where sizes stay, whatever the scales, and its forward does not,
    but for CUDA's where all of them stay."""
    matrices = []
    # So that an axis whose size stays is as it is beside one whose size does not.
    alone = 1 if x.shape == grad.shape else 2
    for axis, extent in enumerate(x.shape[2:]):
        along = dict(arguments)
        for name in ("size", "scale_factor"):
            if along.get(name) is not None:
                values = (along[name],) * 2 if isinstance(along[name], float) else along[name]
                along[name] = [v if at == axis else alone for at, v in enumerate(values)]
        planes = torch.eye(extent, dtype=torch.float64, device=x.device)
        shape = [1, extent, 1, 1]
        shape[2 + axis] = extent
        # Contiguous planes of width 1 go astray, antialiased.
        planes = planes.reshape(shape).contiguous(memory_format=torch.channels_last)
        lines = F.interpolate(planes, **along).select(3 - axis, 0)
        matrices.append(lines.reshape(extent, -1))
    return torch.einsum("hp,wq,ncpq->nchw", *matrices, grad.double())


def axis_indexes(x, arguments):
    """Which input each output reads, an axis at a time."""
    size = x.shape[2:]
    found = []
    for axis, extent in enumerate(size):
        # Small integers are exact in every type.
        digits = []
        values = torch.arange(extent, device=x.device)
        base = 128
        while True:
            ramp = (values % base).reshape(
                [-1 if axis == at else 1 for at in range(len(size))]
            )
            plane = torch.empty_like(x.detach())
            plane.copy_(ramp.expand(size).to(x.dtype).expand(x.shape))
            out = F.interpolate(plane, **arguments)[0, 0]
            picked = out.movedim(axis, 0).reshape(out.shape[axis], -1)[:, 0]
            digits.append(picked.long())
            values = values // base
            if values.max() == 0:
                break
        found.append(sum(d * base**k for k, d in enumerate(digits)))
    return found


@pytest.mark.parametrize(
    "mode, sizes",
    [
        ("nearest", (14, 46)),
        ("nearest", (224, 384)),
        ("nearest", (448, 384)),
        ("nearest", (26, 22)),
        ("nearest-exact", (2, 41)),
        ("nearest-exact", (28, 46)),
        ("nearest-exact", (112, 1080)),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("device", DEVICES)
def test_nearest_follows_the_forward(device, mode, sizes, dtype):
    src, dst = sizes
    for shape, out in [((1, 1, src), (dst,)), ((1, 1, src, 3), (dst, 3))]:
        x = torch.zeros(shape, dtype=dtype, device=device, requires_grad=True)
        y = F.interpolate(x, size=out, mode=mode)
        grad = torch.randn(y.shape).to(device, dtype)
        want = transposed_forward(x, grad, dict(size=out, mode=mode))
        with gradnn.torch.enabled():
            (got,) = torch.autograd.grad(y, x, grad)
        expect_close(got, want, dtype, f"{mode} {sizes}")


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact"])
@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("device", DEVICES)
def test_nearest_with_scale_factors(device, mode, channels_last):
    for factor in (0.1, 0.2, 0.6, 1.3, 1.0 / 3, 2.0, 2.4, 7.9):
        for extent in (2, 3, 10, 13, 20, 30):
            if int(extent * factor) == 0:
                continue
            x = torch.zeros(1, 4, extent, extent + 1, device=device)
            if channels_last:
                x = x.to(memory_format=torch.channels_last)
            x.requires_grad_()
            arguments = dict(scale_factor=factor, mode=mode)
            y = F.interpolate(x, **arguments)
            grad = torch.randn(y.shape).to(device)
            want = transposed_forward(x, grad, arguments)
            with gradnn.torch.enabled():
                (got,) = torch.autograd.grad(
                    y, x, grad.contiguous(memory_format=memory_format_of(y))
                )
            expect_close(got, want, torch.float32, f"{extent} by {factor}")
