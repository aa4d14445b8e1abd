"""PyTorch's gradients of convolution and upsampling, by gradnn.

    import gradnn.torch
    gradnn.torch.enable()

Models need no change. doc/pytorch.md says what is replaced and what is not.
"""

from ._functional import interpolate
from ._override import disable, disabled, enable, enabled, is_enabled
from ._status import reset_status, status
from ._workspace import kept_memory, release_memory

__all__ = [
    "disable",
    "disabled",
    "enable",
    "enabled",
    "interpolate",
    "is_enabled",
    "kept_memory",
    "release_memory",
    "reset_status",
    "status",
]
