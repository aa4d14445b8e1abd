"""The backward ops of PyTorch's upsampling by InterpolateBackward."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch

from .. import _core
from . import _coordinates, _strides, _switches
from ._plans import DTYPES, Output, Plan, Unsupported, describe, failed, plans
from ._status import count_native


class Upsampling(NamedTuple):
    """A family of ATen ops: forward, and forward + "_backward"."""

    forward: str
    mode: str  # as torch.nn.functional.interpolate takes it
    axes: int
    antialias: bool = False

    @property
    def backward(self) -> str:
        return self.forward + "_backward"

    @property
    def name(self) -> str:
        """What gradnn::upsample calls the mode."""
        return self.mode + ("-antialias" if self.antialias else "")

    @property
    def is_nearest(self) -> bool:
        """Else it takes align_corners."""
        return "nearest" in self.mode


UPSAMPLINGS = (
    Upsampling("upsample_nearest1d", "nearest", 1),
    Upsampling("upsample_nearest2d", "nearest", 2),
    Upsampling("upsample_nearest3d", "nearest", 3),
    Upsampling("_upsample_nearest_exact1d", "nearest-exact", 1),
    Upsampling("_upsample_nearest_exact2d", "nearest-exact", 2),
    Upsampling("_upsample_nearest_exact3d", "nearest-exact", 3),
    Upsampling("upsample_linear1d", "linear", 1),
    Upsampling("upsample_bilinear2d", "bilinear", 2),
    Upsampling("upsample_trilinear3d", "trilinear", 3),
    Upsampling("upsample_bicubic2d", "bicubic", 2),
    Upsampling("_upsample_bilinear2d_aa", "bilinear", 2, antialias=True),
    Upsampling("_upsample_bicubic2d_aa", "bicubic", 2, antialias=True),
)


def gradient_format(which: Upsampling, grad_output) -> torch.memory_format:
    """That of PyTorch's gradients."""
    if which.axes == 1 or (which.axes == 3 and which.is_nearest):
        return torch.contiguous_format
    if which.mode == "bicubic":
        return torch.contiguous_format
    return _strides.suggested_format(grad_output)


def _check(which: Upsampling, grad_output, output_size, input_size) -> None:
    """What is wrong in itself is left to PyTorch, which says so in its way."""
    if grad_output.layout is not torch.strided or grad_output.is_mkldnn:
        raise Unsupported("a tensor is not strided")
    if grad_output.dtype not in DTYPES:
        raise Unsupported(f"{grad_output.dtype}")
    if len(input_size) != which.axes + 2 or len(output_size) != which.axes:
        raise Unsupported("sizes of another rank")
    if min(input_size) <= 0 or min(output_size) <= 0:
        raise Unsupported("a tensor is empty")
    if tuple(grad_output.shape) != (*input_size[:2], *output_size):
        raise Unsupported("grad_output has other dims than the sizes say")


def _build(
    which: Upsampling, grad_output, output_size, input_size, align_corners, scales
) -> Plan:
    _check(which, grad_output, output_size, input_size)
    device = grad_output.device
    memory_format = gradient_format(which, grad_output)
    src, dst = list(input_size[2:]), list(output_size)
    on = (device.type, grad_output.dtype, src, dst)
    if which.antialias or which.mode == "bicubic":
        attrs = _coordinates.filtered(
            *on, align_corners, scales, which.mode, which.antialias
        )
    elif not which.is_nearest:
        attrs = _coordinates.linear(*on, align_corners, scales)
    else:
        attrs = _coordinates.nearest(
            *on,
            which.mode == "nearest-exact",
            scales,
            channels=input_size[1],
            # As the forward's input most likely was.
            channels_last=which.axes > 1
            and _strides.suggested_format(grad_output)
            is not torch.contiguous_format,
        )
    attrs["sizes"] = dst
    attrs["data_format"] = "NCX"
    shape = tuple(input_size)
    settings: dict[str, object] = {}
    if device.type == "cpu":
        settings["threads"] = _switches.threads()
    dtype = grad_output.dtype
    # Of src only the shape is read.
    src_like = _core.TensorDescription(
        DTYPES[dtype], shape, _strides.contiguous(shape)
    )
    return Plan(
        which.backward,
        device,
        "InterpolateBackward",
        attrs,
        settings,
        [src_like, describe(grad_output)],
        [Output(shape, _strides.of_format(shape, memory_format), dtype)],
    )


def make_kernel(
    which: Upsampling, device: str, native: Callable, computed: Callable | None = None
) -> Callable:
    """The kernel for tensors on "cpu" or "cuda". `computed` is called with what
    computed a call: the Plan, or Unsupported where that was PyTorch."""
    op = which.backward
    nearest = which.is_nearest
    find = plans.find
    threads = _switches.threads if device == "cpu" else (lambda: 0)

    def upsample_backward(grad_output, output_size, input_size, *rest):
        key = (
            op, grad_output.dtype, grad_output.shape, grad_output.stride(),
            grad_output.device, tuple(output_size), tuple(input_size), rest,
            threads(),
        )  # fmt: skip
        plan = find(key)
        if plan is None:
            # Trailing arguments that have their default may be left out.
            given = list(rest)
            align_corners = False if nearest else bool(given.pop(0))
            scales = given + [None] * (which.axes - len(given))
            plan = plans.make(
                key,
                lambda: _build(
                    which, grad_output, output_size, input_size, align_corners, scales
                ),
            )
        if type(plan) is Plan:
            try:
                result = plan(None, grad_output)[0]
                if computed is not None:
                    computed(plan)
                return result
            except RuntimeError as failure:
                plan = failed(failure)
        count_native(op, device, str(plan))
        result = native(grad_output, output_size, input_size, *rest)
        if computed is not None and type(plan) is Unsupported:
            computed(plan)
        return result

    return upsample_backward

