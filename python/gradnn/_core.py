"""Ops, compiled ops and engines over the C API. Other modules of the package
build on this one; it knows nothing of arrays."""

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Sequence
from typing import NamedTuple

from ._library import LAYOUT_ANY, LAYOUT_STRIDED, Attr, Settings, Step, Tensor, library

DATA_TYPES = {
    "f16": 1,
    "bf16": 2,
    "f32": 3,
    "s32": 4,
    "s8": 5,
    "u8": 6,
    "f64": 7,
    "boolean": 8,
}
_DATA_TYPE_NAMES = {value: name for name, value in DATA_TYPES.items()}
FPMATH_MODES = {"strict": 0, "bf16": 1, "f16": 2, "any": 3, "tf32": 4}
ENGINE_KINDS = {"cpu": 1, "gpu": 2}


class Error(RuntimeError):
    """A failure of gradnn. `status` is the name of the C API's status."""

    def __init__(self, status: str, message: str) -> None:
        super().__init__(message)
        self.status = status


class InvalidArgumentError(Error, ValueError):
    """Arguments that do not fit: shapes, types, attributes, memory."""


class UnsupportedError(Error, NotImplementedError):
    """What this build or machine cannot compute."""


class OutOfMemoryError(Error, MemoryError):
    """Memory could not be had."""


_ERRORS = {1: OutOfMemoryError, 3: UnsupportedError, 5: Error}


def check(status: int) -> None:
    """Raises the exception that a status of the C API stands for."""
    if status == 0:
        return
    kind = _ERRORS.get(status, InvalidArgumentError)
    raise kind(
        library.gradnn_status_name(status).decode(),
        library.gradnn_last_error().decode(errors="replace"),
    )


def version() -> str:
    """The version of the library."""
    parts = [ctypes.c_int() for _ in range(3)]
    library.gradnn_version(*(ctypes.byref(part) for part in parts))
    return ".".join(str(part.value) for part in parts)


def onednn_version() -> str:
    """The version of the oneDNN that gradnn runs on; "none" without it."""
    return library.gradnn_onednn_version().decode()


def device_count(kind: str) -> int:
    """How many devices of a kind ("cpu", "gpu") gradnn can use here."""
    if kind not in ENGINE_KINDS:
        raise InvalidArgumentError(
            "invalid_arguments", f"kind {kind!r}; cpu and gpu are allowed"
        )
    return library.gradnn_engine_count(ENGINE_KINDS[kind])


class Engine:
    """A device. Use engine(), which makes one object a device."""

    def __init__(self, kind: str, index: int) -> None:
        handle = ctypes.c_void_p()
        check(
            library.gradnn_engine_create(
                ENGINE_KINDS[kind], index, ctypes.byref(handle)
            )
        )
        self.handle = handle.value
        self.kind = kind
        self.index = index


_engine_lock = threading.Lock()


@functools.lru_cache(maxsize=None)
def _engine(kind: str, index: int) -> Engine:
    return Engine(kind, index)


def engine(kind: str, index: int = 0) -> Engine:
    """The engine of a device; kept until the process ends."""
    with _engine_lock:
        return _engine(kind, index)


class TensorDescription(NamedTuple):
    """A tensor without its data. Strides are in elements; None on an output:
    the library chooses. dims is None where an output's are to be inferred."""

    dtype: str
    dims: tuple[int, ...] | None = None
    strides: tuple[int, ...] | None = None


def _fill(target: Tensor, given: TensorDescription | None) -> None:
    if given is None:
        return  # absent: all zero
    if given.dtype not in DATA_TYPES:
        raise InvalidArgumentError(
            "invalid_data_type",
            f"data type {given.dtype!r}; {', '.join(DATA_TYPES)} are allowed",
        )
    target.data_type = DATA_TYPES[given.dtype]
    target.layout = LAYOUT_ANY if given.strides is None else LAYOUT_STRIDED
    if given.dims is None:
        target.ndims = -1
        return
    if len(given.dims) > len(target.dims):
        raise InvalidArgumentError(
            "invalid_shape",
            f"{len(given.dims)} dimensions; {len(target.dims)} are allowed",
        )
    target.ndims = len(given.dims)
    target.dims[: target.ndims] = given.dims
    if given.strides is not None:
        target.strides[: target.ndims] = given.strides


def _descriptions(given: Sequence[TensorDescription | None]) -> ctypes.Array:
    result = (Tensor * len(given))()
    for target, each in zip(result, given):
        _fill(target, each)
    return result


# Attributes whose lists are float64. Other lists with a float in them are
# float32.
_F64_LISTS = frozenset({"ratios"})


def _attr(name: str, value: object, keep: list) -> Attr:
    """`keep` holds what the attribute points at."""
    if isinstance(value, bool):
        kind, count, data = 2, 1, ctypes.c_int32(value)
    elif isinstance(value, int):
        kind, count, data = 0, 1, ctypes.c_int64(value)
    elif isinstance(value, float):
        kind, count, data = 1, 1, ctypes.c_float(value)
    elif isinstance(value, str):
        kind, count, data = 3, 1, ctypes.create_string_buffer(value.encode())
    else:
        items = list(value)  # type: ignore[call-overload]
        count = len(items)
        if name in _F64_LISTS:
            kind, data = 6, (ctypes.c_double * count)(*items)
        elif all(isinstance(each, int) for each in items):
            kind, data = 4, (ctypes.c_int64 * count)(*items)
        else:
            kind, data = 5, (ctypes.c_float * count)(*items)
    keep.append(data)
    pointer = ctypes.cast(ctypes.pointer(data), ctypes.c_void_p)
    return Attr(name.encode(), kind, 0, count, pointer)


class StepInfo(NamedTuple):
    """What computes one gradient."""

    output: str
    kernel: str
    backend: str
    workspace_bytes: int


class Compiled:
    """An op compiled for tensors. Immutable; any number of threads may execute
    one at once."""

    def __init__(self, handle: int, output_count: int) -> None:
        self.handle = handle
        self.output_count = output_count
        self.workspace_size = library.gradnn_compiled_workspace_size(handle)
        self.table_bytes = library.gradnn_compiled_table_bytes(handle)
        self.deterministic = bool(library.gradnn_compiled_deterministic(handle))

    def __del__(self) -> None:
        if library is not None and self.handle:
            library.gradnn_compiled_release(self.handle)
            self.handle = 0

    def output(self, index: int) -> TensorDescription:
        """An output with its shape and strides."""
        found = Tensor()
        check(
            library.gradnn_compiled_output(self.handle, index, ctypes.byref(found))
        )
        ndims = found.ndims
        return TensorDescription(
            _DATA_TYPE_NAMES[found.data_type],
            tuple(found.dims[:ndims]),
            tuple(found.strides[:ndims]),
        )

    @functools.cached_property
    def steps(self) -> list[StepInfo]:
        """What runs, in its order."""
        result = []
        for index in range(library.gradnn_compiled_step_count(self.handle)):
            step = Step()
            check(
                library.gradnn_compiled_step(self.handle, index, ctypes.byref(step))
            )
            result.append(
                StepInfo(
                    step.output.decode(),
                    step.kernel.decode(),
                    step.backend.decode(),
                    step.workspace_bytes,
                )
            )
        return result

    def execute(
        self,
        inputs: Sequence[int | None],
        outputs: Sequence[int | None],
        workspace: int | None = None,
        stream: int | None = None,
    ) -> None:
        """Runs on data pointers, one a port as compile was given them; None for
        what is absent. `workspace` points at workspace_size bytes at a multiple
        of 64, `stream` is a cudaStream_t. On the CPU the outputs are written
        when this returns, on a GPU the work is queued."""
        status = library.gradnn_execute(
            self.handle,
            stream,
            (ctypes.c_void_p * len(inputs))(*inputs),
            len(inputs),
            (ctypes.c_void_p * len(outputs))(*outputs),
            len(outputs),
            workspace,
        )
        if status:
            check(status)


def _settings(
    *,
    fpmath: str = "strict",
    deterministic: bool = True,
    threads: int = 0,
    autotune: bool | None = None,
    plan_cache: str | None = None,
    kernels: str | None = None,
    convolution_workspace_limit: int | None = None,
    specialise: bool | None = None,
    kernel_cache: str | None = None,
) -> Settings:
    settings = Settings()
    library.gradnn_settings_init_sized(
        ctypes.byref(settings), ctypes.sizeof(settings)
    )
    if fpmath not in FPMATH_MODES:
        raise InvalidArgumentError(
            "invalid_arguments",
            f"fpmath {fpmath!r}; {', '.join(FPMATH_MODES)} are allowed",
        )
    settings.fpmath = FPMATH_MODES[fpmath]
    settings.deterministic = deterministic
    settings.threads = threads
    if autotune is not None:
        settings.autotune = autotune
    if plan_cache is not None:
        settings.plan_cache = plan_cache.encode()
    if kernels is not None:
        settings.kernels = kernels.encode()
    if convolution_workspace_limit is not None:
        settings.convolution_workspace_limit = convolution_workspace_limit
    if specialise is not None:
        settings.specialise = specialise
    if kernel_cache is not None:
        settings.kernel_cache = kernel_cache.encode()
    return settings


class Op:
    """An operation and how to compile it: the kind and the attributes of a page
    of doc/ops, and compile settings (threads=, fpmath=, deterministic=,
    autotune=, plan_cache=, kernels=, convolution_workspace_limit=,
    specialise=, kernel_cache=)."""

    def __init__(self, kind: str, attrs: dict[str, object], **settings) -> None:
        given = _settings(**settings)
        keep: list = []
        listed = [_attr(name, value, keep) for name, value in attrs.items()]
        handle = ctypes.c_void_p()
        check(
            library.gradnn_op_create(
                kind.encode(),
                (Attr * len(listed))(*listed),
                len(listed),
                ctypes.byref(given),
                ctypes.byref(handle),
            )
        )
        self.handle = handle.value

    def __del__(self) -> None:
        handle = getattr(self, "handle", None)
        if library is not None and handle:
            library.gradnn_op_destroy(handle)
            self.handle = None

    def compile(
        self,
        on: Engine,
        inputs: Sequence[TensorDescription | None],
        outputs: Sequence[TensorDescription | None],
    ) -> Compiled:
        """Compiles for tensors, one a port in the order of the op's page; None
        for an absent one. The same again is a lookup."""
        handle = ctypes.c_void_p()
        check(
            library.gradnn_compile(
                self.handle,
                on.handle,
                _descriptions(inputs),
                len(inputs),
                _descriptions(outputs),
                len(outputs),
                ctypes.byref(handle),
            )
        )
        return Compiled(handle.value, len(outputs))


class Group(Op):
    """Ops that are compiled and executed together, and the tensors of their ports by
    number, -1 for an absent one. Inputs are the tensors that no op makes, outputs
    those that none reads, both in the order of their numbers."""

    def __init__(
        self, ops: Sequence[tuple[str, dict[str, object], Sequence[int]]], **settings
    ) -> None:
        given = _settings(**settings)
        made = [Op(kind, attrs) for kind, attrs, _ in ops]
        numbers = [number for _, _, ports in ops for number in ports]
        handle = ctypes.c_void_p()
        check(
            library.gradnn_group_create(
                (ctypes.c_void_p * len(made))(*(each.handle for each in made)),
                len(made),
                (ctypes.c_int32 * len(numbers))(*numbers),
                len(numbers),
                ctypes.byref(given),
                ctypes.byref(handle),
            )
        )
        self.handle = handle.value
