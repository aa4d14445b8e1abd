"""gradnn.torch.interpolate."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from . import _ops

_MODES = {1: {"linear"}, 2: {"bilinear"}, 3: {"trilinear"}}


def _per_axis(given, axes: int) -> list | None:
    result = list(given) if isinstance(given, (tuple, list)) else [given] * axes
    return result if len(result) == axes else None


def _given_sizes(size, axes: int) -> list | None:
    """None where they are wrong."""
    sizes = _per_axis(size, axes)
    if sizes is None or not all(
        isinstance(x, (int, torch.SymInt)) and not isinstance(x, bool) for x in sizes
    ):
        return None
    return sizes


def _scaled_sizes(
    input: torch.Tensor, scale_factor, axes: int
) -> tuple[list | None, list | None]:
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
    (bicubic, area, antialias), transforms of torch.func and forward-mode
    differentiation are PyTorch's own.
    """
    axes = input.ndim - 2
    known = mode in ("nearest", "nearest-exact") or mode in _MODES.get(axes, ())
    sizes, scales = None, None
    if (
        known
        and not antialias
        and 1 <= axes <= 3
        and (size is None) != (scale_factor is None)
        and not (align_corners is not None and mode.startswith("nearest"))
        and (input.is_cpu or input.is_cuda)
        and input.is_floating_point()
        and _ops.is_safe()
    ):
        if size is not None:
            sizes = _given_sizes(size, axes) if not recompute_scale_factor else None
            scales = [None] * axes
        else:
            sizes, scales = _scaled_sizes(input, scale_factor, axes)
            if recompute_scale_factor:
                scales = [None] * axes
    if sizes is None:  # another's, or wrong: PyTorch says how
        return torch.nn.functional.interpolate(
            input, size, scale_factor, mode, align_corners, recompute_scale_factor,
            antialias,
        )  # fmt: skip
    return torch.ops.gradnn.upsample(input, mode, sizes, bool(align_corners), scales)
