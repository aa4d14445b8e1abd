"""From arrays to the library: ops kept by attributes, compiled ops kept by
tensors, workspace, execution."""

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Sequence
from typing import Any

from . import _arrays
from ._arrays import Array, bad
from ._core import Compiled, Op, TensorDescription, engine

Settings = tuple[str, bool, int]  # fpmath, deterministic, threads
Attributes = tuple[tuple[str, Any], ...]


@functools.lru_cache(maxsize=256)
def op(kind: str, attributes: Attributes, settings: Settings) -> Op:
    """One object for the same op."""
    fpmath, deterministic, threads = settings
    return Op(
        kind,
        dict(attributes),
        fpmath=fpmath,
        deterministic=deterministic,
        threads=threads,
    )


def settings(fpmath: str, deterministic: bool, threads: int) -> Settings:
    if not isinstance(fpmath, str):
        raise TypeError(f"fpmath is {fpmath!r}; a string is expected")
    if type(threads) is not int:
        threads = integer("threads", threads)
    if not 0 <= threads < 2**31:
        raise bad("threads", f"{threads}; 0 (the default) or more is expected")
    return fpmath, bool(deterministic), threads


def integer(name: str, value: Any) -> int:
    """An integer of Python's or NumPy's; no bool."""
    if not isinstance(value, bool) and hasattr(value, "__index__"):
        found = int(value.__index__())
        if -(2**63) < found < 2**63:
            return found
        raise bad(name, f"{found} has more than 64 bits")
    raise TypeError(f"{name} is {value!r}; an integer is expected")


def integers(name: str, value: Any) -> tuple[int, ...]:
    try:
        return tuple(integer(name, each) for each in value)
    except TypeError:
        raise TypeError(f"{name} is {value!r}; integers are expected") from None


def per_axis(name: str, value: Any, rank: int) -> tuple[int, ...]:
    """One integer for all spatial axes, or one for each."""
    if hasattr(value, "__index__"):
        return (integer(name, value),) * rank
    found = integers(name, value)
    if len(found) != rank:
        raise bad(name, f"{found} has {len(found)} values for {rank} spatial axes")
    return found


def description(tensor: Array) -> TensorDescription:
    return TensorDescription(tensor.dtype, tensor.dims, tensor.strides)


def same_kind(first: tuple[str, Array], others: Sequence[tuple[str, Array]]) -> None:
    """Refuses arrays of another device than the first's."""
    for name, each in others:
        if each.device != first[1].device:
            raise bad(
                name,
                f"the array is on {_device_text(each)}, {first[0]} on "
                f"{_device_text(first[1])}",
            )


def _device_text(tensor: Array) -> str:
    kind, index = tensor.device
    return "the CPU" if kind == "cpu" else f"GPU {index}"


class _Workspace(threading.local):
    """A thread's memory for the CPU, kept up to a size."""

    limit = 64 << 20

    def __init__(self) -> None:
        self.block: Any = None
        self.address = 0
        self.size = 0

    def get(self, size: int) -> tuple[Any, int]:
        if size > self.size:
            block = ctypes.create_string_buffer(size + 63)
            address = (ctypes.addressof(block) + 63) // 64 * 64
            if size > self.limit:
                return block, address
            self.block, self.address, self.size = block, address, size
        return self.block, self.address


_workspace = _Workspace()


def outputs(
    like: Array,
    names: Sequence[str],
    shapes: Sequence[tuple[int, ...] | None],
    given: Sequence[Any],
    stream: int | None,
) -> list[Array | None]:
    """The arrays that results go to: those given, which must have the shapes, or
    new ones. None for a shape that is None."""
    result: list[Array | None] = []
    for name, shape, out in zip(names, shapes, given):
        if shape is None:
            result.append(None)
            continue
        if out is None:
            out = _arrays.empty(like, shape, stream)
        found = _arrays.array(name, out, written=True, stream=stream)
        if found.dims != shape:
            raise bad(name, f"shape {found.dims}; {shape} is expected", "invalid_shape")
        if found.device != like.device:
            raise bad(
                name,
                f"the array is on {_device_text(found)}; "
                f"{_device_text(like)} is expected",
            )
        result.append(found)
    return result


def execute(
    compiled: Compiled,
    like: Array,
    inputs: Sequence[Array],
    results: Sequence[Array | None],
    stream: int | None,
) -> None:
    keep: Any = None
    workspace: int | None = None
    if compiled.workspace_size:
        if like.device[0] == "gpu":
            keep, workspace = _arrays.device_bytes(
                like, compiled.workspace_size, stream
            )
        else:
            keep, workspace = _workspace.get(compiled.workspace_size)
    compiled.execute(
        [each.pointer or None for each in inputs],
        [each and (each.pointer or None) for each in results],
        workspace,
        stream or None,
    )
    del keep


@functools.lru_cache(maxsize=1024)
def compile_for(
    kind: str,
    attributes: Attributes,
    chosen: Settings,
    device: tuple[str, int],
    inputs: tuple[TensorDescription | None, ...],
    results: tuple[TensorDescription | None, ...],
) -> Compiled:
    """Compiles, or looks up what was compiled."""
    return op(kind, attributes, chosen).compile(engine(*device), inputs, results)
