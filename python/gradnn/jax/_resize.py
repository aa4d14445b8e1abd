"""jax.image.resize with gradnn's gradient."""

from __future__ import annotations

import functools
import math
import operator
from typing import NamedTuple

import jax
import numpy as np
from jax.image import ResizeMethod
from jax.interpreters import ad, batching

from ._native import Backward, Port, Refused, call, is_data_type
from ._primitive import backward, is_explicitly_sharded, is_static, primitive
from ._status import count


class _Axes(NamedTuple):
    """A resize as gradnn has it: axes that keep their size are merged."""

    batch: int
    src: tuple[int, ...]
    dst: tuple[int, ...]
    channels: int


def _axes(src: tuple[int, ...], dst: tuple[int, ...]) -> _Axes:
    changed = [axis for axis, (m, n) in enumerate(zip(src, dst)) if m != n]
    first, last = changed[0], changed[-1]
    sizes: list[list[int]] = []
    kept = False  # whether the axis ahead keeps its size
    for m, n in zip(src[first : last + 1], dst[first : last + 1]):
        if m == n and kept:
            sizes[-1] = [size * m for size in sizes[-1]]
        else:
            sizes.append([m, n])
        kept = m == n
    return _Axes(
        math.prod(src[:first]),
        tuple(m for m, _ in sizes),
        tuple(n for _, n in sizes),
        math.prod(src[last + 1 :]),
    )


def _xla_ratio(m: int, n: int) -> np.float32:
    """What XLA multiplies output positions by for nearest: it turns
    (o + 0.5) * m / n of jax.image.resize into (o + 0.5) * (m * (1 / n))."""
    return np.float32(m) * (np.float32(1) / np.float32(n))


@functools.lru_cache(maxsize=4096)
def _is_exact(m: int, n: int) -> bool:
    """Whether nearest takes the exact positions, in whatever way its float32
    arithmetic is arranged."""
    outputs = np.arange(n)
    exact = (2 * outputs + 1) * m // (2 * n)
    centres = outputs.astype(np.float32) + np.float32(0.5)
    ways = (
        centres * np.float32(m) / np.float32(n),
        centres * np.float32(m) * (np.float32(1) / np.float32(n)),
        centres * (np.float32(m) / np.float32(n)),
        centres * _xla_ratio(m, n),
    )
    return all(np.array_equal(exact, np.floor(way)) for way in ways)


@functools.lru_cache(maxsize=1024)
def _is_rounded(m: int, n: int) -> bool:
    """Whether nearest on this CPU takes the positions that _xla_ratio gives."""
    centres = np.arange(n, dtype=np.float32) + np.float32(0.5)
    expected = np.minimum(np.floor(centres * _xla_ratio(m, n)), m - 1)
    try:
        cpu = jax.devices("cpu")[0]
    except RuntimeError:
        return False
    # As programs are compiled: without a compiler, operation by operation, the
    # rounding is another one.
    positions = jax.ShapeDtypeStruct((m,), np.int32)
    with jax.default_device(cpu):
        nearest = jax.jit(lambda x: jax.image.resize(x, (n,), "nearest"))
        found = nearest.lower(positions).compile()(np.arange(m, dtype=np.int32))
    return np.array_equal(expected.astype(np.int32), np.asarray(found))


def _rule(axes: _Axes, nearest: bool) -> str | None:
    """Which positions nearest takes: "exact", "float32", or None: unknown."""
    pairs = list(zip(axes.src, axes.dst))
    if not nearest or all(_is_exact(m, n) for m, n in pairs):
        return "exact"
    if all(m == n or _is_rounded(m, n) for m, n in pairs):
        return "float32"
    return None


_NEAREST = {"mode": "nearest"}
_LINEAR = {"mode": "linear"}
# Weights of elements outside the image are 0, and the others add up to 1.
_CUBIC = {"mode": "cubic", "cubic_coeff_a": -0.5, "exclude_outside": True}
_METHODS: dict[ResizeMethod, dict[str, object]] = {
    ResizeMethod.NEAREST: _NEAREST,
    ResizeMethod.LINEAR: _LINEAR,
    ResizeMethod.CUBIC: _CUBIC,
}
if hasattr(ResizeMethod, "CUBIC_PYTORCH"):  # with antialias it is cubic
    _METHODS[ResizeMethod.CUBIC_PYTORCH] = {"mode": "cubic", "cubic_coeff_a": -0.75}


def _attributes(method: ResizeMethod, antialias: bool) -> dict[str, object]:
    attrs = _METHODS[method]
    if not antialias or method is ResizeMethod.NEAREST:
        return dict(attrs)
    if attrs["mode"] == "cubic":
        attrs = _CUBIC
    return {**attrs, "antialias": True, "exclude_outside": True}


def _why_not(image, shape, method) -> str | None:
    """Why the gradient is JAX's own; None: it is gradnn's."""
    if method not in _METHODS:
        return f"method {method.name.lower()}"
    if not is_data_type(image.dtype):
        return f"dtype {image.dtype}"
    if not is_static(image.shape):
        return "symbolic shape"
    if image.shape == shape:
        return "same shape"
    if 0 in image.shape or 0 in shape:
        return "empty"
    if is_explicitly_sharded(image):
        return "explicit sharding"
    axes = _axes(image.shape, shape)
    if len(axes.src) > 3:
        return "more than 3 axes from the first to the last that is resized"
    if _rule(axes, method is ResizeMethod.NEAREST) is None:
        return "nearest: unknown rounding"
    return None


def _forward(image, *, shape, method, antialias, precision):
    return jax.image.resize(image, shape, method, antialias, precision)


def _own_backward(g, *, src_shape, **params):
    forward = functools.partial(_forward, shape=g.shape, **params)
    image = jax.ShapeDtypeStruct(src_shape, g.dtype)
    return jax.linear_transpose(forward, image)(g)[0]


def _by_gradnn(platform, g, *, src_shape, method, antialias, precision):
    axes = _axes(src_shape, g.shape)
    nearest = method is ResizeMethod.NEAREST
    attrs: dict[str, object] = {
        **_attributes(method, antialias),
        "sizes": axes.dst,
        "data_format": "NCX" if axes.channels == 1 else "NXC",
    }
    rule = _rule(axes, nearest)
    if rule == "float32":
        if platform != "cpu":
            raise Refused("nearest: rounding known on the cpu alone")
        attrs["coordinate_arithmetic"] = "float32"
        attrs["scale_rule"] = "ratios"
        attrs["ratios"] = [float(_xla_ratio(m, n)) for m, n in zip(axes.src, axes.dst)]
    elif rule is None:
        raise Refused("nearest: unknown rounding")

    def arranged(spatial: tuple[int, ...]) -> tuple[int, ...]:
        if axes.channels == 1:
            return (axes.batch, 1, *spatial)
        return (axes.batch, *spatial, axes.channels)

    gradient, kernels = call(
        Backward(
            "gradnn_resize_backward",
            "InterpolateBackward",
            [Port("r0"), Port("a0")],
            [Port("r0")],
            attrs,
        ),
        platform,
        [g.reshape(arranged(axes.dst))],
        jax.ShapeDtypeStruct(arranged(axes.src), g.dtype),
    )
    return gradient.reshape(src_shape), kernels


_resize = primitive("resize", lambda image, *, shape, **_: shape, _forward)
_resize_backward = backward(
    "resize_backward", lambda g, *, src_shape, **_: src_shape, _own_backward, _by_gradnn
)


def _transpose(g, image, *, shape, **params):
    return [_resize_backward.bind(g, src_shape=image.aval.shape, **params)]


def _transpose_backward(image, g, *, src_shape, **params):
    return [_resize.bind(image, shape=g.aval.shape, **params)]


def _batch(arguments, dims, *, shape, **params):
    (image,), (dim,) = arguments, dims
    image = jax.numpy.moveaxis(image, dim, 0)
    return _resize.bind(image, shape=(image.shape[0], *shape), **params), 0


def _batch_backward(arguments, dims, *, src_shape, **params):
    (g,), (dim,) = arguments, dims
    g = jax.numpy.moveaxis(g, dim, 0)
    return _resize_backward.bind(g, src_shape=(g.shape[0], *src_shape), **params), 0


ad.deflinear2(_resize, _transpose)
ad.deflinear2(_resize_backward, _transpose_backward)
batching.primitive_batchers[_resize] = _batch
batching.primitive_batchers[_resize_backward] = _batch_backward


def resize(
    image,
    shape,
    method: str | ResizeMethod,
    antialias: bool = True,
    precision=jax.lax.Precision.HIGHEST,
):
    """`jax.image.resize` with gradnn's gradient where it has it: the methods
    "nearest", "linear" (also called bilinear, trilinear, triangle), "cubic"
    (bicubic, tricubic) and "cubic-pytorch". Everything else, and the forward
    direction always, is JAX's own. `shape` may resize any axes, as long as there
    are at most 3 from the first to the last such one (neighbours that keep their
    size count as one).

    Raises what `jax.image.resize` raises.
    """
    own = functools.partial(jax.image.resize, image, shape, method, antialias)
    try:
        kind = ResizeMethod.from_string(method) if isinstance(method, str) else method
        sizes = tuple(operator.index(size) for size in shape)
        hash(precision)
        well_formed = (
            isinstance(image, (jax.Array, np.ndarray))
            and isinstance(kind, ResizeMethod)
            and len(sizes) == image.ndim
            and min(sizes, default=0) >= 0
        )
    except (AttributeError, TypeError, ValueError):
        well_formed = False
    if not well_formed:
        return own(precision)  # which says what is wrong
    image = jax.numpy.asarray(image)
    reason = _why_not(image, sizes, kind)
    count("resize", "any", "jax" if reason else "gradnn", reason or "")
    if reason:
        return own(precision)
    return _resize.bind(
        image, shape=sizes, method=kind, antialias=bool(antialias), precision=precision
    )
