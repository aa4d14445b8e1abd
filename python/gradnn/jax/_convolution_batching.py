"""vmap of convolutions: the mapped axis becomes part of the batch where the
weights are the same for all, and otherwise a group of channels for each."""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
from jax.interpreters import batching


def _merge(array, dim: int, axis: int):
    """The mapped axis `dim` merged into `axis` (of an unmapped array), ahead of
    what is there."""
    array = jnp.moveaxis(array, dim, axis)
    shape = array.shape
    joined = shape[axis] * shape[axis + 1]
    return array.reshape(*shape[:axis], joined, *shape[axis + 2 :])


def _split(array, size: int, axis: int):
    """The inverse: the mapped axis is `axis` then."""
    shape = array.shape
    apart = (size, shape[axis] // size)
    return array.reshape(*shape[:axis], *apart, *shape[axis + 1 :])


def _scaled(shape, axis: int, size: int):
    """`shape`, which may be absent, with `size` times as many along an axis."""
    if shape is None:
        return None
    return (*shape[:axis], shape[axis] * size, *shape[axis + 1 :])


def register_batching(
    primitive, bind: Callable, roles: tuple[str, str], result: str
) -> None:
    """`roles` are those of the primitive's arguments: lhs, rhs or out."""

    def rule(arguments, dims, *, conv, lhs_shape=None, rhs_shape=None):
        mapped = {role for role, dim in zip(roles, dims) if dim is not None}
        size = next(a.shape[d] for a, d in zip(arguments, dims) if d is not None)
        axes = {
            "lhs": conv.lhs_spec[1],
            "rhs": conv.rhs_spec[0],
            "out": conv.out_spec[1],
        }
        if "rhs" not in (mapped | {result}):
            # One set of weights: more of a batch.
            axes = {"lhs": conv.lhs_spec[0], "out": conv.out_spec[0]}
            mapped |= {result}
            grouped = conv
        elif conv.groups == 1 and "lhs" not in (mapped | {result}):
            # One lhs: more outputs.
            mapped |= {result}
            grouped = conv
        else:
            mapped = {"lhs", "rhs", "out"}
            grouped = conv._replace(groups=conv.groups * size)
        merged = []
        for role, array, dim in zip(roles, arguments, dims):
            if role in mapped:
                if dim is None:
                    array, dim = jnp.broadcast_to(array, (size, *array.shape)), 0
                array = _merge(array, dim, axes[role])
            merged.append(array)
        if "lhs" in mapped:
            lhs_shape = _scaled(lhs_shape, axes["lhs"], size)
        if "rhs" in mapped:
            rhs_shape = _scaled(rhs_shape, axes["rhs"], size)
        made = bind(*merged, grouped, lhs_shape, rhs_shape)
        return _split(made, size, axes[result]), axes[result]

    batching.primitive_batchers[primitive] = rule
