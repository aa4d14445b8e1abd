"""Gradients of interpolation and convolution, on the CPU and on NVIDIA GPUs."""

from ._convolution import conv_backward, conv_transpose_backward
from ._core import (
    Error,
    InvalidArgumentError,
    OutOfMemoryError,
    UnsupportedError,
    device_count,
    onednn_version,
    version,
)
from ._interpolate import interpolate_backward

__version__ = version()

__all__ = [
    "Error",
    "InvalidArgumentError",
    "OutOfMemoryError",
    "UnsupportedError",
    "conv_backward",
    "conv_transpose_backward",
    "device_count",
    "interpolate_backward",
    "onednn_version",
    "version",
]
