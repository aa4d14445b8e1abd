"""interpolate_backward against PyTorch's own autograd in float64, and against
sums over what a forward reads."""

import numpy as np
import pytest

import gradnn

# Input sizes, output sizes.
SIZES = {
    "1d": ((7,), (19,)),
    "1d_down": ((19,), (7,)),
    "2d": ((5, 6), (10, 12)),
    "2d_odd": ((7, 11), (13, 9)),
    "2d_same": ((4, 5), (4, 5)),
    "3d": ((3, 4, 5), (6, 9, 7)),
}
MODES = {1: "linear", 2: "bilinear", 3: "trilinear"}


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


@pytest.mark.parametrize("align", [False, True], ids=["half_pixel", "align_corners"])
@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_linear_is_pytorchs(torch, name, dtype, align):
    sizes, upsampled = SIZES[name]
    mode = MODES[len(sizes)]
    source = torch.zeros(2, 3, *sizes, dtype=torch.float64, requires_grad=True)
    result = torch.nn.functional.interpolate(
        source, upsampled, mode=mode, align_corners=align
    )
    generator = torch.Generator().manual_seed(0)
    grad = torch.randn(result.shape, generator=generator, dtype=torch.float64)
    grad = grad.to(getattr(torch, dtype))
    result.backward(grad.double())
    found = gradnn.interpolate_backward(
        grad,
        source.shape,
        mode=mode,
        coordinate_transformation_mode="align_corners" if align else "half_pixel",
    )
    assert found.dtype == grad.dtype and found.shape == source.shape
    bound = {"float64": 1e-12, "float32": 2e-6, "float16": 6e-4, "bfloat16": 5e-3}
    error = (found.double() - source.grad).norm() / source.grad.norm()
    assert float(error) < bound[dtype]


@pytest.mark.parametrize("exact", [False, True], ids=["nearest", "nearest_exact"])
@pytest.mark.parametrize("name", SIZES)
def test_nearest_is_the_forwards(torch, name, exact):
    """The forward of an array of indices says what each output read."""
    sizes, upsampled = SIZES[name]
    count = int(np.prod(sizes))
    indices = torch.arange(count, dtype=torch.float64).reshape(1, 1, *sizes)
    read = torch.nn.functional.interpolate(
        indices, upsampled, mode="nearest-exact" if exact else "nearest"
    )
    grad = np.random.default_rng(0).standard_normal((1, 1, *upsampled))
    expected = np.zeros(count)
    np.add.at(expected, read.numpy().astype(int).ravel(), grad.ravel())
    found = gradnn.interpolate_backward(
        grad,
        (1, 1, *sizes),
        mode="nearest",
        coordinate_transformation_mode="half_pixel" if exact else "asymmetric",
        coordinate_arithmetic="float64",
    )
    np.testing.assert_allclose(found.ravel(), expected, rtol=0, atol=1e-12)


def test_ratios_are_pytorchs_scale_factors(torch):
    source = torch.zeros(1, 2, 7, 9, dtype=torch.float64, requires_grad=True)
    result = torch.nn.functional.interpolate(
        source, scale_factor=(1.7, 2.3), mode="bilinear"
    )
    grad = torch.randn(result.shape, dtype=torch.float64)
    result.backward(grad)
    found = gradnn.interpolate_backward(grad, source.shape, ratios=(1 / 1.7, 1 / 2.3))
    assert torch.allclose(found, source.grad, rtol=0, atol=1e-12)


def test_scales_give_the_coordinates():
    # 1.5 on 5 elements makes 7: coordinates differ from those of 7 / 5.
    grad = np.eye(7)[:, None, :]
    found = gradnn.interpolate_backward(grad, (7, 1, 5), scales=1.5)
    place = (np.arange(7) + 0.5) / 1.5 - 0.5
    low = np.clip(np.floor(np.maximum(place, 0)), 0, 4).astype(int)
    high = np.minimum(low + 1, 4)
    part = np.maximum(place, 0) - low
    expected = np.zeros((7, 5))
    np.add.at(expected, (np.arange(7), low), 1 - part)
    np.add.at(expected, (np.arange(7), high), part)
    np.testing.assert_allclose(found[:, 0], expected, rtol=0, atol=1e-12)


def test_channels_last():
    grad = np.random.default_rng(0).standard_normal((2, 3, 8, 10)).astype("f4")
    wanted = gradnn.interpolate_backward(grad, (2, 3, 4, 5))
    last = np.ascontiguousarray(grad.transpose(0, 2, 3, 1))
    found = gradnn.interpolate_backward(last, (2, 4, 5, 3), data_format="NXC")
    np.testing.assert_allclose(found.transpose(0, 3, 1, 2), wanted, rtol=0, atol=1e-6)
    # The same memory as NCX with strides.
    strided = gradnn.interpolate_backward(last.transpose(0, 3, 1, 2), (2, 3, 4, 5))
    np.testing.assert_allclose(strided, wanted, rtol=0, atol=1e-6)


def test_the_same_bits_on_any_number_of_threads():
    grad = np.random.default_rng(0).standard_normal((2, 8, 37, 41)).astype("f4")
    one = gradnn.interpolate_backward(grad, (2, 8, 11, 12), threads=1)
    for threads in (0, 2, 5):
        found = gradnn.interpolate_backward(grad, (2, 8, 11, 12), threads=threads)
        np.testing.assert_array_equal(found, one)


def test_empty():
    assert gradnn.interpolate_backward(np.zeros((0, 3, 8), "f4"), (0, 3, 4)).shape == (
        0,
        3,
        4,
    )
    found = gradnn.interpolate_backward(np.zeros((2, 0, 8), "f4"), (2, 0, 4))
    assert found.shape == (2, 0, 4)
