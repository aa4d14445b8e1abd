"""Arrays by DLPack: what is read of a capsule, and that each is freed once."""

import ctypes
import gc
import weakref

import numpy as np
import pytest
from exporter import Exporter, WithNamespace

import gradnn

SHAPE = (2, 3, 4, 5)


def gradient():
    return np.random.default_rng(0).standard_normal((2, 3, 8, 10)).astype("f4")


def run(source, **keywords):
    out = np.empty(SHAPE, "f4")
    assert gradnn.interpolate_backward(source, SHAPE, out=out, **keywords) is out
    return out


@pytest.mark.parametrize("versioned", [False, True], ids=["old", "versioned"])
@pytest.mark.parametrize("offset", [0, 256])
@pytest.mark.parametrize("strides", [False, True], ids=["dense", "strides"])
def test_capsules(versioned, offset, strides):
    source = Exporter(gradient(), versioned=versioned, offset=offset, strides=strides)
    np.testing.assert_array_equal(run(source), run(gradient()))
    gc.collect()
    assert source.exported == source.freed == 1
    assert source.streams[-1] is None


def test_strides_of_a_view():
    wanted = run(gradient())
    room = np.zeros((2, 3, 8, 13), "f4")
    room[..., 2:12] = gradient()
    found = run(Exporter(room[..., 2:12]))
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    "keywords",
    [
        dict(versioned=True, version=(2, 0)),
        dict(lanes=4),
        dict(code=5),
        dict(code=77),
        dict(device=(7, 0)),
        dict(device=(2, 99)),
    ],
    ids=str,
)
def test_refused_capsules_are_freed(keywords):
    source = Exporter(gradient(), **keywords)
    with pytest.raises((ValueError, NotImplementedError)):
        run(source)
    gc.collect()
    assert source.exported == source.freed


def test_integers_and_ranks_are_refused():
    for array in (np.zeros((2, 3, 8, 10), "i4"), np.zeros((), "f4"), np.zeros(3, "f4")):
        source = Exporter(array)
        with pytest.raises(ValueError, match="grad_output"):
            run(source)
        gc.collect()
        assert source.exported == source.freed == 1


def test_negative_strides_without_a_library_are_refused():
    with pytest.raises(ValueError, match="negative"):
        run(Exporter(gradient()[:, :, ::-1]))


def test_out_by_dlpack():
    room = np.zeros(SHAPE, "f4")
    out = Exporter(room)
    assert gradnn.interpolate_backward(gradient(), SHAPE, out=out) is out
    np.testing.assert_array_equal(room, run(gradient()))
    with pytest.raises(ValueError, match="out: the array is read-only"):
        gradnn.interpolate_backward(
            gradient(), SHAPE, out=Exporter(room, versioned=True, read_only=True)
        )


def test_the_arrays_own_library_allocates():
    found = gradnn.interpolate_backward(WithNamespace(gradient()), SHAPE)
    assert type(found) is WithNamespace
    np.testing.assert_array_equal(found.array, run(gradient()))


def test_no_library_to_allocate():
    with pytest.raises(TypeError, match="out"):
        gradnn.interpolate_backward(Exporter(gradient()), SHAPE)


class Broken:
    def __init__(self, capsule):
        self.capsule = capsule

    def __dlpack_device__(self):
        return 1, 0

    def __dlpack__(self, **_):
        if isinstance(self.capsule, Exception):
            raise self.capsule
        return self.capsule


@pytest.mark.parametrize(
    "capsule", [None, 7, "dltensor", BufferError("busy"), RuntimeError("gone")], ids=str
)
def test_what_is_no_capsule(capsule):
    with pytest.raises(ValueError, match="grad_output"):
        run(Broken(capsule))


def test_used_capsules_are_refused():
    capsule = Exporter(gradient()).__dlpack__()

    class Once:
        shape = ()

        def __dlpack_device__(self):
            return 1, 0

        def __dlpack__(self, **_):
            return capsule

    assert np.from_dlpack(Once()).shape == (2, 3, 8, 10)
    with pytest.raises(ValueError, match="used up"):
        run(Broken(capsule))


@pytest.mark.skipif(gradnn.device_count("gpu") > 0, reason="there is a GPU")
def test_gpu_arrays_without_a_gpu():
    source = Exporter(gradient(), device=(2, 0))
    with pytest.raises((NotImplementedError, ValueError), match="(?i)gpu|cuda|device"):
        gradnn.interpolate_backward(
            source, SHAPE, out=Exporter(np.zeros(SHAPE, "f4"), device=(2, 0))
        )
    assert source.streams == [1]  # the legacy default stream, as DLPack has it
    with pytest.raises(ValueError, match="out"):
        gradnn.interpolate_backward(source, SHAPE, out=np.zeros(SHAPE, "f4"))
    source.streams.clear()
    with pytest.raises((NotImplementedError, ValueError, TypeError)):
        gradnn.interpolate_backward(source, SHAPE, stream=4096)
    assert source.streams == [4096]
    with pytest.raises(TypeError, match="stream"):
        gradnn.interpolate_backward(source, SHAPE, stream="main")


class Stream:
    def __cuda_stream__(self):
        return 0, 512


@pytest.mark.skipif(gradnn.device_count("gpu") > 0, reason="there is a GPU")
def test_stream_objects():
    source = Exporter(gradient(), device=(2, 0))
    with pytest.raises((NotImplementedError, ValueError, TypeError)):
        gradnn.interpolate_backward(source, SHAPE, stream=Stream())
    assert source.streams == [512]


def test_prototypes_of_other_packages(monkeypatch):
    """JAX, for one, sets those of ctypes.pythonapi."""
    for name in ("PyCapsule_IsValid", "PyCapsule_GetPointer"):
        function = getattr(ctypes.pythonapi, name)
        monkeypatch.setattr(function, "argtypes", [ctypes.c_int])
    np.testing.assert_array_equal(run(Exporter(gradient())), run(gradient()))


def test_results_hold_no_memory_of_inputs():
    grad = gradient()
    alive = weakref.ref(grad)
    found = gradnn.interpolate_backward(grad, SHAPE)
    del grad
    gc.collect()
    assert alive() is None
    assert np.isfinite(found).all()


def test_torch_tensors():
    torch = pytest.importorskip("torch")
    grad = torch.from_numpy(gradient())
    wanted = torch.from_numpy(run(gradient()))
    assert torch.equal(gradnn.interpolate_backward(grad, SHAPE), wanted)
    grad.requires_grad_()
    found = gradnn.interpolate_backward(grad, SHAPE)
    assert torch.equal(found, wanted) and not found.requires_grad
    parameter = torch.nn.Parameter(grad.detach())
    assert torch.equal(gradnn.interpolate_backward(parameter, SHAPE), wanted)
    assert torch.equal(
        gradnn.interpolate_backward(torch._neg_view(grad.detach()), SHAPE), -wanted
    )
    # A subclass goes by DLPack.
    wrapped = grad.detach().as_subclass(type("Wrapped", (torch.Tensor,), {}))
    assert torch.equal(gradnn.interpolate_backward(wrapped, SHAPE), wanted)
    for refused in (
        torch.zeros(2, 3, 8, 10, dtype=torch.int32),
        torch.zeros(2, 3, 8, 10, dtype=torch.complex64),
        torch.zeros(2, 3, 8, 10, device="meta"),
        torch.zeros(2, 3, 8, 10).to_sparse(),
    ):
        with pytest.raises((ValueError, NotImplementedError)):
            gradnn.interpolate_backward(refused, SHAPE)
