"""The layout of a nearest forward on the CPU, for its gradient.

PyTorch has two kernels for it, whose arithmetic differs; which of them runs
depends on the input's layout, which its backward op never learns. While gradnn
is enabled, a forward where the two may read other elements sees to it that its
gradient arrives in the layout that the backward takes for the forward's.
"""

from __future__ import annotations

import torch

from . import _strides
from ._upsample import UPSAMPLINGS, Upsampling

_FORMATS = {2: torch.channels_last, 3: torch.channels_last_3d}

# Never destroyed: PyTorch does not take a kernel away safely from under a call.
_library: torch.library.Library | None = None
_enabled = False


def _may_differ(which: Upsampling, input, output_size, scales) -> bool:
    """Whether the kernels' arithmetics do, for some sizes."""
    if which.mode == "nearest-exact" or input.dtype is torch.float64:
        return True
    # One takes axes that keep or double their size for what they are.
    return any(
        scale and (dst == src and scale != 1.0 or dst == 2 * src and scale != 2.0)
        for src, dst, scale in zip(input.shape[2:], output_size, scales)
    )


def of_forward(
    which: Upsampling, input, output_size, scales
) -> torch.memory_format | None:
    """The layout that the gradient must have to tell which kernel computed the
    forward; None where that does not matter."""
    if (
        which.axes == 1
        or not which.is_nearest
        or input.device.type != "cpu"
        or input.shape[1] <= 3
        or (which.axes == 2 and sum(output_size) <= 128)
        or not _may_differ(which, input, output_size, scales)
    ):
        return None
    last = _FORMATS[which.axes]
    if input.is_contiguous(memory_format=last):
        return last
    return torch.contiguous_format


def _hook(layout: torch.memory_format):
    def arrange(grads):
        (grad,) = grads
        if grad is None or not _enabled:
            return None
        is_last = _strides.suggested_format(grad) is not torch.contiguous_format
        if is_last == (layout is not torch.contiguous_format):
            return None
        return (grad.contiguous(memory_format=layout),)

    return arrange


def _make_kernel(which: Upsampling):
    overload = getattr(torch.ops.aten, which.forward).default
    redispatch = overload.redispatch
    here = torch._C.DispatchKeySet(torch._C.DispatchKey.AutogradCPU)
    # PyTorch's kernel is the same for every backend.
    other = torch._C.DispatchKeySet(torch._C.DispatchKey.AutogradOther)

    def forward(keys, input, output_size, *scales):
        output = redispatch((keys - here) | other, input, output_size, *scales)
        if _enabled:
            node = output.grad_fn
            if node is not None:
                layout = of_forward(which, input, output_size, scales)
                if layout is not None:
                    node.register_prehook(_hook(layout))
        return output

    return forward


def _follow_autograd(overload: torch._ops.OpOverload) -> None:
    """Traced code takes the kernel of a key before that of all: as before, the
    one for Autograd."""
    keys = torch._C.DispatchKey

    def decomposed(*args, **named):
        return overload.py_kernels[keys.Autograd](*args, **named)

    if keys.Autograd in overload.py_kernels:
        overload.py_impl(keys.AutogradCPU)(decomposed)


def enable(register) -> None:
    """`register` puts a kernel into a library of PyTorch's."""
    global _library, _enabled
    if _library is None:
        _library = torch.library.Library("aten", "IMPL")
        for which in UPSAMPLINGS:
            if which.axes == 1 or not which.is_nearest:
                continue
            register(
                _library, which.forward, _make_kernel(which), "AutogradCPU",
                with_keyset=True,
            )  # fmt: skip
            _follow_autograd(getattr(torch.ops.aten, which.forward).default)
    _enabled = True


def disable() -> None:
    global _enabled
    _enabled = False
