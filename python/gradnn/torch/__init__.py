"""PyTorch's gradients of convolution and upsampling, by gradnn.

    import gradnn.torch
    gradnn.torch.enable()

Models need no change. doc/pytorch.md says what is replaced and what is not.
"""

from ._functional import interpolate
from ._fuse import (
    UpsampleConv1d,
    UpsampleConv2d,
    UpsampleConv3d,
    fuse,
    upsample_conv1d,
    upsample_conv2d,
    upsample_conv3d,
)
from ._override import disable, disabled, enable, enabled, is_enabled
from ._status import reset_status, status
from ._workspace import kept_memory, release_memory

__all__ = [
    "UpsampleConv1d",
    "UpsampleConv2d",
    "UpsampleConv3d",
    "disable",
    "disabled",
    "enable",
    "enabled",
    "fuse",
    "interpolate",
    "is_enabled",
    "kept_memory",
    "release_memory",
    "reset_status",
    "status",
    "upsample_conv1d",
    "upsample_conv2d",
    "upsample_conv3d",
]
