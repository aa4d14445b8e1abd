"""Ops of gradnn's own for a nearest upsampling and the convolution behind it:
gradnn::upsample_conv and gradnn::upsample_conv_backward.

The input alone is kept for the gradients, not the upsampled tensor. They are those
of a partition of Interpolate, ConvBackward and InterpolateBackward, which the library
computes from the small tensor where that is faster (doc/partitions.md); PyTorch's own
ops one by one where gradnn is not enabled.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

from . import _convolution, _ops, _override, _strides, _switches
from ._plans import Output, Plan, Unsupported, describe, failed, plans
from ._status import count_native

OP = "upsample_conv_backward"

_TAG = torch.Tag.pt2_compliant_tag
_library = torch.library.Library("gradnn", "FRAGMENT")
_library.define(
    "upsample_conv(Tensor input, Tensor weight, Tensor? bias, int[] scale, "
    "int[] pads_begin, int[] pads_end, int groups) -> Tensor",
    tags=(_TAG,),
)
_library.define(
    "upsample_conv_backward(Tensor grad_output, Tensor input, Tensor weight, "
    "int[] scale, int[] pads_begin, int[] pads_end, int groups, bool[3] output_mask) "
    "-> (Tensor, Tensor, Tensor)",
    tags=(_TAG,),
)

_CONVOLUTIONS = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
_TRANSPOSED = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}


def _upsampled(input, scale):
    """By whole numbers, so that the indexes of nearest are exact."""
    which = _ops.find("nearest", len(scale))
    sizes = [extent * times for extent, times in zip(input.shape[2:], scale)]
    return getattr(torch.ops.aten, which.forward).default(input, sizes)


def convolve(input, weight, bias, scale, pads_begin, pads_end, groups):
    """By PyTorch's ops, one by one, which differentiate."""
    large = _upsampled(input, scale)
    padding = pads_begin
    if list(pads_begin) != list(pads_end):
        padding = [0] * len(scale)
        both = zip(reversed(pads_begin), reversed(pads_end))
        large = F.pad(large, [pad for pair in both for pad in pair])
    return _CONVOLUTIONS[len(scale)](
        large, weight, bias, padding=padding, groups=groups
    )


def composed_weights(weight, scale):
    """Weights of the transposed convolution with stride `scale` that gives the same:
    V[m] = sum of W[k - 1 - m + t] over 0 <= t < r, along each axis. In float32 of 16
    bits, and rounded once."""
    made = weight.float() if weight.dtype.itemsize == 2 else weight
    for axis, times in enumerate(scale, start=2):
        taps = weight.shape[axis]
        where = torch.arange(taps + times - 1, device=weight.device)[:, None]
        at = torch.arange(taps, device=weight.device) + where - (taps - 1)
        sums = ((at >= 0) & (at < times)).to(made.dtype)
        made = (made.movedim(axis, -1) @ sums.T).movedim(-1, axis)
    return made.to(weight.dtype)


def convolve_composed(input, weight, bias, scale, pads_begin, pads_end, groups):
    """As one transposed convolution, without the upsampled tensor."""
    last = weight.ndim - 2
    padding = [taps - 1 - pad for taps, pad in zip(weight.shape[2:], pads_begin)]
    composed = composed_weights(weight, scale)
    # [O, I/g, ...] of a convolution is [g I/g, O/g, ...] of a transposed one.
    composed = composed.unflatten(0, (groups, -1)).transpose(1, 2).flatten(0, 1)
    if weight.is_contiguous(memory_format=_strides.suggested_format(input)):
        composed = composed.contiguous(memory_format=_strides.suggested_format(input))
    return _TRANSPOSED[last](
        input, composed, bias, stride=scale, padding=padding, groups=groups
    )


# In a second, of a GPU: products in 16 bits and others, bytes, composed weights. What
# composing costs beside, in seconds.
_PRODUCTS, _OTHER_PRODUCTS, _BYTES, _COMPOSED = 2e14, 3e13, 2e12, 4e9
_COMPOSING = 1e-4


def _is_composed(input, weight, scale, pads_begin, pads_end) -> bool:
    """Whether the forward is estimated to be faster as a transposed convolution."""
    pads = zip(weight.shape[2:], pads_begin)
    if (
        not input.is_cuda
        or list(pads_begin) != list(pads_end)
        or any(pad > taps - 1 for taps, pad in pads)
    ):
        return False
    rate = _PRODUCTS if input.dtype.itemsize == 2 else _OTHER_PRODUCTS
    small = input.numel()
    channels = weight.shape[0] * weight.shape[1] / input.shape[1]
    windows = large = composed = 1
    weights = weight.shape[0] * weight.shape[1]
    for taps, times in zip(weight.shape[2:], scale):
        windows *= taps * times
        composed *= taps + times - 1
        large *= times
    bytes_saved = 2 * small * large * input.dtype.itemsize
    saved = small * channels * (windows - 1.3 * composed) / rate
    composing = _COMPOSING + weights * composed / _COMPOSED
    return saved + bytes_saved / _BYTES > composing


@torch.library.impl(_library, "upsample_conv", "CompositeExplicitAutograd")
def _upsample_conv(input, weight, bias, scale, pads_begin, pads_end, groups):
    composed = _is_composed(input, weight, scale, pads_begin, pads_end)
    compute = convolve_composed if composed else convolve
    with torch.autocast(input.device.type, enabled=False):
        made = compute(input, weight, bias, scale, pads_begin, pads_end, groups)
    return made.contiguous(memory_format=_result_format(input, weight))


def _result_format(input, weight) -> torch.memory_format:
    """As PyTorch's convolutions have it: channels last where either is."""
    formats = [_strides.suggested_format(each) for each in (input, weight)]
    return next((each for each in formats if each != torch.contiguous_format), formats[0])


def _formats(input, weight) -> tuple[torch.memory_format, torch.memory_format]:
    """Of the gradients: those of the tensors."""
    return _strides.suggested_format(input), _strides.suggested_format(weight)


def _build(
    grad_output, input, weight, scale, pads_begin, pads_end, groups, output_mask,
    **form,
) -> Plan:  # fmt: skip
    _convolution.check(grad_output, input, weight, output_mask)
    if not (output_mask[0] or output_mask[1]):
        raise Unsupported("no gradient of input or weight is asked for")
    large = [extent * times for extent, times in zip(input.shape[2:], scale)]
    resize = {"mode": "nearest", "sizes": large, "data_format": "NCX"}
    convolution = {
        "strides": [1] * len(scale),
        "dilations": [1] * len(scale),
        "pads_begin": list(pads_begin),
        "pads_end": list(pads_end),
        "groups": groups,
        "data_format": "NCX",
        "weights_format": "OIX",
    }
    # Tensors: grad_output 0, input 1, weight 2, upsampled 3 and its gradient 4, then
    # the gradients.
    data, weights, bias = output_mask
    ops: list = []
    if weights:
        ops.append(("Interpolate", resize, [1, -1, 3]))
    numbers = [4 if data else -1, 6 if weights else -1, 7 if bias else -1]
    ops.append(("ConvBackward", convolution, [0, 3, 2, *numbers]))
    if data:
        ops.append(("InterpolateBackward", resize, [1, 4, -1, 5]))
    inputs = [describe(each) for each in (grad_output, input, weight)]
    if not weights:  # of the upsampled tensor the shape alone counts
        shape = (*input.shape[:2], *large)
        inputs.append(inputs[1]._replace(dims=shape, strides=_strides.contiguous(shape)))
    outputs = []
    for wanted, like, memory_format in zip(
        output_mask, (input, weight), _formats(input, weight)
    ):
        if wanted:
            shape = tuple(like.shape)
            strides = _strides.of_format(shape, memory_format)
            outputs.append(
                Output(shape, _strides.like_where_one(shape, strides, like), like.dtype)
            )
    if bias:
        outputs.append(Output((grad_output.shape[1],), (1,), input.dtype))
    on_gpu = input.device.type == "cuda"
    settings = _switches.cuda_settings if on_gpu else _switches.cpu_settings
    chosen = {**settings(input.dtype), **form}
    return Plan(OP, input.device, ops, {}, chosen, inputs, outputs)


def _by_pytorch(
    grad_output, input, weight, scale, pads_begin, pads_end, groups, output_mask
) -> list:
    """The gradients by PyTorch's ops one by one, None where they are not wanted."""
    axes = len(scale)
    large = _upsampled(input, scale)
    sizes = large.shape[2:]
    padding = pads_begin
    if list(pads_begin) != list(pads_end):
        padding = [0] * axes
        both = zip(reversed(pads_begin), reversed(pads_end))
        large = F.pad(large, [pad for pair in both for pad in pair])
    made = list(
        torch.ops.aten.convolution_backward.default(
            grad_output, large, weight, [weight.shape[0]], [1] * axes, padding,
            [1] * axes, False, [0] * axes, groups, output_mask,
        )  # fmt: skip
    )
    if output_mask[0]:
        for axis in range(axes):
            if sizes[axis] != large.shape[2 + axis]:
                made[0] = made[0].narrow(2 + axis, pads_begin[axis], sizes[axis])
        which = _ops.find("nearest", axes)
        backward = getattr(torch.ops.aten, which.backward).default
        made[0] = backward(made[0], sizes, input.shape)
    for index, memory_format in enumerate(_formats(input, weight)):
        if output_mask[index]:
            made[index] = made[index].contiguous(memory_format=memory_format)
    return [each if mask else None for each, mask in zip(made, output_mask)]


def _gradients(*args) -> list:
    grad_output, input, weight, scale, pads_begin, pads_end, groups, output_mask = args
    if not _override.is_enabled():
        return _by_pytorch(*args)
    on_gpu = input.is_cuda
    switches = _switches.cuda_key if on_gpu else _switches.cpu_key
    key = (
        OP, grad_output.dtype, grad_output.shape, grad_output.stride(),
        input.dtype, input.shape, input.stride(),
        weight.dtype, weight.shape, weight.stride(),
        tuple(scale), tuple(pads_begin), tuple(pads_end), groups, tuple(output_mask),
        grad_output.device, input.device, weight.device, switches(input.dtype),
    )  # fmt: skip
    plan = plans.find(key)
    if plan is None:
        plan = plans.make(key, lambda: _build(*args))
    if type(plan) is Plan:
        tensors = [grad_output, input, weight]
        if not output_mask[1]:
            tensors.append(None)
        try:
            made = plan(*tensors)
            return [made.pop(0) if wanted else None for wanted in output_mask]
        except RuntimeError as failure:
            plan = failed(failure)
    count_native(OP, input.device.type, str(plan))
    return _by_pytorch(*args)


@torch.library.impl(_library, "upsample_conv_backward", "CompositeExplicitAutograd")
def _upsample_conv_backward(grad_output, *args):
    with torch.autocast(grad_output.device.type, enabled=False):
        made = _gradients(grad_output, *args)
    return tuple(
        grad_output.new_empty(0) if each is None else each for each in made
    )


@torch.library.register_fake("gradnn::upsample_conv", lib=_library)
def _fake(input, weight, bias, scale, pads_begin, pads_end, groups):
    made = convolve(input, weight, bias, scale, pads_begin, pads_end, groups)
    return made.contiguous(memory_format=_result_format(input, weight))


@torch.library.register_fake("gradnn::upsample_conv_backward", lib=_library)
def _fake_backward(
    grad_output, input, weight, scale, pads_begin, pads_end, groups, output_mask
):
    made = [grad_output.new_empty(0) for _ in output_mask]
    for index, (like, memory_format) in enumerate(
        zip((input, weight), _formats(input, weight))
    ):
        if output_mask[index]:
            made[index] = like.new_empty(like.shape).to(memory_format=memory_format)
    if output_mask[2]:
        made[2] = grad_output.new_empty(grad_output.shape[1])
    return tuple(made)


def _save(ctx, inputs, output) -> None:
    input, weight, bias, *ctx.rest = inputs
    ctx.save_for_backward(input, weight, bias)


def _differentiate(ctx, grad):
    input, weight, bias = ctx.saved_tensors
    mask = list(ctx.needs_input_grad[:3])
    if torch.is_grad_enabled():  # the gradient of the gradient, of ops one by one
        with torch.autocast(input.device.type, enabled=False):
            # Of aliases: one saved tensor may have been computed from another.
            given = [None if x is None else x.view_as(x) for x in ctx.saved_tensors]
            wanted = [x for x, m in zip(given, mask) if m]
            result = convolve(*given, *ctx.rest)
            made = list(torch.autograd.grad(result, wanted, grad, create_graph=True))
        gradients = [made.pop(0) if wanted else None for wanted in mask]
    else:
        made = torch.ops.gradnn.upsample_conv_backward(
            grad, input, weight, *ctx.rest, mask
        )
        gradients = [each if wanted else None for each, wanted in zip(made, mask)]
    return (*gradients, None, None, None, None)


torch.library.register_autograd(
    "gradnn::upsample_conv", _differentiate, setup_context=_save, lib=_library
)
