"""PyTorch's own kernels of the ops that are overridden."""

from __future__ import annotations

import functools
from collections.abc import Callable

import torch


@functools.lru_cache(maxsize=None)
def native_kernel(name: str, key: str) -> Callable:
    """The kernel of an ATen op, such as "convolution_backward", at a dispatch key
    ("CPU", "CUDA"): the one that is registered when this is first asked for,
    which is before gradnn's."""
    op = getattr(torch.ops.aten, name).default
    get_kernel = getattr(torch.library, "get_kernel", None)
    if get_kernel is not None:  # PyTorch 2.9
        keys = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, key))
        kernel = get_kernel(op, key)
        return lambda *args: kernel.call_boxed(keys, *args)
    if name == "convolution_backward":
        # The alias below the backend keys has a kernel for both devices.
        alias = torch._C.DispatchKeySet(
            torch._C.DispatchKey.CompositeExplicitAutograd
        )
        return lambda *args: op.redispatch(alias, *args)
    # The overload that writes to a given tensor is not overridden.
    out = getattr(torch.ops.aten, name).grad_input

    def run(grad_output, *args):
        return out(grad_output, *args, grad_input=grad_output.new_empty(0))

    return run
