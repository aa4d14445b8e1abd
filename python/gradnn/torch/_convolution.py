"""aten::convolution_backward by gradnn: ConvBackward and ConvTransposeBackward."""

from __future__ import annotations

from collections.abc import Callable

import torch

from . import _strides, _switches
from ._plans import DTYPES, Output, Plan, Unsupported, describe, failed, plans
from ._status import count_native

OP = "convolution_backward"


def _per_axis(values: list[int], axes: int) -> list[int]:
    return list(values) * axes if len(values) == 1 else list(values)


def check(grad_output, input, weight, output_mask) -> None:
    """What is wrong in itself is left to PyTorch, which says so in its way."""
    if not any(output_mask):
        raise Unsupported("no gradient is asked for")
    for tensor in (grad_output, input, weight):
        if tensor.layout is not torch.strided or tensor.is_mkldnn:
            raise Unsupported("a tensor is not strided")
        if tensor.dtype not in DTYPES:
            raise Unsupported(f"{tensor.dtype}")
        if tensor.numel() == 0:
            raise Unsupported("a tensor is empty")
        if tensor.device != grad_output.device:
            raise Unsupported("tensors of several devices")
    if not grad_output.dtype == input.dtype == weight.dtype:
        raise Unsupported("tensors of several types")
    if input.ndim not in (3, 4, 5) or not (
        grad_output.ndim == input.ndim == weight.ndim
    ):
        raise Unsupported(f"tensors of {input.ndim} dimensions")


def _check_output_padding(
    grad_output, input, weight, stride, padding, dilation, transposed,
    output_padding,
) -> None:  # fmt: skip
    """gradnn takes a transposed convolution's grad_output with fewer elements
    too; PyTorch's forward gives as many as output_padding says."""
    if not transposed:
        if any(output_padding):
            raise Unsupported("output_padding where nothing is transposed")
        return
    axes = input.ndim - 2
    lists = [_per_axis(each, axes) for each in (stride, padding, dilation)]
    lists.append(_per_axis(output_padding, axes))
    if any(len(each) != axes for each in lists):
        raise Unsupported("a list has other than one value for each axis")
    expected = tuple(
        (x - 1) * step - 2 * pad + (k - 1) * spread + 1 + more
        for x, k, step, pad, spread, more in zip(
            input.shape[2:], weight.shape[2:], *lists
        )
    )
    if tuple(grad_output.shape[2:]) != expected:
        raise Unsupported("grad_output has other dims than the arguments say")


def _memory_format(
    input, weight, bias_sizes, stride, padding, dilation, transposed,
    output_padding, groups,
) -> torch.memory_format:  # fmt: skip
    """That of the gradients, by the rule of PyTorch's FakeTensor."""
    backend = torch._C._select_conv_backend(
        input, weight, bias=None, stride=stride, padding=padding,
        dilation=dilation, transposed=transposed, output_padding=output_padding,
        groups=groups, bias_sizes=bias_sizes,
    )  # fmt: skip
    if weight.ndim == 3:
        input, weight = input.contiguous().unsqueeze(2), weight.unsqueeze(2)
    return torch._C._conv_determine_backend_memory_format(input, weight, backend)


def _build(
    grad_output, input, weight, bias_sizes, stride, padding, dilation, transposed,
    output_padding, groups, output_mask,
) -> Plan:  # fmt: skip
    check(grad_output, input, weight, output_mask)
    _check_output_padding(
        grad_output, input, weight, stride, padding, dilation, transposed,
        output_padding,
    )  # fmt: skip
    axes = input.ndim - 2
    memory_format = _memory_format(
        input, weight, bias_sizes, stride, padding, dilation, transposed,
        output_padding, groups,
    )  # fmt: skip
    pads = _per_axis(padding, axes)
    attrs: dict[str, object] = {
        "strides": _per_axis(stride, axes),
        "dilations": _per_axis(dilation, axes),
        "pads_begin": pads,
        "pads_end": pads,
        "groups": groups,
        "data_format": "NCX",
        "weights_format": "IOX" if transposed else "OIX",
    }
    if transposed:
        attrs["output_padding"] = _per_axis(output_padding, axes)
    dtype = input.dtype
    outputs: list[Output | None] = [None, None, None]
    if output_mask[0]:
        shape = tuple(input.shape)
        outputs[0] = Output(shape, _strides.of_format(shape, memory_format), dtype)
    if output_mask[1]:
        shape = tuple(weight.shape)
        strides = _strides.of_format(shape, memory_format)
        outputs[1] = Output(
            shape, _strides.like_where_one(shape, strides, weight), dtype
        )
    if output_mask[2]:
        outputs[2] = Output((grad_output.shape[1],), (1,), dtype)
    on_gpu = grad_output.device.type == "cuda"
    settings = _switches.cuda_settings if on_gpu else _switches.cpu_settings
    return Plan(
        OP,
        grad_output.device,
        "ConvTransposeBackward" if transposed else "ConvBackward",
        attrs,
        settings(dtype),
        [describe(tensor) for tensor in (grad_output, input, weight)],
        outputs,
    )


def make_kernel(
    device: str, native: Callable, computed: Callable | None = None
) -> Callable:
    """The kernel for tensors on "cpu" or "cuda". `computed` is called with what
    computed a call: the Plan, or Unsupported where that was PyTorch."""
    switches = _switches.cuda_key if device == "cuda" else _switches.cpu_key
    find = plans.find

    def convolution_backward(
        grad_output, input, weight, bias_sizes, stride, padding, dilation,
        transposed, output_padding, groups, output_mask,
    ):  # fmt: skip
        key = (
            grad_output.dtype, grad_output.shape, grad_output.stride(),
            input.dtype, input.shape, input.stride(),
            weight.dtype, weight.shape, weight.stride(),
            tuple(stride), tuple(padding), tuple(dilation), transposed,
            tuple(output_padding), groups, tuple(output_mask),
            grad_output.device, input.device, weight.device,
            switches(grad_output.dtype),
        )  # fmt: skip
        args = (
            grad_output, input, weight, bias_sizes, stride, padding, dilation,
            transposed, output_padding, groups, output_mask,
        )  # fmt: skip
        plan = find(key)
        if plan is None:
            plan = plans.make(key, lambda: _build(*args))
        if type(plan) is Plan:
            try:
                result = tuple(plan(grad_output, input, weight))
                if computed is not None:
                    computed(plan)
                return result
            except RuntimeError as failure:
                plan = failed(failure)
        count_native(OP, device, str(plan))
        result = native(*args)
        if computed is not None and type(plan) is Unsupported:
            computed(plan)
        return result

    return convolution_backward
