"""gradnn.jax under JAX's transformations, with bad input, on several threads."""

import concurrent.futures
import functools

import numpy as np
import pytest
from jax_support import assert_close, jax, random, ways

import gradnn.jax
from gradnn.jax import _native

P = jax.sharding.PartitionSpec
NUMBERS = ("NHWC", "HWIO", "NHWC")


@pytest.fixture(autouse=True)
def counts():
    gradnn.jax.reset_status()


def model(by_gradnn: bool):
    """A scalar out of a convolution and a resize."""
    own = (jax.lax.conv_general_dilated, jax.image.resize)
    ours = (gradnn.jax.conv_general_dilated, gradnn.jax.resize)
    convolve, resize = ours if by_gradnn else own

    def loss(x, w):
        y = jax.numpy.tanh(
            convolve(x, w, (1, 2), "SAME", dimension_numbers=NUMBERS)
        )
        y = resize(y, (*y.shape[:1], 12, 9, y.shape[-1]), "linear")
        return jax.numpy.sum(jax.numpy.sin(y) ** 2)

    return loss


X, W = random(0, (4, 6, 7, 3)), random(1, (3, 3, 3, 5))
XS, WS = random(2, (3, *X.shape)), random(3, (3, *W.shape))
both = functools.partial(jax.grad, argnums=(0, 1))


def compare(transform, *arguments, tolerance=1e-5):
    """`transform` makes a function of arrays out of a loss."""
    found = jax.jit(transform(model(True)))(*arguments)
    expected = jax.jit(transform(model(False)))(*arguments)
    assert_close(found, expected, tolerance)
    assert set(ways("conv_backward_weights")) == {"gradnn"}
    assert set(ways("resize_backward")) == {"gradnn"}


def test_grad():
    compare(both, X, W)


def test_without_jit():
    found = both(model(True))(X, W)
    assert_close(found, both(model(False))(X, W), 1e-5)
    assert set(ways("conv_backward_data")) == {"gradnn"}


def test_checkpoint():
    compare(lambda loss: both(jax.checkpoint(loss)), X, W)


@pytest.mark.parametrize("axes", [(0, None), (None, 0), (0, 0)])
def test_vmap(axes):
    arguments = (X if axes[0] is None else XS, W if axes[1] is None else WS)
    compare(lambda loss: jax.vmap(both(loss), axes), *arguments)

    def total(loss):
        return lambda *given: jax.vmap(loss, axes)(*given).sum()

    compare(lambda loss: both(total(loss)), *arguments)


def test_vmap_along_inner_axes_and_of_vmap():
    inner = jax.numpy.moveaxis(XS, 0, 2), jax.numpy.moveaxis(WS, 0, 4)
    compare(lambda loss: jax.vmap(both(loss), (2, 4)), *inner)
    compare(
        lambda loss: jax.vmap(jax.vmap(both(loss), (None, 0)), (0, None)), XS, WS
    )


def test_vmap_of_a_grouped_convolution():
    def gradient(convolve):
        def loss(x, w):
            return (convolve(x, w, (1,), "SAME", feature_group_count=2) ** 2).sum()

        return jax.jit(jax.vmap(both(loss), (None, 1)))

    x, w = random(0, (2, 4, 9)), random(1, (6, 3, 2, 3))
    assert_close(
        gradient(gradnn.jax.conv_general_dilated)(x, w),
        gradient(jax.lax.conv_general_dilated)(x, w),
        1e-5,
    )


def test_second_derivatives():
    def forward_over_reverse(loss):
        return lambda x, w: jax.jvp(both(loss), (x, w), (0.3 * x, 0.2 * w))

    def reverse_over_reverse(loss):
        def outer(x, w):
            return sum(jax.numpy.sum(each**2) for each in both(loss)(x, w))

        return both(outer)

    compare(forward_over_reverse, X, W, tolerance=1e-4)
    compare(reverse_over_reverse, X, W, tolerance=1e-4)


def test_scan_over_steps_of_training():
    def train(loss):
        def step(w, x):
            return w - 0.01 * jax.grad(loss, 1)(x, w), loss(x, w)

        return lambda xs, w: jax.lax.scan(step, w, xs)

    compare(train, XS, W, tolerance=1e-4)


def test_gradients_that_nobody_wants_are_not_computed():
    text = jax.jit(jax.grad(model(True), 1)).lower(X, W).compile().as_text()
    assert text.count('custom_call_target="gradnn_conv_backward"') == 1


def test_shapes_alone():
    gradient = jax.eval_shape(both(model(True)), X, W)
    assert [each.shape for each in gradient] == [X.shape, W.shape]


def two_devices(kind: str):
    if len(jax.devices()) < 2:
        pytest.skip("there is one device")
    kind = getattr(jax.sharding.AxisType, kind)
    return jax.make_mesh((2,), ("b",), axis_types=(kind,))


@pytest.mark.parametrize("check", [False, True])
def test_shard_map(check):
    mesh = two_devices("Auto")

    def over_devices(loss):
        return jax.shard_map(
            lambda x, w: jax.lax.psum(loss(x, w), "b"),
            mesh=mesh,
            in_specs=(P("b"), P()),
            out_specs=P(),
            check_vma=check,
        )

    compare(lambda loss: both(over_devices(loss)), X, W)


def test_arrays_on_two_devices():
    mesh = two_devices("Auto")
    x = jax.device_put(X, jax.sharding.NamedSharding(mesh, P("b")))
    compare(both, x, W)


def test_explicit_sharding_is_left_to_jax():
    if not hasattr(jax, "set_mesh"):
        pytest.skip("this JAX has no explicit meshes")
    mesh = two_devices("Explicit")
    with jax.set_mesh(mesh):
        image = jax.device_put(X, P("b"))
        found = jax.jit(lambda x: gradnn.jax.resize(x, (4, 12, 7, 3), "linear"))(image)
    assert_close(found, jax.image.resize(X, (4, 12, 7, 3), "linear"), 1e-6)
    assert ways("resize") == {"jax": {"explicit sharding"}}


def test_export_runs_without_the_python_that_made_it():
    pytest.importorskip("flatbuffers")
    from jax import export

    allowed = [
        export.DisabledSafetyCheck.custom_call(name)
        for name in ("gradnn_conv_backward", "gradnn_resize_backward")
    ]
    gradient = jax.jit(both(model(True)))
    data = export.export(gradient, disabled_checks=allowed)(X, W).serialize()
    assert_close(export.deserialize(data).call(X, W), gradient(X, W), 0.0)


def cuda_text(function, *arguments) -> str:
    return jax.jit(function).trace(*arguments).lower(
        lowering_platforms=("cuda",)
    ).as_text()


def test_cuda_without_a_gpu_is_left_to_jax():
    if gradnn.device_count("gpu"):
        pytest.skip("there is a GPU")
    assert "gradnn" not in cuda_text(both(model(True)), X, W)
    assert set(ways("conv_backward_data")) == {"jax"}


def test_program_for_cuda(monkeypatch):
    """What a machine with a GPU emits; it is not run."""
    asked = []

    def prepare(text, kind, index, arguments, result):
        asked.append((text, kind, index))
        return 4096, "kernel"

    monkeypatch.setattr(_native, "_gpus", lambda: [0, 1])
    monkeypatch.setattr(_native, "_prepare", prepare)
    with jax.default_matmul_precision("default"):
        text = cuda_text(both(model(True)), X, W)
    assert text.count("@gradnn_conv_backward") == 2
    assert text.count("tensor<4096xui8>") >= 3  # workspace is a result
    assert {each[1:] for each in asked} == {("gpu", 0), ("gpu", 1)}
    assert any("fpmath=4" in each[0] for each in asked)  # JAX's default: TF32
    asked.clear()
    cuda_text(both(model(True)), X, W)
    assert not any("fpmath=4" in each[0] for each in asked)


def test_nearest_on_cuda_where_rounding_matters_is_left_to_jax(monkeypatch):
    monkeypatch.setattr(_native, "_gpus", lambda: [0])
    monkeypatch.setattr(_native, "_prepare", lambda *_: (0, "kernel"))

    def total(size):
        return lambda x: gradnn.jax.resize(x, (size,), "nearest").sum()

    x = jax.numpy.ones(82)
    assert "gradnn" in cuda_text(jax.grad(total(164)), x)
    assert "gradnn" not in cuda_text(jax.grad(total(41)), x)


@pytest.mark.parametrize(
    "arguments",
    [
        (X, (4, 6, 7), "linear"),
        (X, (4, 6, 14, 3), "no method"),
        (X, (4, 6, 14.5, 3), "linear"),
        (X, (4, 6, 14, 3), None),
        ([[1.0]], (2, 2), "linear"),
        (X, None, "linear"),
    ],
)
def test_bad_input_of_resize(arguments):
    with pytest.raises(Exception) as own:
        jax.image.resize(*arguments)
    with pytest.raises(type(own.value)) as found:
        gradnn.jax.resize(*arguments)
    assert str(found.value) == str(own.value)


@pytest.mark.parametrize(
    "lhs, rhs, options",
    [
        ((1, 3, 5), (4, 2, 3), {}),
        ((1, 3, 5), (4, 3, 3, 3), {}),
        ((1, 3, 5), (4, 3, 3), dict(window_strides=(1, 1))),
        ((1, 3, 5), (4, 3, 3), dict(padding="WRONG")),
        ((1, 3, 5), (4, 3, 3), dict(padding=[(1, 1, 1)])),
        ((1, 3, 5), (4, 3, 3), dict(feature_group_count=2)),
        ((1, 3, 5), (4, 3, 3), dict(feature_group_count=0)),
        ((1, 3, 5), (4, 3, 3), dict(dimension_numbers=("NHC", "OIH", "NXC"))),
        ((1, 3, 5), (4, 3, 3), dict(lhs_dilation=(2,))),
        ((1, 3, 5), (4, 3, 3), dict(precision="wrong")),
    ],
)
def test_bad_input_of_convolution(lhs, rhs, options):
    options = dict(window_strides=(1,), padding="SAME") | options
    with pytest.raises(Exception) as own:
        jax.lax.conv_general_dilated(random(0, lhs), random(1, rhs), **options)
    with pytest.raises(type(own.value)) as found:
        gradnn.jax.conv_general_dilated(random(0, lhs), random(1, rhs), **options)
    assert str(found.value) == str(own.value)


def test_several_threads_and_numbers_of_threads():
    gradient = jax.jit(both(model(True)))
    expected = gradient(X, W)
    try:
        for threads in (1, 2):
            gradnn.jax.set_num_threads(threads)
            assert gradnn.jax.get_num_threads() == threads
            with concurrent.futures.ThreadPoolExecutor(4) as pool:
                runs = [pool.submit(gradient, X * k, W) for k in [1.0] * 40]
                for each in runs:
                    assert_close(each.result(), expected, 1e-5)
    finally:
        gradnn.jax.set_num_threads(0)
    with pytest.raises(ValueError):
        gradnn.jax.set_num_threads(-1)


def test_handlers_for_a_newer_jax_are_not_registered(monkeypatch, tmp_path):
    header = tmp_path / "xla" / "ffi" / "api" / "c_api.h"
    header.parent.mkdir(parents=True)
    header.write_text("#define XLA_FFI_API_MAJOR 0\n#define XLA_FFI_API_MINOR 0\n")
    monkeypatch.setattr(jax.ffi, "include_dir", lambda: str(tmp_path))
    with pytest.raises(ImportError, match="0.0"):
        _native._check_version(_native._handlers)


def test_a_call_that_gradnn_refuses_is_an_error_of_jax():
    """Not by way of resize: that asks first."""
    call = jax.ffi.ffi_call(
        "gradnn_resize_backward", jax.ShapeDtypeStruct((1, 4, 1), np.float32)
    )
    g = np.zeros((1, 8, 1), np.float32)
    for text, said in [
        ("InterpolateBackward in=r0;a0 out=r0 mode:s=linear sizes:I=9", "sizes"),
        ("InterpolateBackward in=r0;a7 out=r0 mode:s=linear sizes:I=8", "number 7"),
        ("InterpolateBackward in=r0;a0 out=r0 mode=linear", "no attribute"),
        ("NoSuchOp in=a0 out=r0", "NoSuchOp"),
    ]:
        with pytest.raises(Exception, match=said):
            jax.block_until_ready(call(g, op=text))
