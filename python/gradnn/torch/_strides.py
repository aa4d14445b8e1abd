"""The strides that PyTorch expects of what its ops return. Compiled code asserts
them."""

from __future__ import annotations

import torch


def contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    return torch.empty(shape, device="meta").stride()


def of_format(
    shape: tuple[int, ...], memory_format: torch.memory_format
) -> tuple[int, ...]:
    """A dense tensor of that format; one spatial axis is taken as a plane of one
    row."""
    if memory_format is torch.contiguous_format:
        return contiguous(shape)
    if len(shape) == 3:
        plane = (*shape[:2], 1, shape[2])
        made = torch.empty(plane, device="meta", memory_format=memory_format)
        return made.squeeze(2).stride()
    return torch.empty(shape, device="meta", memory_format=memory_format).stride()


def suggested_format(tensor: torch.Tensor) -> torch.memory_format:
    """Tensor::suggest_memory_format of PyTorch's C++."""
    return torch._prims_common.suggest_memory_format(tensor)


def like_where_one(
    shape: tuple[int, ...], strides: tuple[int, ...], like: torch.Tensor
) -> tuple[int, ...]:
    """The same memory with `like`'s strides on axes of one element, where they
    mean nothing: DistributedDataParallel compares them with the parameter's."""
    return tuple(
        other if size == 1 else own
        for size, own, other in zip(shape, strides, like.stride())
    )
