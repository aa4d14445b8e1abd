"""Compiled gradients of PyTorch tensors: a plan for each op, shapes, strides,
types, device and switches, found by a dictionary lookup."""

from __future__ import annotations

import collections
import threading
from collections.abc import Callable, Hashable

import torch

from .. import _core
from . import _status, _workspace

DTYPES = {
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.float32: "f32",
    torch.float64: "f64",
}

# Varying shapes must not fill the memory: most plans hold some kilobytes, those
# of long axes more.
_CAPACITY = 4096
_MOST_TABLE_BYTES = 128 << 20


# Failures of a compilation that another try may not have: no memory, a stream
# under capture.
_PASSING = ("out_of_memory", "runtime_error")


class Unsupported(Exception):
    """PyTorch's own kernel is to run; the text says why."""


class Failed(Unsupported):
    """The same for one call: the next one may not fail."""


def failed(failure: RuntimeError) -> Failed:
    """Without the traceback, which would keep the tensors. PyTorch's text has
    other numbers each time that memory runs out."""
    if isinstance(failure, (MemoryError, torch.cuda.OutOfMemoryError)):
        return Failed("out of memory")
    return Failed(str(failure))


def describe(tensor: torch.Tensor) -> _core.TensorDescription:
    return _core.TensorDescription(
        DTYPES[tensor.dtype], tuple(tensor.shape), tensor.stride()
    )


class Output:
    """A tensor that a plan makes."""

    __slots__ = ("shape", "strides", "dtype")

    def __init__(
        self, shape: tuple[int, ...], strides: tuple[int, ...], dtype: torch.dtype
    ) -> None:
        self.shape = shape
        self.strides = strides
        self.dtype = dtype

    def description(self) -> _core.TensorDescription:
        return _core.TensorDescription(DTYPES[self.dtype], self.shape, self.strides)


class Plan:
    """A compiled op and the tensors that it makes."""

    __slots__ = (
        "op",
        "device",
        "kernels",
        "calls",
        "compiled",
        "outputs",
        "_execute",
        "_workspace",
        "_is_kept",
        "_device",
        "_index",
        "__weakref__",
    )

    def __init__(
        self,
        op: str,
        device: torch.device,
        kind: str | list,
        attrs: dict[str, object],
        settings: dict[str, object],
        inputs: list[_core.TensorDescription],
        outputs: list[Output | None],
    ) -> None:
        index = 0
        if device.type == "cuda":
            index = device.index or 0
        engine = _core.engine("gpu" if device.type == "cuda" else "cpu", index)
        if isinstance(kind, str):
            made = _core.Op(kind, attrs, **settings)
        else:  # of a group, each with its attributes
            made = _core.Group(kind, **settings)
        compiled = made.compile(
            engine,
            inputs,
            [each.description() if each else None for each in outputs],
        )
        self.op = op
        self.device = device.type
        self.kernels = " + ".join(
            f"{step.output}: {step.kernel}" for step in compiled.steps
        )
        self.calls = 0
        self.compiled = compiled
        self.outputs = outputs
        self._execute = compiled.execute
        self._workspace = compiled.workspace_size
        self._is_kept = _workspace.is_kept(compiled.workspace_size, device.type)
        self._device = device
        self._index = index

    def __call__(self, *inputs: torch.Tensor | None) -> list[torch.Tensor | None]:
        device = self._device
        made = [
            None
            if each is None
            else torch.empty_strided(
                each.shape, each.strides, dtype=each.dtype, device=device
            )
            for each in self.outputs
        ]
        workspace = None
        if self._is_kept:
            workspace = _workspace.Workspace(self._workspace)
        elif self._workspace:
            workspace = torch.empty(self._workspace, dtype=torch.uint8, device=device)
        stream = None
        if self.device == "cuda":
            stream = torch._C._cuda_getCurrentRawStream(self._index)
        self._execute(
            [None if each is None else each.data_ptr() for each in inputs],
            [None if each is None else each.data_ptr() for each in made],
            None if workspace is None else workspace.data_ptr(),
            stream,
        )
        self.calls += 1
        return made


class PlanCache:
    """Plans by key; the oldest goes first. What cannot be planned is kept too,
    as the Unsupported that says why."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._plans: collections.OrderedDict[Hashable, Plan | Unsupported]
        self._plans = collections.OrderedDict()
        self._table_bytes = 0
        self.find = self._plans.get

    def make(
        self, key: Hashable, build: Callable[[], Plan | Unsupported]
    ) -> Plan | Unsupported:
        try:
            made = build()
        except Unsupported as reason:
            made = reason.with_traceback(None)  # which would keep the tensors
        except _core.Error as failure:
            if failure.status in _PASSING:
                return failed(failure)
            made = Unsupported(f"gradnn: {failure}")
        except RuntimeError as failure:  # PyTorch's, of what it was asked
            return failed(failure)
        with self._lock:
            known = self._plans.get(key)
            if known is not None:
                return known
            self._plans[key] = made
            if isinstance(made, Plan):
                _status.watch(made)
                self._table_bytes += made.compiled.table_bytes
            while len(self._plans) > _CAPACITY or (
                self._table_bytes > _MOST_TABLE_BYTES and len(self._plans) > 1
            ):
                _, oldest = self._plans.popitem(last=False)
                if isinstance(oldest, Plan):
                    self._table_bytes -= oldest.compiled.table_bytes
                    _status.retire(oldest)
        return made


plans = PlanCache()
