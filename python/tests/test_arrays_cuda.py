"""Gradients of arrays on a GPU, PyTorch's and CuPy's, on the streams of either.
Skipped without a GPU."""

import numpy as np
import pytest

import gradnn

pytestmark = pytest.mark.skipif(
    gradnn.device_count("gpu") == 0, reason="gradnn finds no GPU"
)


class Torch:
    def __init__(self):
        self.torch = pytest.importorskip("torch")

    def array(self, values):
        return self.torch.from_numpy(np.array(values)).cuda()

    def values(self, array):
        assert type(array) is self.torch.Tensor and array.is_cuda
        return array.cpu().numpy()

    def stream(self):
        made = self.torch.cuda.Stream()
        return made, self.torch.cuda.stream(made)

    def empty(self, *shape):
        return self.torch.empty(shape, device="cuda")

    def synchronize(self):
        self.torch.cuda.synchronize()


class CuPy:
    def __init__(self):
        self.cupy = pytest.importorskip("cupy")

    def array(self, values):
        return self.cupy.asarray(values)

    def values(self, array):
        assert isinstance(array, self.cupy.ndarray)
        return self.cupy.asnumpy(array)

    def stream(self):
        made = self.cupy.cuda.Stream(non_blocking=True)
        return made, made

    def empty(self, *shape):
        return self.cupy.empty(shape, "float32")

    def synchronize(self):
        self.cupy.cuda.Device().synchronize()


@pytest.fixture(params=[Torch, CuPy], ids=["torch", "cupy"])
def library(request):
    return request.param()


def random(*shape, dtype="float32"):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)


def convolution(dtype="float32"):
    shapes = ((2, 8, 10, 12), (2, 4, 10, 12), (8, 4, 3, 3))
    return [random(*shape, dtype=dtype) for shape in shapes]


def assert_close(found, wanted, tolerance):
    wanted = wanted.astype("float64")
    assert found.shape == wanted.shape
    assert abs(found - wanted).max() <= tolerance * abs(wanted).max()


@pytest.mark.parametrize(
    "dtype, tolerance", [("float64", 1e-13), ("float32", 2e-6), ("float16", 2e-3)]
)
def test_gradients_are_those_of_the_cpu(library, dtype, tolerance):
    given = convolution(dtype)
    wanted = gradnn.conv_backward(*(x.astype("f8") for x in given), padding=1)
    made = gradnn.conv_backward(*map(library.array, given), padding=1)
    for got, want in zip(made, wanted):
        assert_close(library.values(got), want, tolerance)
    grad = given[0]
    wanted = gradnn.interpolate_backward(grad.astype("f8"), (2, 8, 4, 5), mode="linear")
    made = gradnn.interpolate_backward(
        library.array(grad), (2, 8, 4, 5), mode="linear"
    )
    assert_close(library.values(made), wanted, tolerance)


@pytest.mark.parametrize("way", ["current", "object", "integer"])
def test_streams(library, way):
    """What was queued on a stream before is waited for, and what is queued behind
    waits."""
    given = [library.array(each) for each in convolution()]
    wanted = [library.values(x) for x in gradnn.conv_backward(*given, padding=1)]
    scaled = given[0] * 1
    library.synchronize()
    for _ in range(4):
        stream, scope = library.stream()
        with scope:
            late = scaled
            for _ in range(200):  # a queue of work ahead
                late = late * 1
            chosen = {
                "current": None,
                "object": stream,
                "integer": getattr(stream, "cuda_stream", None) or stream.ptr,
            }[way]
            made = gradnn.conv_backward(late, *given[1:], padding=1, stream=chosen)
            found = [library.values(each * 1) for each in made]
        for got, want in zip(found, wanted):
            np.testing.assert_array_equal(got, want)


def test_out(library):
    grad, x, w = map(library.array, convolution())
    wanted = library.values(gradnn.conv_backward(grad, x, w, padding=1)[0])
    out = library.empty(2, 10, 12, 4)
    place = out.transpose(1, 3).transpose(2, 3) if hasattr(out, "cpu") else (
        out.transpose(0, 3, 1, 2)
    )
    mask = (True, False, False)
    made, *none = gradnn.conv_backward(
        grad, x, w, padding=1, output_mask=mask, out=(place, None, None)
    )
    assert made is place and none == [None, None]
    # In another layout it is another kernel's, in another order of sums.
    scale = np.abs(wanted).max()
    np.testing.assert_allclose(library.values(place), wanted, atol=1e-6 * scale)


def test_arrays_of_two_devices(library):
    grad, x, w = convolution()
    with pytest.raises(ValueError, match="input: the array is on the CPU"):
        gradnn.conv_backward(library.array(grad), x, w, padding=1)
    with pytest.raises(ValueError, match="weight: the array is on GPU 0"):
        gradnn.conv_backward(grad, x, library.array(w), padding=1)
