"""Primitives of JAX: what jit, grad and vmap of each of gradnn's functions are
made of."""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax
from jax.extend.core import Primitive
from jax.interpreters import mlir

from ._native import Refused
from ._status import count


def primitive(
    name: str, shape_of: Callable, function: Callable | None = None
) -> Primitive:
    """A primitive of one result. `shape_of(**params)`, given the shapes of the
    arguments first, says its shape; rank, type and mesh axes are those of the
    first argument. `function` computes it, in terms of JAX, on every platform.
    """
    made = Primitive(f"gradnn_{name}")

    @made.def_abstract_eval
    def _(first, *others, **params):
        shapes = [each.shape for each in (first, *others)]
        return first.update(shape=shape_of(*shapes, **params), weak_type=False)

    @functools.lru_cache(maxsize=1024)
    def compiled(**params):
        return jax.jit(functools.partial(made.bind, **params))

    @made.def_impl
    def _(*arguments, **params):
        return compiled(**params)(*arguments)

    if function is not None:
        lower = mlir.lower_fun(function, multiple_results=False)
        mlir.register_lowering(made, lower)
    return made


def backward(name: str, shape_of: Callable, own: Callable, by_gradnn: Callable):
    """A primitive for a gradient. `own` computes it by JAX alone; `by_gradnn`,
    which is given the platform first, by gradnn: it returns the result and what
    will run, or raises Refused."""

    def on(platform: str) -> Callable:
        def compute(*arguments, **params):
            try:
                result, how = by_gradnn(platform, *arguments, **params)
            except Refused as reason:
                count(name, platform, "jax", str(reason))
                return own(*arguments, **params)
            count(name, platform, "gradnn", how)
            return result

        return compute

    def elsewhere(*arguments, **params):
        count(name, "other", "jax", "gradnn runs on cpu and cuda")
        return own(*arguments, **params)

    made = primitive(name, shape_of, elsewhere)
    for platform in ("cpu", "cuda"):
        lower = mlir.lower_fun(on(platform), multiple_results=False)
        mlir.register_lowering(made, lower, platform=platform)
    return made


def is_static(shape) -> bool:
    """Whether all dims are numbers, rather than symbols of jax.export."""
    return all(isinstance(dim, int) for dim in shape)


def is_explicitly_sharded(array) -> bool:
    """Whether the type says along which axes of a mesh the array is cut."""
    spec = getattr(getattr(jax.typeof(array), "sharding", None), "spec", None)
    return spec is not None and any(each is not None for each in spec)
