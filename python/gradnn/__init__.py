"""Gradients of interpolation and convolution, on the CPU and on NVIDIA GPUs."""

from ._core import (
    Error,
    InvalidArgumentError,
    OutOfMemoryError,
    UnsupportedError,
    device_count,
    onednn_version,
    version,
)

__version__ = version()

__all__ = [
    "Error",
    "InvalidArgumentError",
    "OutOfMemoryError",
    "UnsupportedError",
    "device_count",
    "onednn_version",
    "version",
]
