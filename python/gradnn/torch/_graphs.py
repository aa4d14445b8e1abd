"""Upsampling in traced and in deterministic code.

PyTorch takes its upsampling apart before autograd sees it: under torch.compile
always, and in eager code on GPUs while torch.use_deterministic_algorithms is on.
The gradient is then a scatter by index, and no backward op is ever called. While
gradnn is enabled, these decompositions are replaced by gradnn::upsample.
"""

from __future__ import annotations

import importlib

import torch

from . import _cache_keys, _ops
from ._plans import DTYPES
from ._upsample import UPSAMPLINGS, Upsampling

_LINEAR = {1: "linear", 2: "bilinear", 3: "trilinear"}
_AUTOGRAD_KEYS = ("Autograd", "CompositeImplicitAutograd")

# What was replaced, to be put back: (undo function, arguments).
_undo: list[tuple] = []


def _is_ours(input: torch.Tensor) -> bool:
    """Whether there will be a gradient that gradnn has. Else PyTorch's own is
    faster, and runs where gradnn is not."""
    return (
        input.requires_grad
        and torch.is_grad_enabled()
        and input.device.type in ("cpu", "cuda")
        and input.dtype in DTYPES
        and _ops.is_safe()
        and not _ops.is_recorded()
    )


def _sizes(input, output_size, scale_factors) -> list:
    decompositions = importlib.import_module("torch._decomp.decompositions")
    return decompositions.upsample_compute_output_size(
        input.size(), output_size, scale_factors
    )


def _vec(which: Upsampling, original):
    """For the overload that takes sizes or scale factors."""

    def linear(input, output_size, align_corners, scale_factors):
        if not _is_ours(input):
            return original(input, output_size, align_corners, scale_factors)
        sizes = _sizes(input, output_size, scale_factors)
        scales = list(scale_factors) if scale_factors else [None] * which.axes
        return _ops.upsample(input, which.name, sizes, align_corners, scales)

    def nearest(input, output_size, scale_factors):
        if not _is_ours(input):
            return original(input, output_size, scale_factors)
        sizes = _sizes(input, output_size, scale_factors)
        scales = list(scale_factors) if scale_factors else [None] * which.axes
        return _ops.upsample(input, which.name, sizes, False, scales)

    return nearest if which.is_nearest else linear


def _default(which: Upsampling, original):
    """For the overload that takes sizes and perhaps scales."""

    def upsample(input, output_size, *rest, **named):
        if not _is_ours(input):
            return original(input, output_size, *rest, **named)
        given = list(rest)
        align_corners = False
        if not which.is_nearest:
            align_corners = given.pop(0) if given else named.pop("align_corners")
        given += [value for _, value in sorted(named.items())]
        scales = given + [None] * (which.axes - len(given))
        return _ops.upsample(
            input, which.name, list(output_size), align_corners, scales
        )

    return upsample


def _replace_kernels(overload: torch._ops.OpOverload, make) -> None:
    for name in _AUTOGRAD_KEYS:
        key = getattr(torch._C.DispatchKey, name)
        original = overload.py_kernels.get(key)
        if original is None:
            continue

        def put(kernel, overload=overload, key=key):
            overload.py_kernels[key] = kernel
            overload._dispatch_cache.clear()

        put(make(original))
        _undo.append((put, original))


def _replace_deterministic() -> None:
    """torch.nn.functional.interpolate looks these names up at each call."""
    module = importlib.import_module("torch._decomp.decompositions")
    original = module._upsample_linear_vec
    by_axes = {axes: _ops.find(mode, axes) for axes, mode in _LINEAR.items()}

    def upsample(input, output_size, align_corners, scale_factors):
        kernel = _vec(by_axes[input.dim() - 2], original)
        return kernel(input, output_size, align_corners, scale_factors)

    def put(function):
        module._upsample_linear_vec = function

    put(upsample)
    _undo.append((put, original))


def enable() -> None:
    """Replaces them. Code that is compiled already stays as it is."""
    if _undo:
        return
    for which in UPSAMPLINGS:
        op = getattr(torch.ops.aten, which.forward)
        _replace_kernels(op.vec, lambda original, which=which: _vec(which, original))
        _replace_kernels(
            op.default, lambda original, which=which: _default(which, original)
        )
    _replace_deterministic()
    _cache_keys.enable()


def disable() -> None:
    """Puts PyTorch's own back."""
    _cache_keys.disable()
    while _undo:
        put, original = _undo.pop()
        put(original)
