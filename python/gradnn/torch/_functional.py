"""gradnn.torch.interpolate."""

# Without "from __future__ import annotations": TorchScript reads the types.

from collections.abc import Sequence
from typing import Optional, Union

import torch
from torch._jit_internal import _overload

from . import _ops


def _per_axis(given, axes: int) -> Optional[list]:
    result = list(given) if isinstance(given, (tuple, list)) else [given] * axes
    return result if len(result) == axes else None


def _given_sizes(size, axes: int) -> Optional[list]:
    """None where they are wrong."""
    sizes = _per_axis(size, axes)
    if sizes is None or not all(
        isinstance(x, (int, torch.SymInt)) and not isinstance(x, bool) for x in sizes
    ):
        return None
    return sizes


def _scaled_sizes(
    input: torch.Tensor, scale_factor, axes: int
) -> tuple[Optional[list], Optional[list]]:
    """Sizes and scales; None where they are wrong."""
    factors = _per_axis(scale_factor, axes)
    if factors is None:
        return None, None
    try:
        scales = [torch.sym_float(factor) for factor in factors]
        # Of symbols in traced code.
        sizes = [
            torch.sym_int(torch.sym_float(extent) * scale)
            for extent, scale in zip(input.shape[2:], scales)
        ]
    except (TypeError, ValueError, OverflowError):
        return None, None
    return sizes, scales


def _interpolate(
    input: torch.Tensor,
    size,
    scale_factor,
    mode: str,
    align_corners: Optional[bool],
    recompute_scale_factor: Optional[bool],
    antialias: bool,
) -> torch.Tensor:
    arguments = (
        input, size, scale_factor, mode, align_corners, recompute_scale_factor,
        antialias,
    )  # fmt: skip
    axes = input.ndim - 2
    name = mode + ("-antialias" if antialias else "")
    if (
        _ops.find(name, axes) is None
        or (size is None) == (scale_factor is None)
        or (align_corners is not None and mode.startswith("nearest"))
        or not (input.is_cpu or input.is_cuda)
        or not input.is_floating_point()
        or not _ops.is_safe()
    ):  # another's, or wrong: PyTorch says how
        return torch.nn.functional.interpolate(*arguments)
    if _ops.is_recorded():
        if not torch.is_autocast_enabled(input.device.type):
            return torch.nn.functional.interpolate(*arguments)
        with torch.autocast(input.device.type, enabled=False):
            return torch.nn.functional.interpolate(*arguments)
    if size is not None:
        sizes = _given_sizes(size, axes) if not recompute_scale_factor else None
        scales = [None] * axes
    else:
        sizes, scales = _scaled_sizes(input, scale_factor, axes)
        if recompute_scale_factor:
            scales = [None] * axes
    if sizes is None:
        return torch.nn.functional.interpolate(*arguments)
    return _ops.upsample(input, name, sizes, bool(align_corners), scales)


# What TorchScript takes, which has no union of a number and a list.


@_overload
def interpolate(  # noqa: F811
    input: torch.Tensor, size: Optional[int] = None,
    scale_factor: Optional[list[float]] = None, mode: str = "nearest",
    align_corners: Optional[bool] = None,
    recompute_scale_factor: Optional[bool] = None, antialias: bool = False,
) -> torch.Tensor:  # fmt: skip
    pass


@_overload
def interpolate(  # noqa: F811
    input: torch.Tensor, size: Optional[list[int]] = None,
    scale_factor: Optional[list[float]] = None, mode: str = "nearest",
    align_corners: Optional[bool] = None,
    recompute_scale_factor: Optional[bool] = None, antialias: bool = False,
) -> torch.Tensor:  # fmt: skip
    pass


@_overload
def interpolate(  # noqa: F811
    input: torch.Tensor, size: Optional[int] = None,
    scale_factor: Optional[float] = None, mode: str = "nearest",
    align_corners: Optional[bool] = None,
    recompute_scale_factor: Optional[bool] = None, antialias: bool = False,
) -> torch.Tensor:  # fmt: skip
    pass


@_overload
def interpolate(  # noqa: F811
    input: torch.Tensor, size: Optional[list[int]] = None,
    scale_factor: Optional[float] = None, mode: str = "nearest",
    align_corners: Optional[bool] = None,
    recompute_scale_factor: Optional[bool] = None, antialias: bool = False,
) -> torch.Tensor:  # fmt: skip
    pass


def interpolate(  # noqa: F811
    input: torch.Tensor,
    size: Union[int, Sequence[int], None] = None,
    scale_factor: Union[float, Sequence[float], None] = None,
    mode: str = "nearest",
    align_corners: Optional[bool] = None,
    recompute_scale_factor: Optional[bool] = None,
    antialias: bool = False,
) -> torch.Tensor:
    """torch.nn.functional.interpolate as an op of gradnn's own.

    The same arguments, shapes ([N, C] and one to three spatial axes), values and
    errors. Under autocast it stays in the input's type, where PyTorch computes in
    float32; torch.compile keeps it whole. The gradient is gradnn's while
    gradnn.torch is enabled. What gradnn does not have (area), transforms of
    torch.func and forward-mode differentiation are PyTorch's own, and so is what
    torch.jit and torch.export make of it: a program that does not need gradnn.
    """
    if torch.jit.is_scripting():
        return torch.nn.functional.interpolate(
            input, size, scale_factor, mode, align_corners, recompute_scale_factor,
            antialias,
        )  # fmt: skip
    else:
        return _interpolate(
            input, size, scale_factor, mode, align_corners, recompute_scale_factor,
            antialias,
        )  # fmt: skip
