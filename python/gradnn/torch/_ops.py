"""Ops of gradnn's own in PyTorch: gradnn::upsample and gradnn::upsample_backward.

Autocast and the compiler leave them as they are: they run in the type that they
are given, and no decomposition takes them apart. Forward is PyTorch's kernel,
the gradient whatever serves aten's backward op (gradnn's where it is enabled).
A scale of 0 is none, as for PyTorch: AOTInductor has no lists of optional numbers.
"""

from __future__ import annotations

import torch
from torch.autograd import forward_ad

from . import _layouts, _strides
from ._upsample import UPSAMPLINGS, Upsampling, gradient_format

_BY_MODE_AND_AXES = {(each.name, each.axes): each for each in UPSAMPLINGS}

_library = torch.library.Library("gradnn", "DEF")
_library.define(
    "upsample(Tensor input, str mode, SymInt[] output_size, bool align_corners, "
    "float[] scales) -> Tensor",
    tags=(torch.Tag.pt2_compliant_tag,),
)
_library.define(
    "upsample_backward(Tensor grad_output, str mode, SymInt[] output_size, "
    "SymInt[] input_size, bool align_corners, float[] scales) -> Tensor",
    tags=(torch.Tag.pt2_compliant_tag,),
)


def find(mode: str, axes: int) -> Upsampling | None:
    """The family of ATen's ops; None where gradnn has no gradient."""
    return _BY_MODE_AND_AXES.get((mode, axes))


def is_safe() -> bool:
    """Whether gradnn::upsample may be called now: it has rules neither for
    torch.func's transforms nor for forward-mode differentiation."""
    return (
        not torch._C._are_functorch_transforms_active()
        and forward_ad._current_level < 0
    )


def is_recorded() -> bool:
    """Whether a program is being made that may run without gradnn: by
    torch.jit.trace, torch.export and what is built on them."""
    return torch.jit.is_tracing() or torch.compiler.is_exporting()


def upsample(input, mode, output_size, align_corners, scales) -> torch.Tensor:
    """gradnn::upsample, of scales that may be None."""
    given = [0.0 if scale is None else scale for scale in scales]
    return torch.ops.gradnn.upsample(input, mode, output_size, align_corners, given)


def _arguments(which: Upsampling, align_corners: bool, scales) -> tuple:
    given = [scale if scale > 0 else None for scale in scales]
    return tuple(given) if which.is_nearest else (align_corners, *given)


@torch.library.impl(_library, "upsample", "CompositeExplicitAutograd")
def _upsample(input, mode, output_size, align_corners, scales):
    which = find(mode, len(output_size))
    forward = getattr(torch.ops.aten, which.forward).default
    # Autocast, which left gradnn's op alone, would convert ATen's.
    with torch.autocast(input.device.type, enabled=False):
        return forward(input, output_size, *_arguments(which, align_corners, scales))


@torch.library.impl(_library, "upsample_backward", "CompositeExplicitAutograd")
def _upsample_backward(
    grad_output, mode, output_size, input_size, align_corners, scales
):
    which = find(mode, len(output_size))
    backward = getattr(torch.ops.aten, which.backward).default
    return backward(
        grad_output,
        output_size,
        input_size,
        *_arguments(which, align_corners, scales),
    )


@torch.library.register_fake("gradnn::upsample", lib=_library)
def _fake_upsample(input, mode, output_size, align_corners, scales):
    made = input.new_empty([*input.shape[:2], *output_size])
    if len(output_size) == 1:
        return made
    return made.to(memory_format=_strides.suggested_format(input))


@torch.library.register_fake("gradnn::upsample_backward", lib=_library)
def _fake_upsample_backward(
    grad_output, mode, output_size, input_size, align_corners, scales
):
    which = find(mode, len(output_size))
    made = grad_output.new_empty(list(input_size))
    return made.to(memory_format=gradient_format(which, grad_output))


def _save(ctx, inputs, output) -> None:
    input, ctx.mode, ctx.output_size, ctx.align_corners, ctx.scales = inputs
    ctx.input_size = input.shape
    which = find(ctx.mode, len(ctx.output_size))
    ctx.layout = _layouts.of_forward(which, input, ctx.output_size, ctx.scales)


def _differentiate(ctx, grad):
    if ctx.layout is not None:
        grad = grad.contiguous(memory_format=ctx.layout)
    result = torch.ops.gradnn.upsample_backward(
        grad, ctx.mode, ctx.output_size, ctx.input_size, ctx.align_corners, ctx.scales
    )
    return result, None, None, None, None


def _save_backward(ctx, inputs, output) -> None:
    _, ctx.mode, ctx.output_size, _, ctx.align_corners, ctx.scales = inputs


def _differentiate_backward(ctx, grad):
    # The map is linear: the gradient of the gradient is the forward.
    result = torch.ops.gradnn.upsample(
        grad, ctx.mode, ctx.output_size, ctx.align_corners, ctx.scales
    )
    return result, None, None, None, None, None


torch.library.register_autograd(
    "gradnn::upsample", _differentiate, setup_context=_save, lib=_library
)
torch.library.register_autograd(
    "gradnn::upsample_backward",
    _differentiate_backward,
    setup_context=_save_backward,
    lib=_library,
)
