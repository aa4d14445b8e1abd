"""Reads DLPack capsules, with and without a version, by ctypes.

A capsule is looked at and never consumed: it keeps its name, so whoever drops
the last reference to it makes its own destructor free the tensor, once. The
memory is valid for as long as the capsule is held.
"""

from __future__ import annotations

import ctypes
from ctypes import (
    POINTER,
    Structure,
    c_int32,
    c_int64,
    c_uint8,
    c_uint16,
    c_uint32,
    c_uint64,
    c_void_p,
)
from typing import NamedTuple

CPU = 1
CUDA = 2
CUDA_HOST = 3
CUDA_MANAGED = 13

_MAJOR_VERSION = 1
_READ_ONLY = 1


class _DataType(Structure):
    _fields_ = [("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16)]


class _Tensor(Structure):
    _fields_ = [
        ("data", c_void_p),
        ("device_type", c_int32),
        ("device_id", c_int32),
        ("ndim", c_int32),
        ("dtype", _DataType),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("byte_offset", c_uint64),
    ]


class _Managed(Structure):
    _fields_ = [
        ("tensor", _Tensor),
        ("context", c_void_p),
        ("deleter", c_void_p),
    ]


class _ManagedVersioned(Structure):
    _fields_ = [
        ("major", c_uint32),
        ("minor", c_uint32),
        ("context", c_void_p),
        ("deleter", c_void_p),
        ("flags", c_uint64),
        ("tensor", _Tensor),
    ]


# Prototypes of gradnn's own: the attributes of ctypes.pythonapi belong to all
# packages of the process, and each may set argtypes as it likes.
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_IsValid", ctypes.pythonapi)
)
_pointer = ctypes.PYFUNCTYPE(c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)

_DTYPES = {
    (2, 16): "f16",
    (2, 32): "f32",
    (2, 64): "f64",
    (4, 16): "bf16",
}
_CODES = {
    0: "int",
    1: "uint",
    2: "float",
    3: "handle",
    4: "bfloat",
    5: "complex",
    6: "bool",
}


class Borrowed(NamedTuple):
    """A tensor of a capsule, for as long as the capsule lives."""

    dtype: str | None  # None: `dtype_name` is none that gradnn has
    dtype_name: str
    dims: tuple[int, ...]
    strides: tuple[int, ...]  # in elements
    pointer: int
    device_type: int
    device_id: int
    read_only: bool


def read(capsule: object) -> Borrowed:
    """What a capsule holds. Raises ValueError for what is no DLPack capsule, or
    one that was consumed or is of a newer DLPack."""
    read_only = False
    if _is_valid(capsule, b"dltensor_versioned"):
        address = _pointer(capsule, b"dltensor_versioned")
        versioned = _ManagedVersioned.from_address(address)
        if versioned.major > _MAJOR_VERSION:
            raise ValueError(
                f"DLPack {versioned.major}.{versioned.minor} is newer than "
                f"{_MAJOR_VERSION}"
            )
        read_only = bool(versioned.flags & _READ_ONLY)
        tensor = versioned.tensor
    elif _is_valid(capsule, b"dltensor"):
        tensor = _Managed.from_address(_pointer(capsule, b"dltensor")).tensor
    else:
        raise ValueError(f"{capsule!r} is no DLPack capsule, or was used up")
    kind = tensor.dtype
    dtype = _DTYPES.get((kind.code, kind.bits)) if kind.lanes == 1 else None
    name = f"{_CODES.get(kind.code, f'code {kind.code} ')}{kind.bits}"
    if kind.lanes != 1:
        name = f"{name}x{kind.lanes}"
    ndim = tensor.ndim
    dims = tuple(tensor.shape[:ndim]) if ndim else ()
    if not ndim:
        strides: tuple[int, ...] = ()
    elif tensor.strides:
        strides = tuple(tensor.strides[:ndim])
    else:
        strides = dense_strides(dims)
    return Borrowed(
        dtype,
        name,
        dims,
        strides,
        (tensor.data or 0) + tensor.byte_offset,
        tensor.device_type,
        tensor.device_id,
        read_only,
    )


def dense_strides(dims: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of an array in C order, in elements."""
    result = []
    step = 1
    for dim in reversed(dims):
        result.append(step)
        step *= max(dim, 1)
    return tuple(reversed(result))
