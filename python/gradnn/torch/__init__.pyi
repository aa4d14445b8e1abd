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
def kept_memory() -> int: ...
def release_memory() -> None: ...
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
def upsample_conv1d(
    input: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    scale_factor: int | Sequence[int] = 2,
    padding: int | Sequence[int] | str = "same",
    groups: int = 1,
) -> torch.Tensor: ...
def upsample_conv2d(
    input: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    scale_factor: int | Sequence[int] = 2,
    padding: int | Sequence[int] | str = "same",
    groups: int = 1,
) -> torch.Tensor: ...
def upsample_conv3d(
    input: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    scale_factor: int | Sequence[int] = 2,
    padding: int | Sequence[int] | str = "same",
    groups: int = 1,
) -> torch.Tensor: ...
def fuse(model: torch.nn.Module) -> list[str]: ...

class UpsampleConv1d(torch.nn.Conv1d):
    scale_factor: int | Sequence[int]
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | Sequence[int],
        scale_factor: int | Sequence[int] = 2,
        padding: int | Sequence[int] | str = "same",
        groups: int = 1,
        bias: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None: ...
    @classmethod
    def from_conv(
        cls, conv: torch.nn.Conv1d, scale_factor: int | Sequence[int] = 2
    ) -> UpsampleConv1d: ...

class UpsampleConv2d(torch.nn.Conv2d):
    scale_factor: int | Sequence[int]
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | Sequence[int],
        scale_factor: int | Sequence[int] = 2,
        padding: int | Sequence[int] | str = "same",
        groups: int = 1,
        bias: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None: ...
    @classmethod
    def from_conv(
        cls, conv: torch.nn.Conv2d, scale_factor: int | Sequence[int] = 2
    ) -> UpsampleConv2d: ...

class UpsampleConv3d(torch.nn.Conv3d):
    scale_factor: int | Sequence[int]
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | Sequence[int],
        scale_factor: int | Sequence[int] = 2,
        padding: int | Sequence[int] | str = "same",
        groups: int = 1,
        bias: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None: ...
    @classmethod
    def from_conv(
        cls, conv: torch.nn.Conv3d, scale_factor: int | Sequence[int] = 2
    ) -> UpsampleConv3d: ...
