"""A convolution of JAX as an op of gradnn: which axis is which, strides, pads."""

from __future__ import annotations

import operator
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._core import FPMATH_MODES
from ._native import ABSENT, Backward, Port


class Convolution(NamedTuple):
    """All of a convolution but its shapes. A spec lists the axes of an array:
    of lhs and out batch, channels, space; of rhs outputs, inputs, space."""

    strides: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    lhs_dilation: tuple[int, ...]
    rhs_dilation: tuple[int, ...]
    lhs_spec: tuple[int, ...]
    rhs_spec: tuple[int, ...]
    out_spec: tuple[int, ...]
    groups: int
    precision: object
    kernel: tuple[int, ...]  # the spatial dims of rhs

    @classmethod
    def of(
        cls,
        lhs,
        rhs,
        strides,
        padding,
        lhs_dilation,
        rhs_dilation,
        dimension_numbers,
        groups,
        precision,
    ) -> Convolution:
        """From arguments that jax.lax.conv_general_dilated takes."""
        specs = lax.conv_dimension_numbers(lhs.shape, rhs.shape, dimension_numbers)
        ones = (1,) * (lhs.ndim - 2)
        lhs_dilation = ones if lhs_dilation is None else lhs_dilation
        rhs_dilation = ones if rhs_dilation is None else rhs_dilation
        kernel = tuple(rhs.shape[axis] for axis in specs.rhs_spec[2:])
        if isinstance(padding, str):
            space = [lhs.shape[axis] for axis in specs.lhs_spec[2:]]
            reach = [(k - 1) * d + 1 if k else 0 for k, d in zip(kernel, rhs_dilation)]
            padding = lax.padtype_to_pads(space, reach, strides, padding)
        made = cls(
            tuple(map(operator.index, strides)),
            tuple((operator.index(lo), operator.index(hi)) for lo, hi in padding),
            tuple(map(operator.index, lhs_dilation)),
            tuple(map(operator.index, rhs_dilation)),
            tuple(specs.lhs_spec),
            tuple(specs.rhs_spec),
            tuple(specs.out_spec),
            operator.index(groups),
            precision,
            kernel,
        )
        hash(made)
        return made

    def arguments(self) -> dict[str, object]:
        """Those of jax.lax.conv_general_dilated."""
        return dict(
            window_strides=self.strides,
            padding=self.padding,
            lhs_dilation=self.lhs_dilation,
            rhs_dilation=self.rhs_dilation,
            dimension_numbers=lax.ConvDimensionNumbers(
                self.lhs_spec, self.rhs_spec, self.out_spec
            ),
            feature_group_count=self.groups,
            precision=self.precision,
        )

    @property
    def is_transposed(self) -> bool:
        return any(each != 1 for each in self.lhs_dilation)


def _fpmath(precision, platform: str) -> int:
    """On a GPU JAX computes float32 by TF32 unless precision is highest."""
    if platform == "cpu":
        return FPMATH_MODES["strict"]
    given = precision if isinstance(precision, tuple) else (precision,)
    for each in given:
        try:
            wanted = lax.Precision.DEFAULT if each is None else lax.Precision(each)
        except ValueError:
            return FPMATH_MODES["strict"]
        if wanted is lax.Precision.HIGHEST:
            return FPMATH_MODES["strict"]
    return FPMATH_MODES["tf32"]


class call_of:  # noqa: N801 (used as a function)
    """How gradnn's ConvBackward computes the gradients of a convolution. The
    weights of this op are rhs as it lies."""

    _kind = "ConvBackward"

    def __new__(cls, conv: Convolution, platform: str):
        return super().__new__(_Transposed if conv.is_transposed else cls)

    def __init__(self, conv: Convolution, platform: str) -> None:
        self._conv = conv
        self._rank = len(conv.strides)
        self._fpmath = _fpmath(conv.precision, platform)
        last = self._rank + 1
        # Both ways of writing describe the same memory; kernels are chosen by
        # how it lies.
        self._channels_last = conv.lhs_spec[1] == conv.out_spec[1] == last

    def data(self) -> Backward:
        """Of g and the weights."""
        return self._backward(
            [self._port("a0", self._conv.out_spec), self._lhs("r0"), self._rhs("a1")],
            [self._lhs("r0")],
        )

    def weights(self) -> Backward:
        """Of lhs and g."""
        return self._backward(
            [self._port("a1", self._conv.out_spec), self._lhs("a0"), self._rhs("r0")],
            [ABSENT, self._rhs("r0")],
        )

    def to_gradnn(self, rhs):
        """The weights of the op."""
        return rhs

    def from_gradnn(self, weights, rhs_shape):
        """The inverse of it."""
        return weights

    def _backward(self, inputs, outputs) -> Backward:
        begin, end = self._pads()
        attrs = {
            "strides": self._strides(),
            "dilations": self._conv.rhs_dilation,
            "pads_begin": begin,
            "pads_end": end,
            "groups": self._conv.groups,
            "data_format": "NXC" if self._channels_last else "NCX",
            "weights_format": self._weights_format(),
        }
        return Backward(
            "gradnn_conv_backward", self._kind, inputs, outputs, attrs, self._fpmath
        )

    def _port(self, buffer: str, spec: tuple[int, ...]) -> Port:
        if self._channels_last:
            return Port(buffer, (spec[0], *spec[2:], spec[1]))
        return Port(buffer, spec)

    def _lhs(self, buffer: str) -> Port:
        return self._port(buffer, self._conv.lhs_spec)

    @property
    def _outputs_last(self) -> bool:
        """Whether rhs is spatial dims, inputs, outputs."""
        rank = self._rank
        return self._conv.rhs_spec == (rank + 1, rank, *range(rank))

    def _rhs(self, buffer: str) -> Port:
        return Port(buffer, None if self._outputs_last else self._conv.rhs_spec)

    def _weights_format(self) -> str:
        return "XIO" if self._outputs_last else "OIX"

    def _strides(self) -> tuple[int, ...]:
        return self._conv.strides

    def _pads(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        begin, end = zip(*self._conv.padding)
        return begin, end


class _Transposed(call_of):
    """With lhs_dilation: a transposed convolution whose strides it is. Its
    weights are rhs turned around in space, outputs and inputs exchanged within
    each group."""

    _kind = "ConvTransposeBackward"

    def to_gradnn(self, rhs):
        spec, groups = self._conv.rhs_spec, self._conv.groups
        rhs = jnp.flip(jnp.transpose(rhs, spec), range(2, rhs.ndim))
        outputs, inputs, *space = rhs.shape
        rhs = rhs.reshape(groups, outputs // groups, inputs, *space)
        rhs = jnp.swapaxes(rhs, 1, 2).reshape(-1, outputs // groups, *space)
        # [inputs, outputs of a group, space]
        if not self._channels_last:
            return rhs
        return jnp.transpose(rhs, (*range(2, rhs.ndim), 1, 0))

    def from_gradnn(self, weights, rhs_shape):
        def linear(rhs):
            return self.to_gradnn(rhs)

        rhs = jax.ShapeDtypeStruct(rhs_shape, weights.dtype)
        # The inverse of an exchange of elements is its transpose.
        return jax.linear_transpose(linear, rhs)(weights)[0]

    def _rhs(self, buffer: str) -> Port:
        return Port(buffer)

    def _weights_format(self) -> str:
        return "XOI" if self._channels_last else "IOX"

    def _strides(self) -> tuple[int, ...]:
        return self._conv.lhs_dilation

    def _pads(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        conv = self._conv
        reach = np.subtract(conv.kernel, 1) * conv.rhs_dilation
        begin, end = np.subtract(reach, np.transpose(conv.padding)).tolist()
        return tuple(begin), tuple(end)
