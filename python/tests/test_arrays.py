"""Arrays of every kind, `out`, and what is refused."""

import numpy as np
import pytest

import gradnn

SHAPE = (2, 3, 4, 5)


def gradient(dtype="f4"):
    return np.random.default_rng(0).standard_normal((2, 3, 8, 10)).astype(dtype)


def test_numpy_gives_numpy():
    for dtype in ("f2", "f4", "f8"):
        found = gradnn.interpolate_backward(gradient(dtype), SHAPE)
        assert type(found) is np.ndarray
        assert found.dtype == np.dtype(dtype)
        assert found.flags.c_contiguous


def test_bfloat16_of_ml_dtypes():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    grad = gradient().astype(ml_dtypes.bfloat16)
    found = gradnn.interpolate_backward(grad, SHAPE)
    assert found.dtype == ml_dtypes.bfloat16
    wanted = gradnn.interpolate_backward(grad.astype("f4"), SHAPE)
    np.testing.assert_allclose(found.astype("f4"), wanted, rtol=2**-8, atol=0)


@pytest.mark.parametrize(
    "view",
    [
        lambda a: a[:, :, ::-1],
        lambda a: np.asfortranarray(a),
        lambda a: (
            np.frombuffer(b"x" + a.tobytes(), "u1")[1:].view(a.dtype).reshape(a.shape)
        ),
        lambda a: np.broadcast_to(a[:1, :1], a.shape),
    ],
    ids=["negative", "fortran", "misaligned", "broadcast"],
)
def test_any_numpy_strides(view):
    grad = view(gradient())
    wanted = gradnn.interpolate_backward(np.ascontiguousarray(grad), SHAPE)
    found = gradnn.interpolate_backward(grad, SHAPE)
    # Another memory order may run on another kernel.
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-6)


def test_read_only_input():
    grad = gradient()
    grad.flags.writeable = False
    gradnn.interpolate_backward(grad, SHAPE)


def test_out_is_written_and_returned():
    wanted = gradnn.interpolate_backward(gradient(), SHAPE)
    out = np.full(SHAPE, np.nan, "f4")
    assert gradnn.interpolate_backward(gradient(), SHAPE, out=out) is out
    np.testing.assert_array_equal(out, wanted)
    room = np.full((2, 3, 4, 7), 9, "f4")
    gradnn.interpolate_backward(gradient(), SHAPE, out=room[..., 1:6])
    np.testing.assert_array_equal(room[..., 1:6], wanted)
    assert (room[..., [0, 6]] == 9).all()


def refused(kind, start, *arguments, **keywords):
    with pytest.raises(kind) as caught:
        gradnn.interpolate_backward(*arguments, **keywords)
    assert str(caught.value).startswith(start), str(caught.value)
    return caught.value


def read_only():
    out = np.empty(SHAPE, "f4")
    out.flags.writeable = False
    return out


@pytest.mark.parametrize(
    "out, kind",
    [
        (np.empty((2, 3, 4, 4), "f4"), ValueError),
        (np.empty(SHAPE, "f8"), ValueError),
        (np.empty(SHAPE, ">f4"), ValueError),
        (np.empty(SHAPE, "i4"), ValueError),
        (np.empty(SHAPE, "f4")[..., ::-1], ValueError),
        (read_only(), ValueError),
        ([[[[0.0]]]], TypeError),
        (7, TypeError),
    ],
    ids=[
        "shape",
        "dtype",
        "byte_order",
        "integers",
        "negative",
        "read_only",
        "list",
        "number",
    ],
)
def test_out_is_refused(out, kind):
    refused(kind, "out", gradient(), SHAPE, out=out)


def test_out_that_overlaps_is_refused():
    with pytest.raises(ValueError):
        out = np.lib.stride_tricks.as_strided(np.empty(8, "f4"), SHAPE, (0, 0, 0, 4))
        gradnn.interpolate_backward(gradient(), SHAPE, out=out)
    memory = np.zeros(2 * 3 * 8 * 10, "f4")
    with pytest.raises(ValueError):
        gradnn.interpolate_backward(
            memory.reshape(2, 3, 8, 10), SHAPE, out=memory[:120].reshape(SHAPE)
        )


@pytest.mark.parametrize(
    "grad",
    [
        np.zeros((2, 3, 8, 10), "i4"),
        np.zeros((2, 3, 8, 10), object),
        np.zeros((2, 3, 8, 10), "c8"),
        np.zeros((2, 3, 8, 10), "U3"),
        np.zeros((2, 3, 8, 10), ">f4"),
        np.zeros((2, 3, 8, 10), "f4,i4"),
        np.zeros((2, 3, 8, 10), np.longdouble),
        np.zeros(()),
        np.zeros(5),
        np.zeros((2, 3)),
        np.zeros((2, 3, 4, 5, 6, 7)),
        np.zeros((1,) * 20),
    ],
    ids=lambda each: f"{each.dtype.char}{each.ndim}",
)
def test_grad_output_is_refused(grad):
    refused(ValueError, "grad_output", grad, SHAPE)


@pytest.mark.parametrize("grad", [[1.0], 3.0, None, "text", object(), range(3)])
def test_what_is_no_array(grad):
    refused(TypeError, "grad_output", grad, SHAPE)


@pytest.mark.parametrize(
    "keywords, kind, start",
    [
        (dict(mode="lanczos"), ValueError, ""),
        (dict(mode=3), TypeError, "mode"),
        (dict(coordinate_transformation_mode="no"), ValueError, ""),
        (dict(data_format="NCHW"), ValueError, "data_format"),
        (dict(data_format=None), ValueError, "data_format"),
        (dict(scales=0.0), ValueError, ""),
        (dict(scales=float("nan")), ValueError, ""),
        (dict(scales=(2.0, 2.0, 2.0)), ValueError, "scales"),
        (dict(scales="2"), TypeError, "scales"),
        (dict(scales=7.0), ValueError, ""),
        (dict(scales=2.0, ratios=0.5), ValueError, "scales"),
        (dict(ratios=[None, 1]), TypeError, "ratios"),
        (dict(coordinate_arithmetic="float16"), ValueError, ""),
        (dict(fpmath="double"), ValueError, "fpmath"),
        (dict(fpmath=None), TypeError, "fpmath"),
        (dict(threads=-1), ValueError, "threads"),
        (dict(threads=2**40), ValueError, "threads"),
        (dict(threads=1.5), TypeError, "threads"),
    ],
    ids=str,
)
def test_keywords_are_refused(keywords, kind, start):
    refused(kind, start, gradient(), SHAPE, **keywords)


@pytest.mark.parametrize(
    "shape, kind",
    [
        ((2, 3, 4), ValueError),
        ((2, 3, 4, 5, 6), ValueError),
        ((1, 3, 4, 5), ValueError),
        ((2, 4, 4, 5), ValueError),
        ((2, 3, -4, 5), ValueError),
        ((2, 3, 2**62, 2**62), gradnn.InvalidArgumentError),
        ((2, 3, 2**59, 1), gradnn.InvalidArgumentError),
        ((2, 3, 2**80, 5), ValueError),
        ((2, 3, 4.0, 5), TypeError),
        (4, TypeError),
        (None, TypeError),
    ],
    ids=str,
)
def test_input_shape_is_refused(shape, kind):
    with pytest.raises(kind):
        gradnn.interpolate_backward(gradient(), shape)


def conv(**changes):
    given = dict(
        grad_output=np.zeros((2, 4, 6, 7), "f4"),
        input=np.zeros((2, 3, 8, 9), "f4"),
        weight=np.zeros((4, 3, 3, 3), "f4"),
    )
    given.update(changes)
    return gradnn.conv_backward(
        given.pop("grad_output"), given.pop("input"), given.pop("weight"), **given
    )


@pytest.mark.parametrize(
    "changes, kind, start",
    [
        (dict(input=np.zeros((2, 3, 8, 9), "f8")), ValueError, "input"),
        (dict(weight=np.zeros((4, 3, 3, 3), "f2")), ValueError, "weight"),
        (dict(input=np.zeros((1, 3, 8, 9), "f4")), ValueError, "input"),
        (dict(input=np.zeros((2, 3, 8), "f4")), ValueError, "input"),
        (dict(input=np.zeros((2, 6, 8, 9), "f4")), ValueError, "weight"),
        (dict(weight=np.zeros((5, 3, 3, 3), "f4")), ValueError, "weight"),
        (dict(weight=np.zeros((4, 3, 3), "f4")), ValueError, "weight"),
        (dict(input=np.zeros((2, 3, 8, 10), "f4")), ValueError, ""),
        (dict(weight=np.zeros((4, 3, 9, 9), "f4")), ValueError, ""),
        (dict(input=(2, 3, 8, 9)), TypeError, "input"),
        (dict(weight=[[0.0]]), TypeError, "weight"),
        (dict(input=(2, 3, -8, 9), output_mask=(1, 0, 1)), ValueError, "input"),
        (dict(groups=0), ValueError, ""),
        (dict(groups=3), ValueError, ""),
        (dict(groups=1.0), TypeError, "groups"),
        (dict(strides=0), ValueError, ""),
        (dict(strides=(1, 1, 1)), ValueError, "strides"),
        (dict(strides="1"), TypeError, "strides"),
        (dict(dilations=-1), ValueError, ""),
        (dict(padding=(1,)), ValueError, "padding"),
        (dict(padding=[(1, 2, 3), 0]), ValueError, "padding"),
        (dict(padding="full"), ValueError, "padding"),
        (dict(padding=None), TypeError, "padding"),
        (dict(padding=2**63), ValueError, "padding"),
        (dict(padding=2**62), ValueError, ""),
        (dict(data_format="NHWC"), ValueError, "data_format"),
        (dict(weights_format="IOX"), ValueError, "weights_format"),
        (dict(output_mask=(False,) * 3), ValueError, "output_mask"),
        (dict(output_mask=(True,)), ValueError, "output_mask"),
        (dict(output_mask=True), TypeError, "output_mask"),
        (dict(output_mask=None), TypeError, "output_mask"),
        (dict(out=(None,)), ValueError, "out"),
        (dict(out=np.zeros((3, 2, 3, 8, 9), "f4")), TypeError, "out"),
        (
            dict(weight=(2**31, 2**31, 2, 1), output_mask=(0, 1, 0)),
            ValueError,
            "weight",
        ),
        (dict(out=(np.zeros((2, 3, 8, 8), "f4"), None, None)), ValueError, "out[0]"),
        (dict(out=(None, None, np.zeros(5, "f4"))), ValueError, "out[2]"),
        (dict(out=(None, np.zeros((4, 3, 3, 3), "f8"), None)), ValueError, "out[1]"),
        (
            dict(out=(None, None, np.zeros(4, "f4")), output_mask=(1, 1, 0)),
            ValueError,
            "out[2]",
        ),
    ],
    ids=lambda each: "_".join(each) if isinstance(each, dict) else "",
)
def test_convolution_refuses(changes, kind, start):
    conv()
    with pytest.raises(kind) as caught:
        conv(**changes)
    assert str(caught.value).startswith(start), str(caught.value)


def test_errors_are_pythons_own():
    error = refused(ValueError, "", gradient(), SHAPE, mode="lanczos")
    assert isinstance(error, gradnn.InvalidArgumentError)
    assert isinstance(error, gradnn.Error)
    assert error.status == "invalid_arguments" or error.status.startswith("invalid")


def test_tensors_without_memory_are_refused():
    torch = pytest.importorskip("torch")
    for grad in (torch.ones(2, 3, 8, 10, device="meta"), torch.ones(2, 3).to_sparse()):
        error = refused(ValueError, "grad_output", grad, SHAPE)
        assert isinstance(error, gradnn.InvalidArgumentError)


def test_too_many_threads_are_refused():
    # OpenMP's runtime would end the process.
    refused(ValueError, "compile_settings::threads", gradient(), SHAPE, threads=10**6)


def test_device_count_names_its_kinds():
    assert gradnn.device_count("cpu") == 1
    with pytest.raises(gradnn.InvalidArgumentError, match="tpu"):
        gradnn.device_count("tpu")


def test_functions_do_not_leak():
    import gc
    import sys

    grad = gradient()
    gradnn.interpolate_backward(grad, SHAPE)
    before = sys.getrefcount(grad)
    for _ in range(100):
        gradnn.interpolate_backward(grad, SHAPE)
        with pytest.raises(ValueError):
            gradnn.interpolate_backward(grad, (2, 3, 4))
    gc.collect()
    assert sys.getrefcount(grad) == before


def test_tensors_of_transforms_are_refused_with_advice():
    torch = pytest.importorskip("torch")

    def gradient(grad):
        return gradnn.interpolate_backward(grad, (1, 1, 4))

    with pytest.raises(TypeError, match="grad_output .*torch.vmap.*batch axis"):
        torch.vmap(gradient)(torch.ones(3, 1, 1, 8))
    with pytest.raises(TypeError, match="torch.func.grad"):
        torch.func.grad(lambda grad: gradient(grad).sum())(torch.ones(1, 1, 8))
