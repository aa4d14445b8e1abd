"""libgradnn_jax.so: handlers registered with XLA, and calls of them."""

from __future__ import annotations

import ctypes
import pathlib
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import jax
import numpy as np

from .._core import DATA_TYPES, ENGINE_KINDS, device_count
from .._library import MAX_NDIMS, library

_TYPES = {
    np.dtype("float16"): DATA_TYPES["f16"],
    np.dtype(jax.numpy.bfloat16): DATA_TYPES["bf16"],
    np.dtype("float32"): DATA_TYPES["f32"],
    np.dtype("float64"): DATA_TYPES["f64"],
}
# What XLA's programs call gradnn's handlers, as profiles show it.
_TARGETS = ("gradnn_resize_backward", "gradnn_conv_backward")


class _Shape(ctypes.Structure):
    """gradnn_jax_shape of src/jax/handlers.cpp."""

    _fields_ = [
        ("data_type", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("dims", ctypes.c_int64 * MAX_NDIMS),
    ]


def _check_version(handlers: ctypes.CDLL) -> None:
    """XLA runs handlers of its own version of the interface and of older ones.
    Others must not be registered: none of JAX's backends would start."""
    header = pathlib.Path(jax.ffi.include_dir(), "xla", "ffi", "api", "c_api.h")
    try:
        text = header.read_text()
    except OSError:
        return
    found = re.findall(r"#define XLA_FFI_API_M(?:AJ|IN)OR (\d+)", text)
    if len(found) != 2:
        return
    theirs = tuple(map(int, found))
    major, minor = ctypes.c_int(), ctypes.c_int()
    handlers.gradnn_jax_ffi_version(ctypes.byref(major), ctypes.byref(minor))
    ours = (major.value, minor.value)
    if ours > theirs or ours[0] != theirs[0]:
        raise ImportError(
            "gradnn.jax: gradnn was built with the headers of another jaxlib "
            f"(XLA's interface {ours[0]}.{ours[1]}) than {jax.__version__} "
            f"({theirs[0]}.{theirs[1]}); build it with this one or an older one"
        )


def _load() -> ctypes.CDLL:
    path = pathlib.Path(library.path).with_name("libgradnn_jax.so")
    if not path.exists():
        raise ImportError(
            f"gradnn.jax: {path} is not there: gradnn was built where jaxlib was "
            "not (doc/jax.md)"
        )
    handlers = ctypes.CDLL(str(path))
    _check_version(handlers)
    handlers.gradnn_jax_set_threads.argtypes = [ctypes.c_int]
    handlers.gradnn_jax_set_threads.restype = None
    handlers.gradnn_jax_prepare.restype = ctypes.c_int64
    handlers.gradnn_jax_prepare.argtypes = [
        ctypes.c_char_p,
        ctypes.c_int,
        ctypes.c_size_t,
        ctypes.POINTER(_Shape),
        ctypes.c_size_t,
        ctypes.POINTER(_Shape),
        ctypes.c_size_t,
        ctypes.c_char_p,
        ctypes.c_size_t,
    ]

    def register(name: str, handler: str, platform: str) -> None:
        capsule = jax.ffi.pycapsule(getattr(handlers, handler))
        jax.ffi.register_ffi_target(name, capsule, platform=platform)

    for target in _TARGETS:
        register(target, "gradnn_jax_cpu", "cpu")
        register(target, "gradnn_jax_cuda", "CUDA")
    return handlers


_handlers = _load()


def set_num_threads(threads: int) -> None:
    """How many threads gradnn's gradients take on the CPU, in programs compiled
    already too; 0 is gradnn's default: OMP_NUM_THREADS, else all processors."""
    if threads < 0:
        raise ValueError(f"threads: {threads}; 0 and more are allowed")
    _handlers.gradnn_jax_set_threads(threads)


def get_num_threads() -> int:
    """What set_num_threads() set last; 0 at first."""
    return _handlers.gradnn_jax_get_threads()


def is_data_type(dtype: object) -> bool:
    """Whether gradnn computes with it."""
    return np.dtype(dtype) in _TYPES


class Refused(Exception):
    """gradnn does not compute this; the text says why."""


class Port(NamedTuple):
    """A port of an op: an argument ("a0") or a result ("r0") of a call, and
    which axis of that buffer each of the port's dims is."""

    buffer: str
    order: tuple[int, ...] | None = None

    def __str__(self) -> str:
        if self.order is None or self.order == tuple(range(len(self.order))):
            return self.buffer
        return f"{self.buffer}:{'.'.join(map(str, self.order))}"


ABSENT = Port("-")


class Backward(NamedTuple):
    """A gradient as program.hpp has it."""

    target: str  # one of _TARGETS
    kind: str
    inputs: Sequence[Port]
    outputs: Sequence[Port]
    attrs: Mapping[str, object]
    fpmath: int = 0

    def text(self) -> str:
        fields = [
            self.kind,
            "in=" + ";".join(map(str, self.inputs)),
            "out=" + ";".join(map(str, self.outputs)),
            f"fpmath={self.fpmath}",
        ]
        for name, value in sorted(self.attrs.items()):
            if isinstance(value, str):
                fields.append(f"{name}:s={value}")
            elif isinstance(value, bool):
                fields.append(f"{name}:b={int(value)}")
            elif isinstance(value, int):
                fields.append(f"{name}:i={value}")
            elif isinstance(value, float):
                fields.append(f"{name}:f={np.float32(value).view(np.int32)}")
            elif name == "ratios":
                bits = np.asarray(value, np.float64).view(np.int64)
                fields.append(f"{name}:D={','.join(map(str, bits))}")
            else:
                fields.append(f"{name}:I={','.join(map(str, value))}")
        return " ".join(fields)


def _shapes(arrays: Sequence) -> ctypes.Array:
    result = (_Shape * len(arrays))()
    for shape, array in zip(result, arrays):
        if len(array.shape) > MAX_NDIMS:
            raise Refused(f"{len(array.shape)} dimensions")
        shape.data_type = _TYPES[np.dtype(array.dtype)]
        shape.rank = len(array.shape)
        shape.dims[: shape.rank] = array.shape
    return result


def _prepare(
    text: str, kind: str, index: int, arguments: Sequence, result
) -> tuple[int, str]:
    """Compiles for a device: bytes of workspace, and what will run."""
    message = ctypes.create_string_buffer(512)
    workspace = _handlers.gradnn_jax_prepare(
        text.encode(),
        ENGINE_KINDS[kind],
        index,
        _shapes(arguments),
        len(arguments),
        _shapes([result]),
        1,
        message,
        len(message),
    )
    said = message.value.decode(errors="replace")
    if workspace < 0:
        raise Refused(re.sub(r"\d+", "#", said) if len(said) > 200 else said)
    return workspace, said


def _gpus() -> list[int]:
    """The CUDA devices that JAX uses in this process. Raises Refused."""
    count = device_count("gpu")
    if count == 0:
        raise Refused("this gradnn has no GPU engine, or finds no GPU")
    try:
        devices = jax.local_devices(backend="cuda")
    except RuntimeError as error:
        raise Refused("compiled for cuda on a machine without it") from error
    found = [each.local_hardware_id for each in devices]
    if any(each is None or each >= count for each in found):
        raise Refused(f"JAX has the GPUs {found}, gradnn {count}")
    return found


def call(what: Backward, platform: str, arguments: Sequence, result) -> tuple:
    """The gradient, of the shape and type of `result`, as part of a program for
    a platform, and the names of what will run. Raises Refused."""
    text = what.text()
    results = [result]
    if platform == "cpu":
        _, kernels = _prepare(text, "cpu", 0, arguments, result)
    else:
        # On every GPU of this process: a CUDA graph may hold the call, and then
        # nothing may be allocated when it first runs.
        found = [_prepare(text, "gpu", at, arguments, result) for at in _gpus()]
        kernels = found[0][1]
        workspace = max(each for each, _ in found)
        if workspace:
            results.append(jax.ShapeDtypeStruct((workspace,), np.uint8))
    made = jax.ffi.ffi_call(what.target, results)(*arguments, op=text)
    return made[0], kernels
