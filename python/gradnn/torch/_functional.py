"""gradnn.torch.interpolate."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from . import _ops

_MODES = {1: {"linear"}, 2: {"bilinear"}, 3: {"trilinear"}}


def interpolate(
    input: torch.Tensor,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> torch.Tensor:
    """torch.nn.functional.interpolate as an op of gradnn's own.

    The same arguments, shapes ([N, C] and one to three spatial axes), values and
    errors. Under autocast it stays in the input's type, where PyTorch computes in
    float32; torch.compile and torch.export keep it whole. The gradient is
    gradnn's while gradnn.torch is enabled. Modes that gradnn does not have
    (bicubic, area, antialias), and transforms of torch.func, are PyTorch's own.
    """
    axes = input.ndim - 2
    known = mode in ("nearest", "nearest-exact") or mode in _MODES.get(axes, ())
    plain = (
        known
        and not antialias
        and 1 <= axes <= 3
        and (size is None) != (scale_factor is None)
        and not (align_corners is not None and mode.startswith("nearest"))
        and (input.is_cpu or input.is_cuda)
        and input.is_floating_point()
        and not torch._C._are_functorch_transforms_active()
    )
    if not plain:
        return torch.nn.functional.interpolate(
            input, size, scale_factor, mode, align_corners, recompute_scale_factor,
            antialias,
        )  # fmt: skip
    scales: list[float | None] = [None] * axes
    if size is not None:
        sizes = list(size) if isinstance(size, (tuple, list)) else [size] * axes
        if len(sizes) != axes or recompute_scale_factor:
            return torch.nn.functional.interpolate(  # raises
                input, size, scale_factor, mode, align_corners, recompute_scale_factor
            )
    else:
        factors = (
            list(scale_factor)
            if isinstance(scale_factor, (tuple, list))
            else [scale_factor] * axes
        )
        if len(factors) != axes:
            return torch.nn.functional.interpolate(  # raises
                input, size, scale_factor, mode, align_corners, recompute_scale_factor
            )
        sizes = [
            math.floor(float(extent) * factor)
            for extent, factor in zip(input.shape[2:], factors)
        ]
        if not recompute_scale_factor:
            scales = [float(factor) for factor in factors]
    return torch.ops.gradnn.upsample(input, mode, sizes, bool(align_corners), scales)
