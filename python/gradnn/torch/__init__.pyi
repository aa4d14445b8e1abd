from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Literal

import torch

def enable() -> None: ...
def disable() -> None: ...
def is_enabled() -> bool: ...
def enabled() -> AbstractContextManager[None]: ...
def disabled() -> AbstractContextManager[None]: ...
def status() -> list[dict[str, object]]: ...
def reset_status() -> None: ...
def interpolate(
    input: torch.Tensor,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: Literal[
        "nearest",
        "nearest-exact",
        "linear",
        "bilinear",
        "trilinear",
        "bicubic",
        "area",
    ] = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> torch.Tensor: ...
