"""conv_backward and conv_transpose_backward against PyTorch's own autograd in
float64, on the CPU."""

import numpy as np
import pytest

import gradnn

torch = pytest.importorskip("torch")
functional = torch.nn.functional

# name: spatial sizes of the input, (in, out) channels, kernel, strides, padding,
# dilations, groups.
CASES = {
    "1d": ((17,), (4, 6), (3,), 1, 1, 1, 1),
    "1d_stride": ((18,), (4, 6), (5,), 3, 2, 2, 2),
    "2d": ((9, 8), (6, 4), (3, 2), 1, 0, 1, 1),
    "2d_all": ((11, 12), (6, 4), (3, 2), (2, 1), (1, 2), (1, 2), 2),
    "2d_depthwise": ((10, 9), (8, 8), (3, 3), 1, 1, 1, 8),
    "2d_1x1": ((7, 5), (16, 32), (1, 1), 1, 0, 1, 1),
    "2d_first": ((20, 21), (3, 16), (7, 7), 2, 3, 1, 1),
    "3d": ((5, 6, 4), (2, 3), (2, 3, 2), 1, (0, 1, 1), 1, 1),
}
# float16's and bfloat16's gradients are rounded once.
TOLERANCES = {
    torch.float64: 1e-12,
    torch.float32: 2e-6,
    torch.float16: 6e-4,
    torch.bfloat16: 5e-3,
}


def distance(found, expected):
    found = torch.as_tensor(found).to(torch.float64)
    return float((found - expected).norm() / expected.norm())


def make(case, dtype, transposed, seed=0):
    """Inputs rounded to dtype, and the gradients in float64."""
    sizes, (inputs, outputs), kernel, strides, padding, dilations, groups = case
    generator = torch.Generator().manual_seed(seed)

    def draw(*dims):
        values = torch.randn(dims, generator=generator, dtype=torch.float64)
        return values.to(dtype).to(torch.float64).requires_grad_()

    rank = len(sizes)
    source = draw(2, inputs, *sizes)
    options = dict(stride=strides, padding=padding, dilation=dilations, groups=groups)
    if transposed:
        weight = draw(inputs, outputs // groups, *kernel)
        forward = getattr(functional, f"conv_transpose{rank}d")
    else:
        weight = draw(outputs, inputs // groups, *kernel)
        forward = getattr(functional, f"conv{rank}d")
    bias = draw(outputs)
    result = forward(source, weight, bias, **options)
    grad = draw(*result.shape).detach()
    result.backward(grad)
    given = [each.detach().to(dtype) for each in (grad, source, weight)]
    keywords = dict(
        strides=strides, padding=padding, dilations=dilations, groups=groups
    )
    return given, keywords, [source.grad, weight.grad, bias.grad]


def function_of(transposed):
    return gradnn.conv_transpose_backward if transposed else gradnn.conv_backward


@pytest.mark.parametrize("transposed", [False, True], ids=["conv", "transposed"])
@pytest.mark.parametrize("dtype", list(TOLERANCES), ids=str)
@pytest.mark.parametrize("name", CASES)
def test_gradients_are_pytorchs(name, dtype, transposed):
    given, keywords, expected = make(CASES[name], dtype, transposed)
    found = function_of(transposed)(*given, **keywords)
    for tensor, reference in zip(found, expected):
        assert tensor.dtype == dtype
        assert tensor.shape == reference.shape
        assert distance(tensor, reference) < TOLERANCES[dtype]


@pytest.mark.parametrize("transposed", [False, True], ids=["conv", "transposed"])
def test_channels_last_formats(transposed):
    given, keywords, expected = make(CASES["2d_all"], torch.float32, transposed)
    grad, source, weight = (each.numpy() for each in given)
    found = function_of(transposed)(
        np.ascontiguousarray(grad.transpose(0, 2, 3, 1)),
        np.ascontiguousarray(source.transpose(0, 2, 3, 1)),
        np.ascontiguousarray(weight.transpose(2, 3, 1, 0)),
        data_format="NXC",
        weights_format="XOI" if transposed else "XIO",
        **keywords,
    )
    assert distance(found[0].transpose(0, 3, 1, 2), expected[0]) < 2e-6
    assert distance(found[1].transpose(3, 2, 0, 1), expected[1]) < 2e-6
    assert distance(found[2], expected[2]) < 2e-6


@pytest.mark.parametrize("memory", ["channels_last", "sliced", "negative"])
def test_any_strides(memory):
    given, keywords, expected = make(CASES["2d_all"], torch.float32, False)
    if memory == "channels_last":
        given = [each.to(memory_format=torch.channels_last) for each in given]
    elif memory == "sliced":
        given = [torch.stack([each, each], -1)[..., 0] for each in given]
    else:
        given = [np.flip(each.numpy(), 2).copy()[:, :, ::-1] for each in given]
        assert given[0].strides[2] < 0
    for tensor, reference in zip(gradnn.conv_backward(*given, **keywords), expected):
        assert distance(tensor, reference) < 2e-6


@pytest.mark.filterwarnings("ignore:Using padding='same'")
def test_asymmetric_padding_and_auto_pad():
    generator = torch.Generator().manual_seed(1)
    source = torch.randn(2, 3, 8, 9, generator=generator, requires_grad=True)
    weight = torch.randn(4, 3, 2, 4, generator=generator, requires_grad=True)
    # PyTorch pads "same" with the odd element behind.
    result = functional.conv2d(source, weight, padding="same")
    grad = torch.randn(result.shape, generator=generator)
    result.backward(grad)
    for padding in ([(0, 1), (1, 2)], "same_upper"):
        found = gradnn.conv_backward(grad, source, weight, padding=padding)
        assert distance(found[0], source.grad.double()) < 2e-6
        assert distance(found[1], weight.grad.double()) < 2e-6


def test_negative_padding_crops():
    source = torch.randn(1, 2, 9, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(3, 2, 3, dtype=torch.float64, requires_grad=True)
    result = functional.conv1d(source[..., 1:-2], weight)
    grad = torch.randn_like(result)
    result.backward(grad)
    found = gradnn.conv_backward(grad, source, weight, padding=[(-1, -2)])
    assert distance(found[0], source.grad) < 1e-12
    assert distance(found[1], weight.grad) < 1e-12


def test_output_padding():
    source = torch.randn(2, 4, 5, 6, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(4, 3, 3, 3, dtype=torch.float64, requires_grad=True)
    result = functional.conv_transpose2d(
        source, weight, stride=2, padding=1, output_padding=(1, 0)
    )
    grad = torch.randn_like(result)
    result.backward(grad)
    found = gradnn.conv_transpose_backward(
        grad, source, weight, strides=2, padding=1, output_padding=(1, 0)
    )
    assert distance(found[0], source.grad) < 1e-12
    assert distance(found[1], weight.grad) < 1e-12


@pytest.mark.parametrize("mask", range(1, 8))
def test_output_mask(mask):
    asked = tuple(bool(mask & 1 << bit) for bit in range(3))
    given, keywords, expected = make(CASES["2d_all"], torch.float32, False)
    grad, source, weight = given
    # What is not needed is given as a shape.
    source = source if asked[1] else tuple(source.shape)
    weight = weight if asked[0] else list(weight.shape)
    found = gradnn.conv_backward(grad, source, weight, output_mask=asked, **keywords)
    for tensor, reference, wanted in zip(found, expected, asked):
        assert (tensor is not None) == wanted
        if wanted:
            assert distance(tensor, reference) < 2e-6


def test_data_that_no_gradient_needs_is_not_read():
    given, keywords, expected = make(CASES["2d_all"], torch.float32, False)
    grad, source, weight = given
    nothing = torch.full_like(weight, float("nan"))
    found = gradnn.conv_backward(
        grad, source, nothing, output_mask=(False, True, True), **keywords
    )
    assert distance(found[1], expected[1]) < 2e-6


def test_wide_gradients_of_weights():
    given, keywords, expected = make(CASES["2d"], torch.bfloat16, False)
    out = (None, torch.empty(given[2].shape), torch.empty(given[0].shape[1]))
    found = gradnn.conv_backward(*given, out=out, **keywords)
    assert found[1] is out[1] and found[2] is out[2]
    assert found[0].dtype == torch.bfloat16
    assert distance(found[1], expected[1]) < 2e-6
    assert distance(found[2], expected[2]) < 2e-6


def test_threads_give_the_gradient():
    given, keywords, expected = make(CASES["2d_first"], torch.float32, False)
    for threads in (1, 2, 3):
        found = gradnn.conv_backward(*given, threads=threads, **keywords)
        again = gradnn.conv_backward(*given, threads=threads, **keywords)
        for tensor, repeated, reference in zip(found, again, expected):
            assert torch.equal(tensor, repeated)
            assert distance(tensor, reference) < 2e-6


def test_empty_batch():
    found = gradnn.conv_backward(
        np.zeros((0, 4, 6), "f4"),
        np.zeros((0, 3, 8), "f4"),
        np.ones((4, 3, 3), "f4"),
    )
    assert found[0].shape == (0, 3, 8)
    assert not found[1].any() and not found[2].any()
