"""Finds libgradnn.so, loads it, and declares the functions of gradnn/c_api.h."""

from __future__ import annotations

import ctypes
import os
import pathlib
from ctypes import (
    POINTER,
    Structure,
    c_char_p,
    c_int,
    c_int32,
    c_int64,
    c_size_t,
    c_void_p,
)

C_API_VERSION = 1
MAX_NDIMS = 12

LAYOUT_ANY = 1
LAYOUT_STRIDED = 2


class Settings(Structure):
    """gradnn_settings."""

    _fields_ = [
        ("struct_size", c_size_t),
        ("fpmath", c_int32),
        ("deterministic", c_int32),
        ("threads", c_int32),
        ("autotune", c_int32),
        ("plan_cache", c_char_p),
        ("kernels", c_char_p),
        ("convolution_workspace_limit", c_int64),
        ("specialise", c_int32),
        ("reserved", c_int32),
        ("kernel_cache", c_char_p),
    ]


class Attr(Structure):
    """gradnn_attr."""

    _fields_ = [
        ("name", c_char_p),
        ("type", c_int32),
        ("reserved", c_int32),
        ("count", c_size_t),
        ("value", c_void_p),
    ]


class Tensor(Structure):
    """gradnn_tensor."""

    _fields_ = [
        ("data_type", c_int32),
        ("layout", c_int32),
        ("ndims", c_int32),
        ("reserved", c_int32),
        ("dims", c_int64 * MAX_NDIMS),
        ("strides", c_int64 * MAX_NDIMS),
    ]


class Step(Structure):
    """gradnn_step."""

    _fields_ = [
        ("output", c_char_p),
        ("kernel", c_char_p),
        ("backend", c_char_p),
        ("workspace_bytes", c_size_t),
    ]


# Function: result, arguments.
_SIGNATURES = {
    "gradnn_last_error": (c_char_p, []),
    "gradnn_status_name": (c_char_p, [c_int]),
    "gradnn_c_api_version": (c_int, []),
    "gradnn_version": (None, [POINTER(c_int)] * 3),
    "gradnn_onednn_version": (c_char_p, []),
    "gradnn_engine_count": (c_size_t, [c_int]),
    "gradnn_engine_create": (c_int, [c_int, c_size_t, POINTER(c_void_p)]),
    "gradnn_engine_destroy": (None, [c_void_p]),
    "gradnn_settings_init_sized": (None, [POINTER(Settings), c_size_t]),
    "gradnn_op_create": (
        c_int,
        [c_char_p, POINTER(Attr), c_size_t, POINTER(Settings), POINTER(c_void_p)],
    ),
    "gradnn_op_destroy": (None, [c_void_p]),
    "gradnn_group_create": (
        c_int,
        [
            POINTER(c_void_p),
            c_size_t,
            POINTER(c_int32),
            c_size_t,
            POINTER(Settings),
            POINTER(c_void_p),
        ],
    ),
    "gradnn_compile": (
        c_int,
        [
            c_void_p,
            c_void_p,
            POINTER(Tensor),
            c_size_t,
            POINTER(Tensor),
            c_size_t,
            POINTER(c_void_p),
        ],
    ),
    "gradnn_compiled_release": (None, [c_void_p]),
    "gradnn_compiled_output": (c_int, [c_void_p, c_size_t, POINTER(Tensor)]),
    "gradnn_compiled_workspace_size": (c_size_t, [c_void_p]),
    "gradnn_compiled_table_bytes": (c_size_t, [c_void_p]),
    "gradnn_compiled_deterministic": (c_int, [c_void_p]),
    "gradnn_compiled_step_count": (c_size_t, [c_void_p]),
    "gradnn_compiled_step": (c_int, [c_void_p, c_size_t, POINTER(Step)]),
    "gradnn_execute": (
        c_int,
        [
            c_void_p,
            c_void_p,
            POINTER(c_void_p),
            c_size_t,
            POINTER(c_void_p),
            c_size_t,
            c_void_p,
        ],
    ),
}


def _candidates() -> list[pathlib.Path]:
    """Where the library may be, the first one that exists counts.

    The environment variable GRADNN_LIBRARY (a file); the wheel's own folder; a
    build of the source tree that this file is in.
    """
    given = os.environ.get("GRADNN_LIBRARY")
    if given:
        return [pathlib.Path(given)]
    package = pathlib.Path(__file__).resolve().parent
    builds = [
        package.parents[1] / "build" / preset / "lib" / "libgradnn.so"
        for preset in ("ci", "cuda", "release", "dev")
    ]
    return [package / "lib" / "libgradnn.so", *builds]


def _load_openmp(folder: pathlib.Path) -> None:
    """Sees to it that there is a libgomp.so.1 and one alone: the one that is
    loaded (PyTorch brings one), else the machine's, else the wheel's. The
    library's own need of it is met by the name then."""
    fallback = folder / "fallback" / "libgomp.so.1"
    if not fallback.exists():
        return
    try:
        ctypes.CDLL("libgomp.so.1")
    except OSError:
        ctypes.CDLL(str(fallback))


def _load() -> ctypes.CDLL:
    candidates = _candidates()
    path = next((each for each in candidates if each.exists()), None)
    if path is None:
        places = ", ".join(str(each) for each in candidates)
        raise ImportError(f"gradnn: libgradnn.so is at none of {places}")
    _load_openmp(path.parent)
    # DEEPBIND: another oneDNN in the process (a framework's) must not take the
    # place of gradnn's. libgomp.so.1 is shared with who loaded it first, so that
    # there is one pool of threads.
    mode = os.RTLD_NOW | os.RTLD_LOCAL | getattr(os, "RTLD_DEEPBIND", 0)
    if "asan" in os.environ.get("LD_PRELOAD", ""):
        mode = os.RTLD_NOW | os.RTLD_LOCAL  # AddressSanitizer forbids DEEPBIND
    library = ctypes.CDLL(str(path), mode=mode)
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(library, name)
        function.restype = result
        function.argtypes = arguments
    version = library.gradnn_c_api_version()
    if version != C_API_VERSION:
        raise ImportError(
            f"gradnn: {path} has C API {version}; this package needs {C_API_VERSION}"
        )
    library.path = str(path)
    return library


library = _load()
