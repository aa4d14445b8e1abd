"""jax.lax.conv_general_dilated with gradnn's gradients.

Three primitives, linear in each of their two arguments: the convolution out of
(lhs, rhs), the gradient of lhs out of (out, rhs), and that of rhs out of
(lhs, out). Each is the derivative of the others, so that gradients of any order
and of both modes are made of them.
"""

from __future__ import annotations

import functools

import jax
from jax import lax
from jax.interpreters import ad

from ._convolution_batching import register_batching
from ._convolution_layout import Convolution, call_of
from ._native import call, is_data_type
from ._primitive import backward, is_explicitly_sharded, is_static, primitive
from ._status import count


def _forward(lhs, rhs, *, conv: Convolution):
    return lax.conv_general_dilated(lhs, rhs, **conv.arguments())


def _own_data(g, rhs, *, conv, lhs_shape):
    forward = functools.partial(_forward, rhs=rhs, conv=conv)
    lhs = jax.ShapeDtypeStruct(lhs_shape, g.dtype)
    return jax.linear_transpose(lambda x: forward(x), lhs)(g)[0]


def _own_weights(lhs, g, *, conv, rhs_shape):
    rhs = jax.ShapeDtypeStruct(rhs_shape, g.dtype)
    return jax.linear_transpose(lambda w: _forward(lhs, w, conv=conv), rhs)(g)[0]


def _data_by_gradnn(platform, g, rhs, *, conv, lhs_shape):
    how = call_of(conv, platform)
    result = jax.ShapeDtypeStruct(lhs_shape, g.dtype)
    return call(how.data(), platform, [g, how.to_gradnn(rhs)], result)


def _weights_by_gradnn(platform, lhs, g, *, conv, rhs_shape):
    how = call_of(conv, platform)
    result = jax.eval_shape(how.to_gradnn, jax.ShapeDtypeStruct(rhs_shape, g.dtype))
    made, kernels = call(how.weights(), platform, [lhs, g], result)
    return how.from_gradnn(made, rhs_shape), kernels


def _out_shape(lhs_shape, rhs_shape, *, conv):
    lhs = jax.ShapeDtypeStruct(lhs_shape, "float32")
    rhs = jax.ShapeDtypeStruct(rhs_shape, "float32")
    return jax.eval_shape(functools.partial(_forward, conv=conv), lhs, rhs).shape


_convolution = primitive("conv", _out_shape, _forward)
_data = backward(
    "conv_backward_data",
    lambda g, rhs, *, lhs_shape, **_: lhs_shape,
    _own_data,
    _data_by_gradnn,
)
_weights = backward(
    "conv_backward_weights",
    lambda lhs, g, *, rhs_shape, **_: rhs_shape,
    _own_weights,
    _weights_by_gradnn,
)


def _bind_forward(lhs, rhs, conv, lhs_shape, rhs_shape):
    return _convolution.bind(lhs, rhs, conv=conv)


def _bind_data(g, rhs, conv, lhs_shape, rhs_shape):
    return _data.bind(g, rhs, conv=conv, lhs_shape=lhs_shape)


def _bind_weights(lhs, g, conv, lhs_shape, rhs_shape):
    return _weights.bind(lhs, g, conv=conv, rhs_shape=rhs_shape)


# A transpose is given the cotangent of the result and the two arguments, of which
# one has a type alone.
ad.defbilinear(
    _convolution,
    lambda g, lhs, rhs, *, conv: _data.bind(
        g, rhs, conv=conv, lhs_shape=lhs.aval.shape
    ),
    lambda g, lhs, rhs, *, conv: _weights.bind(
        lhs, g, conv=conv, rhs_shape=rhs.aval.shape
    ),
)
ad.defbilinear(
    _data,
    lambda lhs, g, rhs, *, conv, lhs_shape: _convolution.bind(lhs, rhs, conv=conv),
    lambda lhs, g, rhs, *, conv, lhs_shape: _weights.bind(
        lhs, g, conv=conv, rhs_shape=rhs.aval.shape
    ),
)
ad.defbilinear(
    _weights,
    lambda rhs, lhs, g, *, conv, rhs_shape: _data.bind(
        g, rhs, conv=conv, lhs_shape=lhs.aval.shape
    ),
    lambda rhs, lhs, g, *, conv, rhs_shape: _convolution.bind(lhs, rhs, conv=conv),
)
register_batching(_convolution, _bind_forward, ("lhs", "rhs"), "out")
register_batching(_data, _bind_data, ("out", "rhs"), "lhs")
register_batching(_weights, _bind_weights, ("lhs", "out"), "rhs")


def _why_not(lhs, rhs, out, conv, batch_groups, out_type, sharding) -> str | None:
    """Why the gradients are JAX's own; None: they are gradnn's."""
    if lhs.dtype != rhs.dtype:
        return "mixed types"
    if not is_data_type(lhs.dtype):
        return f"dtype {lhs.dtype}"
    if out_type is not None and out.dtype != lhs.dtype:
        return "preferred_element_type"
    if batch_groups != 1:
        return "batch_group_count"
    rank = len(conv.strides)
    if not 1 <= rank <= 3:
        return f"{rank} spatial dims"
    if not is_static(lhs.shape + rhs.shape):
        return "symbolic shape"
    if 0 in lhs.shape + rhs.shape + out.shape:
        return "empty"
    if conv.is_transposed and set(conv.strides) != {1}:
        return "window_strides and lhs_dilation"
    if sharding is not None or any(map(is_explicitly_sharded, (lhs, rhs))):
        return "explicit sharding"
    return None


def _varying(array) -> frozenset[str]:
    """The axes of a mesh along which, inside shard_map, an array may differ."""
    found = jax.typeof(array)
    axes = getattr(found, "manual_axis_type", None)
    return getattr(found, "vma", frozenset()) if axes is None else axes.varying


def _with_same_mesh_axes(lhs, rhs):
    """Inside shard_map an array that is alike on all devices becomes one that
    may differ, where the other one does: its gradient is a sum over devices."""

    def varying(array, axes):
        if not axes:
            return array
        if hasattr(lax, "pcast"):
            return lax.pcast(array, tuple(axes), to="varying")
        return lax.pvary(array, tuple(axes))

    left, right = _varying(lhs), _varying(rhs)
    return varying(lhs, right - left), varying(rhs, left - right)


def conv_general_dilated(
    lhs,
    rhs,
    window_strides,
    padding,
    lhs_dilation=None,
    rhs_dilation=None,
    dimension_numbers=None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision=None,
    preferred_element_type=None,
    out_sharding=None,
):
    """`jax.lax.conv_general_dilated` with gradnn's gradients, for 1 to 3 spatial
    dims of float16, bfloat16, float32 or float64, any dimension_numbers, strides,
    padding, rhs_dilation and feature groups, and for lhs_dilation (a transposed
    convolution) without strides. Everything else, and the forward direction
    always, is JAX's own.

    Raises what `jax.lax.conv_general_dilated` raises.
    """
    if precision is None:
        precision = jax.config.jax_default_matmul_precision
    options = dict(precision=precision, preferred_element_type=preferred_element_type)
    if out_sharding is not None:
        options["out_sharding"] = out_sharding

    def own(left, right):
        return lax.conv_general_dilated(
            left,
            right,
            window_strides,
            padding,
            lhs_dilation,
            rhs_dilation,
            dimension_numbers,
            feature_group_count,
            batch_group_count,
            **options,
        )

    lhs, rhs = jax.numpy.asarray(lhs), jax.numpy.asarray(rhs)
    out = jax.eval_shape(own, lhs, rhs)  # which says what is wrong
    try:
        conv = Convolution.of(
            lhs,
            rhs,
            window_strides,
            padding,
            lhs_dilation,
            rhs_dilation,
            dimension_numbers,
            feature_group_count,
            precision,
        )
    except TypeError:  # what no cache can hold, such as an unknown precision
        return own(lhs, rhs)
    reason = _why_not(
        lhs, rhs, out, conv, batch_group_count, preferred_element_type, out_sharding
    )
    ran = "jax" if reason else "gradnn"
    count("conv_general_dilated", "any", ran, reason or "")
    if reason:
        return own(lhs, rhs)
    return _convolution.bind(*_with_same_mesh_axes(lhs, rhs), conv=conv)
