"""gradnn.jax's gradients against JAX's own in float64."""

import random as choices

import numpy as np
import pytest
from jax_support import TOLERANCES, assert_close, jax, random, ways

import gradnn.jax

DTYPES = list(TOLERANCES)


@pytest.fixture(autouse=True)
def float64_and_counts():
    jax.config.update("jax_enable_x64", True)
    gradnn.jax.reset_status()
    yield
    jax.config.update("jax_enable_x64", False)


def gradients(function, arguments, cotangent):
    return jax.vjp(function, *arguments)[1](cotangent)


def compare(by_gradnn, own, shapes, dtype):
    arguments = [random(seed, shape, dtype) for seed, shape in enumerate(shapes)]
    result = jax.eval_shape(own, *arguments)
    assert jax.eval_shape(by_gradnn, *arguments) == result
    cotangent = random(9, result.shape, dtype)
    wide = [each.astype("float64") for each in (*arguments, cotangent)]
    expected = gradients(own, wide[:-1], wide[-1])
    found = gradients(jax.jit(by_gradnn), arguments, cotangent)
    assert all(each.dtype == dtype for each in found)
    assert_close(found, expected, TOLERANCES[dtype])


def compare_resize(src, dst, method, antialias=False, dtype="float64"):
    def resize(by):
        return lambda image: by(image, dst, method, antialias)

    compare(resize(gradnn.jax.resize), resize(jax.image.resize), [src], dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("method", ["linear", "nearest", "cubic"])
@pytest.mark.parametrize(
    "src, dst",
    [
        ((2, 5, 7, 3), (2, 10, 17, 3)),  # NHWC
        ((2, 3, 5, 7), (2, 3, 4, 17)),  # NCHW, one axis shrinks
        ((2, 4, 5, 6, 3), (2, 8, 5, 9, 3)),  # one in the middle keeps its size
    ],
)
def test_resize(src, dst, method, dtype):
    compare_resize(src, dst, method, dtype=dtype)
    assert set(ways("resize")) == {"gradnn"}
    assert set(ways("resize_backward")) == {"gradnn"}


@pytest.mark.parametrize(
    "src, dst",
    [
        ((7,), (16,)),
        ((5, 7), (9, 7)),  # the first axis
        ((5, 7), (5, 3)),  # the last
        ((4, 3, 2, 5), (6, 3, 2, 7)),  # two keep their size in between
        ((1, 6, 1, 5), (1, 1, 1, 9)),
        ((3, 4, 5, 2), (4, 8, 7, 2)),  # the batch too
    ],
)
def test_axes_of_resize(src, dst):
    for method in ("bilinear", "nearest"):
        compare_resize(src, dst, method)
    assert set(ways("resize")) == {"gradnn"}


METHODS = ["linear", "nearest", "cubic"] + (
    ["cubic-pytorch"] if hasattr(jax.image.ResizeMethod, "CUBIC_PYTORCH") else []
)


def test_random_resizes():
    draw = choices.Random(20261124)
    for _ in range(24):
        rank = draw.randint(1, 4)
        src = tuple(draw.randint(1, 9) for _ in range(rank))
        dst = tuple(draw.choice([m, draw.randint(1, 20)]) for m in src)
        antialias = draw.choice([False, True])
        compare_resize(src, dst, draw.choice(METHODS), antialias)


@pytest.mark.parametrize("method", METHODS)
def test_antialiased_resizes(method):
    for src, dst in (((8, 8), (4, 8)), ((2, 19, 5, 3), (2, 7, 11, 3)), ((30,), (1,))):
        compare_resize(src, dst, method, antialias=True)
    assert set(ways("resize_backward")) == {"gradnn"}


@pytest.mark.parametrize(
    "m, n", [(82, 41), (354, 237), (450, 521), (14, 46), (94, 565)]
)
def test_nearest_follows_the_rounding_of_the_forward_direction(m, n):
    """At some of these sizes JAX takes other elements than exact arithmetic."""

    def nearest(x):
        return gradnn.jax.resize(x, (n,), "nearest")

    taken = np.asarray(jax.jit(nearest)(jax.numpy.arange(m, dtype="float32")))
    expected = np.bincount(taken.astype(int), minlength=m)
    gradient = jax.jit(jax.grad(lambda x: nearest(x).sum()))(random(0, (m,)))
    np.testing.assert_array_equal(np.asarray(gradient), expected)
    if jax.default_backend() == "cpu":
        assert set(ways("resize_backward")) == {"gradnn"}


@pytest.mark.parametrize(
    "src, dst, method, antialias, reason",
    [
        ((8, 8), (16, 8), "lanczos3", True, "method lanczos3"),
        ((8, 8), (8, 8), "linear", True, "same shape"),
        ((2, 3, 4, 5), (4, 6, 8, 10), "linear", True, "more than 3 axes"),
    ],
)
def test_resizes_that_are_left_to_jax(src, dst, method, antialias, reason):
    compare_resize(src, dst, method, antialias)
    (how,) = ways("resize")["jax"]
    assert how.startswith(reason)
    assert not ways("resize_backward")


def test_a_resize_of_integers_is_jaxs():
    image = np.arange(6, dtype=np.int32).reshape(2, 3)
    found = gradnn.jax.resize(image, (4, 3), "linear")
    expected = jax.image.resize(image, (4, 3), "linear")
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(np.asarray(found), np.asarray(expected))


def compare_convolution(lhs, rhs, dtype="float64", **options):
    def convolve(by):
        return lambda x, w: by(x, w, **options)

    compare(
        convolve(gradnn.jax.conv_general_dilated),
        convolve(jax.lax.conv_general_dilated),
        [lhs, rhs],
        dtype,
    )


LAYOUTS = {
    "NHWC": (("NHWC", "HWIO", "NHWC"), (2, 7, 6, 6), (3, 2, 6, 4)),
    "NCHW": (("NCHW", "OIHW", "NCHW"), (2, 6, 7, 6), (4, 6, 3, 2)),
    "mixed": (("NHWC", "OIHW", "NCHW"), (2, 7, 6, 6), (4, 6, 3, 2)),
    "permuted": (("HNCW", "IWOH", "CWNH"), (7, 2, 6, 6), (6, 2, 4, 3)),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", list(LAYOUTS))
def test_convolution(layout, dtype):
    numbers, lhs, rhs = LAYOUTS[layout]
    compare_convolution(
        lhs,
        rhs,
        dtype,
        window_strides=(2, 1),
        padding=[(1, 2), (0, -1)],
        dimension_numbers=numbers,
    )
    for op in ("conv_general_dilated", "conv_backward_data", "conv_backward_weights"):
        assert set(ways(op)) == {"gradnn"}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("layout", list(LAYOUTS))
def test_transposed_convolution(layout, groups, dtype):
    numbers, lhs, rhs = LAYOUTS[layout]
    inputs = numbers[1].index("I")
    rhs = tuple(n // groups if at == inputs else n for at, n in enumerate(rhs))
    compare_convolution(
        lhs,
        rhs,
        dtype,
        window_strides=(1, 1),
        padding=[(2, 1), (-1, 1)],
        lhs_dilation=(2, 3),
        rhs_dilation=(1, 2),
        dimension_numbers=numbers,
        feature_group_count=groups,
    )
    assert set(ways("conv_general_dilated")) == {"gradnn"}
    assert set(ways("conv_backward_weights")) == {"gradnn"}


def test_random_convolutions():
    draw = choices.Random(20261124)
    for _ in range(14):
        rank = draw.randint(1, 3)
        groups = draw.choice([1, 1, 2, 3])
        inputs, outputs = (groups * draw.randint(1, 3) for _ in range(2))
        space = [draw.randint(3, 7) for _ in range(rank)]
        kernel = [draw.randint(1, 3) for _ in range(rank)]
        letters = "DHW"[3 - rank :]
        sizes = dict(zip("NC" + letters, [2, inputs, *space]))
        weights = dict(zip("OI" + letters, [outputs, inputs // groups, *kernel]))
        specs = []
        for pair in ("NC", "OI", "NC"):
            last = pair[0] + letters + pair[1] if pair == "NC" else letters + "IO"
            shuffled = "".join(draw.sample(pair + letters, rank + 2))
            specs.append(draw.choice([pair + letters, last, shuffled]))
        transposed = draw.random() < 0.3
        padding = draw.choice(["SAME", "VALID", "SAME_LOWER", "pairs"])
        if transposed or padding == "pairs":
            padding = [(draw.randint(-1, 3), draw.randint(0, 3)) for _ in space]
        compare_convolution(
            [sizes[each] for each in specs[0]],
            [weights[each] for each in specs[1]],
            window_strides=[1 if transposed else draw.randint(1, 2) for _ in space],
            padding=padding,
            lhs_dilation=[draw.randint(1, 3) for _ in space] if transposed else None,
            rhs_dilation=[draw.randint(1, 2) for _ in space],
            dimension_numbers=tuple(specs),
            feature_group_count=groups,
        )


@pytest.mark.parametrize(
    "reason, changes",
    [
        ("batch_group_count", dict(batch_group_count=2)),
        (
            "window_strides and lhs_dilation",
            dict(window_strides=(2, 2), lhs_dilation=(2, 1)),
        ),
        ("preferred_element_type", dict(preferred_element_type="float64")),
        ("empty", dict(padding=[(0, 0), (-3, -3)])),
    ],
)
def test_convolutions_that_are_left_to_jax(reason, changes):
    lhs, rhs = random(0, (2, 3, 6, 6), "float32"), random(1, (4, 3, 2, 2), "float32")
    options = dict(window_strides=(1, 1), padding=[(0, 0), (0, 0)]) | changes

    def convolve(by):
        return lambda x, w: by(x, w, **options)

    own = convolve(jax.lax.conv_general_dilated)
    found = convolve(gradnn.jax.conv_general_dilated)
    assert_close(found(lhs, rhs), own(lhs, rhs), 0.0)
    if reason != "preferred_element_type":  # JAX 0.6 has no gradient for it
        cotangent = random(2, own(lhs, rhs).shape)
        assert_close(
            gradients(found, [lhs, rhs], cotangent),
            gradients(own, [lhs, rhs], cotangent),
            0.0,
        )
    assert ways("conv_general_dilated") == {"jax": {reason}}


@pytest.mark.parametrize("dtype", ["complex64", "int32"])
def test_other_types_are_left_to_jax(dtype):
    with jax.default_device(jax.devices("cpu")[0]):  # on GPUs JAX has no integers
        lhs, rhs = jax.numpy.ones((1, 2, 5), dtype), jax.numpy.ones((3, 2, 2), dtype)
        found = gradnn.jax.conv_general_dilated(lhs, rhs, (1,), "VALID")
        assert_close(found.real, np.full((1, 3, 4), 4), 0.0)
    assert ways("conv_general_dilated") == {"jax": {f"dtype {dtype}"}}
