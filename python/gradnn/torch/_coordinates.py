"""InterpolateBackward's attributes for the gradient of PyTorch's own forward.

PyTorch's forwards compute coordinates in float32 (or in double) by rules that
differ between devices, layouts and types; doc/pytorch.md has the table. Linear
modes take the exact coordinates, nearest ones PyTorch's arithmetic.
"""

from __future__ import annotations

import array
import struct

import torch

from ._plans import Unsupported


def _float32(value: float) -> float:
    """Rounded to float32; to infinity where it is too large."""
    try:
        return struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:
        return float("inf")


def _present(scale: float | None) -> bool:
    return scale is not None and scale > 0


def _with_ratios(
    attrs: dict[str, object], ratios: list[float], sizes: list[float]
) -> dict[str, object]:
    if ratios != sizes:
        attrs["scale_rule"] = "ratios"
        attrs["ratios"] = array.array("d", ratios)
    return attrs


def linear(
    device: str,
    dtype: torch.dtype,
    src: list[int],
    dst: list[int],
    align_corners: bool,
    scales: list[float | None],
) -> dict[str, object]:
    """Of upsample_linear1d, bilinear2d and trilinear3d."""
    attrs: dict[str, object] = {
        "mode": "linear",
        "coordinate_transformation_mode": (
            "align_corners" if align_corners else "half_pixel"
        ),
    }
    if align_corners or (device == "cuda" and src == dst):
        return attrs

    def ratio(axis: int) -> float:
        scale = scales[axis]
        if not _present(scale):
            return src[axis] / dst[axis]
        if device == "cpu" and src[axis] == dst[axis]:
            return 1.0
        return 1.0 / scale if dtype is torch.float64 else _float32(1.0 / scale)

    ratios = [ratio(axis) for axis in range(len(src))]
    return _with_ratios(attrs, ratios, [s / d for s, d in zip(src, dst)])


def filtered(
    device: str,
    dtype: torch.dtype,
    src: list[int],
    dst: list[int],
    align_corners: bool,
    scales: list[float | None],
    mode: str,
    antialias: bool,
) -> dict[str, object]:
    """Of upsample_bicubic2d and of the antialiased ops, whose weights are those of
    Pillow: elements outside have none, and cubic filters another slope. Their
    align_corners changes the ratio alone: pixels keep their centres."""
    attrs: dict[str, object] = {
        "mode": "cubic" if mode == "bicubic" else "linear",
        "coordinate_transformation_mode": (
            "align_corners" if align_corners and not antialias else "half_pixel"
        ),
    }
    if antialias:
        attrs["antialias"] = True
        attrs["exclude_outside"] = True
        attrs["cubic_coeff_a"] = -0.5
    copied = device == "cuda" and src == dst
    if not antialias and (align_corners or copied):
        return attrs

    def ratio(axis: int) -> float:
        scale = scales[axis]
        # On the CPU a size that stays is left alone, whatever its scale.
        left = device == "cpu" and src[axis] == dst[axis]
        if antialias and (left or src[axis] == 1):
            return 1.0
        if align_corners:
            return (src[axis] - 1) / (dst[axis] - 1) if dst[axis] > 1 else 0.0
        if not _present(scale):
            return src[axis] / dst[axis]
        return 1.0 / scale if dtype is torch.float64 else _float32(1.0 / scale)

    ratios = [ratio(axis) for axis in range(len(src))]
    if min(ratios) < 2.0**-60:
        raise Unsupported("antialias and align_corners to a size of 1")
    return _with_ratios(attrs, ratios, [s / d for s, d in zip(src, dst)])


def _forward_is_indexed(
    dst: list[int], channels: int, channels_last: bool
) -> bool:
    """Which of two CPU kernels computes a nearest forward: one that walks over
    output indexes, or one that computes lists of indexes first."""
    if len(dst) == 1:
        return False
    wide = channels_last and channels > 3
    return wide or (len(dst) == 2 and sum(dst) <= 128)


def nearest(
    device: str,
    dtype: torch.dtype,
    src: list[int],
    dst: list[int],
    exact: bool,
    scales: list[float | None],
    channels: int,
    channels_last: bool,
) -> dict[str, object]:
    """Of upsample_nearest*d and _upsample_nearest_exact*d."""
    attrs: dict[str, object] = {
        "mode": "nearest",
        "coordinate_transformation_mode": "half_pixel" if exact else "asymmetric",
    }
    if device == "cuda" and src == dst and len(src) == 2:
        return attrs  # copied; in 1-D and 3-D indexes are computed all the same
    indexed = device == "cpu" and _forward_is_indexed(dst, channels, channels_last)
    arithmetic = "float32"
    if device == "cpu" and not indexed:
        if dtype is torch.float64:
            arithmetic = "float64"
        elif exact and torch.backends.cpu.get_cpu_capability() != "DEFAULT":
            arithmetic = "float32_fma"
    attrs["coordinate_arithmetic"] = arithmetic

    def ratio(axis: int) -> float:
        scale = scales[axis]
        same = src[axis] == dst[axis]
        if not _present(scale):
            return src[axis] / dst[axis]
        if indexed and not exact:
            if same:
                return 1.0
            if dst[axis] == 2 * src[axis]:
                return 0.5
        if device == "cuda" and len(src) == 2 and same:
            return 1.0
        return 1.0 / scale

    # Without ratios the library divides the sizes in the same arithmetic.
    if not any(_present(scale) for scale in scales):
        return attrs
    attrs["scale_rule"] = "ratios"
    attrs["ratios"] = array.array("d", [ratio(axis) for axis in range(len(src))])
    return attrs
